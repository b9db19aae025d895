"""Results as text: for people as `opa test` prints them, as JSON, and as JUnit XML for CI."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from doorward.rego import EvalError
from doorward.rego.golang import indent, marshal, object_text
from doorward.rego.shared import Span, render
from doorward.testing.cases import Case
from doorward.testing.runner import Result
from doorward.testing.xml_text import attribute, text

__all__ = [
    "XmlSuite",
    "failures",
    "json_report",
    "junit_report",
    "pretty",
    "result_line",
    "unmet",
]

RULE: Final = "-" * 80
_OUTCOMES: Final = ("PASS", "FAIL", "SKIPPED", "ERROR")

Why = Callable[[Result], str]
"""A function that returns the reason why a test failed, as text."""


def pretty(results: Sequence[Result], *, verbose: bool = False, why: Why | None = None) -> str:
    """Format the results for people, as `opa test` prints them: those that failed, were skipped or
    had an error (with `verbose` all) by file, then counts. `why` explains each failure first; None:
    no explanations. "" without results.
    """
    if not results:
        return ""
    lines = _explain_failures(results, why)
    displayed = [result for result in results if verbose or result.outcome != "PASS"]
    for number, (_, group) in enumerate(groupby(displayed, key=lambda r: r.test.span.file)):
        members = list(group)
        lines += [""] * bool(number) + [f"{members[0].test.span.file}:"]
        for result in members:
            lines += _summary(result, verbose=verbose)
    if displayed:
        lines.append(RULE)
    counts = Counter(outcome for result in results for outcome in result.outcomes)
    total = counts.total()
    lines += [f"{each}: {counts[each]}/{total}" for each in _OUTCOMES if counts[each]]
    return "\n".join(lines) + "\n"


def unmet(results: Iterable[Result], why: Why) -> str:
    """Return the text that is printed in place of a coverage report if a test did not pass:
    explanations of the failures, then each test that failed, was skipped or had an error, with its
    cases.
    """
    bad = [result for result in results if result.outcome != "PASS"]
    lines = _explain_failures(bad, why)
    for result in bad:
        lines.append(result_line(result))
        if result.error is not None:
            lines.append(f"  {result.error}")
        if result.outcome != "SKIPPED":
            lines += [*_case_lines(result.cases, 0, verbose=True), ""]
    return "\n".join(lines)


def _explain_failures(results: Sequence[Result], why: Why | None) -> list[str]:
    """Return the lines that explain the failures, with headings; [] without failures or without
    `why`.
    """
    if why is None or all(result.outcome != "FAIL" for result in results):
        return []
    return ["FAILURES", RULE, *failures(results, why), "SUMMARY", RULE]


def result_line(result: Result) -> str:
    """Return a line such as `data.authz_test.test_allow: PASS (1.2ms)`."""
    if result.outcome == "SKIPPED":
        return f"{result.test}: SKIPPED"
    return f"{result.test}: {result.outcome} ({_duration(result.duration_ns)})"


def failures(results: Iterable[Result], why: Why) -> Iterator[str]:
    """Yield the lines for each failed test with its explanation; errors are not explained."""
    for result in results:
        if result.outcome == "FAIL":
            yield result_line(result)
            yield ""
            yield from [f"  {line}" for line in why(result).splitlines()]
            yield ""


def _summary(result: Result, *, verbose: bool) -> Iterator[str]:
    """Yield the lines for one result: outcome and time, error, cases (with `verbose` also those
    that passed) and output.
    """
    yield result_line(result)
    if result.error is not None:
        yield f"  {result.error}"
    yield from _case_lines(result.cases, 1, verbose=verbose)
    if result.output:
        yield ""
        yield from [f"  {line}" for line in result.output.splitlines()]
        yield ""


def _case_lines(cases: Mapping[str, Case], depth: int, *, verbose: bool) -> Iterator[str]:
    """Yield a line per case, indented by `depth` levels; without `verbose` only those that
    failed.
    """
    for case in cases.values():
        if verbose or not case.passed:
            yield f"{'  ' * depth}{case.name}: {'PASS' if case.passed else 'FAIL'}"
            yield from _case_lines(case.cases, depth + 1, verbose=verbose)


def _duration(nanoseconds: int) -> str:
    """Format nanoseconds with three significant digits, or whole seconds from 1000 s on, and a unit
    up to seconds: 1_234_567 -> `1.23ms`.
    """
    digits = len(str(nanoseconds))
    rounded = round(nanoseconds, 3 - digits) if digits <= 12 else round(nanoseconds, -9)
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if rounded >= size:
            return f"{rounded / size:.12g}{unit}"
    return f"{rounded}ns" if rounded else "0s"


# JSON


def json_report(results: Iterable[Result], more: Iterable[str] = ()) -> str:
    """Return the results as the indented JSON list of `opa test --format json`, `[]` if there are
    none; `more` are the texts of further JSON objects at its end.
    """
    documents = [*map(_document, results), *more]
    return indent("[" + ",".join(documents) + "]", "", "  ")


def _document(result: Result) -> str:
    """Return one result as a JSON object, with OPA's fields; a test that passed has none for its
    outcome.
    """
    fields = {
        "location": _location(result.test.span),
        "package": marshal(result.test.package),
        "name": marshal(result.test.name),
    }
    if result.outcome == "FAIL":
        fields["fail"] = "true"
    elif result.outcome == "SKIPPED":
        fields["skip"] = "true"
    elif result.error is not None:
        fields["error"] = _error(result.error)
    fields["duration"] = str(result.duration_ns)
    if result.output:
        fields["output"] = marshal(base64.b64encode(result.output.encode()).decode())
    if result.cases:
        fields["sub_results"] = _cases(result.cases)
    return object_text(fields)


def _location(span: Span) -> str:
    return object_text({"file": marshal(span.file), "row": str(span.row), "col": str(span.col)})


def _error(error: EvalError) -> str:
    """Return an error as a JSON object; without `location` if that is unknown."""
    fields = {"code": marshal(error.code), "message": marshal(error.message)}
    if error.span.row:
        fields["location"] = _location(error.span)
    return object_text(fields)


def _cases(cases: Mapping[str, Case]) -> str:
    """Return the cases of a test as a JSON object by name."""
    documents = {}
    for name, case in cases.items():
        fields = {"name": marshal(case.name)} if case.name else {}
        if not case.passed:
            fields["fail"] = "true"
        if case.cases:
            fields["sub_results"] = _cases(case.cases)
        documents[name] = object_text(fields)
    return object_text(documents)


# JUnit XML


class XmlSuite(NamedTuple):
    """A test suite of a JUnit report: its counts, and the lines of its test cases."""

    name: str
    tests: int
    failures: int
    errors: int
    skipped: int
    seconds: float
    lines: list[str]


def junit_report(results: Sequence[Result], why: Why, more: Iterable[XmlSuite] = ()) -> str:
    """Return JUnit XML for CI systems: a suite per file, a test case per test, and the suites in
    `more`; totals include all. `why` explains each failure.
    """
    suites = [*_suites(results, why), *more]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {_counts(suites)}>"]
    for suite in suites:
        lines.append(f"  <testsuite name={attribute(suite.name)} {_counts([suite])}>")
        lines += [*suite.lines, "  </testsuite>"]
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suites(results: Sequence[Result], why: Why) -> Iterator[XmlSuite]:
    """Yield a JUnit suite for the results of each file; the results must be in the order of
    files.
    """
    for file, group in groupby(results, key=lambda r: r.test.span.file):
        members = list(group)
        outcomes = Counter(result.outcome for result in members)
        yield XmlSuite(
            file,
            tests=len(members),
            failures=outcomes["FAIL"],
            errors=outcomes["ERROR"],
            skipped=outcomes["SKIPPED"],
            seconds=sum(result.duration_ns for result in members) / 1e9,
            lines=[line for result in members for line in _testcase(result, why)],
        )


def _counts(suites: Sequence[XmlSuite]) -> str:
    """Return the XML attributes with the totals of several suites: counts, and the time in
    seconds.
    """

    def total(name: str) -> int:
        return sum(getattr(suite, name) for suite in suites)

    seconds = sum(suite.seconds for suite in suites)
    counts = [f'{name}="{total(name)}"' for name in ("tests", "failures", "errors", "skipped")]
    return " ".join([*counts, f'time="{seconds:.6f}"'])


def _testcase(result: Result, why: Why) -> Iterator[str]:
    """Yield the XML lines of the JUnit test case for one result; `why` explains a failure, and is
    called only for one.
    """
    test = result.test
    yield (
        f"    <testcase classname={attribute(test.package)} name={attribute(test.name)} "
        f"file={attribute(test.span.file)} line={attribute(str(test.span.row))} "
        f'time="{result.duration_ns / 1e9:.6f}">'
    )
    if result.outcome == "SKIPPED":
        yield '      <skipped message="todo"/>'
    elif result.error is not None:
        details = render(result.error.diagnostics[0])
        yield f"      <error message={attribute(str(result.error))}>{text(details)}</error>"
    elif not result.passed:
        failed = [name for name, case in result.cases.items() if not case.passed]
        message = f"not true for {', '.join(failed)}" if failed else "not true"
        yield f"      <failure message={attribute(message)}>{text(why(result))}</failure>"
    if result.output:
        yield f"      <system-out>{text(result.output)}</system-out>"
    yield "    </testcase>"
