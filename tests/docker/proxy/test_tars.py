"""Archives are read in pieces of any size; what readers could take differently is refused."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Callable

import pytest

from doorward.docker.proxy.tars import BLOCK, PIECE, Entry, Gunzip, TarError, TarReader

FORMATS = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)


def pack(*members: tarfile.TarInfo, format: int = tarfile.PAX_FORMAT, **headers: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format, pax_headers=headers) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"c" * member.size))
    return file.getvalue()


def member(name: str, size: int = 0, kind: bytes = b"0", **pax: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.pax_headers = size, kind, pax
    return info


def sparse(name: str) -> tarfile.TarInfo:
    info = member(name)
    info.pax_headers = {"GNU.sparse.name": "b"}
    return info


def entries(content: bytes, size: int = 4096) -> list[Entry]:
    rows: list[Entry] = []

    def see(entry: Entry) -> bool:
        rows.append(entry)
        return False

    reader = TarReader(see)
    for at in range(0, len(content), size):
        reader.feed(content[at : at + size])
    reader.close()
    return rows


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [1, 511, 512, 513, 100_000])
def test_entries_are_those_of_another_reader(format: int, size: int) -> None:
    link = member("l", kind=tarfile.SYMTYPE)
    link.linkname = "d/" + "y" * 70
    names = ["a", "d/" + "x" * 60 + "/" + "z" * 60]
    content = pack(
        *(member(name, 700) for name in names), link, member("d", kind=b"5"), format=format
    )
    rows = entries(content, size)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        expected = [(each.name, each.size, each.linkname) for each in archive]
    assert [(e.name.decode().rstrip("/"), e.size, e.link.decode()) for e in rows] == expected


def test_content_is_kept_where_it_is_wanted() -> None:
    reader = TarReader(lambda entry: entry.name == b"b")
    for byte in pack(member("a", 3), member("b", 600), member("c", 3)):
        reader.feed(bytes([byte]))
    assert (reader.content, reader.ended) == (b"c" * 600, True)


@pytest.mark.parametrize("kind", [b"0", b"5", b"2"])
def test_what_is_empty_leaves_the_content_that_was_wanted(kind: bytes) -> None:
    reader = TarReader(lambda entry: entry.name == b"b")
    reader.feed(pack(member("b", 600), member("c", kind=kind)))
    assert reader.content == b"c" * 600


def test_content_that_is_wanted_may_be_empty() -> None:
    reader = TarReader(lambda entry: entry.name in (b"a", b"b"))
    reader.feed(pack(member("a", 3), member("b")))
    assert reader.content == b""


def test_end_is_announced_before_it_is_complete() -> None:
    content = pack(member("a", 3))
    reader = TarReader(lambda _: False)
    states = []
    for piece in (content[: 2 * BLOCK], b"\0", content[2 * BLOCK + 1 :]):
        reader.feed(piece)
        states.append((reader.may_be_ending, reader.ended))
    assert states == [(False, False), (True, False), (True, True)]


def test_archive_may_end_without_its_end() -> None:
    assert len(entries(pack(member("a", 3))[: 2 * BLOCK])) == 1


def changed(at: int, new: bytes, format: int = tarfile.USTAR_FORMAT) -> bytes:
    """An archive of one file whose first header has other bytes, and a checksum of its own."""
    content = bytearray(pack(member("a", 3), format=format))
    content[at : at + len(new)] = new
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:BLOCK])
    return bytes(content)


def long_name(name: bytes) -> bytes:
    """An archive of one file whose name stands in an entry of GNU's tar before it."""
    extension = bytearray(pack(member("././@LongLink", len(name), b"L"))[: 2 * BLOCK])
    extension[BLOCK:] = name.ljust(BLOCK, b"\0")
    return bytes(extension) + pack(member("a"))


def test_long_name_may_end_with_one_nul() -> None:
    assert [each.name for each in entries(long_name(b"b"))] == [b"b"]
    assert [each.name for each in entries(long_name(b"b\0"))] == [b"b"]


REFUSED: list[tuple[Callable[[], bytes], str]] = [
    (lambda: b"", "cut"),
    (lambda: pack(member("a", 3))[:700], "cut"),
    (lambda: bytes(1024), "no entries"),
    (lambda: pack(member("a"))[:BLOCK] + bytes(BLOCK) + pack(member("b")), "after an empty block"),
    (lambda: b"FROM a\n" * 100, "not a tar archive"),
    (lambda: changed(257, b"\0" * 8), "old format"),
    (lambda: changed(508, b"tar\0"), "old format"),
    (lambda: changed(345, b"x", tarfile.GNU_FORMAT), "old format"),
    (lambda: changed(124, b"\x80"), "not octal"),
    (lambda: changed(0, b"BZh9"), "another file format: rename it"),
    (lambda: changed(0, b"P*M\x18"), "another file format: rename it"),
    (
        lambda: changed(0, b"a/\0"),
        "has an empty name, a folder's name, or a NUL in its name or link",
    ),
    (lambda: changed(156, b"5"), "has a size"),
    (lambda: changed(156, b"S"), "not a file, folder, link or device"),
    (lambda: changed(156, b"7"), "not a file, folder, link or device"),
    (lambda: pack(member("a"), path="b"), "global attributes"),
    (lambda: pack(sparse("a")), "unknown"),
    (lambda: long_name(b"b\0c"), "NUL"),
    (lambda: long_name(b"b\0\0"), "NUL"),
    (lambda: long_name(b"\0"), "has an empty name"),
]


@pytest.mark.parametrize(("content", "reason"), REFUSED)
@pytest.mark.parametrize("size", [1, 4096])
def test_what_readers_take_differently_is_refused(
    content: Callable[[], bytes], reason: str, size: int
) -> None:
    with pytest.raises(TarError, match=reason):
        entries(content(), size)


def test_comment_for_all_entries_is_ignored() -> None:
    assert [each.name for each in entries(pack(member("a"), comment="of git"))] == [b"a"]


def test_gzip_is_decompressed_in_bounded_pieces() -> None:
    content = bytes(10 * PIECE)
    compressed = gzip.compress(content) + gzip.compress(b"more")
    gunzip = Gunzip()
    pieces = [piece for byte in compressed for piece in gunzip.feed(bytes([byte]))]
    gunzip.close()
    assert b"".join(pieces) == content + b"more"
    assert max(map(len, Gunzip().feed(compressed))) <= PIECE


@pytest.mark.parametrize("rest", [b"\0", b"junk", b"\x1f\x8b"])
def test_gzip_with_something_behind_it_is_refused(rest: bytes) -> None:
    def read() -> None:
        gunzip = Gunzip()
        list(gunzip.feed(gzip.compress(b"x") + rest))
        gunzip.close()

    with pytest.raises(TarError):
        read()


def test_random_bytes_are_refused_and_never_a_fault() -> None:
    chance = random.Random(5)
    base = pack(member("a", 700), member("b/c", 3, comment="x"))
    refused = 0
    for _ in range(2000):
        content = bytearray(base)
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            entries(bytes(content), chance.choice([100, 4096]))
        except TarError:
            refused += 1
    assert refused > 500
