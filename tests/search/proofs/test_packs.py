"""The properties that the project ships hold, for any input."""

from __future__ import annotations

from pathlib import Path

import pytest

from doorward.bundles.loader import load
from doorward.rego import Engine
from doorward.search.proofs import proofs

ROOT = Path(__file__).resolve().parents[3]
PEOPLE = [str(ROOT / "examples/people" / each) for each in ("policy.rego", "properties_test.rego")]
DOCKER = [str(ROOT / "src/doorward/docker/policies")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("paths", "data", "count"),
    [(PEOPLE, {"secrets": {"jwt": "s3cret"}}, 9), (DOCKER, {}, 4)],
    ids=["people", "docker"],
)
def test_all_are_proved(paths: list[str], data: dict[str, object], count: int) -> None:
    loaded = load(paths)
    engine = Engine(loaded.modules, {**loaded.data, **data})
    outcomes = {each.subject.name: each.outcome for each in proofs(engine)}
    assert len(outcomes) == count
    assert set(outcomes.values()) == {"none exists"}
