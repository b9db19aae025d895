"""YAML as OPA reads and writes it: YAML 1.1 with Go's idea of numbers, by way of JSON.

A text becomes a tree of nodes (PyYAML), and the nodes become values here, since PyYAML reads dates,
sexagesimal numbers and octals in another way. Writing follows the same rules: a number is written
as what its JSON text means in YAML, and a string is quoted if it would otherwise read as something
else.

Bounds: `MAX_TEXT` characters; `MAX_NODES` values, counting those that an alias repeats each time;
nesting as deep as Python's stack follows.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cmp_to_key, lru_cache
from math import isinf, isnan
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang import base64
from doorward.rego.golang.json import marshal as json_text
from doorward.rego.golang.layouts import parse_time
from doorward.rego.golang.octets import SURROGATES, scrub, to_text
from doorward.rego.golang.yaml_nodes import Node, YamlError, compose, compose_slow, go_syntax
from doorward.rego.golang.yaml_writer import End, Event, Scalar, Start, write
from doorward.rego.numbers import number_text, parse_number
from doorward.rego.values import Key, Value, from_key, sorted_keys, sorted_values

__all__ = ["json_float", "marshal", "unmarshal"]

MAX_TEXT: Final = 256 * 1024
"""The most characters of a YAML text that is read, or of the JSON of a value that is written; more
is a LimitError.
"""
MAX_NODES: Final = 200_000
"""The most keys, values and aliases of a YAML text, counting those that aliases repeat; more is a
LimitError.
"""

_WORDS: Final[dict[str, object]] = {
    **{word: True for word in ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON")},
    **{word: True for word in ("true", "True", "TRUE")},
    **{word: False for word in ("n", "N", "no", "No", "NO", "off", "Off", "OFF")},
    **{word: False for word in ("false", "False", "FALSE")},
    **{word: None for word in ("", "~", "null", "Null", "NULL")},
    **{word: float("nan") for word in (".nan", ".NaN", ".NAN")},
    **{sign + word: float("inf") for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{word: float("-inf") for word in ("-.inf", "-.Inf", "-.INF")},
}
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))\Z", re.ASCII
)
_BINARY: Final = re.compile(r"0b([-+][01]+)\Z")
"""Matches a binary number with its sign behind `0b`, which Go's library reads as well."""
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\Z", re.ASCII)
_FRACTION: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?\Z", re.ASCII)
"""Matches a float that begins with its point: only there underscores must be between digits."""
_DATE: Final = re.compile(r"[0-9]{4}-")
_LAYOUTS: Final = (
    "2006-1-2T15:4:5.999999999Z07:00",
    "2006-1-2t15:4:5.999999999Z07:00",
    "2006-1-2 15:4:5.999999999",
    "2006-1-2",
)
"""Go's layouts of what its library takes for a timestamp."""
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z", re.ASCII)


def unmarshal(text: str, *, max_text: int = MAX_TEXT) -> Value:
    """Parse the first document of a YAML text; None (null) for an empty text. BuiltinError if it is
    invalid. LimitError for more characters than `max_text`, for more values than the greater of
    that and `MAX_NODES`, or for too deep nesting.
    """
    if len(text) > max_text:
        raise LimitError(f"yaml: text is longer than {max_text} characters")
    try:
        root = compose(scrub(text), is_old=True)
        return None if root is None else _Reader(max(MAX_NODES, max_text)).document(root)
    except YamlError as error:
        raise BuiltinError(str(error)) from None
    except RecursionError:
        raise LimitError("yaml: nested too deeply") from None


def _bad_escape() -> BuiltinError:
    return BuiltinError("yaml: found invalid Unicode character escape code")


@record
class _Refused:
    """Stands for a float or a member of an object that JSON has not."""

    message: str


_REFUSED_KEY: Final[Any] = object()
"""The key of members that are refused for their own."""


def _find_refused(value: Value, known: set[int]) -> None:
    """Raise BuiltinError, with its message, if there is a `_Refused` (a number or member that JSON
    does not have) in a value, at any depth. `known` has the ids of collections that were searched
    without finding one; those searched are added.
    """
    if isinstance(value, _Refused):
        raise BuiltinError(value.message)
    if isinstance(value, (dict, list)) and id(value) not in known:
        for item in value.values() if isinstance(value, dict) else value:
            _find_refused(item, known)
        known.add(id(value))


