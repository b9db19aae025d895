"""Properties beside tests: `never_` rules, with a search that is quick enough for every run.

A counterexample is a failed test. A property that is neither proved nor refuted is not a failure,
and is reported as unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from doorward.base.counting import counted
from doorward.bundles.loader import Loaded
from doorward.rego import REGISTRY, Registry
from doorward.rego.golang import marshal, object_text
from doorward.rego.tools import path_text
from doorward.replay.deciding import Version
from doorward.search.disclosure import Disclosure
from doorward.search.proofs import (
    NONE_EXISTS,
    Property,
    Verdict,
    lines_of,
    prove,
)
from doorward.testing.reports import XmlSuite
from doorward.testing.xml_text import attribute, text

__all__ = [
    "check_properties",
    "property_documents",
    "property_lines",
    "property_pages",
    "property_suites",
]

SECONDS: Final = 0.5
"""The seconds for which a counterexample to a property without a proof is searched."""
_DEADLINE: Final = 0.5
"""The seconds that one evaluation of the search may take."""
MISSED: Final = 8
"""The most conditions that never held on a page; the others are counted."""
LONGEST: Final = 200
"""The characters to which the text of such a condition is cut."""


def check_properties(
    loaded: Loaded,
    *,
    v0: bool = False,
    registry: Registry = REGISTRY,
    names: Iterable[str] | None = None,
) -> list[Verdict]:
    """Return the verdicts on the properties of policies, or on those in `names` (`data.…`), of
    which unknown ones are ignored. CompileError if the policies do not compile. Blocks while it
    searches for proofs, and for up to `SECONDS` for each property without one.
    """
    version = Version.compile(loaded, v0=v0, registry=registry, deadline=_DEADLINE)
    chosen = None if names is None else frozenset(names)

    def is_chosen(each: Property) -> bool:
        return chosen is None or each.name in chosen

    return list(
        prove(loaded, version, seconds=SECONDS, v0=v0, registry=registry, is_chosen=is_chosen)
    )


def property_pages(
    loaded: Loaded,
    *,
    v0: bool = False,
    registry: Registry = REGISTRY,
    is_chosen: Callable[[Property], bool] = lambda _: True,
) -> Iterator[dict[str, Any]]:
    """Yield the verdicts, one after the other, as JSON for the pages of a server; values of inputs
    and data are masked by `Disclosure`. CompileError if the policies do not compile. Without a
    proof, a counterexample is searched for `SECONDS`.
    """
    version = Version.compile(loaded, v0=v0, registry=registry, deadline=_DEADLINE)
    disclosure = Disclosure(version.snapshot.engine)
    for each in prove(
        loaded, version, seconds=SECONDS, v0=v0, registry=registry, is_chosen=is_chosen
    ):
        yield _page(each, disclosure)


def _page(verdict: Verdict, disclosure: Disclosure) -> dict[str, Any]:
    """Return the verdict on one property as JSON for a page: the property's name and position, the
    outcome, the reasons as `text` ("" if the outcome is proved or a counterexample), and the input
    of a counterexample or None.
    """
    finding = verdict.finding
    is_known = verdict.is_broken or verdict.outcome == NONE_EXISTS
    return {
        "name": verdict.subject.name,
        "file": verdict.subject.span.file,
        "row": verdict.subject.span.row,
        "outcome": verdict.outcome,
        "text": "" if is_known else "\n".join(map(disclosure.text, _reasons(verdict))),
        "input": None if finding is None else disclosure.value(finding.input),
    }


def _reasons(verdict: Verdict) -> Iterator[str]:
    """Yield lines that say why a verdict is unknown, for readers who do not know partial
    evaluation: the missing proof, the number of requests tried, and up to `MISSED` conditions of
    the property's file that never held; the others are counted.
    """
    if verdict.reason:
        yield f"no proof: {verdict.reason}"
    if verdict.left:
        conjunctions = counted(verdict.conjunctions, "conjunction")
        yield f"not refuted: {verdict.open:,} of {conjunctions}"
    if verdict.candidates:
        yield f"{counted(verdict.candidates, 'request')} tried"
    missed = [each for each in verdict.reach if not each.holds]
    near = [each for each in missed if each.where.startswith(f"{verdict.subject.span.file}:")]
    for each in near[:MISSED]:
        yield f"never held: {each.where} `{' '.join(each.text.split())[:LONGEST]}`"
    if len(missed) > len(near[:MISSED]):
        yield f"never held: {counted(len(missed) - len(near[:MISSED]), 'condition')} of other rules"


def property_lines(verdicts: Sequence[Verdict], *, verbose: bool) -> str:
    """Format the verdicts for people: each property that is not proved (with `verbose` all), then
    counts by outcome. "" without verdicts.
    """
    if not verdicts:
        return ""
    displayed = [each for each in verdicts if verbose or each.outcome != NONE_EXISTS]
    lines = [line for each in displayed for line in lines_of(each)]
    counts = Counter(each.outcome for each in verdicts)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return "\n".join([*lines, f"PROPERTIES: {summary}"]) + "\n"


def property_documents(verdicts: Iterable[Verdict]) -> list[str]:
    """Return the verdicts as texts of JSON objects like those of tests; `property` is the outcome,
    and `fail` is set for a counterexample.
    """
    documents = []
    for each in verdicts:
        span = each.subject.span
        location = {"file": marshal(span.file), "row": str(span.row), "col": str(span.col)}
        fields = {
            "location": object_text(location),
            "package": marshal(path_text(each.subject.path[:-1])),
            "name": marshal(each.subject.path[-1]),
            "property": marshal(each.outcome),
            "duration": str(round(each.seconds * 1e9)),
        }
        if each.is_broken:
            fields["fail"] = "true"
        documents.append(object_text(fields))
    return documents


def property_suites(verdicts: Sequence[Verdict]) -> list[XmlSuite]:
    """Return the verdicts as one JUnit test suite, in which a counterexample is a failure and any
    other outcome but a proof is skipped; [] without verdicts.
    """
    if not verdicts:
        return []
    suite = XmlSuite(
        "properties",
        tests=len(verdicts),
        failures=sum(each.is_broken for each in verdicts),
        errors=0,
        skipped=sum(not each.is_broken and each.outcome != NONE_EXISTS for each in verdicts),
        seconds=sum(each.seconds for each in verdicts),
        lines=[line for each in verdicts for line in _testcase(each)],
    )
    return [suite]


def _testcase(verdict: Verdict) -> Iterator[str]:
    """Yield the XML lines of the JUnit test case for one verdict."""
    span = verdict.subject.span
    yield (
        f"    <testcase classname={attribute(path_text(verdict.subject.path[:-1]))} "
        f"name={attribute(verdict.subject.path[-1])} file={attribute(span.file)} "
        f'line="{span.row}" time="{verdict.seconds:.6f}">'
    )
    details = "\n".join(lines_of(verdict))
    if verdict.is_broken:
        yield f'      <failure message="counterexample">{text(details)}</failure>'
    elif verdict.outcome != NONE_EXISTS:
        yield f"      <skipped message={attribute(verdict.outcome)}/>"
        yield f"      <system-out>{text(details)}</system-out>"
    yield "    </testcase>"
