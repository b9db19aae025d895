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


def _says(*words: str) -> Callable[[Row], bool]:
    """Rows whose recorded error holds one of `words`."""
    return lambda row: any(word in row.get("error", {}).get("message", "") for word in words)


@dataclass(frozen=True)
class Difference:
    """`groups` (a regular expression) answer otherwise in the rows that `applies` picks.

    With `message_only`, the recorded error and its code stay; only its words are Go's, not OPA's.
    With `operand_first`, OPA's error stays one: ours is that an operand is of the wrong kind.
    """

    groups: str
    reason: str
    applies: Callable[[Row], bool] = _always
    message_only: bool = False
    operand_first: bool = False

    def covers(self, row: Row, *, same_code: bool, operand_error: bool = False) -> bool:
        if (self.message_only and not same_code) or (self.operand_first and not operand_error):
            return False
        return bool(re.fullmatch(self.groups, row["group"])) and self.applies(row)


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        ".*",
        "all operands are checked for their kind before any is looked into",
        operand_first=True,
    ),
    Difference(
        r"(json|yaml)\.unmarshal",
        "what is wrong with YAML is said in the words of Python's reader; with JSON in those of "
        "Go's older decoder, as on all wires: it names a byte, the newer one a character",
        message_only=True,
    ),
    Difference(
        "json.match_schema",
        "OPA looks at properties in the order of a Go map, which is none; ours is by name",
        applies=lambda row: '"tags"' in str(row["input"]),
    ),
    Difference(
        r"graphql\.parse.*",
        "block strings lose their common indentation, as GraphQL's specification says",
        applies=lambda row: 'block\n  s"""' in str(row["input"][0]),
    ),
    Difference(
        r"graphql\.parse",
        "several findings are told by the first, in graphql-core's words where they differ",
        message_only=True,
    ),
    Difference(
        r"rego\.parse_module",
        "this OPA gives the module's text, though an object is declared and its own tests want one",
        applies=lambda row: str(row.get("result", "")).startswith("[{'x': 'package"),
    ),
    Difference(
        r"rego\.parse_module|crypto\.x509\.parse_keypair",
        "OPA counts the second operand as the first in its error",
        applies=_says("operand 1 must be string"),
        message_only=True,
    ),
    Difference(
        r"crypto\..*",
        "what is wrong with a key or a request is said in our words, not in Go's",
        applies=_says("asn1:", "tls:"),
        message_only=True,
    ),
    Difference(
        "providers.aws.sign_req",
        "of several operands of the wrong kind the first is named, by its own number",
        applies=_says("operand 1 must be", "operand 2 missing required"),
        message_only=True,
    ),
    Difference(
        r"io\.jwt\..*",
        "what is wrong with JSON or a key is said in our words, not in those of Go's libraries",
        applies=_says("JSON", "JWK", "jwk.", "jwsbb", "'alg' header"),
        message_only=True,
    ),
    Difference(
        "io.jwt.decode_verify",
        "OPA refuses every PS384 and PS512 token here, though io.jwt.verify_ps384 accepts them",
        applies=lambda row: re.search(r"eyJhbGciOiJQUz(M4NC|UxMi)I", str(row["input"])) is not None,
    ),
    Difference(
        "io.jwt.decode_verify",
        "OPA panics when `iss` is wanted and the token's is no string; the token is invalid",
        applies=lambda row: row.get("error", {}).get("code") == "panic",
    ),
)
