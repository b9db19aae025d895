"""YAML as OPA reads and writes it: YAML 1.1 with Go's idea of numbers, by way of JSON.

A text becomes a tree of nodes (PyYAML), and the nodes become values here, since PyYAML reads dates,
sexagesimal numbers and octals in another way. Writing follows the same rules: a number is written
as what its JSON text means in YAML, and a string is quoted if it would otherwise read as something
else.

Bounds: `MAX_TEXT` characters; `MAX_NODES` values, counting those that an alias repeats each time;
nesting as deep as Python's stack follows.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Callable, Iterator
from functools import cmp_to_key, lru_cache
from itertools import chain
from math import isinf, isnan
from typing import Any, Final

from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json import marshal as json_text
from doorward.rego.golang.octets import SURROGATES, from_bytes, scrub
from doorward.rego.golang.yaml_nodes import Node, YamlError, compose, go_syntax
from doorward.rego.numbers import number_text, parse_number
from doorward.rego.values import Key, Value, from_key, sorted_keys, sorted_values

__all__ = ["json_float", "marshal", "unmarshal"]

MAX_TEXT: Final = 256 * 1024
"""The most characters of a YAML text that is read, or of the JSON of a value that is written; more
is a LimitError.
"""
MAX_NODES: Final = 200_000
"""The most values of a YAML text, counting those that aliases repeat; more is a LimitError."""

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
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\Z", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d?-\d\d?(?:[Tt ].*)?\Z", re.ASCII)
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
        return None if root is None else _Reader(max(MAX_NODES, max_text)).value(root)
    except YamlError as error:
        raise BuiltinError(str(error)) from None
    except RecursionError:
        raise LimitError("yaml: nested too deeply") from None


def _bad_escape() -> BuiltinError:
    return BuiltinError("yaml: found invalid Unicode character escape code")


class _Reader:
    """Converts YAML nodes to values. `count` is the number of nodes so far, those that aliases
    repeat included, and `repeated` those alone; `known` holds the value and count of converted
    collections.
    """

    def __init__(self, max_nodes: int) -> None:
        self.max_nodes = max_nodes
        self.count = 0
        self.repeated = 0
        self.open: set[int] = set()
        self.known: dict[int, tuple[Value, int]] = {}

    def value(self, node: Node) -> Value:
        """Return the value of a node; a collection with an anchor is converted once and shared by
        its aliases. BuiltinError for an invalid scalar or key, or excessive aliases; LimitError
        above `max_nodes`.
        """
        if node.kind == "scalar":
            self._spend(1)
            return _json_value(_scalar(node))
        if node.kind == "alias":
            known = self.known.get(id(node.target))
            if known:
                self._spend(known[1], repeated=True)
                return known[0]
            return self._alias(node)
        before = self.count
        self._spend(1)
        value: Value
        if node.kind == "sequence":
            value = [self.value(item) for item in node.value]
        else:
            value = self._mapping(node)
        self.known[id(node)] = value, self.count - before
        return value

    def _alias(self, node: Node) -> Value:
        """Return the value of an alias of a scalar. BuiltinError for an alias of a collection that
        is still being converted, and so contains the alias.
        """
        if id(node) in self.open:
            raise BuiltinError(f"yaml: anchor '{node.tag}' value contains itself")
        self.open.add(id(node))
        value = self.value(node.target)
        self.open.discard(id(node))
        return value

    def _spend(self, count: int, *, repeated: bool = False) -> None:
        """Count values. BuiltinError, as in OPA, if nearly all of them are repeated by aliases;
        LimitError above `max_nodes`.
        """
        self.count += count
        self.repeated += count if repeated else 0
        # The numbers of decode.go in Go's yaml.v2, against documents that aliases blow up.
        if self.repeated > 100 and self.count > 1000 and self.repeated > 0.99 * self.count:
            raise BuiltinError("yaml: document contains excessive aliasing")
        if self.count > self.max_nodes:
            raise LimitError(f"yaml: document has more than {self.max_nodes} values")

    def _mapping(self, node: Node) -> dict[Key, Value]:
        """Return the object of a mapping, merge keys (`<<`) applied in order; of equal keys the
        last wins. BuiltinError for null or a collection as a key.
        """
        value: dict[Key, Value] = {}
        for key_node, item in node.value:
            if key_node.kind == "scalar" and key_node.plain and key_node.value == "<<":
                for merged in self._merge(item):
                    value.update(merged)
                continue
            key = self._key(key_node)
            below = self.value(item)
            if key is None:
                value_text = "<nil>" if below is None else go_syntax(item, _scalar, _is_text_map)
                raise BuiltinError(
                    f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {value_text}"
                )
            value[key] = below
        return value

    def _merge(self, node: Node) -> Iterator[dict[Key, Value]]:
        """Yield the objects that a merge key names, the one with precedence last; BuiltinError for
        other values.
        """
        # Of several, the first has precedence.
        for item in reversed(node.value) if node.kind == "sequence" else [node]:
            if item.target.kind != "mapping":
                raise BuiltinError("yaml: map merge requires map or sequence of maps as the value")
            yield self.value(item)  # type: ignore[misc] # a mapping's value

    def _key(self, node: Node) -> str | None:
        """Return a key as text, None for null. BuiltinError for a collection or an invalid
        scalar.
        """
        if node.target.kind != "scalar":
            self.value(node)  # which bounds what is shown
            key_text = go_syntax(node, _scalar, _is_text_map)
            raise BuiltinError(f"yaml: invalid map key: {key_text}")
        key = _scalar(node.target)
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, float):
            return _float_key(key)
        return None if key is None else str(key)


def _is_text_map(_mapping: Node) -> bool:
    """Return False: version 2 of Go's library reads each mapping as `map[interface {}]…`."""
    return False


