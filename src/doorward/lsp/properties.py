"""The code lens above a `never_` rule: its verdict with the policies of the editor.

Data comes from the paths of `doorward lsp --data`. A property that reads other data is not proved,
and the lens says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from doorward.bundles.loader import Loaded
from doorward.rego import Registry, RegoError, Value, to_json
from doorward.rego.shared import Key
from doorward.replay.deciding import Version
from doorward.search import absence_test
from doorward.search.proofs import PROPERTY, Verdict, lines_of, prove

__all__ = ["PROPERTY", "Judgement", "judge"]

SECONDS: Final = 0.5
"""The seconds for which a counterexample is searched if there is no proof."""
_DEADLINE: Final = 0.5
"""The seconds that one evaluation of the search may take."""
_LONGEST: Final = 160
"""The most characters of a title; editors cut longer ones."""
_WITHOUT_DATA: Final = "; `doorward lsp --data PATH` reads data"


class Judgement(NamedTuple):
    """The verdict on one property, for an editor."""

    title: str
    """The verdict on one line, of at most 160 characters."""
    report: str
    """The verdict as `doorward prove` prints it."""
    test: str = ""
    """A test in Rego for the counterexample, which fails until the policies change; "" if there is
    no counterexample.
    """


def judge(
    texts: Mapping[str, str], data: dict[Key, Value], registry: Registry, name: str
) -> Judgement:
    """Try to prove the property (a `never_` rule) `name`, such as `data.a.never_b`, for these
    policies and this data, and return the verdict. Without a proof a counterexample is searched for
    `SECONDS`. Policies that do not compile, and an unknown name, give a judgement that says so;
    nothing is raised.
    """
    loaded = Loaded(dict(texts), data)
    try:
        version = Version.compile(loaded, registry=registry, deadline=_DEADLINE)
        verdicts = list(
            prove(
                loaded,
                version,
                seconds=SECONDS,
                v0=False,
                registry=registry,
                is_chosen=lambda each: each.name == name,
            )
        )
    except RegoError as error:
        return Judgement("cannot say: the policies do not compile", str(error))
    if not verdicts:
        reason = f"cannot say: the policies do not define `{name}`"
        return Judgement(reason, reason)
    verdict = verdicts[0]
    test = "" if verdict.finding is None else absence_test(verdict.finding)
    return Judgement(_title(verdict), "\n".join(lines_of(verdict)), test)


def _title(verdict: Verdict) -> str:
    """Return the verdict as one line of at most `_LONGEST` characters: its outcome, then the input
    of a counterexample, or else the next line of its report, or that it is proved.
    """
    lines = [line.strip() for line in lines_of(verdict)]
    if verdict.finding is not None:
        condition = f" if {verdict.missing_data} is missing" if verdict.missing_data else ""
        text = f"{verdict.outcome}{condition}: input {to_json(verdict.finding.input)}"
    elif len(lines) > 1:
        text = f"{verdict.outcome}: {lines[1]}{_WITHOUT_DATA if verdict.missing_data else ''}"
    else:
        text = f"{verdict.outcome}: proved for any input"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
