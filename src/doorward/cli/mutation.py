"""`doorward test --mutate`: which conditions of a policy no test holds.

Each mutant of the policies is tested. A mutant that passes all tests is checked against the
properties (`never_`) that hold for the original: a counterexample fails it too. For one that passes
those as well, a request is searched that tells it from the original: with that request as a test it
would have failed. Mutants are tried in an order of chance, until a time is over.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from random import Random
from typing import Any, Final

import click

from doorward.base.counting import counted
from doorward.base.records import mutable, record
from doorward.bundles.loader import Loaded
from doorward.cli.waiting import waiting
from doorward.rego import CompileError, Registry
from doorward.replay.deciding import Version
from doorward.search import Finding, entry_points, rego_test, search
from doorward.search.proofs import Verdict, digest_of, properties_of, prove
from doorward.testing import Suite, run
from doorward.testing.mutants import Mutant, mutants_of

__all__ = ["mutate"]

SEARCH: Final = 0.5
"""Seconds of CPU time to search for a request that a mutant decides differently."""
_DEADLINE: Final = 0.5
_REFUTED: Final = "passes all tests and refutes a property", "pass all tests and refute a property"


@record
class _Survivor:
    """A mutant that passes all tests. `finding` is a request that it decides differently from the
    original policies; None if the search found none.
    """

    mutant: Mutant
    finding: Finding | None


@mutable
class _Tested:
    """The number of mutants, and the outcomes of those tested before the time was over."""

    mutants: int = 0
    refused: int = 0
    """The number of mutants that do not compile."""
    tested: int = 0
    refuted: int = 0
    """The number of mutants that pass all tests, but for which a property has a counterexample."""
    survivors: list[_Survivor] = field(default_factory=list)

    @property
    def unnoticed(self) -> list[_Survivor]:
        """The surviving mutants that decide a known request differently, so that a test could
        notice them.
        """
        return [each for each in self.survivors if each.finding is not None]

    @property
    def alike(self) -> dict[str, int]:
        """The number of surviving mutants for which no request is known that they decide
        differently from the original, by the kind of mutation; the most frequent kind first.
        """
        alike = [each.mutant.kind for each in self.survivors if each.finding is None]
        return dict(Counter(alike).most_common())


def mutate(
    suite: Suite, loaded: Loaded, style: str, *, v0: bool, registry: Registry, seconds: float
) -> int:
    """Test mutants for `seconds`, print the report and return the exit code.

    2 if a surviving mutant decides a known request differently, else 0.
    """
    with waiting(f"testing mutants for at most {seconds:g} s"):
        tested = _test_mutants(suite, loaded, v0=v0, registry=registry, seconds=seconds)
    report = {"json": _as_json, "markdown": _markdown}.get(style, _text)
    click.echo(report(tested), nl=False)
    return 2 if tested.unnoticed else 0


def _test_mutants(
    suite: Suite, loaded: Loaded, *, v0: bool, registry: Registry, seconds: float
) -> _Tested:
    """Test mutants of the policies until `seconds` are over and return their outcomes; the order is
    shuffled, but the same each time. A mutant survives if it passes all tests and no property
    refutes it. `suite` has the tests and trees of the policies in `loaded`.
    """
    until = time.monotonic() + seconds
    mutants = list(mutants_of(suite.trees))
    Random(0).shuffle(mutants)
    tested = _Tested(len(mutants))
    original = Version.compile(loaded, v0=v0, registry=registry, deadline=_DEADLINE)
    properties = _Properties(loaded, original, v0=v0, registry=registry)
    for mutant in mutants:
        if time.monotonic() >= until:
            break
        changed = replace(loaded, modules={**loaded.modules, mutant.file: mutant.text})
        try:
            other = Suite(changed, v0=v0, registry=registry)
        except CompileError:
            tested.refused += 1  # nobody could activate it
            continue
        tested.tested += 1
        if any(each.outcome not in ("PASS", "SKIPPED") for each in run(other, timeout=_DEADLINE)):
            continue
        version = Version.compile(changed, v0=v0, registry=registry, deadline=_DEADLINE)
        if properties.are_refuted(changed, version):
            tested.refuted += 1
        else:
            tested.survivors.append(_Survivor(mutant, _told_apart(original, version)))
    tested.survivors.sort(key=lambda each: (each.mutant.file, each.mutant.row))
    return tested


class _Properties:
    """The `never_` rules that hold for the original policies, as far as a search shows. A mutant
    for which one of them has a counterexample counts as detected.
    """

    def __init__(self, loaded: Loaded, original: Version, *, v0: bool, registry: Registry) -> None:
        """Search for counterexamples in the original, and leave out the properties that have
        one.
        """
        self._v0, self._registry = v0, registry
        self._digests: dict[str, str] = {}
        engine = original.snapshot.engine
        for each in properties_of(engine):
            self._digests[each.name] = digest_of(engine, each.name)
        broken = [each.subject.name for each in self._prove(loaded, original) if each.is_broken]
        for name in broken:
            del self._digests[name]

    def are_refuted(self, loaded: Loaded, mutant: Version) -> bool:
        """Return True if a counterexample is found for a property that depends on the mutant's
        change.
        """
        engine = mutant.snapshot.engine
        changed = {
            name for name, digest in self._digests.items() if digest_of(engine, name) != digest
        }
        return any(each.is_broken for each in self._prove(loaded, mutant, changed))

    def _prove(
        self, loaded: Loaded, version: Version, names: Iterable[str] | None = None
    ) -> Iterator[Verdict]:
        """Yield the verdicts on the `never_` rules `names` for a version of the policies; None
        means all that hold for the original.

        The time limit counts the thread's CPU time, so that the report does not depend on other
        load.
        """
        chosen = frozenset(self._digests if names is None else names)
        return prove(
            loaded,
            version,
            seconds=SEARCH,
            v0=self._v0,
            registry=self._registry,
            is_chosen=lambda each: each.name in chosen,
            clock=time.thread_time,
        )


def _told_apart(original: Version, mutant: Version) -> Finding | None:
    """Return a request that mutant and original decide differently; None if the search finds none.

    In the finding `new` is the original.
    """
    result = search(
        mutant,
        original,
        entry_points([mutant, original]),
        seconds=SEARCH,
        most=1,
        is_enough=lambda each: bool(each.findings),
        clock=time.thread_time,  # the report is the same on a machine that is busy
    )
    return next(iter(result.findings), None)


def _summary(tested: _Tested) -> str:
    """Return one line that counts the mutants: tested, noticed, refuted and surviving."""
    noticed = tested.tested - len(tested.survivors) - tested.refuted
    same = len(tested.survivors) - len(tested.unnoticed)
    left = tested.mutants - tested.refused - tested.tested
    apart = (
        "all tests and decides a request differently",
        "all tests and decide a request differently",
    )
    parts = (
        f"{counted(tested.tested, 'mutant')} tested, {left:,} not: "
        f"{counted(noticed, 'fails a test', 'fail a test')}",
        *([counted(tested.refuted, *_REFUTED)] if tested.refuted else []),
        counted(len(tested.unnoticed), f"passes {apart[0]}", f"pass {apart[1]}"),
        counted(same, *[f"{each} all tests and may mean the same" for each in ("passes", "pass")]),
    )
    return ", ".join(parts)


def _line_of_alike(tested: _Tested) -> str:
    """Return the report's line on mutants that neither the tests nor a search could tell from the
    original: their share of all tested mutants, and their number by kind. "" if there are none.
    """
    if not tested.alike:
        return ""
    count = sum(tested.alike.values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in tested.alike.items())
    share = f"{count / tested.tested:.1%}"
    return f"Mutants that neither a test nor a search distinguished: {share} ({kinds})"


def _text(tested: _Tested) -> str:
    parts = [*_lines(tested.unnoticed), _summary(tested), *filter(None, [_line_of_alike(tested)])]
    return "\n".join(parts) + "\n"


def _lines(survivors: Sequence[_Survivor]) -> Iterator[str]:
    """Yield for each unnoticed mutant its location and a test that would fail for it."""
    for number, each in enumerate(survivors, start=1):
        assert each.finding is not None  # only those are given
        yield f"{each.mutant.file}:{each.mutant.row}: {each.mutant.change}: no test fails; add:"
        yield from [f"    {line}" for line in rego_test(each.finding, number).splitlines()]
        yield ""


def _markdown(tested: _Tested) -> str:
    """Return the report as Markdown, for the summary of a pull request."""
    lines = ["### Mutants", "", _summary(tested)]
    if tested.alike:
        lines += ["", _line_of_alike(tested)]
    for number, each in enumerate(tested.unnoticed, start=1):
        assert each.finding is not None  # only those are given
        where = f"{each.mutant.file}:{each.mutant.row}"
        lines += ["", f"**{where}** {each.mutant.change}: no test fails; add:", ""]
        lines += ["```rego", rego_test(each.finding, number), "```"]
    return "\n".join(lines) + "\n"


def _as_json(tested: _Tested) -> str:
    """Return the report as JSON; a surviving mutant without a known request has `test` null."""
    survivors: list[dict[str, Any]] = []
    for number, each in enumerate(tested.survivors, start=1):
        test = None if each.finding is None else rego_test(each.finding, number)
        mutant = each.mutant
        survivors.append(
            {
                "file": mutant.file,
                "row": mutant.row,
                "rule": mutant.rule,
                "change": mutant.change,
                "kind": mutant.kind,
                "test": test,
            }
        )
    counts = {
        "mutants": tested.mutants,
        "refused": tested.refused,
        "tested": tested.tested,
        "refuted": tested.refuted,
    }
    document = {**counts, "alike": tested.alike, "survivors": survivors}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
