"""The call that a user is typing: its function, the present operand, and the types of all
operands.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import NamedTuple

from doorward.rego import Builtin
from doorward.rego.tools import BRACKETS, IDENT, Token, type_text

__all__ = ["CallAt", "Signature", "builtin_signature", "call_at"]


class Signature(NamedTuple):
    """The signature of a function: `label` is the whole as text and contains each of `parameters`;
    `doc` may be "".
    """

    label: str
    parameters: tuple[str, ...]
    doc: str


class CallAt(NamedTuple):
    """A function by its name as it is written, and the number of the operand, from 0."""

    name: str
    operand: int


def call_at(tokens: Sequence[Token]) -> CallAt | None:
    """Return the innermost call that is still open after the last token, which is where the user
    types; None outside of calls.
    """
    commas = depth = 0
    for n in range(len(tokens) - 1, -1, -1):
        kind = tokens[n].kind
        if kind in BRACKETS.values():
            depth += 1
        elif kind in BRACKETS and depth:
            depth -= 1
        elif kind == "(" and (name := _name_before(tokens, n)):
            return CallAt(name, commas)
        elif kind in BRACKETS:
            commas = 0
        elif kind == "," and not depth:
            commas += 1
    return None


def _name_before(tokens: Sequence[Token], end: int) -> str:
    """Return the dotted name that ends directly before the token at index `end`; "" if there is
    none.
    """
    parts: list[str] = []
    follows = tokens[end].start
    for token in reversed(tokens[:end]):
        expected = (IDENT,) if len(parts) % 2 == 0 else (".",)
        if token.kind not in expected or token.end != follows:
            break
        parts.append(token.text)
        follows = token.start
    return "".join(reversed(parts)).lstrip(".")


def builtin_signature(builtin: Builtin) -> Signature:
    """Return the signature of a built-in; its operands are named like the parameters of the Python
    function that implements it.
    """
    signature = builtin.signature
    names = list(inspect.signature(builtin.body).parameters.values())[builtin.context :]
    types = [type_text(type_) for type_ in signature.args]
    parameters = [
        f"{names[n].name}: {text}" if n < len(names) and names[n].kind.name[0] != "V" else text
        for n, text in enumerate(types)
    ]
    if signature.variadic is not None:
        parameters.append(f"{type_text(signature.variadic)} …")
    result = f" → {type_text(signature.result)}" if signature.result is not None else ""
    label = f"{builtin.name}({', '.join(parameters)}){result}"
    return Signature(label, tuple(parameters), builtin.doc)
