"""Each event of an HTTP/1.1 connection is legal in these states, and in no other one."""

from __future__ import annotations

from itertools import product

import pytest

from doorward.transport.http1.states import LIFE, READING

LEGAL = {
    ("head", "begins"): "head",
    ("head", "head_ends"): "body",
    ("body", "body_ends"): "between",
    ("between", "begins"): "head",
}
ORDER = ("open", "last", "ending", "closed")


@pytest.mark.parametrize(
    ("state", "event"),
    [*product(("head", "body", "between"), ("begins", "head_ends", "body_ends"))],
)
def test_a_message_is_read_in_order(state: str, event: str) -> None:
    if (state, event) in LEGAL:
        assert READING[state][event] == LEGAL[state, event]
    else:
        with pytest.raises(KeyError):
            READING[state][event]


@pytest.mark.parametrize(
    ("state", "event"), [*product(ORDER, (("last", "last"), ("end", "ending"), ("lose", "closed")))]
)
def test_a_connection_never_goes_back(state: str, event: tuple[str, str]) -> None:
    name, target = event
    furthest = max(state, target, key=ORDER.index)
    assert LIFE[state][name] == furthest
