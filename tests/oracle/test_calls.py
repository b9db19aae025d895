"""Random calls of a kind each: Doorward answers as the engine of OPA 1.20.2 does.

The same calls in each run; longer by hand, see fuzz/README.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from doorward.rego.errors import LIMIT_ERROR
from fuzz import (
    certificates,
    graphql_documents,
    keys,
    long_calls,
    plain_calls,
    schemas,
    tokens,
    yaml_texts,
)
from fuzz.calls import ask_opa, ask_ours, is_random
from fuzz.opa_engine import OpaEngine

CALLS: Final = 250

pytestmark = pytest.mark.long


GENERATORS: Final = {
    "x509": certificates.call_of,
    "graphql": graphql_documents.call_of,
    "schemas": schemas.call_of,
    "jwt": tokens.call_of,
    "yaml": yaml_texts.call_of,
    "keys": keys.call_of,
    "plain": plain_calls.call_of,
}


@pytest.mark.parametrize("call_of", GENERATORS.values(), ids=GENERATORS)
def test_answers_are_those_of_the_newest_opa(
    call_of: Callable[[str], tuple[str, list[Any]]], opa: OpaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # OPA compares `1.0.0-N` and `1.0.0-M` forever where both numbers have 30 digits.
    monkeypatch.setattr(opa, "seconds", 3.0)
    answers: Counter[str] = Counter()
    for number in range(CALLS):
        name, operands = call_of(f"1-{number}")
        ours, theirs = ask_ours(name, operands), ask_opa(opa, name, operands)
        if theirs is not None:
            answers[ours[:6]] += 1
            is_same = ours == theirs or is_random(opa, name, operands, theirs)
            assert is_same, (number, name, operands, ours, theirs)
    assert max(answers.values()) < CALLS * 3 // 4, "most calls have the same answer"


def test_long_operands_are_answered_as_opa_does_or_end_at_a_limit(opa: OpaEngine) -> None:
    limits = 0
    for name, operands_of in long_calls.CALLS:
        for size in (30, 600):
            operands = operands_of(size)
            ours = ask_ours(name, operands)
            if ours == LIMIT_ERROR:
                limits += 1
                continue
            theirs = ask_opa(opa, name, operands)
            assert theirs in (None, ours), (name, size, ours[:200], theirs[:200] if theirs else "")
    assert 0 < limits < len(long_calls.CALLS)
