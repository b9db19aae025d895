"""Where the parser differs from the recorded OPA, on purpose, and why. The tests are strict."""

from __future__ import annotations

from typing import Final

_NO_OPERATOR_RULES: Final = "OPA takes this for a rule that redefines an operator; we refuse it"
_NEWER_KEYWORDS: Final = "OPA 1.20 added `and` and `or` to the keywords that can be imported"

VERDICT: Final = {
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

_UNSTABLE: Final = "OPA's own text changes when it is formatted again; ours does not"
_STRAY_TAB: Final = "OPA indents the rule after a part that it left as it was"
_BESIDE: Final = "the comment stays beside the bracket that it stood beside"

FORMAT: Final = {
    "fmt-0030": _BESIDE,
    "fmt-0107": _UNSTABLE,
    "fmt-0115": _STRAY_TAB,
    "fmtm-0016": _UNSTABLE,
    "fmtm-0054": _STRAY_TAB,
    "fmtm-0081": _UNSTABLE,
    "fmtm-0123": _UNSTABLE,
    "fmtm-0125": _BESIDE,
    "fmtm-0242": _UNSTABLE,
    "fmtm-0244": _BESIDE,
    "fmtm-0250": _UNSTABLE,
    "fmtm-0391": _UNSTABLE,
    "fmtm-0394": _UNSTABLE,
    "ok-0020": "OPA drops all but the last of equal keys; we keep what was written",
}
"""The formatted text is another."""
