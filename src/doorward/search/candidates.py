"""Inputs made by chance from a shape: each is an earlier one with a few changes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from doorward.base.records import record
from doorward.rego import Value
from doorward.rego.shared import Key
from doorward.search.shape import CLAIMS, Material, Shape
from doorward.search.tokens import Token, read_token

__all__ = ["Candidates", "Focus"]

CORPUS: Final = 400
"""The maximum number of inputs in the corpus, from which new ones are changed."""
WHOLE_VALUES: Final = 24
"""The number of first inputs that have a value at every location that policies read."""
CHANGES: Final = 3
"""At most this many changes are made to one input."""
FOCUSED: Final = 0.35
"""The share of inputs in which a value of the `Focus` is put where a changed rule compares it."""
KEYED: Final = 0.5
"""The share of those inputs that also get another key of data where they are looked up in it."""
RECENT: Final = 16
"""The number of latest inputs of the corpus that are changed as often as all others together."""
_ELEMENT: Final = "*"
_ODD: Final[list[Value]] = [None, True, False, 0, 1, -1, 0.5, "", "a", [], {}, ["a"], {"a": "a"}]
_MISSING: Final = object()


@record
class Focus:
    """The constants that only one of two versions has (`values`), which candidates should contain
    more often. `beside`: all constants, as JSON, of the rules that have one of `values`.
    """

    values: tuple[Value, ...] = ()
    beside: frozenset[str] = frozenset()


NO_FOCUS: Final = Focus()


class Candidates:
    """Generates random inputs. `corpus` contains the inputs that later ones are changed from: the
    examples first, then those of `keep`. With a `focus`, a third of the inputs get one of its
    values where the policies compare a constant of the changed rules.
    """

    def __init__(self, material: Material, random: Random, focus: Focus = NO_FOCUS) -> None:
        shape = material.shape
        self._random = random
        self._constants = material.constants or list(_ODD)
        locations = list(shape.locations())
        # Reversed: of several paths to one location the first stays.
        self._paths = {id(each): path for path, each in reversed(locations)}
        secrets = [secret for _, each in locations for secret in each.secrets]
        self._secrets = list(dict.fromkeys(secrets)) or ["a"]
        # What has no members decides; the others change what is below them as well.
        ends = [each for each in locations if not each[1].members]
        self._locations = [*locations, *ends * (3 * len(locations) // max(len(ends), 1))]
        self._focus = [
            (path, value)
            for path, each in locations
            if not focus.beside.isdisjoint(each.values)
            for value in focus.values
        ]
        self._keys = [(path, key) for path, each in locations for key in each.keys.values()]
        self._examples = list(material.examples)
        self.corpus: list[Any] = [{}, *material.examples]
        for _ in range(WHOLE_VALUES):
            self.corpus.append(self._document(shape))

    def keep(self, input: Any) -> None:
        """Add an input to `corpus`. In a corpus of `CORPUS` inputs it replaces a random one."""
        if len(self.corpus) < CORPUS:
            self.corpus.append(input)
        else:
            self.corpus[self._random.randrange(CORPUS)] = input

    def new(self) -> Any:
        """Return one more random input: an example or an input of the corpus with up to `CHANGES`
        changes, and often with a value of the focus. The corpus is not changed. If the policies
        read no field of the input, it is any value, such as `None` or `["a"]`.
        """
        random = self._random
        if not self._locations:
            return random.choice(_ODD)
        chance = random.random()
        if chance < 0.2 and self._examples:
            input = random.choice(self._examples)
        else:
            input = random.choice(self.corpus[-RECENT:] if chance < 0.6 else self.corpus)
        is_focused = bool(self._focus) and random.random() < FOCUSED
        if is_focused:
            path, value = random.choice(self._focus)
            input = self._with(input, path, value)
            # A change may concern another user than the one of the example.
            if self._keys and random.random() < KEYED:
                input = self._with(input, *random.choice(self._keys))
        for _ in range(random.randint(0 if is_focused else 1, CHANGES)):
            path, shape = random.choice(self._locations)
            input = self._with(input, path, self._change(input, path, shape))
        return input

    def _change(self, input: Any, path: Sequence[str], shape: Shape) -> Any:
        """Return a random new value for `path` of the input, whose location is `shape`: the value
        there in an input of the corpus, one at another location of the input or at one that
        policies compare it with, or one from `_value`. `_MISSING` means to remove the value.
        """
        random = self._random
        chance = random.random()
        if chance < 0.12:
            return _MISSING
        if chance < 0.22:
            return _at(random.choice(self.corpus), path)
        if chance < 0.27:
            return _at(input, random.choice(self._locations)[0])
        if chance < 0.37 and shape.peers:
            peer = self._paths.get(id(random.choice(shape.peers)))
            value = _MISSING if peer is None else _at(input, peer)
            return random.choice(_FORMS)(value) if isinstance(value, str) else value
        return self._value(shape)

    def _document(self, shape: Shape) -> Any:
        """Return a random value for a location: mostly an object with every member that policies
        read, or a list of 1 to 3 items if they read only its items. A location without members gets
        `_value`.
        """
        names = [name for name in shape.members if name != _ELEMENT]
        if not names and shape.members:
            if shape.values and self._random.random() < 0.5:
                return self._value(shape)
            return [
                self._document(shape.members[_ELEMENT]) for _ in range(self._random.randint(1, 3))
            ]
        if names and not (shape.values and self._random.random() < 0.05):
            return {name: self._document(shape.members[name]) for name in names}
        return self._value(shape)

    def _value(self, shape: Shape) -> Value:
        """Return a random value for a location: a token where policies decode one, a value with its
        members, a value that it is compared with, any constant of the policies, or an odd value
        such as `null` or `[]`.
        """
        random = self._random
        if shape.claims is not None and random.random() < 0.85:
            return self._token(shape, shape.claims)
        chance = random.random()
        if shape.members and chance < (0.5 if shape.values else 0.85):
            sample: Value = self._document(shape)
            return sample
        if shape.values and random.random() < 0.8:
            return random.choice(list(shape.values.values()))
        return random.choice(self._constants if random.random() < 0.65 else _ODD)

    def _token(self, shape: Shape, claimed: Shape) -> str:
        """Return a signed token with random claims that the policies read. Four in five are valid
        from 1970 to 2100, and four in five have `Bearer ` before them. One in ten is signed with
        "b"; the others with a known secret or "a".
        """
        random = self._random
        document = self._document(claimed) if claimed.members else {}
        claims: dict[Key, Value] = document if isinstance(document, dict) else {}
        if random.random() < 0.8:
            claims = {**claims, "nbf": 0, "exp": 4102444800}
        secret = random.choice([*shape.secrets, "a"]) if random.random() < 0.9 else "b"
        return Token("Bearer " if random.random() < 0.8 else "", claims).signed(secret)

    def _with(self, value: Any, path: Sequence[str], new: Any) -> Any:
        """Return a copy of `value` with `new` at `path`; `_MISSING` removes the member there.
        Missing objects on the way are created, other values on the way are replaced by objects. A
        token on the way is signed again with a random secret.
        """
        if not path:
            return value if new is _MISSING else new
        name, rest = path[0], path[1:]
        if name == _ELEMENT:
            return self._with_item(value, rest, new)
        if name == CLAIMS:
            token = read_token(value) or Token("Bearer ", {})
            changed = self._with(token.claims, rest, new)
            return Token(token.scheme, changed).signed(self._random.choice(self._secrets))
        members = value if isinstance(value, dict) else {}
        if new is _MISSING and not rest:
            return {key: item for key, item in members.items() if key != name}
        if new is _MISSING and name not in members:
            return value
        return {**members, name: self._with(members.get(name, {}), rest, new)}

    def _with_item(self, value: Any, rest: Sequence[str], new: Any) -> Any:
        """Return a copy of a collection in which one item is changed: `new` is put at the path
        `rest` of a random item, or of an item that is added to a list of less than 3. If `rest` is
        empty, `_MISSING` removes the last item of a list.

        Anything but an array or a non-empty object counts as an empty list.
        """
        random = self._random
        if isinstance(value, dict) and value:
            key = random.choice(sorted(value))
            return {**value, key: self._with(value[key], rest, new)}
        items = list(value) if isinstance(value, list) else []
        if new is _MISSING and not rest:
            return items[:-1]
        if not items or (len(items) < 3 and random.random() < 0.3):
            return [*items, self._with({}, rest, new)]
        number = random.randrange(len(items))
        items[number] = self._with(items[number], rest, new)
        return items


def _decode(text: str) -> str:
    """Decode URL-safe base64, padded or not, to text; a text that is not base64 is returned
    unchanged. Bytes that are not UTF-8 are replaced.
    """
    try:
        octets = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return text
    return octets.decode("utf-8", "replace")


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


_FORMS: Final[tuple[Callable[[str], str], ...]] = (
    str,
    str,
    _encode,
    _decode,
    str.lower,
    str.upper,
)
"""Functions that convert a text to a form in which a policy may compare it, such as base64."""


def _at(input: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of an input. `*` in the path means the first item, `CLAIMS` the
    claims of a token. `_MISSING` if there is no value.
    """
    for name in path:
        if name == CLAIMS:
            token = read_token(input)
            input = _MISSING if token is None else token.claims
        elif isinstance(input, dict):
            input = input.get(name, _MISSING) if name != _ELEMENT else _first(input.values())
        elif isinstance(input, list):
            input = _first(input)
        else:
            return _MISSING
    return input


def _first(items: Any) -> Any:
    return next(iter(items), _MISSING)
