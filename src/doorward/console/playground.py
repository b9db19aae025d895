"""Policies that a user types: their errors, their results and the reasons of these.

They come from a browser and are bounded like those of any client: by a deadline, a number of items,
a size. They reach nothing outside: no network, no environment, no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any, Final

from doorward.base.collector import gc_paused
from doorward.bundles.loader import Loaded
from doorward.console.beginnings import begin
from doorward.console.play_requests import (
    DEADLINE,
    MAX_FILES,
    MAX_ITEMS,
    MAX_TEXT,
    PlaygroundError,
    file_of,
    flag,
    offset_of,
    options_of,
    registry,
    text_of,
    value_of,
)
from doorward.console.row_filters import filter_rows
from doorward.lsp import Policies
from doorward.rego import (
    UNDEFINED,
    Diagnostic,
    Environment,
    EvalError,
    RegoError,
    compile,
    explain,
    to_python,
)
from doorward.rego.shared import Span, within
from doorward.replay import ReplayError
from doorward.search.proofs import Property
from doorward.testing import Coverage, Result, Suite, run, why
from doorward.testing.properties import property_pages

__all__ = ["PlaygroundError", "answer"]

WITHIN: Final = 8.0
"""The seconds after which a request ends with an error; it compiles and evaluates more than once.
"""
PROVING: Final = 5.0
"""The seconds after which no further property is judged."""
MAX_RESULT: Final = 2 << 20
"""About the most characters of a result; a larger one is replaced by an error. Values that share
parts can be far larger as JSON than in memory.
"""
MAX_PRINTED: Final = 64 << 10
"""The characters after which further texts that policies print are dropped."""


def answer(name: str, request: Any) -> dict[str, Any]:
    """Run the action `name` of `ACTIONS` on the files of a request and return its result as JSON;
    errors of the policies are part of that. PlaygroundError for an invalid request, too many files
    or characters, or after `WITHIN` seconds.
    """
    action = ACTIONS.get(name)
    if action is None:
        raise PlaygroundError(f"unknown action of the playground: use one of {', '.join(ACTIONS)}")
    if not isinstance(request, dict):
        raise PlaygroundError("the request body must be a JSON object")
    files = request.get("files")
    if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
        raise PlaygroundError("`files` must be an object of texts by file name")
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_TEXT:
        raise PlaygroundError(
            f"`files` must be at most {MAX_FILES} files with {MAX_TEXT} characters in all"
        )
    try:
        with within(WITHIN):
            return action(files, request)
    except EvalError:
        raise PlaygroundError(f"compiling and evaluating takes longer than {WITHIN:g} s") from None


def _evaluate(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile the files, evaluate the query with input and data, and return `defined`, `result`,
    `bindings`, the explanation (`why`), covered rows (`covered`) and printed lines (`printed`).

    If compiling fails, return only `errors`; if evaluating fails or the result is too large,
    `errors` and `printed`.
    """
    query = text_of(request, "query")
    printed = _Printed()
    environment = Environment(allow_net=frozenset(), on_print=printed.add)
    options = replace(options_of(request), environment=environment, max_items=MAX_ITEMS)
    data, input = value_of(request, "data"), value_of(request, "input")
    try:
        with gc_paused():
            engine = compile(files, options).bind({} if data is UNDEFINED else data)
        engine.check_data()
        prepared = engine.prepare(query, deadline=DEADLINE)
        coverage = Coverage()
        rows = prepared.results(input)
        explanation = explain(engine, query, input, deadline=DEADLINE)
        traced = engine.policies.traced().bind(engine.data)
        evaluation = traced.prepare(query, deadline=DEADLINE).evaluation(input)
        evaluation.tracer = coverage
        values = traced.prepare(query, deadline=DEADLINE).rows_of(evaluation)
        result = [to_python(row[-1]) for row in values]
    except EvalError as error:
        return {"errors": [_problem(each) for each in error.diagnostics], "printed": printed.lines}
    except RegoError as error:
        return {"errors": [_problem(each) for each in error.diagnostics]}
    bindings = rows if prepared.variables else []
    if _is_large([result, bindings]):
        message = f"the result is larger than {MAX_RESULT:,} characters"
        return {
            "errors": [_problem(Diagnostic("eval_limit_error", message))],
            "printed": printed.lines,
        }
    return {
        "defined": bool(values),
        "result": result,
        "bindings": bindings,
        "why": explanation.text(),
        "covered": sorted([file, row] for file, row in coverage.hits),
        "printed": printed.lines,
    }


