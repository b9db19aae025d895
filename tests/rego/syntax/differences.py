"""Where the parser differs from the recorded OPA, on purpose, and why. The tests are strict."""

from __future__ import annotations

from typing import Final

_NO_OPERATOR_RULES: Final = "OPA takes this for a rule that redefines an operator; we refuse it"
_NEWER_KEYWORDS: Final = "OPA 1.20 added `and` and `or` to the keywords that can be imported"

VERDICT: Final = {
    "mut-0013": "a newer OPA reads METADATA only where a line begins with it",
    "parse-0544": _NO_OPERATOR_RULES,
    "parse-0552@1.18.2": _NO_OPERATOR_RULES,
    "new-0055": "1.9.0 has no template strings and 1.18.2 panics on them as keys; they are values",
    "new-0099@1.18.2": _NEWER_KEYWORDS,
}
"""Accepted there and refused here, or the other way round."""

FIRST: Final = {
    "parse-0066@1.18.2": _NEWER_KEYWORDS,
}
"""The first error stands elsewhere or says something else."""

ONLY_FIRST: Final[dict[str, str]] = {}
"""The first error is the same, those after it are not."""
