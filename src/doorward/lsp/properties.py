"""The line above a `never_` rule: whether it holds for any input, with the policies of the editor.

Data is not read by the server, so that a property whose rules need some is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from doorward.bundles.loader import Loaded
from doorward.rego import Registry, RegoError, to_json
from doorward.replay.deciding import Version
from doorward.search.proofs import PROPERTY, Verdict, lines_of, prove

__all__ = ["PROPERTY", "property_title"]

SECONDS: Final = 0.5
"""How long to search for a counterexample where there is no proof."""
_DEADLINE: Final = 0.5
_LONGEST: Final = 160


def property_title(texts: Mapping[str, str], registry: Registry, name: str) -> str:
    """The verdict on the property `data.…`, on one line."""
    loaded = Loaded(dict(texts), {})
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
    except RegoError:
        return "cannot say: the policies do not compile"
    return _title(verdicts[0]) if verdicts else "cannot say: there is no such rule"


def _title(verdict: Verdict) -> str:
    lines = [line.strip() for line in lines_of(verdict)]
    if verdict.finding is not None:
        text = f"{verdict.outcome}: input {to_json(verdict.finding.input)}"
    elif len(lines) > 1:
        text = f"{verdict.outcome}: {lines[1]}"
    else:
        text = f"{verdict.outcome}: proved for any input"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
