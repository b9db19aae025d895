"""Where Doorward answers otherwise than the recorded OPA, each rule with its reason.

A rule names the built-ins it is about and says, for one recorded row, whether it applies. The
golden tests hold rules to their word: a row that differs without a rule fails, and so does a rule
that no differing row needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["DIFFERENCES", "Difference", "Row"]

Row = dict[str, Any]


def _always(row: Row) -> bool:
    return True


@dataclass(frozen=True)
class Difference:
    """`groups` (a regular expression) answer otherwise in the rows that `applies` picks.

    With `message_only`, the recorded error and its code stay; only its words are Go's, not OPA's.
    """

    groups: str
    reason: str
    applies: Callable[[Row], bool] = _always
    message_only: bool = False

    def covers(self, row: Row, *, same_code: bool) -> bool:
        if self.message_only and not same_code:
            return False
        return bool(re.fullmatch(self.groups, row["group"])) and self.applies(row)


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "json.unmarshal",
        "what is wrong with a JSON text is said in the words of Python's reader, not of Go's",
        message_only=True,
    ),
)
