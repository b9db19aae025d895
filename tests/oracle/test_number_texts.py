"""One number in many texts (`1`, `1.0`, `1e0`, `-0`) means to Doorward what it means to OPA 1.20.2.

Compared are the recorded calls of all built-ins, each with a number of it written otherwise, and
every position of a policy that takes an index: in the fast code, in that for errors, in traced code
and in partial evaluation.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any, Final

import pytest
from tests.corpora import GOLDEN
from tests.waiting import PATIENCE

from doorward.rego import UNDEFINED, Engine, EvalError, RegoError
from doorward.rego.json_text import from_json
from fuzz.opa import as_json, canonical
from fuzz.opa_engine import OpaEngine

SEED: Final = 1
CALLS: Final = 8
"""How many calls of a built-in are made."""
OUTSIDE: Final = (
    "sort",
    "rand.",
    "http.send",
    "net.lookup_ip_addr",
    "opa.runtime",
    "uuid.",
    "time.now_ns",
)
"""Built-ins that ask the world, and `sort`: of equal numbers any may come first."""
_RECORD: Final = re.compile(
    r'.*?"group":"([^"]*)"(?:,"input":(.*))?,"query":("x := (?:[^"\\]|\\.)*")'
)
_NO_CALL: Final = re.compile('"code":"rego_|"modules":')
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_INTEGER: Final = re.compile(r'(?<![\w".\-+\[])(?<!input\[)(-?\d{1,3})(?![\w".\-+])')
LETTERS: Final = ["a", "b", "c"]
TEXTS: Final = (
    *("0", "1", "2", "1.0", "0.0", "2.0", "-0", "-0.0", "-1.0", "1.00", "1.5", "1.50", "3.0"),
    *("1e0", "10e-1", "0.10e1", "1.0e0", "0e0", "0e5", "-0e0", "1.00000000000000000"),
    *("1.000000000000000000", "12345678901234567.0", "123456789012345678.0"),
)
POSITIONS: Final = {
    "literal": "input.d[@]",
    "item": "input.d[input.i]",
    "base": "data.d[@]",
    "base by input": "data.d[input.i]",
    "nested base": "data.e.d[@]",
    "two": "input.m[@][@]",
    "two of base": "data.m[@][input.i]",
    "wildcard": "input.m[_][@]",
    "object": "input.o[@]",
    "object by input": "data.o[input.i]",
    "set": "{0, 1.5, 2}[input.i]",
    "local": "x if { xs := input.d; i := @; x := xs[i] }",
    "some": 'x if { some i in [@]; x := json.unmarshal("[1, 2, 3]")[i] }',
    "unmarshalled": 'x if { i := json.unmarshal("@"); x := input.d[i] }',
    "key in": '"yes" if { @, "b" in input.d }',
    "some key in": "x if { some @, x in input.d }",
    "equal index": "x if { some i; x := input.d[i]; i == @ }",
    "unified index": "x if { i = @; x := input.d[i] }",
    "computed": "x if { i := (@ + 1) - 1; x := input.d[i] }",
    "function": "f(input.i)",
    "constant": "constants[input.i]",
    "slice": "array.slice(input.d, @, 2)",
    "get": 'object.get(input, ["d", @], "none")',
    "substring": 'substring("abc", input.i, 1)',
    "denied": 'concat(",", deny)',
}
MODULE: Final = """package p

r := @POSITION

f(i) := input.d[i]

constants := ["x", "y", "z"]

deny contains "first" if input.d[input.i] == "a"