class _Reader:
    """Converts YAML nodes to values. `count` is the number of nodes so far, aliases and keys and
    those that aliases repeat included, and `repeated` the last alone; `known` holds the value and
    count of converted collections.
    """

    def __init__(self, max_nodes: int) -> None:
        self.max_nodes = max_nodes
        self.count = 1  # the document
        self.repeated = 0
        self.has_refused = False
        self.open: set[int] = set()
        self.known: dict[int, tuple[Value, int]] = {}

    def value(self, node: Node) -> Value:
        """Return the value of a node; a collection with an anchor is converted once and shared by
        its aliases. BuiltinError for an invalid scalar or key, or excessive aliases; LimitError
        above `max_nodes`.
        """
        if node.kind == "scalar":
            self._spend(1)
            return self._json_value(_scalar(node))
        if node.kind == "alias":
            return self._alias(node)
        before = self.count
        self._spend(1)
        value: Value
        if node.kind == "sequence":
            value = [self.value(item) for item in node.value]
        else:
            value = self._mapping(node)
        # By id: the tree holds all nodes as long as it is read.
        self.known[id(node)] = value, self.count - before
        return value

    def document(self, root: Node) -> Value:
        """Return the value of the root of a document. BuiltinError, LimitError as `value`, and
        BuiltinError for a float or key that JSON has not. As in Go's library these count only here:
        a later member with the same key takes the place of one that has them.
        """
        value = self.value(root)
        if self.has_refused:
            _find_refused(value, set())
        return value

    def _refuse(self, message: str) -> Value:
        """Set `has_refused`, and return a placeholder with the error for a float or member that
        JSON cannot have.
        """
        self.has_refused = True
        return _Refused(message)  # type: ignore[return-value] # never leaves `document`

    def _json_value(self, resolved: object) -> Value:
        """Return a resolved scalar as a Rego value, a float with the text that Go's JSON gives it,
        and `_Refused` for infinity and NaN.
        """
        if not isinstance(resolved, float):
            return resolved  # type: ignore[return-value] # a string, bool, int or None
        if isnan(resolved) or isinf(resolved):
            text = "NaN" if isnan(resolved) else "+Inf" if resolved > 0 else "-Inf"
            return self._refuse(f"json: unsupported value: {text}")
        return parse_number(json_float(resolved))

    def _alias(self, node: Node) -> Value:
        """Return the value of an alias, and count its nodes again. BuiltinError for an alias of a
        collection that is still being converted, and so contains the alias, or if aliases are
        excessive; LimitError above `max_nodes`.
        """
        self._spend(1)
        if id(node) in self.open:
            raise BuiltinError(f"yaml: anchor '{node.tag}' value contains itself")
        self.open.add(id(node))
        known = self.known.get(id(node.target))
        if known:
            self._spend(known[1])
            value = known[0]
        else:
            value = self.value(node.target)
        self.open.discard(id(node))
        return value

    def _spend(self, count: int) -> None:
        """Add `count` values to those that the document has so far, and to the repeated ones while
        an alias is read. BuiltinError, as in OPA, if more than 1,000 values are there and nearly
        all are repeated by aliases; LimitError above `max_nodes`.
        """
        self.count += count
        self.repeated += count if self.open else 0
        # The numbers of decode.go in Go's yaml.v2, against documents that aliases blow up.
        if self.repeated > 100 and self.count > 1000 and self.repeated > 0.99 * self.count:
            raise BuiltinError("yaml: document contains excessive aliasing")
        if self.count > self.max_nodes:
            raise LimitError(f"yaml: document has more than {self.max_nodes} values")

    def _mapping(self, node: Node) -> dict[Key, Value]:
        """Return the object of a mapping, merge keys (`<<`) applied in order; of equal keys the
        last wins. A key that Go's library refuses leaves a mark, which is an error only if the
        object is kept. BuiltinError for a collection as a key; values are counted (LimitError).
        """
        value: dict[Key, Value] = {}
        for key_node, item in node.value:
            if _is_merge(key_node):
                for merged in self._merge(item):
                    value.update(merged)
                continue
            key = self._key(key_node)
            below = self.value(item)
            if not isinstance(key, str):
                kind = "%!s(<nil>), key: <nil>" if key is None else f"uint64, key: {key:#x}"
                value_text = "<nil>" if below is None else go_syntax(item, _scalar, _is_text_map)
                message = f"unsupported map key of type: {kind}, value: {value_text}"
                value[_REFUSED_KEY] = self._refuse(message)
            else:
                value[key] = below
        return value

    def _merge(self, node: Node) -> Iterator[dict[Key, Value]]:
        """Yield the objects in the value of a merge key (`<<`), a mapping or a sequence of
        mappings, the one with precedence last; BuiltinError for another value.
        """
        # Of several, the first has precedence.
        for item in reversed(node.value) if node.kind == "sequence" else [node]:
            if item.target.kind != "mapping":
                raise BuiltinError("yaml: map merge requires map or sequence of maps as the value")
            yield self.value(item)  # type: ignore[misc] # a mapping's value

    def _key(self, node: Node) -> str | int | None:
        """Return a key as text, numbers and booleans as JSON has them. Returned as they are: None
        for null, and an integer that needs 64 bits without a sign, which Go's library refuses as a
        key. Counts a value (LimitError). BuiltinError for a collection or an invalid scalar.
        """
        if node.target.kind != "scalar":
            self.value(node)  # which bounds what is shown
            key_text = go_syntax(node, _scalar, _is_text_map)
            raise BuiltinError(f"yaml: invalid map key: {key_text}")
        if node.kind == "alias":
            self._alias(node)
        else:
            self._spend(1)
        key = _scalar(node.target)
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, float):
            return _float_key(key)
        assert key is None or isinstance(key, int)
        return key if key is None or key >= 1 << 63 else str(key)