def _float_key(key: float) -> str:
    """Return a float as the text of a key, which Go rounds to 32 bits."""
    nearest = _single(key)
    if isnan(nearest) or isinf(nearest):
        return ".nan" if isnan(nearest) else ".inf" if nearest > 0 else "-.inf"
    return _go_g(key, single=True)


def _scalar(node: Node) -> object:
    """Return the value of a scalar: a string, boolean, integer, float or None. BuiltinError if it
    does not have the type of its tag, for invalid base64, or an invalid escape.
    """
    text: str = node.value
    if not text.isascii() and SURROGATES.search(text):
        raise _bad_escape()  # the reader lets none through that is not an escape
    tag = node.tag
    if tag == "":
        return _resolve(text) if node.plain else text
    if tag == "!!binary":
        try:
            return from_bytes(binascii.a2b_base64(text, strict_mode=True))
        except (binascii.Error, ValueError):
            raise BuiltinError("yaml: !!binary value contains invalid base64 data") from None
    if tag not in _TAGS:
        return text
    resolved = _resolve(text)
    implied = _tag_of(text, resolved)
    if tag == "!!float" and implied == "!!int":
        return float(resolved)  # type: ignore[arg-type] # an integer
    if tag != implied:
        raise BuiltinError(f"yaml: cannot decode {implied} `{text}` as a {tag}")
    return resolved


_TAGS: Final = frozenset({"!!bool", "!!int", "!!float", "!!null", "!!timestamp"})


def _tag_of(text: str, resolved: object) -> str:
    """Return the YAML tag of a resolved scalar, such as `!!int`; a string that looks like a date
    has `!!timestamp`.
    """
    if isinstance(resolved, str):
        return "!!timestamp" if _TIMESTAMP.match(text) else "!!str"
    kinds = {bool: "!!bool", int: "!!int", float: "!!float", type(None): "!!null"}
    return kinds[type(resolved)]


@lru_cache(maxsize=4096)
def _resolve(text: str) -> object:
    """Return the value of an unquoted scalar: a boolean, integer of 64 bits (with or without a
    sign), float, None, or otherwise, also for a date, the text itself. Cached.
    """
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first not in "+-.0123456789":
        return text
    plain = text if first == "." else text.replace("_", "")
    match = None if first == "." else _INTEGER.match(plain)
    if match and len(plain) <= 80:
        sign, *digits = match.groups()
        base, numeral = next((b, d) for b, d in zip((16, 2, 8, 10), digits, strict=True) if d)
        value = int(sign + numeral, base)
        if -(1 << 63) <= value < 1 << 64:
            return value
    if _FLOAT.match(plain) and len(plain) <= 4096:
        number = float(plain)
        # Go's ParseFloat has a range error, so that `1e999` stays a text.
        if not isinf(number):
            return number
    return text


def _json_value(resolved: object) -> Value:
    """Return a resolved scalar as a Rego value, a float with the text that Go's JSON gives it;
    BuiltinError for infinity and NaN.
    """
    if isinstance(resolved, float):
        if isnan(resolved) or isinf(resolved):
            text = "NaN" if isnan(resolved) else "+Inf" if resolved > 0 else "-Inf"
            raise BuiltinError(f"json: unsupported value: {text}")
        return parse_number(json_float(resolved))
    return resolved  # type: ignore[return-value] # a string, bool, int or None


def _digits(value: float, *, single: bool = False) -> tuple[str, str, int]:
    """Return the sign ("-" or ""), the fewest digits, and the decimal exponent of the first digit.
    `single`: as a float32.
    """
    mantissa, _, exponent = _shortest(abs(value), single=single).partition("e")
    sign = "-" if str(value).startswith("-") else ""
    return sign, mantissa.replace(".", ""), int(exponent)


def _shortest(value: float, *, single: bool) -> str:
    """Return the fewest digits that read back to `value`, or if `single` to its nearest float32, in
    scientific notation.
    """
    precision = 0
    while True:  # 17 digits are enough for any float
        text = f"{value:.{precision}e}"
        same = _single(float(text)) == _single(value) if single else float(text) == value
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
    point = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"


def json_float(value: float) -> str:
    """Write a float64 as Go's `encoding/json` does."""
    sign, digits, exponent = _digits(value)
    if value and (exponent < -6 or exponent >= 21):
        return sign + _scientific(digits, exponent, 2).replace("e-0", "e-")
    return sign + _positional(digits, exponent)


