"""Inputs that a search made, as they may leave a server.

    input ─tokens─▶ the claims ─secrets─▶ [masked] ─words of no policy and no open data─▶ [computed]

A search signs tokens with the secrets of the data, and puts them where a condition compares with
them: its inputs are credentials that work. Here a text passes if each of its words is short, is one
of the policies, or is one of data that is not secret. Anything else is refused, so that a signature
or an encoded secret needs no rule of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any, Final

from doorward.rego import Engine, Undefined, to_json, to_python
from doorward.rego.shared import MASKED, Mask, names_all_below, names_credential
from doorward.rego.tools import Call, Module, Object, Ref, Scalar, Term, walk
from doorward.search.shape import shape_of
from doorward.search.tokens import Token, read_token

__all__ = ["COMPUTED", "Disclosure"]

COMPUTED: Final = "[computed]"
SHORT: Final = 4
"""A word of at most this many characters is not a secret."""

_WORD: Final = re.compile(r"\w+")
_KEYED: Final = ("io.jwt.verify", "io.jwt.decode_verify", "io.jwt.encode_sign", "crypto.hmac.")
"""The prefixes of the names of built-ins that take keys as operands after the first."""
_KEY: Final = "secret"
_SCHEME: Final = "bearer"
"""The word before the tokens that a search signs, in lower case; always displayed."""


class Disclosure:
    """Masks texts of generated inputs that only the server knows, for the policies and data of an
    engine. `input`: an input that the caller sent, whose words may be displayed.
    """

    def __init__(self, engine: Engine, input: Any = None) -> None:
        self._engine = engine
        tokens = map(read_token, (leaf for leaf, _ in _leaves(input)))
        self._sent = [input, *(to_python(each.claims) for each in tokens if each is not None)]
        self._words: dict[str, bool] = {}
        """The words, in lower case, that were looked up in the data; True if the word may be
        displayed.
        """

    def value(self, value: Any, name: str = "") -> Any:
        """Return a value as Python values, with `MASKED` for secrets and `COMPUTED` for texts with
        other words than the policies, open data and the caller's input have. A token becomes a text
        with its claims. `name`: the key above the value, since `password` hides any value. None for
        UNDEFINED.
        """
        if isinstance(value, Undefined):
            return None
        document = to_python(value)
        self._look_up(set(_words_of(document)))
        return self._show(document, name)

    def text(self, text: str) -> str:
        """Return a text about policies with the secrets of the data masked; unlike in `value`,
        other words stay.
        """
        return self._mask.text(text)

    def _show(self, value: Any, name: str) -> Any:
        """Return a JSON value with secrets masked, and texts of unknown words hidden (`_text`), in
        the names of objects too. A token is replaced by a text with its claims. `name` is the key
        above the value.
        """
        if isinstance(value, dict):
            return {self._text(key): self._show(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self._show(item, name) for item in value]
        if isinstance(value, str):
            token = read_token(value)
            return (
                self._mask.value(self._text(value), name) if token is None else self._claims(token)
            )
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return MASKED if to_json(value) in self._secrets else self._mask.value(value, name)
        return value

    def _claims(self, token: Token) -> str:
        claims = to_json(self.value(token.claims))
        return f"{self._text(token.scheme)}(a token that claims {claims}; a caller cannot sign it)"

    def _text(self, text: str) -> str:
        """Return the text itself if all its words are known; `MASKED` if it is or contains a
        secret, `COMPUTED` if it contains an unknown word.
        """
        if text in self._secrets or self._mask.text(text) != text:
            return MASKED
        words = map(str.casefold, _WORD.findall(text))
        return text if all(map(self._is_open, words)) else COMPUTED

    def _is_open(self, word: str) -> bool:
        """Return True if a word, in lower case, may be displayed: it has at most `SHORT`
        characters, is one repeated character or `bearer`, or occurs in the policies or, by
        `_look_up`, in data or an input that is not secret.
        """
        if len(word) <= SHORT or len(set(word)) == 1 or word == _SCHEME:
            return True
        return word in self._words_of_policies or self._words.get(word, False)

    def _look_up(self, words: set[str]) -> None:
        """Find out which of the words occur in a text that is not secret, of the data or of the
        caller's input, and record the answer for each word in `_words`.
        """
        missing = words - self._words.keys()
        self._words |= dict.fromkeys(missing, False)
        for text, is_secret in chain.from_iterable(map(_leaves, [self._data, *self._sent])):
            if not missing:
                return
            if not is_secret and isinstance(text, str) and text not in self._secrets:
                known = missing.intersection(
                    map(str.casefold, _WORD.findall(self._mask.text(text)))
                )
                self._words |= dict.fromkeys(known, True)
                missing -= known

    @cached_property
    def _data(self) -> Any:
        return to_python(self._engine.data)

    @cached_property
    def _words_of_policies(self) -> frozenset[str]:
        """The words in the text of the policies, in lower case, without secrets."""
        texts = [tree.span.source.text for tree in self._engine.trees.values()]
        words = chain.from_iterable(_WORD.findall(self._mask.text(text)) for text in texts)
        return frozenset(map(str.casefold, words))

    @cached_property
    def _keys(self) -> frozenset[str]:
        """The texts that policies give to built-ins as keys of tokens and signatures, whatever the
        names of their documents are.
        """
        shape = shape_of([self._engine]).shape
        keys = {key for _, each in shape.locations() for key in each.secrets}
        for term in chain.from_iterable(map(_keys_of, self._engine.trees.values())):
            if isinstance(term, Scalar) and isinstance(term.value, str):
                keys.add(term.value)
            elif isinstance(term, Ref):
                leaves = _leaves(_document_at(self._data, term))
                keys.update(leaf for leaf, _ in leaves if isinstance(leaf, str))
        return frozenset(keys)

    @cached_property
    def _secrets(self) -> frozenset[str]:
        """The texts and numbers (as JSON) that are never displayed alone, however short they are:
        those of data below names such as `password`, and the keys that policies give to built-ins.
        """
        # A name is not secret where a policy says it: `data.secrets.name`.
        values = _leaves(self._data, with_names=False)
        leaves = (leaf for leaf, is_secret in values if is_secret)
        texts = (leaf if isinstance(leaf, str) else to_json(leaf) for leaf in leaves)
        return frozenset(chain(texts, self._keys)) - {""}

    @cached_property
    def _mask(self) -> Mask:
        return Mask(self._engine.data, {_KEY: sorted(self._keys)})


def _words_of(value: Any) -> Iterator[str]:
    """Yield the words of a document's texts and names, in lower case."""
    for leaf, _ in _leaves(value):
        if isinstance(leaf, str):
            yield from map(str.casefold, _WORD.findall(leaf))


