"""Header compression, compared with the package `hpack`."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.transport.http2 import huffman
from doorward.transport.http2.hpack import Decoder, Header, HpackError, encode

NAMES = st.sampled_from([b":path", b"accept", b"x-a", b"x-b", b"cookie", b""])
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=40)), max_size=8)


@given(st.lists(st.tuples(FIELDS, st.booleans(), st.none() | st.integers(0, 4096)), max_size=6))
def test_blocks_of_another_encoder_are_decoded(
    blocks: list[tuple[list[Header], bool, int | None]],
) -> None:
    encoder, decoder = hpack.Encoder(), Decoder(4096)
    for fields, huffman_coded, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode(fields, huffman=huffman_coded)
        assert decoder.decode(block, 1 << 20)[0] == fields


@given(FIELDS)
def test_encoded_blocks_are_read_by_another_decoder(fields: list[Header]) -> None:
    decoder = hpack.Decoder()
    read = decoder.decode(encode(fields), raw=True)
    assert [(bytes(name), bytes(value)) for name, value in read] == fields
    assert not decoder.header_table.dynamic_entries


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_any_block_is_read_like_another_decoder_or_refused(blocks: list[bytes]) -> None:
    """`hpack` decodes padding of Huffman strings more loosely, so only what both take is equal."""
    ours, theirs = Decoder(4096), hpack.Decoder(1 << 20)
    for block in blocks:
        try:
            expected = [(bytes(n), bytes(v)) for n, v in theirs.decode(block, raw=True)]
        except Exception:
            return
        try:
            assert ours.decode(block, 1 << 20)[0] == expected
        except HpackError:
            return


@given(st.binary(max_size=200))
def test_huffman_strings(text: bytes) -> None:
    from hpack.huffman import HuffmanEncoder
    from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

    encoded = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(text)
    assert huffman.decode(encoded) == text


@pytest.mark.parametrize(
    "encoded",
    [b"\xff\xff\xff\xff", b"\x07\xff\xff\xff\xff", b"\x00", b"\xff\xff", b"\xff\xff\xff\xfc"],
    ids=["eos", "eos-behind-a-digit", "zeros-as-padding", "padding-of-16-bits", "eos-and-padding"],
)
def test_wrong_huffman_strings_are_refused(encoded: bytes) -> None:
    with pytest.raises(huffman.HuffmanError):
        huffman.decode(encoded)


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",
        b"\xbe",
        b"\xff\xff\xff\xff\xff\xff\xff",
        b"\x40",
        b"\x40\x01",
        b"\x40\x0ax",
        b"\x3f\xff\xff\x7f",
        b"\x82\x20",
        b"\x7f",
        b"\x00\x81\xff\x00",
    ],
    ids=[
        "index-0",
        "no-entry",
        "integer-too-large",
        "name-missing",
        "name-cut",
        "string-cut",
        "size-above-setting",
        "size-update-behind-field",
        "integer-cut",
        "huffman",
    ],
)
def test_wrong_blocks_are_refused(block: bytes) -> None:
    with pytest.raises(HpackError):
        Decoder(4096).decode(block, 1 << 20)


def test_a_list_over_the_limit_is_cut_and_the_table_still_learns() -> None:
    decoder = Decoder(4096)
    block = b"\x40\x01a\x01b" * 10
    fields, size = decoder.decode(block, 100)
    assert (len(fields), size) == (2, 340)
    assert decoder.decode(b"\xbe", 1000)[0] == [(b"a", b"b")]


def test_a_list_far_over_the_limit_is_not_decoded_to_its_end() -> None:
    decoder = Decoder(4096)
    decoder.decode(b"\x40\x01a\x7f\x81\x07" + b"v" * 1024, 16_384)
    with pytest.raises(HpackError, match="far too large"):
        # The index behind the limit does not exist, and is not looked at.
        decoder.decode(b"\xbe" * 64 + b"\xff\xff", 16_384)


def test_the_table_evicts_and_an_entry_too_large_empties_it() -> None:
    decoder = Decoder(70)
    decoder.decode(b"\x40\x01a\x01b\x40\x01c\x01d\x40\x01e\x01f", 1000)
    assert decoder.decode(b"\xbe\xbf", 1000)[0] == [(b"e", b"f"), (b"c", b"d")]
    decoder.decode(b"\x40\x01x\x7f\x01" + b"y" * 128, 1000)
    with pytest.raises(HpackError):
        decoder.decode(b"\xbe", 1000)


def test_the_revision_changes_with_the_table_only() -> None:
    decoder = Decoder(4096)
    decoder.decode(b"\x82\x00\x01a\x01b", 1000)
    assert decoder.revision == 0
    decoder.decode(b"\x40\x01a\x01b", 1000)
    assert decoder.revision == 1
    decoder.decode(b"\xbe", 1000)
    assert decoder.revision == 1
    decoder.decode(b"\x20\x82", 1000)
    assert decoder.revision == 2


def test_long_values_have_long_lengths() -> None:
    field = (b"x-long", b"y" * 1000)
    assert Decoder(4096).decode(encode([field]), 1 << 20)[0] == [field]
