"""No property of a random small policy is proved that some input of a small universe breaks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any, Final

import pytest

from doorward.rego import UNDEFINED, CompileError, Engine, EvalError
from doorward.search.proofs import proofs

LEAVES: Final = ("a", "b", "c.d")
CONSTANTS: Final = ('"x"', '"y"', '"xy"', "1", "2", "5", "false", "true", "null")
VALUES: Final[list[Any]] = [
    *(UNDEFINED, "x", "y", "xy", "X", "x/y", 1, 1.0, 2, 3, 5, False, True, None, ["x"], ["y", 1]),
    {"d": "x"},
]
"""`1` and `1.0` are equal, and some built-ins tell them apart."""
INPUTS: Final[list[dict[str, Any]]] = []
for a, b, d in product(VALUES, VALUES, VALUES):
    document: dict[str, Any] = {k: v for k, v in (("a", a), ("b", b)) if v is not UNDEFINED}
    INPUTS.append(document if d is UNDEFINED else {**document, "c": {"d": d}})
INPUTS.append({"c": "x"})
DATA: Final = {"users": ["x", "y"], "roles": {"x": "adm", "y": "dev"}, "n": 2}
PROGRAMS: Final = 10
"""In each test; more were tried by hand, docs/prove.md says how many."""


def atom(random: Random) -> str:
    leaf = f"input.{random.choice(LEAVES)}"
    constant = random.choice(CONSTANTS)
    some = ", ".join(random.sample(CONSTANTS, random.randint(1, 3)))
    other = f"input.{random.choice(LEAVES)}"
    return random.choice(
        [
            *[f"{leaf} == {constant}"] * 4,
            f"{leaf} != {constant}",
            *[f"{leaf} in {{{some}}}"] * 2,
            f"{leaf} in [{some}]",
            f"{leaf} {random.choice(['<', '<=', '>', '>='])} {random.choice(['1', '2', '5'])}",
            f"{random.choice(['1', '2', '5'])} {random.choice(['<', '<=', '>', '>='])} {leaf}",
            leaf,
            f'startswith({leaf}, "x")',
            f'lower({leaf}) == "x"',
            f"{leaf} == {other}",
            f"{leaf} in data.users",
            f'data.roles[{leaf}] == "adm"',
            f'f({leaf}) == "low"',
            "helper",
            f"count({leaf}) == 1",
            f"every v in [{leaf}, {other}] {{ v == {constant} }}",
            f"some v in [{leaf}, {other}]; v == {constant}",
            f"is_string({leaf})",
            f"is_object({leaf})",
            f'endswith({leaf}, "y")',
            f'contains({leaf}, "/")',
            f'glob.match("{random.choice(["x*", "x/*", "*y", "x", "**y*"])}", ["/"], {leaf})',
            f"regex.match(`{random.choice(['^x', '^x.?y$', '^[xy]+$', 'y$', '^[^/]*$'])}`, {leaf})",
            f'startswith(lower({leaf}), "{random.choice("xy")}")',
            f'split({leaf}, "/")[1] == "y"',
            f'json.marshal({leaf}) == "{random.choice(["1", "1.0", "2"])}"',
            f'sprintf("%v", [{leaf}]) == "{random.choice(["1", "1.0", "x"])}"',
            f"{leaf} {random.choice(['<', '<=', '>', '>=', '!='])} {other}",
            f"{leaf} + 1 == {random.choice('236')}",
            f"x := {leaf}; x {random.choice(['<', '>=', '=='])} {constant}",
            f"x := {leaf}; json.marshal(x) == {random.choice(['`1`', '`1.0`'])}; x == {other}",
            f"every v in {leaf} {{ v == {constant} }}",
            f"some v in {leaf}; v == {constant}",
            f"{leaf}[_] == {constant}",
            f"{constant} in members",
            f"{leaf} in members",
        ]
    )


def literal(random: Random) -> str:
    text = atom(random)
    is_simple = ";" not in text and not text.startswith(("every", "some")) and "[_]" not in text
    return f"not {text}" if is_simple and random.random() < 0.3 else text


def body(random: Random, most: int) -> str:
    return "; ".join(literal(random) for _ in range(random.randint(1, most)))


def _without_rules(text: str) -> str:
    return text.replace("helper", "input.b").replace("in members", "in data.users")


def program(random: Random) -> str:
    lines = ["package p", ""]
    if random.random() < 0.5:
        lines.append("default allow := false")
    lines += [f"allow if {{ {body(random, 3)} }}" for _ in range(random.randint(1, 3))]
    lines.append(f"helper if {{ {_without_rules(body(random, 2))} }}")
    lines.append(f"members contains input.b if {{ {_without_rules(body(random, 1))} }}")
    lines.append(f'members contains "x" if {{ {_without_rules(body(random, 1))} }}')
    lines.append(
        random.choice(['f(n) := "low" if n < 2\nelse := "high"', 'f(n) := "low" if n == 1'])
    )
    for number in range(4):
        about = random.choice(["allow", "not allow", "allow == false", "allow", "helper"])
        lines.append(f"never_{number} if {{ {about}; {body(random, 3)} }}")
    return "\n".join(lines) + "\n"


def broken(engine: Engine, name: str) -> Iterator[Any]:
    query = engine.prepare(name)
    for each in INPUTS:
        try:
            if query.answer(each) is True:
                yield each
        except EvalError:
            continue


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_what_is_proved_no_input_breaks(seed: int) -> None:
    random = Random(seed)
    proved = 0
    for _ in range(PROGRAMS):
        text = program(random)
        try:
            engine = Engine({"p.rego": text}, DATA)
        except CompileError:
            continue
        for verdict in proofs(engine):
            if verdict.outcome == "none exists":
                proved += 1
                example = next(broken(engine, verdict.subject.name), None)
                assert example is None, f"{verdict.subject.name}\n{text}"
    assert proved
