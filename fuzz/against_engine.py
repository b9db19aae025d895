"""A program put to Doorward in every way and to OPA's newest engine: where their answers differ.

Asked are the engine (the fast code, and that for strict errors), the server's API, and `doorward
test` with tests over the rules. OPA's engine has strict errors always: where it says one of
a built-in, only the strict answer is compared. It reads v1 only: of a program in v0 it gets what
`doorward fmt` makes of it, so that both the meaning of v0 and that of the formatted text are tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from tests.rest.asgi import ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego import REGISTRY, UNDEFINED, CompileError, Engine, EvalError, RegoError
from doorward.rego.queries import Query
from doorward.rego.shared import Source
from doorward.rego.tools import format_source
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics
from doorward.testing import Suite, run
from fuzz.compare import Difference, RefusedError, contradicts, values_of
from fuzz.opa import as_json, canonical
from fuzz.opa_engine import OpaEngine
from fuzz.pools import MISSING, Program

__all__ = ["compare", "with_tests"]

Outcome = tuple[str, str]
DEADLINE: Final = 5.0
REPEATS: Final = 6
"""How often OPA is asked again where it differs: what it says may change from run to run."""
TESTS: Final = "fuzz_test"
_BUILTIN_ERRORS: Final = frozenset({"eval_builtin_error", "eval_type_error"})
_DEPRECATED: Final = frozenset(each.name for each in REGISTRY if each.deprecated)
_OWN_LIMITS: Final = frozenset({"eval_cancel_error", "eval_internal_error", "eval_limit_error"})


def with_tests(program: Program) -> Program:
    """`program` with a module of tests, which say whether documents are what some input makes."""
    lines = [f"package {TESTS}"]
    queries = [query for query in program.queries if query.startswith("data")]
    for number, query in enumerate(queries):
        for other, given in enumerate(program.inputs):
            put = "" if given is MISSING else f" with input as {json.dumps(given)}"
            lines.append(f"test_{number}_{other} if {query}{put}")
            lines.append(f"test_{number}_{other}_not if not {query}{put}")
    if program.v0 or len(lines) == 1:
        return program
    modules = {**program.modules, "fuzz_test.rego": "\n\n".join(lines) + "\n"}
    return replace(program, modules=modules)


def compare(program: Program, opa: OpaEngine) -> Difference | None:
    """The first difference; RefusedError if nothing can be compared."""
    difference = _compared(program, opa)
    if difference is not None and any(_compared(program, opa) is None for _ in range(REPEATS)):
        raise RefusedError("the peer contradicts itself")
    return difference


def _compared(program: Program, opa: OpaEngine) -> Difference | None:
    theirs = _opa(program, opa, "x := 1", MISSING)
    ours = _engine(program)
    code = theirs[1] if theirs[0] == "error" else ""
    own = ours[1] if isinstance(ours, tuple) else ""
    if own.startswith("crash"):
        return Difference(own, own, "no crash")
    if code == "stopped":
        raise RefusedError("the peer stops")
    if own and code:
        raise RefusedError(own)  # which of several errors comes first is not compared
    if own != code:
        said = _message(program, opa) if code else ""
        for reason, is_it in _NOT_COMPARED.items():
            if not own and is_it(program, said):
                raise RefusedError(reason)
        kind = f"compiling: {own or 'accepted'} for {code or 'accepted'}"
        return Difference(kind, own, f"{code} {said}")
    if isinstance(ours, tuple):
        raise RefusedError(own)
    for compare_by in (_in_process, _by_server, _by_tests):
        difference = next(compare_by(program, ours, opa), None)
        if difference is not None:
            if contradicts(program) or _ends_walk(program, difference):
                raise RefusedError("a program to which the peer contradicts itself")
            return difference
    return None


def _ends_walk(program: Program, difference: Difference) -> bool:
    """Whether OPA may miss a conflict: a rule that needs one result ends `walk` at the first."""
    conflict = difference.got == "eval_conflict_error"
    return conflict and any("walk(" in text for text in program.modules.values())


def _in_v1(program: Program) -> dict[str, str]:
    """The modules of a program in v1; RefusedError if v1 cannot say what one in v0 does."""
    if not program.v0:
        return dict(program.modules)
    try:
        return {
            name: format_source(Source(name, text), v0=True, target="v1", removed=_DEPRECATED)
            for name, text in program.modules.items()
        }
    except RegoError as error:
        raise RefusedError(f"v0: {error.diagnostics[0].code}") from None


def _message(program: Program, opa: OpaEngine) -> str:
    """What OPA says to a program that it refuses."""
    question = {"modules": _in_v1(program), "data": program.data, "query": "x := 1"}
    answer = opa.ask(question) or {}
    return str(answer.get("error", {}).get("message", ""))


def _is_about_open_keys(program: Program, said: str) -> bool:
    """Whether an error is that no open key of a document has a type: Doorward counts the keys that
    are written beside them."""
    return "undefined ref" in said and "want (type)" in said


def _is_about_replaced_names(program: Program, said: str) -> bool:
    """Whether an error is that the name of a built-in is a document, as OPA reads it in `with`
    behind `every`, `and` and `or`."""
    return "used as reference, not called" in said


_NOT_COMPARED: Final[dict[str, Callable[[Program, str], bool]]] = {
    "a built-in replaced by a value behind every, and, or": _is_about_replaced_names,
    "a type of keys that are written beside open ones": _is_about_open_keys,
}
"""Programs that OPA's type checker refuses and ours takes: no policy decides otherwise by it."""


