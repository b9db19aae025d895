"""The lists of deliberate differences from OPA: one TOML file for each group of recorded sets.

OPA's recorded answer wins. A row may differ only for one of `KINDS`; the tests that read a list
fail for a difference that is not listed and for a listed one that no row needs any more.
`scripts/differences_page.py` writes docs/differences.md from the same files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

__all__ = ["FOLDER", "KINDS", "Difference", "load", "pin", "reasons"]

FOLDER: Final = Path(__file__).parent

KINDS: Final = {
    "panics": "OPA panics",
    "hangs": "OPA does not return",
    "random": "OPA's answer changes from run to run",
    "contradicts": "OPA contradicts itself, or its answer depends on names that it generates",
    "digits": "OPA loses digits of an integer",
    "unbounded": "OPA is unbounded where Doorward has a limit",
    "hole": "OPA's answer opens a hole",
    "newer": "a newer OPA than the recorded one answers as Doorward does",
    "words": "the same error with the same code, in other words than those of Go's libraries",
    "addition": "Doorward has something more",
    "open": "not allowed: Doorward is not equal yet",
}

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Rows that may differ: `ids`, or those of `groups` whose `text` and `code` match.

    `groups` and `text` are regular expressions; `text` is searched in the query, the modules and
    the recorded result, `code` is the recorded error's. `fault` limits how a row may differ.
    `pinned` is, by recorded set, `pin` of the rows that differ for this reason: a pattern excuses
    no answer but those that were looked at.
    """

    reason: str
    kind: str
    groups: str = ".*"
    ids: frozenset[str] = frozenset()
    text: str = ""
    code: str = ""
    fault: str = ""
    pinned: Mapping[str, str] = field(default_factory=dict)

    def may_concern(self, row: Row) -> bool:
        if self.ids:
            return row["id"] in self.ids
        return (
            re.fullmatch(self.groups, row["group"]) is not None
            and self.code in ("", row.get("error", {}).get("code"))
            and re.search(self.text, _text(row)) is not None
        )

    def covers(self, row: Row, fault: str) -> bool:
        return self.may_concern(row) and re.search(self.fault, fault, re.DOTALL) is not None


def _text(row: Row) -> str:
    return "\n".join((row["query"], *row.get("modules", {}).values(), str(row.get("result"))))


def pin(differing: Iterable[tuple[str, str]]) -> str:
    """How many rows differ, and a digest of their ids and of what is answered instead.

    The texts of errors are not in it: libraries write a part of them.
    """
    lines = sorted({f"{row} {_without_text(fault)}" for row, fault in differing})
    return f"{len(lines)} {sha256(chr(10).join(lines).encode()).hexdigest()[:12]}"


def _without_text(fault: str) -> str:
    return fault if fault.startswith(("other result", "no error")) else fault.partition(":")[0]


def load(name: str) -> tuple[Difference, ...]:
    """The list in the file `name`.toml of this folder."""
    entries = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))["difference"]
    return tuple(
        Difference(**(entry | {"ids": frozenset(entry.get("ids", ()))})) for entry in entries
    )


def reasons(name: str, part: str) -> dict[str, str]:
    """Why each row of a part of the list in the file `name`.toml may differ."""
    entries = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))["difference"]
    return {row: e["reason"] for e in entries if e["part"] == part for row in e["ids"]}
