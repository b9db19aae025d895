"""Secrets that an explanation must not show: credentials, wherever their text turns up.

A string is secret because of the name it is under (`authorization`, `password`, `api_key`) or
because of what it looks like (a signed token, a private key). Once known it is masked everywhere,
also where a policy has cut it in pieces. This is a net, no proof: explanations of real requests
are still to be treated as the requests themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from doorward.rego.analysis.scope import source_name
from doorward.rego.clock import count_step
from doorward.rego.credentials import (
    MASKED,
    credential_members,
    mask_credentials,
    names_all_below,
    names_credential,
)
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Call,
    Expr,
    Head,
    Object,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeIn,
    TemplateString,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.walk import Node, walk
from doorward.rego.values import Key, from_key, to_key

__all__ = ["MASKED", "Mask", "head_without_secrets", "names_secret", "without_secrets"]

_PIECES: Final = re.compile(r"[\s,;=.]+")
_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "negotiate"})
MAX_SECRETS: Final = 10_000
"""The most secret texts of one document that are searched for; further ones are hidden only by
their names and typical forms of credentials.
"""

_EQUATIONS: Final = frozenset({"eq", "assign", "equal", "neq", "internal.member_2"})
"""Calls of which one operand is a value, or a member, of the other one."""

_SHORTEST: Final = 4
"""The fewest characters of a secret that is searched for in other texts; shorter ones occur
everywhere.
"""


class Mask:
    """The secrets in some documents; `text` hides them in a text."""

    def __init__(self, *documents: Any) -> None:
        secrets: set[str] = set()
        for document in documents:
            for secret in islice(_secrets(document), MAX_SECRETS):
                secrets.add(secret)
                pieces = _PIECES.split(secret)
                secrets.update(p for p in pieces if p.lower() not in _SCHEMES)
        # Longest first, so that a secret is masked as a whole before one that is a part of it.
        long = sorted((s for s in secrets if len(s) >= _SHORTEST), key=lambda s: (-len(s), s))
        self._pattern = re.compile("|".join(map(re.escape, long))) if long else None

    def text(self, text: str) -> str:
        """Return `text` with every known secret, and everything that looks like a credential,
        masked.
        """
        masked_text = mask_credentials(text)
        return self._pattern.sub(MASKED, masked_text) if self._pattern is not None else masked_text

    def value(self, value: Any, label: str = "") -> Any:
        """Return a copy of `value` with its secrets masked. `label` is the name or reference of the
        value: under the name of a credential, strings and numbers are masked whatever they are, and
        under a name below which everything is secret also objects. EvalError if a deadline of
        `within` passes.
        """
        if isinstance(value, str):
            return MASKED if _is_secret_place(label) else self.text(value)
        count_step()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return MASKED if _is_secret_place(label) else value
        if isinstance(value, dict):
            if value and _is_all_secret(label):
                return MASKED
            hidden = credential_members(value)
            return {
                self._key(key): (
                    MASKED
                    if key in hidden
                    else self.value(item, key if isinstance(key, str) else "")
                )
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.value(item, label) for item in value]
        if isinstance(value, frozenset):
            return frozenset(self._key(key, label) for key in value)
        return value

    def _key(self, key: Key, label: str = "") -> Key:
        """Return a copy of a key or a member of a set, which may be an object, with its secrets
        masked; `label` is the name or reference of the value, which may show that it is secret.
        """
        return to_key(self.value(from_key(key), label))


def without_secrets(node: Expr | Term) -> str:
    """Return the text of an expression or term, with credentials written in it masked."""
    return _mask_literals(node.span, node)


def head_without_secrets(rule: Rule) -> str:
    """Return the text of a rule's head, or of the whole rule if its head has no text, with
    credentials written in it masked.
    """
    return _mask_literals(rule.head.span if rule.head.span.text else rule.span, rule)


def _mask_literals(within: Span, node: Node) -> str:
    """Return the source text of the span `within`, a part of `node`, with the literals in it masked
    that are secrets.
    """
    spans = [s for s in _literals(node) if within.start <= s.start and s.end <= within.end]
    parts, end = [], within.start
    # Of two that begin together the outer one first, which hides the other.
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if span.start >= end:  # not in one that is masked already
            parts += [within.source.text[end : span.start], f'"{MASKED}"']
            end = span.end
    return "".join([*parts, within.source.text[end : within.end]])


def _literals(within: Node) -> Iterator[Span]:
    """Yield the spans of literals that are secrets: what is written under, put into or compared
    with the name of a credential, and the keys of `crypto.hmac.*` and `io.jwt.verify_*`.
    """
    for node in walk(within):
        if isinstance(node, Call) and node.name.startswith(("crypto.hmac.", "io.jwt.verify_")):
            for key in node.args[1:2]:
                yield from _constants(key, below=True)
        for names, term in _named_terms(node):
            if names_secret(names):
                yield from _constants(term, below=any(map(names_all_below, names)))


def names_secret(names: Sequence[str]) -> bool:
    """Return True if the value at these names, such as those in a reference, is a secret: the last
    one is the name of a credential, or everything below one of them is secret.
    """
    return any(map(names_all_below, names)) or (bool(names) and names_credential(names[-1]))


def _named_terms(node: Node) -> Iterator[tuple[Sequence[str], Term]]:
    """Yield the terms of a node that are values of a name: members of an object, operands of an
    equation or a membership, replacements by `with`, and the key and the value of a rule; each
    with its name, or the names in its reference.
    """
    match node:
        case Object(items=pairs):
            for key, value in pairs:
                if isinstance(key, Scalar) and isinstance(key.value, str):
                    # `key` is what the built-ins of tokens call theirs.
                    yield ("secret" if key.value.lower() == "key" else key.value,), value
        case Call(args=(left, right)) if node.name in _EQUATIONS:
            yield _names(left), right
            yield _names(right), left
        case SomeIn(value=value, domain=domain):
            yield _names(domain), value
            yield _names(value), domain
        case With(target=target, value=value):
            yield _names(target), value
        case Head(ref=ref, key=head_key, value=head_value):
            for term in (head_key, head_value):
                if term is not None:
                    yield _names(ref), term


def _names(term: Term) -> list[str]:
    """Return the names in a variable or a reference: `input.users[i].password` -> `input`, `users`,
    `password`; [] for other terms.
    """
    match term:
        case Var(name=name):
            return [source_name(name)]
        case Ref(head=head, args=args):
            keys = [arg.value for arg in args if isinstance(arg, Scalar)]
            return [*_names(head), *[key for key in keys if isinstance(key, str)]]
    return []


def _constants(term: Term, *, below: bool) -> Iterator[Span]:
    """Yield the spans of the texts and numbers that a term consists of; also those of an object if
    `below`. Constants from which something is computed with variables are left out.
    """
    match term:
        case Scalar(value=value):
            if value != "" and not isinstance(value, (bool, type(None))):
                yield term.span
        case TemplateString():
            yield term.span
        case Array(items=items) | Set(items=items):
            for item in items:
                yield from _constants(item, below=below)
        case ArrayComprehension(term=item) | SetComprehension(term=item):
            yield from _constants(item, below=below)
        case Object(items=pairs) if below:
            for item in chain.from_iterable(pairs):
                yield from _constants(item, below=below)
        case Call(args=args) if all(map(_is_constant, args)):
            for item in args:
                yield from _constants(item, below=below)


def _is_constant(term: Term) -> bool:
    """Return True if a term contains no variable and no reference, at any depth, apart from the
    operators of its calls.
    """
    nodes = list(walk(term))
    operators = {id(node.operator.head) for node in nodes if isinstance(node, Call)}
    return not any(isinstance(node, Var) and id(node) not in operators for node in nodes)


def _secrets(value: Any, *, named: bool = False, below: bool = False) -> Iterator[str]:
    """Yield the secret strings in a document, also in keys that are not strings: those under the
    name of a secret, below a name under which all is secret, or that look like a credential.
    `named`: `value` is under the name of a secret, which holds for its items if it is an array or
    set; `below`: all in it is secret.
    """
    if isinstance(value, str):
        # INVARIANT: `mask_credentials` returns its operand itself if nothing in it is masked.
        if named or below or mask_credentials(value) is not value:
            yield value
    elif isinstance(value, dict):
        members = credential_members(value)
        for key, item in value.items():
            if not isinstance(key, str):
                yield from _secrets(from_key(key), below=below)
            name = key if isinstance(key, str) else ""
            inner = below or names_all_below(name)
            is_named = key in members or _is_secret(name)
            yield from _secrets(item, named=is_named, below=inner)
    elif isinstance(value, list):
        for item in value:
            yield from _secrets(item, named=named, below=below)
    elif isinstance(value, frozenset):
        for key in value:
            yield from _secrets(from_key(key), named=named, below=below)


def _is_secret(name: str) -> bool:
    # `key` is what the built-ins of tokens call theirs.
    return name.lower() == "key" or names_credential(name)


def _is_all_secret(label: str) -> bool:
    """Return True if `label` names documents that are secret whatever their members are called."""
    return any(map(names_all_below, re.split(r"[.\[\]\"']+", label)))


def _is_secret_place(label: str) -> bool:
    """Return True if a reference such as `input.headers["x-api-key"]`, or a name, is that of a
    secret.
    """
    parts = [part for part in re.split(r"[.\[\]\"']+", label) if part]
    if not parts:
        return False
    return _is_secret(parts[-1]) or any(map(names_all_below, parts))
