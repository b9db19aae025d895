"""Bodies are decoded step by step, whatever a server sends."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from doorward.http_client.decoding import MAX_MEMBERS, STEP, DecodingError, decoded

TEXT = b"some text " * 100_000


def raw(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


def pieces(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


@pytest.mark.parametrize("size", [1, 1_000, 1 << 20])
@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        (" GZip ", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT)),
        ("gzip", gzip.compress(TEXT[:-7]) + gzip.compress(b"") + gzip.compress(TEXT[-7:])),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", zlib.compress(TEXT) + b"ignored"),
        ("deflate", raw(TEXT)),
    ],
)
def test_a_body_is_what_was_encoded(encoding: str, content: bytes, size: int) -> None:
    steps = list(decoded(pieces(content, size), encoding))
    assert b"".join(steps) == TEXT
    assert max(map(len, steps)) <= max(STEP, size)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", ""])
def test_no_body_has_no_encoding(encoding: str) -> None:
    assert list(decoded([], encoding)) == list(decoded(iter(()), encoding)) == []


@pytest.mark.parametrize(
    ("encoding", "content", "said"),
    [
        ("gzip", gzip.compress(TEXT)[:-20], "unexpected EOF"),
        ("gzip", b"plain", "not valid gzip data"),
        ("gzip", gzip.compress(TEXT) + b"plain", "not valid gzip data"),
        ("gzip", gzip.compress(TEXT) + gzip.compress(TEXT)[:9], "unexpected EOF"),
        ("gzip", gzip.compress(b"") * (MAX_MEMBERS + 1), "more than 10000 members"),
        ("deflate", zlib.compress(TEXT)[:2] + b"\xff" * 9, "not valid deflate data"),
        ("deflate", zlib.compress(TEXT)[:40], "unexpected EOF"),
        (
            "gzip, gzip",
            gzip.compress(gzip.compress(TEXT)),
            "`gzip, gzip`, which is neither gzip nor deflate",
        ),
        ("br", TEXT, "`br`, which is neither gzip nor deflate"),
    ],
)
def test_what_cannot_be_decoded_is_refused(encoding: str, content: bytes, said: str) -> None:
    with pytest.raises(DecodingError, match=said):
        list(decoded([content], encoding))


@pytest.mark.long
def test_a_reader_stops_before_the_memory_is_full() -> None:
    bomb = gzip.compress(bytes(1 << 28))
    tracemalloc.start()
    try:
        size = 0
        for content in decoded([bomb], "gzip"):
            size += len(content)
            if size > 1 << 20:
                break
        assert tracemalloc.get_traced_memory()[1] < 8 * STEP
    finally:
        tracemalloc.stop()