def _is_merge(node: Node) -> bool:
    """Return True for a key `<<` without quotes, or with the tag `!` or `!!merge`."""
    if node.kind != "scalar" or node.value != "<<":
        return False
    return node.tag in ("!!merge", "!") or (node.plain and node.tag == "")


def _is_text_map(_mapping: Node) -> bool:
    """Return False: version 2 of Go's library reads each mapping as `map[interface {}]…`."""
    return False


def _float_key(key: float) -> str:
    """Return a float as the text of a key in Go's YAML library, which rounds it to 32 bits; `.nan`,
    `.inf` and `-.inf` where it is not finite then.
    """
    nearest = _single(key)
    if isnan(nearest) or isinf(nearest):
        return ".nan" if isnan(nearest) else ".inf" if nearest > 0 else "-.inf"
    return _go_g(nearest, single=True)


def _scalar(node: Node) -> object:
    """Return the value of a scalar: a string, boolean, integer, float or None. Without a tag, only
    an unquoted one is anything but a string; an unknown tag makes a string, `!!binary` decodes
    base64. BuiltinError if it does not have the type of its tag, for invalid base64, or an escape
    of half a character.
    """
    text: str = node.value
    if not text.isascii() and SURROGATES.search(text):
        raise _bad_escape()  # the reader lets none through that is not an escape
    tag = node.tag
    if tag == "":
        return _resolve(text) if node.plain else text
    if tag == "!!binary":
        try:
            return to_text(base64.decode(text))
        except BuiltinError:
            raise BuiltinError("yaml: !!binary value contains invalid base64 data") from None
    if tag not in _TAGS:
        return text
    resolved = _resolve(text)
    implied = _tag_of(text, resolved)
    # Go makes a float of an int64 here, and not of a uint64.
    if tag == "!!float" and type(resolved) is int and resolved < 1 << 63:
        return float(resolved)
    if tag != implied:
        raise BuiltinError(f"yaml: cannot decode {implied} `{text}` as a {tag}")
    return resolved


_TAGS: Final = frozenset({"!!bool", "!!int", "!!float", "!!null", "!!timestamp"})


def _tag_of(text: str, resolved: object) -> str:
    """Return the YAML tag of a resolved scalar, such as `!!int`; a string that is a date has
    `!!timestamp`.
    """
    if isinstance(resolved, str):
        return "!!timestamp" if _is_timestamp(text) else "!!str"
    kinds = {bool: "!!bool", int: "!!int", float: "!!float", type(None): "!!null"}
    return kinds[type(resolved)]


def _is_timestamp(text: str) -> bool:
    """Return True if Go's library takes the text for a date or a time."""
    if not _DATE.match(text):
        return False
    for layout in _LAYOUTS:
        try:
            parse_time(layout, text)
        except BuiltinError:
            continue
        return True
    return False


@lru_cache(maxsize=4096)
def _resolve(text: str) -> object:
    """Return the value of an unquoted scalar that is not empty: a boolean, None, an integer (64
    bits with a sign, or 64 without), a float, infinity or NaN, or otherwise the text itself, also
    for a date and for a number that is too long. Underscores in numbers are ignored. Cached.
    """
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first not in "+-.0123456789":
        return text
    if first == ".":
        return _float(text) if len(text) <= 4096 and _FRACTION.match(text) else text
    plain = text.replace("_", "")
    if len(plain) <= 80 and (match := _INTEGER.match(plain)):
        sign, *digits = match.groups()
        base, numeral = next((b, d) for b, d in zip((16, 2, 8, 10), digits, strict=True) if d)
        value = int(sign + numeral, base)
        # Go reads what has no room with a sign as one without, which may not have a sign.
        if -(1 << 63) <= value < 1 << (63 if sign else 64):
            return value
    if len(plain) <= 4096 and _FLOAT.match(plain):
        return _float(plain, text)
    if len(plain) <= 80 and (match := _BINARY.match(plain)):
        value = int(match[1], 2)
        if -(1 << 63) <= value < 1 << 63:
            return value
    return text


