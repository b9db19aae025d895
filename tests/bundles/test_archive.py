"""Archives give their files, or say why not, and never more than they may."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
from tests.bundles.archives import Entry, link, member, write_archive

from doorward.bundles.archive import ArchiveError, folder_names, read_archive, read_folder
from doorward.bundles.loader import Limits

LIMITS = Limits(policy_bytes=100, data_bytes=200, files=10, depth=5)


def refused(path: str, limits: Limits = LIMITS) -> str:
    with pytest.raises(ArchiveError) as caught:
        list(read_archive(path, limits))
    return str(caught.value)


def test_names_are_from_the_root_of_the_archive(tmp_path: Path) -> None:
    files = {"/a/p.rego": "package a", "./b/data.json": "{}", "c//d.json": "1"}
    path = write_archive(tmp_path / "b.tar.gz", files)
    assert dict(read_archive(path, LIMITS)) == {
        "a/p.rego": b"package a",
        "b/data.json": b"{}",
        "c/d.json": b"1",
    }


def test_folders_are_no_files(tmp_path: Path) -> None:
    entries = [member("a/", kind=tarfile.DIRTYPE), member("a/x.json", "{}")]
    assert dict(read_archive(write_archive(tmp_path / "b", entries), LIMITS)) == {"a/x.json": b"{}"}


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (
            [member("../x.rego")],
            "`../x.rego`: a name must not contain `..`, which leads out of the bundle",
        ),
        (
            [member("a/../../x.rego")],
            "`a/../../x.rego`: a name must not contain `..`, which leads out of the bundle",
        ),
        ([member("a\nb.rego")], r"'a\nb.rego': the name of a file in a bundle must not contain "),
        ([member("a/b/c/d/e/f.rego")], "`a/b/c/d/e/f.rego…`: the path has more than 5 levels"),
        ([member("x" * 5000)], "xxx…`: the name is longer than 4096 characters"),
        ([link("x.rego", "/etc/passwd")], "x.rego: a bundle must not contain links"),
        ([link("x.rego", "y", kind=tarfile.LNKTYPE)], "x.rego: a bundle must not contain links"),
        (
            [member("x", kind=tarfile.CHRTYPE)],
            "x: a bundle must contain only plain files and folders (no sparse files)",
        ),
        (
            [member("x", kind=tarfile.FIFOTYPE)],
            "x: a bundle must contain only plain files and folders (no sparse files)",
        ),
        ([member("x", "1"), member("./x", "2")], "x: the archive contains this file twice"),
        ([member("x.rego", "#" * 101)], "bundle file x.rego size (101 bytes) exceeds configured"),
        ([member("x", "#" * 201)], "bundle file x size (201 bytes) exceeds configured size_limit"),
        (
            [member(f"x{n}") for n in range(11)],
            "archive contains more than 10 files and folders: split the bundle",
        ),
    ],
)
def test_what_a_bundle_has_no_use_for_is_refused(
    entries: list[Entry], reason: str, tmp_path: Path
) -> None:
    assert reason in refused(write_archive(tmp_path / "b.tar.gz", entries))


def test_an_archive_that_is_none_is_refused_in_words_of_opa(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_text("package p\n")
    assert refused(str(path)) == "archive read failed: gzip: invalid header"
    path.write_bytes(gzip.compress(b"no archive" * 100))
    assert refused(str(path)) == "archive read failed: archive/tar: invalid tar header"


@pytest.mark.parametrize("kept", [20, 60, 100])
def test_an_archive_that_breaks_off_is_refused(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    write_archive(path, {"x.json": "1", "y.json": "2"})
    path.write_bytes(path.read_bytes()[:kept])
    assert "archive read failed" in refused(str(path))


def test_an_archive_with_a_broken_header_in_its_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    write_archive(path, {"x.json": "1", "y.json": "2"})
    whole = gzip.decompress(path.read_bytes())

    def refusal(content: bytes) -> str:
        path.write_bytes(gzip.compress(content))
        return refused(str(path))

    block = tarfile.BLOCKSIZE
    second = 2 * block  # behind the header and the content of the first file
    invalid = "archive read failed: archive/tar: invalid tar header"
    # Each of these was an archive with the first file alone.
    assert refusal(whole[: second + 148] + b"9" + whole[second + 149 :]) == invalid
    assert refusal(whole[: second + 200]) == invalid
    assert refusal(whole[:second] + bytes(block) + whole[second:]) == invalid
    # As in Go, an archive may end without blocks of zeros, and anything may follow two of them.
    for end in (b"", bytes(2 * block) + b"x" * block):
        path.write_bytes(gzip.compress(whole[: 2 * second] + end))
        assert dict(read_archive(str(path), LIMITS)) == {"x.json": b"1", "y.json": b"2"}


def test_an_archive_whose_checksum_is_wrong_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    write_archive(path, {"x.json": "1"})
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    assert "archive read failed" in refused(str(path))


def test_what_is_unpacked_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(b"\0" * (1 << 24)))
    assert refused(str(path), Limits(unpacked_bytes=1 << 20)) == (
        "archive is larger than 1048576 bytes when unpacked: split the bundle"
    )
    assert (
        refused(str(path), Limits(archive_bytes=100))
        == "archive is larger than 100 bytes: split the bundle"
    )


def test_headers_are_bounded(tmp_path: Path) -> None:
    info, _ = member("x.json")
    info.pax_headers = {"comment": "x" * (2 << 20)}
    path = write_archive(tmp_path / "b.tar.gz", [(info, b"")])
    assert "tar headers of one file are larger than" in refused(path, Limits())


@pytest.mark.parametrize("kind", [b"x", b"L"])
def test_headers_that_lead_to_headers_without_end_are_refused(kind: bytes, tmp_path: Path) -> None:
    content = b"20 comment=xxxxxxxx\n" if kind == b"x" else b"name\0"
    info = tarfile.TarInfo("h")
    info.type = kind
    info.size = len(content)
    header = info.tobuf(tarfile.GNU_FORMAT) + content.ljust(512, b"\0")
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(header * 1000))
    assert refused(str(path)) == "archive read failed: archive/tar: invalid tar header"


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    info, _ = member("x.json")
    info.pax_headers = {"GNU.sparse.size": "1000000000000", "GNU.sparse.map": "0,0"}
    path = write_archive(tmp_path / "b.tar.gz", [(info, b"")])
    assert (
        refused(path)
        == "x.json: a bundle must contain only plain files and folders (no sparse files)"
    )


def test_a_size_below_zero_is_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(*_opened(member("x.json", "1")))
    raw = bytearray(stream.getvalue())
    raw[124:136] = b"\xff" * 11 + b"\x00"  # -256, as GNU tar would write it
    raw[148:156] = b"        "
    raw[148:156] = f"{sum(raw[:512]):06o}\0 ".encode()
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(bytes(raw)))
    refused(str(path))


def _opened(entry: Entry) -> tuple[tarfile.TarInfo, io.BytesIO]:
    return entry[0], io.BytesIO(entry[1])


# Folders


def test_a_folder_is_listed_in_order_of_names(tmp_path: Path) -> None:
    for name in ("b/data.json", "a/p.rego", ".hidden/x.json", "..data/x.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    names = folder_names(str(tmp_path), LIMITS)
    assert names == [".hidden/x.json", "a/p.rego", "b/data.json"]
    assert dict(read_folder(str(tmp_path), names, LIMITS))["a/p.rego"] == b"{}"


def test_links_are_followed_inside_of_a_folder_only(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "..data").mkdir(parents=True)
    (bundle / "..data/p.rego").write_text("package p")
    (bundle / "p.rego").symlink_to("..data/p.rego")
    (bundle / "loop").symlink_to(".")
    assert folder_names(str(bundle), LIMITS) == ["p.rego"]
    (tmp_path / "secret.json").write_text("{}")
    (bundle / "data.json").symlink_to("../secret.json")
    with pytest.raises(ArchiveError, match="the symbolic link leads out of the bundle"):
        folder_names(str(bundle), LIMITS)


def test_a_pipe_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.json")
    assert folder_names(str(tmp_path), LIMITS) == []


def test_a_folder_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a/b/c/d/e").mkdir(parents=True)
    with pytest.raises(ArchiveError, match="nested deeper than 5"):
        folder_names(str(tmp_path), LIMITS)
    for number in range(11):
        (tmp_path / f"{number}.json").write_text("{}")
    with pytest.raises(ArchiveError, match="more than 10 files"):
        folder_names(str(tmp_path), Limits(files=10))
    (tmp_path / "x.rego").write_text("#" * 101)
    with pytest.raises(ArchiveError, match="size exceeds"):
        list(read_folder(str(tmp_path), ["x.rego"], LIMITS))
    with pytest.raises(
        ArchiveError, match="the folder contains more than 3 bytes: load a smaller one"
    ):
        list(read_folder(str(tmp_path), ["0.json", "1.json"], Limits(unpacked_bytes=3)))
