"""The properties that the project ships, and six more of the Docker policies, hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from doorward.bundles.loader import load
from doorward.rego import Engine
from doorward.search.proofs import proofs, properties_of

ROOT = Path(__file__).resolve().parents[3]
PEOPLE = [str(ROOT / "examples/people" / each) for each in ("policy.rego", "properties_test.rego")]
POLICIES = str(ROOT / "src/doorward/docker/policies")
WITH_USERS = [POLICIES, str(ROOT / "benchmarks/policies/docker_properties")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("paths", "data", "count"),
    [(PEOPLE, {"secrets": {"jwt": "s3cret"}}, 9), (WITH_USERS, {}, 10)],
    ids=["people", "docker with users"],
)
def test_all_are_proved(paths: list[str], data: dict[str, object], count: int) -> None:
    loaded = load(paths)
    engine = Engine(loaded.modules, {**loaded.data, **data})
    outcomes = {each.subject.name: each.outcome for each in proofs(engine)}
    assert len(outcomes) == count
    assert set(outcomes.values()) == {"none exists"}


def test_the_docker_policies_ship_four_of_them() -> None:
    """Each is among those that are proved with the users' policies."""
    shipped, proved = (
        {each.name for each in properties_of(Engine(load(paths).modules))}
        for paths in ([POLICIES], WITH_USERS)
    )
    assert len(shipped) == 4
    assert shipped < proved
