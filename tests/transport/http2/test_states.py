"""Each event of an HTTP/2 connection is legal in these states, and in no other one."""

from __future__ import annotations

from itertools import product

import pytest

from doorward.transport.http2.states import ENDING, RECEIVING

RECEIVING_LEGAL = {
    ("preface", "preface"): "settings",
    ("settings", "settings"): "open",
    ("open", "settings"): "open",
    ("open", "block_begins"): "block",
    ("block", "block_ends"): "open",
}
ENDING_LEGAL = {
    ("serving", "announce"): "announced",
    ("announced", "finish"): "final",
    ("serving", "close"): "closed",
    ("announced", "close"): "closed",
    ("final", "close"): "closed",
    ("closed", "close"): "closed",
}


@pytest.mark.parametrize(
    ("state", "event"),
    [
        *product(
            ("preface", "settings", "open", "block"),
            ("preface", "settings", "block_begins", "block_ends"),
        )
    ],
)
def test_frames_come_in_order(state: str, event: str) -> None:
    if (state, event) in RECEIVING_LEGAL:
        assert RECEIVING[state][event] == RECEIVING_LEGAL[state, event]
    else:
        with pytest.raises(KeyError):
            RECEIVING[state][event]


@pytest.mark.parametrize(
    ("state", "event"),
    [*product(("serving", "announced", "final", "closed"), ("announce", "finish", "close"))],
)
def test_a_connection_ends_once(state: str, event: str) -> None:
    if (state, event) in ENDING_LEGAL:
        assert ENDING[state][event] == ENDING_LEGAL[state, event]
    else:
        with pytest.raises(KeyError):
            ENDING[state][event]