def _engine(program: Program) -> Engine | Outcome:
    try:
        engine = Engine(program.modules, program.data, v0=program.v0)
        engine.check_data()
    except RegoError as error:
        return "error", error.diagnostics[0].code
    except Exception as error:
        return "error", f"crash {type(error).__name__}"
    return engine


def _opa(program: Program, opa: OpaEngine, query: str, given: Any) -> Outcome:
    question = {"modules": _in_v1(program), "data": program.data, "query": query}
    if given is not MISSING:
        question["input"] = given
    answer = opa.ask(question)
    if answer is None:
        return "error", "stopped"
    if "error" in answer:
        return "error", str(answer["error"]["code"])
    rows = answer["result"] or []
    listed = [row.get("bindings") or {"": row["expressions"][-1]["value"]} for row in rows]
    return _value(listed)


def _value(rows: list[Any]) -> Outcome:
    """Each row once, whatever their order: OPA walks a key twice that data and rules both have."""
    return "value", "; ".join(sorted({canonical(row) for row in rows}))


def _asked(engine: Engine, query: str, given: Any, *, strict: bool) -> Outcome:
    try:
        prepared: Query = engine.prepare(query, strict_builtin_errors=strict, deadline=DEADLINE)
        rows: list[Any]
        if prepared.variables:
            rows = prepared.results(given)
            return _value([{name: as_json(v) for name, v in row.items()} for row in rows])
        return _value([{"": as_json(value)} for value in values_of(prepared, given)])
    except EvalError as error:
        return "error", error.code
    except CompileError as error:
        return "error", error.diagnostics[0].code
    except Exception as error:
        return "error", f"crash {type(error).__name__}"


def _in_process(program: Program, engine: Engine, opa: OpaEngine) -> Iterator[Difference]:
    for query in program.queries:
        for number, value in enumerate(program.inputs):
            given = UNDEFINED if value is MISSING else value
            want = _opa(program, opa, query, value)
            voices = {"strict": _asked(engine, query, given, strict=True)}
            if want[1] not in _BUILTIN_ERRORS:
                voices["plain"] = _asked(engine, query, given, strict=False)
            for voice, got in voices.items():
                if got[1] in _BUILTIN_ERRORS and want[0] == "value":
                    continue  # of a member of a set that OPA does not look at: the plain one counts
                if not _same(got, want):
                    kind = f"{voice}: {got[0]} for {want[0]}"
                    kind += f" {got[1]}, {want[1]}" if "error" in (got[0], want[0]) else ""
                    yield Difference(kind[:90], got[1], want[1], query, number)


def _same(got: Outcome, want: Outcome) -> bool:
    if got[1] in _OWN_LIMITS or want[1] in {*_OWN_LIMITS, "stopped"}:
        return True
    # Of several errors either may come first.
    evaluated = got[1].startswith("eval_") and want[1].startswith("eval_")
    return got == want or (got[0] == want[0] == "error" and evaluated)


def _by_server(program: Program, engine: Engine, opa: OpaEngine) -> Iterator[Difference]:
    paths = {query: query.replace(".", "/") for query in program.queries if _is_path(query)}
    if not paths or program.v0:
        return
    pdp = PDP(build(Loaded(dict(program.modules), program.data)))
    try:
        api = Api(pdp, Config(), Health(), Metrics("1"))
        for query, path in paths.items():
            for number, value in enumerate(program.inputs):
                want = _opa(program, opa, query, value)
                if want[1] in _BUILTIN_ERRORS:
                    continue
                body = {} if value is MISSING else {"input": value}
                answer = ask(api, "POST", f"/v1/{path}", json.dumps(body).encode())
                read = json.loads(answer.body, parse_int=_number, parse_float=_number)
                if answer.status == 200:
                    got = _value([{"": read["result"]}] if "result" in read else [])
                else:
                    errors = read.get("errors") or [read]
                    got = "error", str(errors[0].get("code"))
                if not _same(got, want) and "false" not in (got[1], want[1]):
                    kind = f"server: {got[0]} for {want[0]}"
                    yield Difference(kind, got[1], want[1], query, number)
    finally:
        pdp.close()


def _number(text: str) -> dict[str, str]:
    return {"number": text}


def _is_path(query: str) -> bool:
    return all(part.isidentifier() for part in query.split(".")) and query.startswith("data.")


def _by_tests(program: Program, engine: Engine, opa: OpaEngine) -> Iterator[Difference]:
    if "fuzz_test.rego" not in program.modules:
        return
    try:
        suite = Suite(Loaded(dict(program.modules), program.data))
    except CompileError:
        # Tests read METADATA, which the library does not.
        raise RefusedError("METADATA that cannot be read") from None
    if any("#" in test.name for test in suite.tests):
        raise RefusedError("tests of one name, which `opa test` tells apart")
    tests = [test for test in suite.tests if test.path[0] == TESTS]
    for result in run(suite, tests, timeout=DEADLINE):
        query = f"data.{TESTS}.{result.test.name}"
        want = _opa(program, opa, query, MISSING)
        if want[1] in _BUILTIN_ERRORS:
            continue
        passed = _value([{"": True}])
        got = "error", result.error.code if result.error is not None else ""
        if result.error is None:
            got = passed if result.passed else ("value", "")
        if not _same(got, want):
            yield Difference(f"test: {got[0]} for {want[0]}", got[1], want[1], query, 0)
