"""Inputs made by chance from a shape: each is an earlier one with a few changes."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from doorward.rego import Key, Value, to_json
from doorward.replay.search.shape import Material, Shape

__all__ = ["Candidates"]

CORPUS: Final = 400
"""Inputs that are kept to be changed."""
WHOLE: Final = 24
"""Inputs to begin with that have everything that is read."""
CHANGES: Final = 3
"""Changes made at most to one of them."""
_ODD: Final[list[Value]] = [None, True, False, 0, 1, -1, "", "a", [], {}, ["a"], {"a": "a"}]
_MISSING: Final = object()


class Candidates:
    """Makes inputs, and keeps those that were worth it."""

    def __init__(self, material: Material, random: Random) -> None:
        shape = material.shape
        self._random = random
        self._constants = material.constants or list(_ODD)
        locations = list(shape.locations())
        # What has no members decides; the others change what is below them as well.
        ends = [each for each in locations if not each[1].members]
        self._locations = [*locations, *ends * (3 * len(locations) // max(len(ends), 1))]
        self.corpus: list[Any] = [{}, *material.examples]
        for _ in range(WHOLE):
            self.corpus.append(self._whole(shape))

    def keep(self, input: Any) -> None:
        """Change `input` later, too."""
        if len(self.corpus) < CORPUS:
            self.corpus.append(input)
        else:
            self.corpus[self._random.randrange(CORPUS)] = input

    def new(self) -> Any:
        """One more input; nothing in it is changed later."""
        random = self._random
        input = random.choice(self.corpus)
        if not self._locations:
            return random.choice(_ODD)
        for _ in range(random.randint(1, CHANGES)):
            path, shape = random.choice(self._locations)
            chance = random.random()
            if chance < 0.12:
                input = _with(input, path, _MISSING, random)
            elif chance < 0.22:
                other = _at(random.choice(self.corpus), path)
                input = _with(input, path, other, random)
            elif chance < 0.27:
                source, _ = random.choice(self._locations)
                input = _with(input, path, _at(input, source), random)
            else:
                input = _with(input, path, self._value(shape), random)
        return input

    def _whole(self, shape: Shape) -> Any:
        """A value with everything that is read of it."""
        if shape.members and not (shape.values and self._random.random() < 0.05):
            names = [name for name in shape.members if name != "*"]
            if not names:
                return [self._whole(shape.members["*"])]
            return {name: self._whole(shape.members[name]) for name in names}
        return self._value(shape)

    def _value(self, shape: Shape) -> Value:
        random = self._random
        if shape.claims is not None and random.random() < 0.85:
            return self._token(shape)
        if shape.members and random.random() < 0.85:
            whole: Value = self._whole(shape)
            return whole
        chance = random.random()
        if shape.values and chance < 0.8:
            return random.choice(list(shape.values.values()))
        return random.choice(self._constants if chance < 0.93 else _ODD)

    def _token(self, shape: Shape) -> str:
        """A token with claims that are read, signed with a secret that is used; mostly after the
        word that clients put before it."""
        random = self._random
        assert shape.claims is not None
        whole = self._whole(shape.claims) if shape.claims.members else {}
        claims: dict[Key, Value] = whole if isinstance(whole, dict) else {}
        if random.random() < 0.8:
            claims = {**claims, "nbf": 0, "exp": 4102444800}
        header: dict[Key, Value] = {"alg": "HS256", "typ": "JWT"}
        parts = [_encoded(to_json(part)) for part in (header, claims)]
        secret = random.choice([*shape.secrets, "a"]) if random.random() < 0.9 else "b"
        signature = hmac.digest(secret.encode(), ".".join(parts).encode(), "sha256")
        token = ".".join([*parts, base64.urlsafe_b64encode(signature).decode().rstrip("=")])
        return f"Bearer {token}" if random.random() < 0.8 else token


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _at(input: Any, path: Sequence[str]) -> Any:
    for name in path:
        if isinstance(input, dict):
            input = input.get(name, _MISSING) if name != "*" else _first(input.values())
        elif isinstance(input, list):
            input = _first(input)
        else:
            return _MISSING
    return input


def _first(items: Any) -> Any:
    return next(iter(items), _MISSING)


def _with(value: Any, path: Sequence[str], new: Any, random: Random) -> Any:
    """A copy of `value` with `new` at `path`, or without anything there."""
    if not path:
        return value if new is _MISSING else new
    name, rest = path[0], path[1:]
    if name == "*":
        return _with_item(value, rest, new, random)
    members = value if isinstance(value, dict) else {}
    if new is _MISSING and not rest:
        return {key: item for key, item in members.items() if key != name}
    if new is _MISSING and name not in members:
        return value
    return {**members, name: _with(members.get(name, {}), rest, new, random)}


def _with_item(value: Any, rest: Sequence[str], new: Any, random: Random) -> Any:
    if isinstance(value, dict) and value:
        key = random.choice(sorted(value))
        return {**value, key: _with(value[key], rest, new, random)}
    items = list(value) if isinstance(value, list) else []
    if new is _MISSING:
        return items[:-1]
    if not items or (len(items) < 3 and random.random() < 0.3):
        return [*items, _with({}, rest, new, random)]
    number = random.randrange(len(items))
    items[number] = _with(items[number], rest, new, random)
    return items