def _float(plain: str, text: str | None = None) -> object:
    """Return the float of a numeral, or `text`, without one the numeral, if it is too large: Go
    reports a range error, so that `1e999` stays a text.
    """
    number = float(plain)
    return (text or plain) if isinf(number) else number


def _digits(value: float, *, single: bool = False) -> tuple[str, str, int]:
    """Return the sign ("-" or ""), the fewest digits, and the decimal exponent of the first digit.
    `single`: as a float32.
    """
    mantissa, _, exponent = _shortest(abs(value), single=single).partition("e")
    # From the text, for -0.0 as well, which is not less than 0.
    sign = "-" if str(value).startswith("-") else ""
    return sign, mantissa.replace(".", ""), int(exponent)


def _shortest(value: float, *, single: bool) -> str:
    """Return the fewest digits that read back to `value`, or if `single` to its nearest float32, in
    scientific notation.
    """
    precision = 0
    while True:  # 17 digits are enough for any float
        text = f"{value:.{precision}e}"
        same = _single(float(text)) == value if single else float(text) == value
        if same:
            return text
        precision += 1


def _single(value: float) -> float:
    # Of the machine's own kind, which makes infinity of what is too large.
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _positional(digits: str, exponent: int) -> str:
    """Write digits without an exponent; `exponent` is that of the first digit."""
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return digits[: exponent + 1] + "." + digits[exponent + 1 :]


def _scientific(digits: str, exponent: int, width: int) -> str:
    """Write digits with a point behind the first one, if there are more, and an exponent with a
    sign and at least `width` digits.
    """
    point = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"


def json_float(value: float) -> str:
    """Return a finite float64 as Go's `encoding/json` writes it: the fewest digits that read back,
    with an exponent below 1e-6 and from 1e21 on.
    """
    sign, digits, exponent = _digits(value)
    if value and (exponent < -6 or exponent >= 21):
        # As Go's JSON encoder, which writes `e-9` for the `e-09` of its `strconv`.
        return sign + _scientific(digits, exponent, 2).replace("e-0", "e-")
    return sign + _positional(digits, exponent)


def _go_g(value: float, *, single: bool = False) -> str:
    """Write a number as Go's `strconv.FormatFloat(value, 'g', -1, …)` does, with 64 bits or, if
    `single`, 32.
    """
    sign, digits, exponent = _digits(value, single=single)
    # 6 for the fewest digits, however many there are, as in Go.
    if value and (exponent < -4 or exponent >= 6):
        return sign + _scientific(digits, exponent, 2)
    return sign + _positional(digits, exponent)


def marshal(
    value: Value,
    checked: Callable[[Iterator[Any]], Iterator[Any]] = iter,
    enforced: Callable[[int], AbstractContextManager[object]] = nullcontext,
) -> str:
    """Return the YAML text of a value, with keys in natural order (`a9` before `a10`). LimitError
    if its JSON is longer than `MAX_TEXT`, BuiltinError for a text that YAML cannot hold. `checked`
    wraps the iterator of events for the value, of which 100 take about half a millisecond, and
    `enforced` returns a context in which a text of that length is read; both may raise to stop the
    work.
    """
    text = json_text(value)
    if len(text) > MAX_TEXT:
        raise LimitError(f"yaml: the value is longer than {MAX_TEXT} characters as JSON")
    return write(checked(_events(value, enforced)))


_READ_AGAIN: Final = re.compile("[\x7f-\x9f\ufffe\uffff]")
"""Matches a character of JSON that YAML, as which OPA's library reads it, treats apart."""
MAX_KEY: Final = 1024
"""The most characters of a key, as JSON."""


