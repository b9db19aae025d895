"""Segments that vary: types, owners, closed sets; coincidences stay words."""

from __future__ import annotations

import random

import pytest
from tests.learn.logs import access, asks, learned_from, observed, policy_of, subject

from doorward.learn.groups import Groups
from doorward.learn.templates import Limits, Templates, path_text

CLERKS = [subject(f"clerk{n}", "clerk", team=f"t{n % 4}") for n in range(20)]


def templates(paths: list[tuple[int, str]]) -> set[str]:
    counted = observed(
        access(CLERKS[who], path, day=n % 9, number=n) for n, (who, path) in enumerate(paths)
    )
    built = Templates(Groups.find(counted.activity), Limits())
    built.build(counted.allowed)
    return {path_text(item.parts) for item in built.items.values()}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([(n, f"/a/{n}") for n in range(20)], {"/a/{int}"}),
        ([(n, "/a/7") for n in range(20)], {"/a/7"}),
        ([(n, f"/a/{n % 2}") for n in range(20)], {"/a/{a}"}),
        ([(n, f"/a/2027-01-{n + 10}") for n in range(20)], {"/a/{date}"}),
        ([(n, f"/a/{n:016x}") for n in range(20)], {"/a/{hex}"}),
        ([(n, f"/a/01HZX3K5M7N9P1Q3R5S7T9V1{n:02}") for n in range(20)], {"/a/{ulid}"}),
        ([(n, f"/a/0{n:04}") for n in range(20)], {"/a/{padded}"}),
        ([(n, f"/a/INV-{n:06}/x") for n in range(20)], {"/a/{INV-#}/x"}),
        ([(n % 20, f"/a/{'AB'[n % 2]}{n:03}") for n in range(40)], {"/a/{A#}", "/a/{B#}"}),
        ([(n, f"/a/rtx-{4000 + n % 2}") for n in range(20)], {"/a/{a}"}),
        ([(n, f"/v{n % 3}/x") for n in range(20)], {"/v0/x", "/v1/x", "/v2/x"}),
        ([(n, f"/u/clerk{n}/x") for n in range(20)], {"/u/{=sub}/x"}),
        ([(n, f"/t/t{n % 4}") for n in range(20)], {"/t/{=team}"}),
        ([(n, "/clerk1") for n in range(20)], {"/clerk1"}),
        ([(n, "/t1/x") for n in range(1, 20, 4)], {"/t1/x"}),
        (
            [(n, f"/w/word-{'abcdefgh'[n % 8]}") for n in range(20)],
            {f"/w/word-{c}" for c in "abcdefgh"},
        ),
        ([(n, f"/w/word-{chr(97 + m)}") for m in range(14) for n in range(5)], {"/w/{w}"}),
        ([(n, "/a/") for n in range(20)], {"/a/"}),
        ([(n, "/") for n in range(20)], {"/"}),
    ],
)
def test_a_template(paths: list[tuple[int, str]], expected: set[str]) -> None:
    assert templates(paths) == expected


def test_things_of_different_groups_are_not_one_set() -> None:
    paths = [(n, f"/kinds/kind-{chr(97 + 5 * (n % 4) + m)}") for n in range(20) for m in range(5)]
    assert len(templates(paths)) == 20


def test_a_logged_path_matches_its_own_template() -> None:
    """Otherwise a rule would not allow what it was learned from."""
    rng = random.Random(7)
    words = ["a", "b", "7", "8", "clerk1", "t1", "2027-01-01", "x-1", "deadbeefdeadbeef"]
    accesses = []
    for n in range(3_000):
        path = "/" + "/".join(rng.choice(words) for _ in range(rng.randrange(1, 4)))
        accesses.append(access(rng.choice(CLERKS), path, day=n % 9, number=n))
    learned = learned_from(accesses)
    policy = policy_of(learned)
    denied = 0
    for each in accesses:
        denied += not asks(policy, each.subject, "/" + "/".join(each.segments))
    questions = sum(each.evidence.events for each in learned.grants if each.proposal == "ask")
    rare = sum(learned.rare.values()) + learned.rare_values
    # A cell holds the values of one subject together: one of them may be nobody else's.
    assert denied <= questions + rare + 3
