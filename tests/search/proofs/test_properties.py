"""Verdicts on properties of which it is known whether they hold."""

from __future__ import annotations

from pathlib import Path
from time import thread_time

import pytest
from tests.rounds import rounds
from tests.waiting import PATIENCE

from doorward.bundles.loader import load
from doorward.rego import REGISTRY, Engine
from doorward.replay.deciding import Version
from doorward.search.proofs import Verdict, proofs, prove

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks/policies/properties"


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    loaded = load([str(FOLDER)])
    return {each.subject.name: each for each in proofs(Engine(loaded.modules, loaded.data))}


def is_said_to_hold(verdict: Verdict) -> bool:
    """Return True if the comment above a property begins with `Holds`."""
    span = verdict.subject.span
    above = span.source.text[: span.start].rstrip().rpartition("\n")[2]
    assert above.startswith(("# Holds", "# Broken")), verdict.subject
    return above.startswith("# Holds")


@pytest.mark.long
def test_what_holds_is_proved(verdicts: dict[str, Verdict]) -> None:
    holding = {name for name, each in verdicts.items() if is_said_to_hold(each)}
    proved = {name for name, each in verdicts.items() if each.outcome == "none exists"}
    assert proved == holding
    assert len(proved) == 16


@pytest.mark.long
def test_no_search_finds_what_a_proof_excludes() -> None:
    loaded = load([str(FOLDER)])
    version = Version.compile(loaded, deadline=PATIENCE)
    # By the processor's time, which what else runs on the machine does not take.
    verdicts = list(
        prove(
            loaded,
            version,
            seconds=rounds(40) / 100,
            v0=False,
            registry=REGISTRY,
            attack=True,
            clock=thread_time,
        )
    )
    proved = [each for each in verdicts if each.outcome == "none exists"]
    assert len(proved) == 16
    assert all(is_said_to_hold(each) for each in proved)
