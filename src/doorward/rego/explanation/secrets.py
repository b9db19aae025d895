"""Secrets that an explanation must not show: credentials, wherever their text turns up.

A string is secret because of the name it is under (`authorization`, `password`, `api_key`) or
because of what it looks like (a signed token, a private key). Once known it is masked everywhere,
also where a policy has cut it in pieces. This is a net, no proof: explanations of real requests
are still to be treated as the requests themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from doorward.rego.clock import count_step
from doorward.rego.credentials import MASKED, mask_credentials, names_all_below, names_credential
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Call, Expr, Object, Scalar, Term
from doorward.rego.syntax.walk import walk
from doorward.rego.values import Key, from_key

__all__ = ["MASKED", "Mask", "without_secrets"]

_PIECES: Final = re.compile(r"[\s,;=.]+")
_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "negotiate"})
MAX_SECRETS: Final = 10_000
"""The most secret texts of one document that are searched for; further ones are hidden only by
their names and typical forms of credentials.
"""

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
        value: under the name of a credential, strings and numbers are masked whatever they are.
        EvalError if a deadline of `within` passes.
        """
        if isinstance(value, str):
            return MASKED if _is_secret_place(label) else self.text(value)
        count_step()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return MASKED if _is_secret_place(label) else value
        if isinstance(value, dict):
            if value and _is_all_secret(label):
                return MASKED
            return {
                self._key(key): self.value(item, key if isinstance(key, str) else "")
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.value(item, label) for item in value]
        if isinstance(value, frozenset):
            return frozenset(self._key(key) for key in value)
        return value

    def _key(self, key: Key) -> Key:
        return self.text(key) if isinstance(key, str) else key


def without_secrets(node: Expr | Term) -> str:
    """Return the text of an expression or term, with credentials written in it masked."""
    text, start = node.span.text, node.span.start
    for span in sorted(_literals(node), key=lambda s: -s.start):
        text = f'{text[: span.start - start]}"{MASKED}"{text[span.end - start :]}'
    return text


def _literals(within: Expr | Term) -> Iterator[Span]:
    """Yield the spans of string literals that are secrets: members of objects under a credential's
    name, and the keys of `crypto.hmac.*` and `io.jwt.verify_*`.
    """
    for node in walk(within):
        pairs: list[tuple[str, Term]] = []
        if isinstance(node, Object):
            pairs = [
                (key.value, value)
                for key, value in node.items
                if isinstance(key, Scalar) and isinstance(key.value, str)
            ]
        elif isinstance(node, Call) and node.name.startswith(("crypto.hmac.", "io.jwt.verify_")):
            pairs = [("key", value) for value in node.args[1:2]]
        for name, value in pairs:
            if isinstance(value, Scalar) and isinstance(value.value, str) and _is_secret(name):
                yield value.span


def _secrets(value: Any, *, named: bool = False, below: bool = False) -> Iterator[str]:
    """Yield the secret strings in a document. `named`: it is under the name of a secret; `below`:
    it is below a name under which everything is secret.
    """
    if isinstance(value, str):
        if named or below or mask_credentials(value) is not value:
            yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            name = key if isinstance(key, str) else ""
            inner = below or names_all_below(name)
            yield from _secrets(item, named=_is_secret(name), below=inner)
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