def _events(
    value: Value, enforced: Callable[[int], AbstractContextManager[object]]
) -> Iterator[Event]:
    """Yield the events from which the YAML of a value is written, keys in the order of Go's
    library; keys that are not strings become the string of their JSON. A string that YAML might
    read in another way is read again, in the context of `enforced`, called with its length, which
    may raise LimitError.
    """
    if isinstance(value, dict):
        yield Start(is_mapping=True, is_empty=not value)
        if not value:
            return
        texts: dict[str, Value] = {}
        for key in sorted_keys(value):
            text = key if type(key) is str else json_text(from_key(key))
            texts[_read_again(text, enforced, is_key=True)] = value[key]
        for text in sorted(texts, key=cmp_to_key(_compare_keys)):
            yield _string(text)
            yield from _events(texts[text], enforced)
        yield End()
    elif isinstance(value, (list, frozenset)):
        yield Start(is_mapping=False, is_empty=not value)
        if not value:
            return
        for item in value if isinstance(value, list) else sorted_values(value):
            yield from _events(item, enforced)
        yield End()
    elif isinstance(value, str):
        yield _string(_read_again(value, enforced, is_key=False))
    else:
        yield Scalar(_plain_text(value), "")


def _read_again(
    text: str, enforced: Callable[[int], AbstractContextManager[object]], *, is_key: bool
) -> str:
    """Return a string as OPA's library reads its JSON, which it takes for YAML: U+0085 is a line
    break, and folded, and lone surrogates become U+FFFD. What YAML might read differently is read
    in the context of `enforced`, called with its length. BuiltinError for characters that YAML
    refuses, and for a key that is longer than `MAX_KEY` or has a line break.
    """
    if is_key and len(text) > MAX_KEY // 6 and len(json_text(text)) > MAX_KEY:
        raise BuiltinError("yaml: did not find expected ',' or '}'")
    if text.isascii() and "\x7f" not in text:
        return text
    if not _READ_AGAIN.search(text):
        return scrub(text)
    try:
        with enforced(len(text)):
            node = compose_slow(json_text(text), is_old=True)
    except YamlError as error:
        raise BuiltinError(str(error)) from None
    if is_key and "\x85" in text:
        raise BuiltinError("yaml: did not find expected ',' or '}'")
    assert node is not None
    again: str = node.value
    return again


def _plain_text(value: Value) -> str:
    """Return null, a boolean or a number as unquoted YAML: a number that is not an integer of 64
    bits as Go writes its float, or as its text if it is too large for a float.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    resolved = _resolve(number_text(value))  # type: ignore[arg-type] # a number is left
    return _go_g(resolved) if isinstance(resolved, float) else str(resolved)


def _string(text: str) -> Scalar:
    """Return the event of a string: in quotes if it would read as another type, as a block if it
    has several lines.
    """
    # `12:30` is a text to Go, but not to other readers of YAML 1.1, for which its library quotes
    # it.
    if not isinstance(_resolve(text), str) or _BASE_60.match(text) or _is_timestamp(text):
        return Scalar(text, '"')
    return Scalar(text, "|" if "\n" in text else "")


_DIGITS: Final = re.compile(r"\d*")
"""Matches digits of any script, as in Go."""


def _compare_keys(a: str, b: str) -> int:
    """Compare two keys in the natural order of Go's library; return a negative number, 0 or a
    positive number. The first difference decides: letters stand behind other characters, and
    numbers are compared by value.
    """
    at = _first_difference(a, b)
    if at == min(len(a), len(b)):
        return len(a) - len(b)
    one, other = a[at], b[at]
    if one.isalpha() or other.isalpha():
        same = one.isalpha() and other.isalpha()
        return ord(one) - ord(other) if same else one.isalpha() - other.isalpha()
    # A zero continues the number before it, unless that consists of zeros.
    leading = int("0" in (one, other) and _ends_in_number(a[:at]))
    runs = [_DIGITS.match(text, at).group() for text in (a, b)]  # type: ignore[union-attr] # may be empty
    left, right = [_int64(leading, run) for run in runs]
    if left != right:
        return -1 if left < right else 1
    return len(runs[0]) - len(runs[1]) or ord(one) - ord(other)


def _first_difference(a: str, b: str) -> int:
    """Return the offset of the first character that differs, or the length of the shorter text."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _ends_in_number(text: str) -> bool:
    """Return True if the text ends with digits that are not all zeros."""
    before = text.rstrip("0")
    return before[-1:].isdecimal()


def _int64(leading: int, digits: str) -> int:
    """Return the integer with the decimal digits `leading` and `digits`, wrapped to 64 bits as in
    Go. Another character among the digits counts by its distance from `0`.
    """
    # What is more than 64 digits in front is a multiple of 2^64.
    number = leading if len(digits) < 64 else 0
    for digit in digits[-64:]:
        number = number * 10 + ord(digit) - ord("0")
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