deny contains "second" if data.d[input.i] == "b"
"""


@cache
def _rows() -> dict[str, list[tuple[str, str]]]:
    """Of each built-in the queries that were recorded, each with its input as text."""
    rows: dict[str, list[tuple[str, str]]] = {}
    with gzip.open(GOLDEN / "builtins.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = _RECORD.match(line)
            if record and not record[1].startswith(OUTSIDE) and not _NO_CALL.search(line):
                rows.setdefault(record[1], []).append((json.loads(record[3]), record[2] or ""))
    return rows


def _otherwise(text: str) -> Iterator[str]:
    """`text` with one of its integers written otherwise."""
    strings = [match.span() for match in _STRING.finditer(text)]
    for match in _INTEGER.finditer(text):
        if any(start <= match.start() < end for start, end in strings):
            continue
        number = match[0]
        texts = [f"{number}.0", f"{number}.00", f"{number}e0", f"{number}.5", f"{number}.0e0"]
        texts += ["-0", "-0.0", "0e5"] if number == "0" else [f"{number}0e-1"] * bool(int(number))
        for other in texts:
            yield text[: match.start()] + other + text[match.end() :]


def _calls(name: str) -> list[tuple[str, str]]:
    calls = [(other, given) for query, given in _rows()[name] for other in _otherwise(query)]
    calls += [(query, other) for query, given in _rows()[name] for other in _otherwise(given)]
    return Random(f"{SEED} {name}").sample(calls, min(CALLS, len(calls)))


def _theirs(opa: OpaEngine, query: str, input_text: str, **more: Any) -> str:
    """OPA's answer: bindings in order, or the code of an error."""
    question = {"modules": {}, "data": {}, "query": query, "input_text": input_text, **more}
    answer = opa.ask(question) or {"error": {"code": "stopped"}}
    if "error" in answer:
        return str(answer["error"]["code"])
    return "; ".join(sorted(canonical(row.get("bindings", {})) for row in answer["result"] or []))


def _ours(engine: Engine, query: str, input_text: str, *, strict: bool = True) -> str:
    given = from_json(input_text) if input_text else UNDEFINED
    try:
        prepared = engine.prepare(query, strict_builtin_errors=strict, deadline=PATIENCE)
        rows = prepared.results(given)
    except EvalError as error:
        return error.code
    except RegoError as error:
        return error.diagnostics[0].code
    bindings = [{name: as_json(value) for name, value in row.items()} for row in rows]
    return "; ".join(sorted(map(canonical, bindings)))


@pytest.mark.parametrize("name", sorted(_rows()))
def test_built_ins_take_a_number_in_any_text_as_opa_does(opa: OpaEngine, name: str) -> None:
    engine = Engine({}, {})
    wrong = []
    for query, input_text in _calls(name):
        want = _theirs(opa, query, input_text)
        got = _ours(engine, query, input_text)
        if got != want and want not in {"panic", "stopped"}:
            wrong.append(f"{query} with {input_text}: {got}, OPA says {want}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("text", TEXTS)
def test_an_index_in_any_text_is_read_as_opa_reads_it(opa: OpaEngine, text: str) -> None:
    members = {"d": LETTERS, "m": [LETTERS] * 3, "o": {"0": "zero", "1": "one", "1.0": "text"}}
    data = {**members, "e": members}
    input_text = json.dumps({**members, "i": "@"}).replace('"@"', text)
    wrong = [
        f"{name}: {how} {got}, OPA says {want}"
        for name, position in POSITIONS.items()
        for how, got, want in _differences(opa, position.replace("@", text), input_text, data)
    ]
    assert not wrong, "\n".join(wrong)


def _differences(
    opa: OpaEngine, position: str, input_text: str, data: dict[str, Any]
) -> Iterator[tuple[str, str, str]]:
    modules = {"p.rego": MODULE.replace("@POSITION", position)}
    query = "x := data.p.r"
    want = _theirs(opa, query, input_text, modules=modules, data=data)
    try:
        engine = Engine(modules, data)
    except RegoError as error:
        if error.diagnostics[0].code != want:
            yield "compiled", error.diagnostics[0].code, want
        return
    plain = "" if want.startswith("eval_") else want
    partial = engine.partial(f"{query}; input.z", ("input.z",), from_json(input_text))
    answers = {
        "strict": (_ours(engine, query, input_text), want),
        "plain": (_ours(engine, query, input_text, strict=False), plain),
        "traced": (_ours(engine.policies.traced().bind(data), query, input_text), want),
        "partial": (str(bool(partial.queries)), str(bool(plain))),
    }
    for how, (got, wanted) in answers.items():
        if got != wanted:
            yield how, got, wanted
