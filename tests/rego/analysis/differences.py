"""Where what the compiler says differs from the recorded OPA, on purpose, and why."""

from __future__ import annotations

from typing import Final

_NO_OPERATOR_RULES: Final = "OPA takes this for a rule that redefines an operator; we refuse it"
_OLDER: Final = "1.9.0's words or place; 1.18.2 speaks of the same thing as we do"
_FOLLOWS: Final = "follows from the other error, which is the one to mend"
_HEAD: Final = "we name the term that was written, OPA the variable it made of it"

ERRORS: Final = {
    "parse-0544": _NO_OPERATOR_RULES,
    "parse-0552@1.18.2": _NO_OPERATOR_RULES,
    "compile-0006s": _OLDER,
    "compile-0066s": _OLDER,
    "compile-0114s": "OPA takes the operator of an assignment for a parameter",
    "compile-0168s": _OLDER,
    "compile-0449": "no schema is fetched: we say so, OPA that it could not",
    "compile-0455": _OLDER,
    "compile-0471@1.18.2": "OPA forgets where the variable stands; we say it",
    "compile-0474s": _OLDER,
    "compile-0480s": _OLDER,
    "mut-0013": "a newer OPA reads METADATA only where a line begins with it",
    "new-0055": "1.9.0 has no template strings and 1.18.2 panics on them as keys; they are values",
    "new-0099@1.18.2": "OPA 1.20 added `and` and `or` to the keywords that can be imported",
    "new-0126@1.18.2": "OPA 1.20 added strings.split_n",
}

LANGUAGE: Final = {
    "inputs/0fb122a89d": _HEAD,
    "inputs/1d62ede93a": _HEAD,
    "inputs/346c60b9e6": _HEAD,
    "inputs/37b5021e75": _HEAD,
    "inputs/6cef01bca4": _HEAD,
    "inputs/b443cb76b9": _HEAD,
    "inputs/b8cedb7245": _HEAD,
    "inputs/cd45a7f10b": _HEAD,
    "random/320b73c425": "of a variable in a list among the operands we ask nothing when compiling",
    "random/580480da82": _FOLLOWS,
    "random/650e9eb2ad": _FOLLOWS,
}

BUILTINS: Final[dict[str, str]] = {}
