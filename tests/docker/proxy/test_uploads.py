"""An archive passes to the daemon as it came, but for its end until it was decided."""

from __future__ import annotations

import asyncio
import gzip
import io
import tarfile
from collections.abc import Callable

import pytest

from doorward.docker.proxy.uploads import inspect_upload
from doorward.docker.request.archives import COPY, Archive

BUILD = "image.build"


class RefusedError(Exception):
    pass


def pack(*names: str, mode: int = 0o644, content: bytes = b"FROM a\n") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def carry(
    action: str, content: bytes, size: int, *, refuse: bool = False, name: str = "Dockerfile"
) -> tuple[bytes, bytes, list[Archive]]:
    """The bytes that passed before the first decision, all that passed, and what was decided."""
    decided: list[Archive] = []
    passed = [b""]
    before: list[bytes] = []

    async def decide(archive: Archive) -> None:
        before.append(b"".join(passed))
        decided.append(archive)
        if refuse:
            raise RefusedError

    async def run() -> None:
        upload = inspect_upload(action, {"dockerfile": [name]}, decide)
        for at in range(0, len(content), size):
            piece = content[at : at + size]
            passed.extend(await upload.pass_on(piece, is_last=at + size >= len(content)))
        passed.extend(await upload.end())

    if refuse:
        with pytest.raises(RefusedError):
            asyncio.run(run())
    else:
        asyncio.run(run())
    return before[0] if before else b"", b"".join(passed), decided


SIZES = [1, 500, 512, 700, 1 << 20]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("has_end", [True, False])
def test_context_passes_whole_and_its_end_is_held(
    size: int, compress: Callable[[bytes], bytes], has_end: bool
) -> None:
    plain = pack("f", "Dockerfile", "g")
    content = compress(plain if has_end else plain[: 6 * 512])
    before, passed, decided = carry(BUILD, content, size)
    assert passed == content
    assert decided == [Archive("read", b"FROM a\n")]
    assert len(before) < len(content)
    if compress is bytes:
        assert len(before) <= 6 * 512
        assert size > 700 or len(before) > 4 * 512
    refused_before, refused, _ = carry(BUILD, content, size, refuse=True)
    assert refused == refused_before == before


@pytest.mark.parametrize("size", SIZES)
def test_padding_behind_the_end_is_not_held(size: int) -> None:
    content = pack("Dockerfile") + bytes(5 << 20)
    assert carry(BUILD, content, max(size, 100_000))[1] == content


def test_archive_that_cannot_be_read_is_decided_as_such() -> None:
    for content, name in [
        (b"FROM a\n" * 200, "Dockerfile"),
        (pack("Dockerfile", "Dockerfile"), "Dockerfile"),
        (pack("f"), "Dockerfile"),
        (pack("Dockerfile"), "../Dockerfile"),
        (pack("Dockerfile"), "/"),
        (b"x", "Dockerfile"),
    ]:
        _, passed, decided = carry(BUILD, content, 512, name=name)
        assert passed == content
        assert decided[0].problem


def test_end_that_does_not_come_is_not_held_for_ever() -> None:
    empty = bytes([0, 0, 0, 255, 255])  # a block of deflate without content
    head = b"\x1f\x8b\x08" + bytes(7)
    _, _, decided = carry(BUILD, head + empty * 500_000, 65_536)
    assert decided[0].problem


def test_end_that_does_not_come_is_decided_before_much_is_held() -> None:
    begun = b"\x1f\x8b\x08" + bytes(7) + bytes([0, 1, 0, 254, 255]) + b"a"
    empty = bytes([0, 0, 0, 255, 255]) * 10_000
    decided: list[Archive] = []

    async def decide(archive: Archive) -> None:
        decided.append(archive)

    async def run() -> int:
        upload = inspect_upload(BUILD, {}, decide)
        await upload.pass_on(begun)
        pieces = 0
        while not decided and pieces < 100:
            await upload.pass_on(empty)
            pieces += 1
        return pieces * len(empty)

    assert asyncio.run(run()) <= (1 << 20) + len(empty)
    assert decided[0].problem == "archive has too many empty blocks without an end"


@pytest.mark.parametrize("size", SIZES)
def test_copy_is_decided_before_the_entry_that_counts(size: int) -> None:
    content = pack("f")[:1024] + pack("g", mode=0o4755)
    before, passed, decided = carry(COPY, content, size)
    assert passed == content
    assert decided == [Archive("read", kinds=("setuid",))]
    assert len(before) <= 1024


def test_usual_copy_needs_no_decision() -> None:
    content = pack("f", "g")
    assert carry(COPY, content, 512) == (b"", content, [])
