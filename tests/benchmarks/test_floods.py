"""The floods are valid requests, each another one; their rows become the table of a page."""

from __future__ import annotations

import pytest
from tests.transport.http2.frames import connected

from benchmarks.floods import FLOODS, Row, frames, table
from doorward.transport.http2.hpack import Decoder
from doorward.transport.http2.limits import Limits


@pytest.mark.parametrize("kind", FLOODS)
def test_each_request_of_a_flood_is_valid_and_another(kind: str) -> None:
    connection, echo = connected()
    for number in range(1, 21, 2):
        connection.feed(frames(number, FLOODS[kind](number)))
    assert not connection.closed
    assert len(echo.answered) == 10
    assert len(echo.resolved) == 10


def test_floods_use_what_they_are_named_after() -> None:
    limits = Limits()
    block = FLOODS["Huffman codes"](1)
    assert len(block) > limits.header_block_size * 0.98
    decoder = Decoder(limits.header_table_size)
    decoder.decode(FLOODS["dynamic table"](1), limits.header_list_size)
    assert decoder.revision == 480


def test_rows_become_a_table() -> None:
    row = Row("Huffman codes", 8, 100, 99, 1.5, 20.25, 31.2, 259.2, 0, 0.7)
    assert table([row]).endswith("| Huffman codes | 8 | 259 | 0 | 99 of 100 | 1.5 | 20.2 | 31 |\n")