def _leaves(value: Any, *, with_names: bool = True) -> Iterator[tuple[Any, bool]]:
    """Yield each text and each number but 0 and 1 of a document, with True if it is secret: a name
    above it is one of a secret, such as `password`, or of several, such as `tokens`. Names of
    objects are yielded too, unless `with_names` is False; they are secret below such names.
    """
    left = [(value, False, False)]
    while left:
        each, is_named, is_below = left.pop()
        if isinstance(each, dict):
            for name, item in each.items():
                # Below `api_keys` and `tokens`, the names are the credentials.
                if with_names:
                    yield name, is_named or is_below
                is_all = is_below or names_all_below(name)
                left.append((item, is_named or _names_secret(name), is_all))
        elif isinstance(each, list):
            left += [(item, is_named, is_below) for item in each]
        elif isinstance(each, str) or (
            isinstance(each, (int, float)) and each not in (True, False)
        ):
            yield each, is_named or is_below


def _names_secret(name: str) -> bool:
    return name.lower() == "key" or names_credential(name)


def _keys_of(module: Module) -> Iterator[Term]:
    """Yield the terms that a module gives to built-ins of tokens and signatures as keys: each
    operand but the first; of an operand that is an object, only the values of its members that hold
    a key (`secret`).
    """
    for node in walk(module):
        if not isinstance(node, Call) or not node.name.startswith(_KEYED):
            continue
        for term in node.args[1:]:
            if isinstance(term, Object):
                yield from (value for name, value in term.items if _is_key(name))
            else:
                yield term


def _is_key(name: Term) -> bool:
    return isinstance(name, Scalar) and name.value == _KEY


def _document_at(data: Any, ref: Ref) -> Any:
    """Return the base document that a reference reads, up to its first operand that is not
    constant, or to a value that is not an object. None for a reference that does not begin with
    `data`, or if there is no document.
    """
    if getattr(ref.head, "name", "") != "data":
        return None
    for arg in ref.args:
        if not isinstance(arg, Scalar) or not isinstance(data, dict):
            return data
        data = data.get(arg.value)
    return data
