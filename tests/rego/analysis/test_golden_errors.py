"""What OPA refuses to compile we refuse in its words and place, and what it accepts we accept.

The recorded answers are read by path; tests/differences/compiler.toml says where we differ, and
why. Parse errors are the parser's business: here it counts only that there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.corpora import GOLDEN, rows
from tests.differences import reasons

from doorward.rego.analysis.passes import CheckOptions, Program, check, check_query
from doorward.rego.analysis.tree import check_base_data
from doorward.rego.builtins import REGISTRY
from doorward.rego.conversion import from_python
from doorward.rego.errors import COMPILE_ERROR, PARSE_ERROR, TYPE_ERROR, Diagnostic, RegoError
from doorward.rego.source import Source
from doorward.rego.syntax.parser import parse_module, parse_query

pytestmark = pytest.mark.long

Said = tuple[str, str, str, int, int]
"""Code, message, file, row and column."""


def said(code: str, message: str, file: str, row: int, col: int) -> Said:
    return code, re.sub(r"__local\d+__", "__localN__", message), file, row, col


def said_of(diagnostics: tuple[Diagnostic, ...]) -> set[Said]:
    return {said(d.code, d.message, d.span.file, d.span.row, d.span.col) for d in diagnostics}


def wanted(errors: list[dict[str, Any]]) -> set[Said]:
    """OPA may report the same thing twice: as a set."""
    nowhere = {"file": "", "row": 0, "col": 0}
    return {
        said(e["code"], e["message"], *(e.get("location", nowhere)[k] for k in nowhere))
        for e in errors
    }


def refusal(modules: Mapping[str, str], **how: bool) -> set[Said]:
    """What is wrong with modules."""
    program = attempt(modules, **how)
    return program if isinstance(program, set) else set()


def attempt(modules: Mapping[str, str], **how: bool) -> Program | set[Said]:
    """The program that modules make, or what is wrong with them."""
    try:
        return compiled(modules, **how)
    except RegoError as error:
        return said_of(error.diagnostics)


def compiled(
    modules: Mapping[str, str], *, v0: bool = False, strict: bool = False, metadata: bool = False
) -> Program:
    parsed = [
        parse_module(Source(name, text), v0=v0, annotations=metadata)
        for name, text in sorted(modules.items())
    ]
    return check(parsed, REGISTRY, CheckOptions(strict=strict))


def query_refusal(query: str, program: Program, *, v0: bool = False) -> set[Said]:
    """What is wrong with a query to a program."""
    try:
        check_query(parse_query(Source("", query), v0=v0), program)
    except RegoError as error:
        return said_of(error.diagnostics)
    return set()


def agree(got: set[Said], want: set[Said]) -> bool:
    if any(code == PARSE_ERROR for code, *_ in want):
        return any(code == PARSE_ERROR for code, *_ in got)
    return got == want


def check_differences(differing: Mapping[str, object], known: Mapping[str, str]) -> None:
    """Nothing differs that is not known to, and nothing is known that does not differ."""
    new = {name: what for name, what in differing.items() if name not in known}
    assert not new, f"{len(new)} differ: {dict(list(new.items())[:50])}"
    assert known.keys() <= differing.keys(), sorted(known.keys() - differing.keys())


def test_errors_are_those_of_opa() -> None:
    cases = list(rows(GOLDEN / "errors.jsonl.gz"))
    newer = {case["id"].partition("@")[0] for case in cases if "@" in case["id"]}
    differing = {}
    for case in cases:
        if case["id"] in newer:
            continue  # the newer OPA's answer counts
        got = refusal(
            case["modules"],
            v0=case.get("v0", False),
            strict=case.get("strict", False),
            # Only the older OPA was asked to read METADATA.
            metadata="@" not in case["id"],
        )
        want = wanted(case["errors"])
        if not agree(got, want):
            differing[case["id"]] = want, got
    check_differences(differing, reasons("compiler", "errors"))


def test_details_are_those_of_opa() -> None:
    """The types at hand and the types wanted; operands of built-ins have no names here."""
    differing = {}
    for case in rows(GOLDEN / "errors.jsonl.gz"):
        want = {location_of(e): nameless(e["details"]) for e in case["errors"] if "details" in e}
        if not want or case["errors"][0]["code"] != TYPE_ERROR:
            continue
        try:
            compiled(case["modules"], v0=case.get("v0", False), metadata="@" not in case["id"])
        except RegoError as error:
            for d in error.diagnostics:
                key = (d.message, d.span.row, d.span.col)
                data = json.loads(json.dumps(d.details.data)) if d.details else {}
                if key in want and any(data[k] != want[key][k] for k in data.keys() & KNOWN):
                    differing[case["id"]] = want[key], data
    assert differing.keys() == NEWER_RESULTS


NEWER_RESULTS = {"compile-0229"}
"""Calls of built-ins whose result has another type in OPA 1.20 than in the recorded versions."""
KNOWN = {"have", "want", "pos", "a", "b"}
"""Details that both versions of OPA give in one form."""


def location_of(error: dict[str, Any]) -> tuple[str, int, int]:
    where = error.get("location", {"row": 0, "col": 0})
    return error["message"], where["row"], where["col"]


def nameless(details: Any) -> Any:
    if isinstance(details, list):
        return [nameless(item) for item in details]
    if not isinstance(details, dict):
        return details
    return {
        key: nameless(value)
        for key, value in details.items()
        if key not in ("name", "description") or not isinstance(value, str)
    }


def shifted(got: set[Said], want: set[Said]) -> bool:
    """Whether only that differs in which OPA 1.18.2 contradicts itself.

    It reports an undefined reference to a rule where the last reference of the module stands, and
    sometimes with the last one's path: references share what they begin with. And which of
    several paths a recursion takes depends on the order of rules.
    """
    strange = ("undefined ref: data.", "rule data.", "function data.")

    def rest(errors: set[Said]) -> set[Said]:
        return {error for error in errors if not error[1].startswith(strange)}

    return bool(got) and rest(got) == rest(want) and len(rest(got)) < len(got)


def test_modules_and_queries_compile_or_fail_as_in_opa() -> None:
    """Those that OPA answers compile: `tests/conformance` compares the answers of all of them."""
    differing = {}
    known = reasons("compiler", "language")
    programs: dict[object, Program | set[Said]] = {}
    for case in rows(GOLDEN / "language.jsonl.gz"):
        errors = case.get("errors") or [case["error"]] if "error" in case else []
        if any(e.get("code") == "panic" for e in errors):
            continue
        if not errors and case["id"] not in known:
            continue
        modules, v0 = case.get("modules", {}), case.get("v0", False)
        key = (*modules.items(), v0)
        if key not in programs:
            programs[key] = attempt(modules, v0=v0)
        program = programs[key]
        got = program if isinstance(program, set) else query_refusal(case["query"], program, v0=v0)
        want = wanted([e for e in errors if e.get("code", "").startswith("rego_")])
        if isinstance(program, Program) and any("data path" in e["message"] for e in errors):
            got = said_of(tuple(check_base_data(program.modules, from_python(case["data"]))))
        if not agree(got, want) and not shifted(got, want):
            differing[case["id"]] = want, got
    check_differences(differing, known)


def test_queries_of_built_ins_compile_or_fail_as_in_opa() -> None:
    differing = {}
    empty = compiled({})
    for case in rows(GOLDEN / "builtins.jsonl.gz"):
        errors = case.get("errors") or [case["error"]] if "error" in case else []
        want = wanted([e for e in errors if e.get("code", "").startswith("rego_")])
        if not want or "modules" in case:
            continue
        got = query_refusal(case["query"], empty, v0=case.get("v0", False))
        if not agree(got, want):
            differing[case["id"]] = want, got
    check_differences(differing, reasons("compiler", "builtins"))


def test_at_most_ten_errors_are_reported() -> None:
    rules = "\n".join(f"p{n} := x{n}" for n in range(12))
    got = refusal({"p.rego": f"package p\n{rules}"})
    assert len(got) == 11
    assert (COMPILE_ERROR, "error limit reached", "", 0, 0) in got