def _go_g(value: float, *, single: bool = False) -> str:
    """Write a number as Go's `strconv.FormatFloat(value, 'g', -1, …)` does, with 64 bits or, if
    `single`, 32.
    """
    sign, digits, exponent = _digits(value, single=single)
    if value and (exponent < -4 or exponent >= 6):
        return sign + _scientific(digits, exponent, 2)
    return sign + _positional(digits, exponent)


def marshal(value: Value, checked: Callable[[Iterator[Any]], Iterator[Any]] = iter) -> str:
    """Return the YAML text of a value, with keys in natural order (`a9` before `a10`). LimitError
    if its JSON is longer than `MAX_TEXT`, BuiltinError for a string with U+FFFE, U+FFFF or a byte
    that is not UTF-8. `checked` wraps the iterator of PyYAML's events for the value, of which 100
    take about two milliseconds; it may raise to stop the work.
    """
    import yaml  # only policies that use YAML need it

    _check_size(value)  # which also refuses what is nested more deeply than we follow here
    events = chain(
        (yaml.StreamStartEvent(), yaml.DocumentStartEvent(explicit=False)),
        checked(_events(yaml, value)),
        (yaml.DocumentEndEvent(explicit=False), yaml.StreamEndEvent()),
    )
    text: str = yaml.emit(events, Dumper=_emitter(), allow_unicode=True, width=80)
    # PyYAML's mark behind a scalar that is a whole document; Go's library writes none.
    return text.removesuffix("...\n")


@lru_cache(maxsize=1)
def _emitter() -> Any:
    """Return PyYAML's emitter class, changed to write as Go's library does. PyYAML is imported by
    the first call.
    """
    import yaml.emitter  # only policies that use YAML need it

    class GoEmitter(yaml.emitter.Emitter):
        """PyYAML's emitter, with Go's rules for printable characters, empty documents and empty
        keys.
        """

        def analyze_scalar(self, scalar: str) -> Any:
            """Require double quotes for texts that Go takes for unprintable."""
            analysis = super().analyze_scalar(scalar)
            if _UNPRINTABLE.search(scalar):
                analysis.allow_flow_plain = analysis.allow_block_plain = False
                analysis.allow_single_quoted = analysis.allow_block = False
            return analysis

        def check_empty_document(self) -> bool:
            return False

        def check_simple_key(self) -> bool:
            """Allow the empty string as a simple key."""
            if isinstance(self.event, yaml.ScalarEvent) and self.event.value == "":
                return True
            return bool(super().check_simple_key())

    return GoEmitter


_UNPRINTABLE: Final = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


def _check_size(value: Value) -> None:
    """Raise LimitError if the value's JSON is longer than `MAX_TEXT` characters."""
    if len(json_text(value)) > MAX_TEXT:
        raise LimitError(f"yaml: the value is longer than {MAX_TEXT} characters as JSON")


def _events(yaml: Any, value: Value) -> Iterator[Any]:
    """Yield PyYAML's events for a value; keys that are not strings become the string of their JSON.
    BuiltinError, when it is reached, for a string with U+FFFE, U+FFFF or bytes that are not UTF-8.
    """
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=not value)
        texts: dict[str, Value] = {}
        for key in sorted_keys(value):
            texts[key if type(key) is str else json_text(from_key(key))] = value[key]
        for text in sorted(texts, key=cmp_to_key(_compare_keys)):
            yield _string(yaml, text)
            yield from _events(yaml, texts[text])
        yield yaml.MappingEndEvent()
    elif isinstance(value, (list, frozenset)):
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=not value)
        for item in value if isinstance(value, list) else sorted_values(value):
            yield from _events(yaml, item)
        yield yaml.SequenceEndEvent()
    elif isinstance(value, str):
        yield _string(yaml, value)
    else:
        yield yaml.ScalarEvent(None, None, (True, True), _plain_text(value), style="")


def _plain_text(value: Value) -> str:
    """Return null, a boolean or a number as unquoted YAML: a number that is not an integer of 64
    bits as Go writes its float, or as its text if it is too large for a float.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    resolved = _resolve(number_text(value))  # type: ignore[arg-type] # a number is left
    return _go_g(resolved) if isinstance(resolved, float) else str(resolved)


def _string(yaml: Any, text: str) -> Any:
    """Return the event of a string: in quotes if it would read as another type, as a block if it
    has several lines. BuiltinError for U+FFFE, U+FFFF and bytes that are not UTF-8.
    """
    if re.search("[\ufffe\uffff\ud800-\udfff]", text):
        raise BuiltinError("yaml: control characters are not allowed")
    # `12:30` is a text to Go, but not to other readers of YAML 1.1, for which its library quotes
    # it.
    if not isinstance(_resolve(text), str) or _BASE_60.match(text) or _TIMESTAMP.match(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    else:
        style = ""
    return yaml.ScalarEvent(None, None, (True, True), text, style=style)


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