class _Printed:
    """The output of `print` in policies, cut at `MAX_PRINTED` characters."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._left = MAX_PRINTED

    def add(self, text: str, span: Span) -> None:
        """Add a printed text with its place; after `MAX_PRINTED` characters a last line says that
        more was printed.
        """
        if self._left <= 0:
            return
        line = f"{span}: {text[: self._left]}"
        self._left -= len(line)
        self.lines.append(line)
        if self._left <= 0:
            self.lines.append("further output is not shown")


def _is_large(document: Any) -> bool:
    """Return True if a document is, by an estimate, larger as JSON than `MAX_RESULT` characters."""
    size, left = 0, [document]
    while left and size <= MAX_RESULT:
        each = left.pop()
        if isinstance(each, dict):
            left += [*each, *each.values()]
        elif isinstance(each, list):
            left += each
        size += len(each) + 2 if isinstance(each, str) else 2
    return size > MAX_RESULT


def _python(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generated Python code of the files, or `errors`."""
    try:
        return {"python": compile(files, options_of(request)).emit()}
    except RegoError as error:
        return {"errors": [_problem(each) for each in error.diagnostics]}


def _test(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Run the first `MAX_FILES` tests in the files, each for at most `DEADLINE` / 4 seconds; return
    each outcome with its reason (`tests`), or `errors` if they do not compile.
    """
    data = value_of(request, "data")
    try:
        loaded = Loaded(dict(files), data if isinstance(data, dict) else {})
        suite = Suite(
            loaded,
            v0=flag(request, "v0"),
            registry=registry(),
            environment=Environment(allow_net=frozenset()),
        )
    except RegoError as error:
        return {"errors": [_problem(each) for each in error.diagnostics]}
    results = [
        {
            "name": str(each.test),
            "outcome": each.outcome,
            "ms": each.duration_ns / 1e6,
            "why": _reason(suite, each),
        }
        for each in run(suite, suite.tests[:MAX_FILES], timeout=DEADLINE / 4)
    ]
    return {"tests": results}


def _reason(suite: Suite, result: Result) -> str:
    """Return the reason why a test did not pass, cut to `MAX_PRINTED` characters; "" if it passed
    or was skipped.
    """
    if result.error is not None:
        return str(result.error)[:MAX_PRINTED]
    return "" if result.outcome in ("PASS", "SKIPPED") else why(suite, result)[:MAX_PRINTED]


def _prove(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Judge the `never_` rules of one file or, with `others`, of all other files, at most
    `MAX_FILES`: proved, or with an input that makes one true (`properties`). `error` says why some
    are missing, for example after `PROVING` seconds.
    """
    file, are_others, data = (
        file_of(files, request),
        flag(request, "others"),
        value_of(request, "data"),
    )

    def is_chosen(each: Property) -> bool:
        return (each.span.file != file) is are_others

    properties: list[dict[str, Any]] = []
    until = monotonic() + PROVING
    try:
        loaded = Loaded(dict(files), data if isinstance(data, dict) else {})
        pages = property_pages(
            loaded, v0=flag(request, "v0"), registry=registry(), is_chosen=is_chosen
        )
        for each in pages:
            if len(properties) >= MAX_FILES:
                many = f"more than {MAX_FILES} properties: use `doorward prove`"
                return {"properties": properties, "error": many}
            properties.append(each)
            if monotonic() >= until:
                late = f"other properties take longer than {PROVING:g} s: use `doorward prove`"
                return {"properties": properties, "error": late}
    except (RegoError, ReplayError) as error:
        return {"properties": properties, "error": str(error)[:MAX_PRINTED]}
    return {"properties": properties}


def _check(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return `diagnostics`: the errors in the files by file name, [] for a file without any."""
    policies = _policies(files)
    return {
        "diagnostics": {
            file: [_problem(each) for each in problems]
            for file, problems in policies.diagnostics().items()
        }
    }


def _format(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": _policies(files).formatted(file_of(files, request))}


def _hover(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": _policies(files).hover(file_of(files, request), offset_of(request))}


def _complete(files: Mapping[str, str], request: Mapping[str, Any]) -> dict[str, Any]:
    completions = _policies(files).completions(file_of(files, request), offset_of(request))
    return {"completions": [each._asdict() for each in completions[:500]]}


ACTIONS: Final[Mapping[str, Callable[[Mapping[str, str], Mapping[str, Any]], dict[str, Any]]]] = {
    "begin": begin,
    "check": _check,
    "complete": _complete,
    "evaluate": _evaluate,
    "filter": filter_rows,
    "format": _format,
    "hover": _hover,
    "prove": _prove,
    "python": _python,
    "test": _test,
}
"""The actions of the playground, by the last part of their path; each gets the files and the
request.
"""


def _policies(files: Mapping[str, str]) -> Policies:
    """Return the files as the editor's language service knows them."""
    policies = Policies(registry())
    for name, text in files.items():
        policies.put(name, text)
    return policies


def _problem(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return an error as JSON for the page: `message`, `hint`, `file`, `row`, and the offsets
    `start` and `end`.
    """
    span = diagnostic.span
    return {
        "message": diagnostic.text,
        "hint": diagnostic.hint,
        "file": span.file,
        "row": span.row,
        "start": span.start,
        "end": span.end,
    }
