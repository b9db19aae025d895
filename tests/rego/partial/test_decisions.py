"""What defines partial evaluation: for any values of what is unknown the residual decides the same.

Asked of recorded programs, a sample in each run, over documents made of their own constants.
`DOORWARD_PARTIAL=all` takes every program.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest
from tests.corpora import PARTIAL, rows
from tests.rego.partial.recorded import Row, residual_of
from tests.waiting import PATIENCE

from doorward.rego import UNDEFINED, CompileError, Engine, EvalError, from_python
from doorward.rego.partial.evaluate import Partial
from doorward.rego.partial.paths import parse_path

Path = tuple[Any, ...]
STEP: Final = 1 if os.environ.get("DOORWARD_PARTIAL") == "all" else 9
NOW: Final = 1_700_000_000_000_000_000


@cache
def recorded() -> list[Row]:
    return [
        row
        for row in rows(PARTIAL)
        if "error" not in row
        and not row.get("v0")
        and row.get("partial_namespace", "partial").isidentifier()
        and not row.get("skip_partial_namespace")
        and all(name.startswith(("input", "data")) for name in row["unknowns"])
    ]


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_residuals_decide_as_the_query_does(part: int) -> None:
    compared = 0
    for row in recorded()[part * STEP :: 8 * STEP]:
        compared += _compare(row)
    assert compared


def _compare(row: Row) -> int:
    try:
        engine, partial = residual_of(row)
    except CompileError:
        return 0  # the newest OPA refuses it, too: a row of `tests/differences/partial.toml`
    support = {f"support{n}.rego": text for n, text in enumerate(partial.support_texts)}
    both = engine.with_modules({**row["modules"], **support})
    imports = tuple(row.get("imports") or ())
    draw = random.Random(row["id"])
    unknowns = [_keys(name) for name in row["unknowns"]]
    compared = 0
    for _ in range(4):
        input_, data = _documents(row, partial, unknowns, draw)
        try:
            expected = _answers(_bound(engine, data), [row["query"]], input_, imports)
        except EvalError:
            continue  # conflicts are not looked for while something is unknown, as in OPA
        names = _names(engine, row["query"], imports)
        actual = _answers(_bound(both, data), partial.query_texts, input_, ())
        assert _shown(expected, names) == _shown(actual, names), (row["id"], input_, data)
        compared += 1
    return compared


def _bound(engine: Engine, data: Any) -> Engine:
    return engine.with_data(from_python(data))


def _answers(
    engine: Engine, queries: list[str] | tuple[str, ...], input_: Any, imports: tuple[str, ...]
) -> list[dict[str, Any]]:
    value = UNDEFINED if input_ is None else from_python(input_)
    answers: list[dict[str, Any]] = []
    for text in queries:
        if text:
            answers += engine.prepare(text, imports=imports, deadline=PATIENCE).results(
                value, now_ns=NOW
            )
        else:
            answers.append({})
    return answers


def _names(engine: Engine, query: str, imports: tuple[str, ...]) -> set[str]:
    """The variables whose values are compared.

    What a query declares (`x := …`, `some k`) has another name in the residual, as in OPA: it
    decides the same, and does not tell these values.
    """
    if ":=" in query or "some" in query:
        return set()
    return {n for n in engine.prepare(query, imports=imports).variables if not n.startswith("_")}


def _shown(answers: list[dict[str, Any]], names: set[str]) -> set[str]:
    return {
        json.dumps({k: v for k, v in row.items() if k in names}, sort_keys=True, default=repr)
        for row in answers
    }


def _documents(
    row: Row, partial: Partial, unknowns: list[Path], draw: random.Random
) -> tuple[Any, Any]:
    """An input and data with other values where something is unknown."""
    trees = [row["ast"], partial.ast]
    constants = [None, False, True, 0, 1, "a", [], {}, ["a"], {"a": 1}, *_constants(trees)]
    paths = sorted({path for tree in trees for path in _paths(tree)}, key=repr)
    documents = {"input": row.get("input"), "data": row.get("data") or {}}
    for unknown in unknowns:
        value = documents[unknown[0]]
        value = _put(value, unknown[1:], draw.choice([{}, {}, {}, *constants]), draw)
        for path in paths:
            if path[: len(unknown)] == unknown and draw.random() < 0.8:
                value = _put(value, path[1:], draw.choice(constants), draw)
        if unknown[0] == "input" or isinstance(value, dict):
            documents[unknown[0]] = value
    return documents["input"], documents["data"]


def _keys(text: str) -> Path:
    return tuple(getattr(part, "value", getattr(part, "name", None)) for part in parse_path(text))


def _constants(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        if tree.get("type") in ("string", "number", "boolean"):
            yield tree["value"]
        for item in tree.values():
            yield from _constants(item)
    elif isinstance(tree, list):
        for item in tree:
            yield from _constants(item)


def _paths(tree: Any) -> Iterator[Path]:
    if isinstance(tree, dict):
        if tree.get("type") == "ref" and tree["value"][0].get("value") in ("input", "data"):
            head, *rest = tree["value"]
            known = ("string", "number")
            yield (head["value"], *[p["value"] if p["type"] in known else None for p in rest])
        for item in tree.values():
            yield from _paths(item)
    elif isinstance(tree, list):
        for item in tree:
            yield from _paths(item)


def _put(document: Any, path: Path, value: Any, draw: random.Random) -> Any:
    if not path:
        return value
    key = draw.choice(["a", "b", 0, 1]) if path[0] is None else path[0]
    if isinstance(key, (int, float)):
        items = list(document) if isinstance(document, list) else []
        key = int(key)
        if not 0 <= key < 4:
            return items
        items += [None] * (key + 1 - len(items))
        items[key] = _put(items[key], path[1:], value, draw)
        return items
    members = dict(document) if isinstance(document, dict) else {}
    members[key] = _put(members.get(key), path[1:], value, draw)
    return members


def test_a_program_that_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(CompileError, match="var x is unsafe"):
        Engine().partial("x > 1")
