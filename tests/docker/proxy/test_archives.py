"""Archives on their way to a real daemon: what their Dockerfiles and entries say is decided."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest
from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.proxied import Proxied, proxied

from doorward.docker.proxy import exchange

IMAGES = {"allow": ["docker.io/library/img", "docker.io/library/built"], "require_digest": False}
HEADERS = [("Content-Type", "application/x-tar")]
CHUNKED = [*HEADERS, ("Transfer-Encoding", "chunked")]


@pytest.fixture(scope="module")
def behind(
    daemon_started: PrivateDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    """Root of this host may build what the data allow, and copy."""
    folder = tmp_path_factory.mktemp("archives")
    roles = {"copier": {"actions": ["container.archive.put", "container.archive.get"]}}
    started = proxied(
        daemon_started, folder, "developer", "image-builder", "copier", images=IMAGES, roles=roles
    )
    with started as daemon:
        yield daemon


def tar(*members: tuple[str, bytes] | tarfile.TarInfo, format: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return file.getvalue()


def chunks(content: bytes, size: int) -> bytes:
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def build(
    behind: Proxied, content: bytes, headers: Sequence[tuple[str, str]] = HEADERS, **query: str
) -> Answer:
    words = urlencode({"t": "built:1", "networkmode": "none", "rm": "1", **query})
    return behind.raw("POST", f"/v1.41/build?{words}", content, headers)


SMALL = ("Dockerfile", b"FROM img:1\nCOPY f /f\n")


def without_end(content: bytes) -> bytes:
    stripped = content.rstrip(b"\0")
    return stripped + bytes(-len(stripped) % 512)


Form = Callable[[bytes], tuple[bytes, list[tuple[str, str]]]]
FORMS: dict[str, Form] = {
    "plain": lambda content: (content, HEADERS),
    "gzip": lambda content: (gzip.compress(content), HEADERS),
    "chunks": lambda content: (chunks(content, 1000), CHUNKED),
    "chunks of a byte": lambda content: (chunks(content, 1), CHUNKED),
    "gzip in chunks": lambda content: (chunks(gzip.compress(content), 7), CHUNKED),
    "no end": lambda content: (without_end(content), HEADERS),
}


@pytest.mark.parametrize("form", FORMS)
def test_build_within_the_data(behind: Proxied, form: str) -> None:
    content, headers = FORMS[form](tar(SMALL, ("f", b"x" * 5000)))
    answer = build(behind, content, headers)
    assert answer.status == 200, answer.message
    assert b"Successfully tagged built:1" in answer.body
    behind.docker("rmi", "built:1")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["first", "last"])
def test_build_from_another_image_is_refused(behind: Proxied, form: str, order: str) -> None:
    members = [("Dockerfile", b"FROM img:1\nFROM evil:1\n"), ("f", b"x" * 5000)]
    content, headers = FORMS[form](tar(*(members if order == "first" else members[::-1])))
    answer = build(behind, content, headers)
    assert answer.status == 403
    assert answer.message.startswith(
        "authorization denied by Doorward's proxy: image evil:1 is not allowed"
    )


def test_build_that_cannot_be_read_is_refused(behind: Proxied) -> None:
    link = tarfile.TarInfo("d")
    link.type, link.linkname = tarfile.SYMTYPE, "."
    for content, reason in [
        (tar(("Dockerfile", b"FROM img:1\nRUN <<EOF\ntrue\nEOF\n")), "here-documents"),
        (tar(SMALL, link, ("d/Dockerfile", b"FROM evil:1\n")), "entry below a symbolic link"),
        (tar(SMALL, SMALL), "is repeated in the archive"),
        (tar(("dockerfile", b"FROM img:1\n")), "no file of the Dockerfile's name"),
        (b"FROM img:1\n" * 60, "not a tar archive"),
        (b"\x1f\x8b\x08 nothing", "gzip data is damaged"),
        (tar(SMALL)[:700], "archive is cut"),
    ]:
        answer = build(behind, content)
        assert answer.status == 403
        assert "files of a build cannot be judged" in answer.message
        assert reason in answer.message


def test_what_was_refused_is_not_built(behind: Proxied) -> None:
    canary = b"FROM img:1\nRUN true\nADD http://127.0.0.1:1/x /x\n"
    assert (
        "the daemon may not fetch http://127.0.0.1:1/x"
        in build(behind, tar(("Dockerfile", canary))).message
    )
    containers = behind.docker("ps", "-a", "--format", "{{.Image}} {{.Command}}").stdout
    assert "true" not in containers


def test_archives_that_are_looked_at_share_one_budget(
    behind: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "INSPECTED", 1 << 40)
    answer = build(behind, tar(SMALL, ("f", b"x")))
    assert (answer.status, answer.message) == (
        503,
        "the requests that are being read take too much memory: try again later",
    )


def test_name_of_the_dockerfile_is_that_of_the_query(behind: Proxied) -> None:
    content = tar(("Dockerfile", b"FROM evil:1\n"), ("a/b/D", b"FROM img:1\n"))
    answer = build(behind, content, dockerfile="./a//b/D")
    assert answer.status == 200, answer.message
    assert "image evil:1" in build(behind, content).message
    assert "cannot be judged" in build(behind, content, dockerfile="a/../Dockerfile").message
    behind.docker("rmi", "built:1")


def test_build_arguments_name_images(behind: Proxied) -> None:
    content = tar(("Dockerfile", b"ARG BASE=evil\nFROM ${BASE}:1\n"))
    arguments = json.dumps({"BASE": "img"})
    assert build(behind, content, buildargs=arguments).status == 200
    assert "image evil:1" in build(behind, content).message
    behind.docker("rmi", "built:1")


@pytest.fixture
def container(behind: Proxied) -> Iterator[str]:
    behind.docker("create", "--name", "copied", "--network", "none", "img:1", "true")
    yield "copied"
    behind.docker("rm", "copied")


def special(name: str, mode: int = 0o644, type: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.type = mode, type
    return info


CAPABLE = tarfile.TarInfo("capable")
CAPABLE.pax_headers = {"SCHILY.xattr.security.capability": "x"}
SPECIAL = [
    (special("root", 0o4755), "archive has a file with the set-user-ID bit"),
    (special("group", 0o2755), "archive has a file with the set-group-ID bit"),
    (special("disk", type=tarfile.BLKTYPE), "archive has a device"),
    (CAPABLE, "archive has a file with capabilities"),
    (special("odd", type=b"V"), "archive cannot be judged"),
]


@pytest.mark.parametrize(("member", "reason"), SPECIAL)
@pytest.mark.parametrize("form", FORMS)
def test_copy_ends_before_what_is_refused(
    behind: Proxied, container: str, form: str, member: tarfile.TarInfo, reason: str
) -> None:
    content, headers = FORMS[form](tar(("before", b"1"), member, ("after", b"1")))
    target = f"/v1.41/containers/{container}/archive?path=/"
    answer = behind.raw("PUT", target, content, headers)
    assert answer.status == 403
    assert reason in answer.message
    for name in (member.name, "after"):
        listed = behind.raw("GET", f"{target}{name}")
        assert listed.status == 404, name


def test_usual_copy_passes(behind: Proxied, container: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100_000)
    (tmp_path / "f").chmod(0o755)
    assert behind.docker("cp", str(tmp_path), f"{container}:/d").returncode == 0
    assert behind.docker("cp", f"{container}:/d/f", str(tmp_path / "g")).returncode == 0
    assert (tmp_path / "g").read_bytes() == (tmp_path / "f").read_bytes()
