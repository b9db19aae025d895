"""YAML as OPA reads and writes it: YAML 1.1 with Go's idea of numbers, by way of JSON.

Text becomes a tree of nodes (PyYAML), the nodes become values here, since PyYAML's own ideas of
dates, sexagesimal numbers and octals are others. Writing goes through the same rules: a number is
what its JSON text means in YAML, a string is quoted if it would otherwise mean something else.

Bounds: `MAX_TEXT` characters; `MAX_NODES` values, counting what an alias repeats as often as it
is repeated; nesting as deep as Python's stack follows.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from math import isinf, isnan
from typing import Any, Final

from doorward.rego.builtins.go_json import marshal as json_text
from doorward.rego.builtins.octets import SURROGATES, from_bytes, scrub
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.numbers import number_text, parse_number
from doorward.rego.values import Key, Value, from_key, sorted_keys, sorted_values

__all__ = ["json_float", "marshal", "unmarshal"]

MAX_TEXT: Final = 256 * 1024
MAX_NODES: Final = 200_000

_STR: Final = "tag:yaml.org,2002:str"
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


def unmarshal(text: str) -> Value:
    """The value of the first document in a YAML text; BuiltinError if it is none."""
    if len(text) > MAX_TEXT:
        raise LimitError(f"yaml: text is longer than {MAX_TEXT} characters")
    try:
        return _Reader().value(_compose(scrub(text)))
    except RecursionError:
        raise LimitError("yaml: nested too deeply") from None


def _compose(text: str) -> Any:
    import yaml  # only policies that use YAML need it

    try:
        loader = yaml.SafeLoader(text)
        try:
            if not loader.check_node():
                return None
            version = loader.yaml_version
            if version is not None and version != (1, 1):
                raise BuiltinError("yaml: found incompatible YAML document")
            return loader.get_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise BuiltinError(f"yaml: {place}{_said(error.problem or error.context)}") from None
    except yaml.reader.ReaderError:
        raise BuiltinError("yaml: control characters are not allowed") from None
    except (ValueError, OverflowError):  # of `chr`
        raise _bad_escape() from None


def _bad_escape() -> BuiltinError:
    return BuiltinError("yaml: found invalid Unicode character escape code")


def _said(problem: str | None) -> str:
    """PyYAML's words for a problem as libyaml says them."""
    text = problem or "cannot be read"
    for pattern, words in _WORDINGS:
        text = pattern.sub(words, text)
    return text


_WORDINGS: Final = (
    (
        re.compile(r"^expected (?:the )?(.*), but (?:got|found) .*", re.DOTALL),
        r"did not find expected \1",
    ),
    (re.compile(r"^found character '.*' that", re.DOTALL), "found character that"),
    (re.compile(r"^found undefined alias ('.*')", re.DOTALL), r"unknown anchor \1 referenced"),
    (re.compile(r"not allowed here$"), "not allowed in this context"),
)


class _Reader:
    """Nodes become values; `count` is how many so far, those that aliases repeat counted again."""

    def __init__(self) -> None:
        self.count = 0
        self.repeated = 0
        self.open: set[int] = set()
        self.known: dict[int, tuple[Value, int]] = {}

    def value(self, node: Any) -> Value:
        if node is None:
            return None
        if node.id == "scalar":
            self._spend(1)
            return _json_value(_scalar(node))
        known = self.known.get(id(node))
        if known:
            self._spend(known[1], repeated=True)
            return known[0]
        if id(node) in self.open:
            raise BuiltinError("yaml: anchor value contains itself")
        self.open.add(id(node))
        before = self.count
        self._spend(1)
        value: Value
        if node.id == "sequence":
            value = [self.value(item) for item in node.value]
        else:
            value = self._mapping(node)
        self.open.discard(id(node))
        self.known[id(node)] = value, self.count - before
        return value

    def _spend(self, count: int, *, repeated: bool = False) -> None:
        self.count += count
        self.repeated += count if repeated else 0
        if self.repeated > 100 and self.count > 1000 and self.repeated > 0.99 * self.count:
            raise BuiltinError("yaml: document contains excessive aliasing")
        if self.count > MAX_NODES:
            raise LimitError(f"yaml: document has more than {MAX_NODES} values")

    def _mapping(self, node: Any) -> dict[Key, Value]:
        value: dict[Key, Value] = {}
        for key_node, item in node.value:
            if key_node.id == "scalar" and key_node.value == "<<" and not key_node.style:
                for merged in self._merged(item):
                    value.update(merged)
                continue
            value[self._key(key_node)] = self.value(item)
        return value

    def _merged(self, node: Any) -> Iterator[dict[Key, Value]]:
        # Of several, the first has precedence.
        for item in reversed(node.value) if node.id == "sequence" else [node]:
            value = self.value(item)
            if not isinstance(value, dict):
                raise BuiltinError("yaml: map merge requires map or sequence of maps as the value")
            yield value

    def _key(self, node: Any) -> str:
        key = _scalar(node) if node.id == "scalar" else None
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int):
            return str(key)
        if isinstance(key, float):
            return _float_key(key)
        raise BuiltinError("unsupported map key of this type")


def _float_key(key: float) -> str:
    nearest = _single(key)
    if isnan(nearest) or isinf(nearest):
        return ".nan" if isnan(nearest) else ".inf" if nearest > 0 else "-.inf"
    return _go_g(key, single=True)


def _scalar(node: Any) -> object:
    """A string, bool, int, float or None."""
    text: str = node.value
    if SURROGATES.search(text):  # the reader lets none through that is no escape
        raise _bad_escape()
    tag = node.tag
    short = tag.removeprefix("tag:yaml.org,2002:")
    if short == "binary":
        try:
            return from_bytes(binascii.a2b_base64(text, strict_mode=True))
        except (binascii.Error, ValueError):
            raise BuiltinError("yaml: !!binary value contains invalid base64 data") from None
    if short == "str" and (node.style or _is_explicit(node)):
        return text
    resolved = _resolve(text, timestamps=short != "int" and short != "float")
    if not _is_explicit(node):
        return resolved
    if short == "float" and isinstance(resolved, int) and not isinstance(resolved, bool):
        return float(resolved)
    wanted = {"int": int, "float": float, "bool": bool, "null": type(None)}.get(short)
    if wanted and type(resolved) is not wanted:
        raise BuiltinError(f"yaml: cannot decode `{text}` as a !!{short}")
    return resolved if wanted else text


def _is_explicit(node: Any) -> bool:
    # PyYAML resolves as it composes; a plain scalar whose text alone would not give its tag, and
    # a quoted one that is no string, had theirs written out.
    return bool(node.start_mark.buffer) and (
        node.start_mark.buffer[node.start_mark.pointer] == "!"
        if node.start_mark.pointer < len(node.start_mark.buffer)
        else False
    )


@lru_cache(maxsize=4096)
def _resolve(text: str, *, timestamps: bool = True) -> object:
    """What a plain scalar means: a string, bool, int, float or None."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first not in "+-.0123456789" or (timestamps and _TIMESTAMP.match(text)):
        return text
    plain = text if first == "." else text.replace("_", "")
    match = None if first == "." else _INTEGER.match(plain)
    if match and len(plain) <= 80:
        sign, *digits = match.groups()
        base, found = next((b, d) for b, d in zip((16, 2, 8, 10), digits, strict=True) if d)
        value = int(sign + found, base)
        if -(1 << 63) <= value < 1 << 64:
            return value
    if _FLOAT.match(plain) and len(plain) <= 4096:
        number = float(plain)
        if not isinf(number):
            return number
    return text


def _json_value(resolved: object) -> Value:
    if isinstance(resolved, float):
        if isnan(resolved) or isinf(resolved):
            shown = "NaN" if isnan(resolved) else "+Inf" if resolved > 0 else "-Inf"
            raise BuiltinError(f"json: unsupported value: {shown}")
        return parse_number(json_float(resolved))
    return resolved  # type: ignore[return-value] # a string, bool, int or None


def _digits(value: float, *, single: bool = False) -> tuple[str, str, int]:
    """Sign, shortest digits, and the decimal exponent of the first."""
    mantissa, _, exponent = _shortest(abs(value), single=single).partition("e")
    sign = "-" if str(value).startswith("-") else ""
    return sign, mantissa.replace(".", ""), int(exponent)


def _shortest(value: float, *, single: bool) -> str:
    """Fewest digits that read back to `value` or, if `single`, to its nearest float32."""
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
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return digits[: exponent + 1] + "." + digits[exponent + 1 :]


def _scientific(digits: str, exponent: int, width: int) -> str:
    point = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"


def json_float(value: float) -> str:
    """A float64 as Go's `encoding/json` writes it."""
    sign, digits, exponent = _digits(value)
    if value and (exponent < -6 or exponent >= 21):
        return sign + _scientific(digits, exponent, 2).replace("e-0", "e-")
    return sign + _positional(digits, exponent)


def _go_g(value: float, *, single: bool = False) -> str:
    """A number as Go's `strconv.FormatFloat(value, 'g', -1, …)` writes it."""
    sign, digits, exponent = _digits(value, single=single)
    if value and (exponent < -4 or exponent >= 6):
        return sign + _scientific(digits, exponent, 2)
    return sign + _positional(digits, exponent)


def marshal(value: Value) -> str:
    """The YAML text of a value, keys sorted as people count (`a9` before `a10`)."""
    import yaml  # only policies that use YAML need it

    _check_size(value)  # which also refuses what is nested more deeply than we follow here
    events: list[Any] = [
        yaml.StreamStartEvent(),
        yaml.DocumentStartEvent(explicit=False),
        *_events(yaml, value),
        yaml.DocumentEndEvent(explicit=False),
        yaml.StreamEndEvent(),
    ]
    text: str = yaml.emit(events, Dumper=_emitter(), allow_unicode=True, width=80)
    return text.removesuffix("...\n")


@lru_cache(maxsize=1)
def _emitter() -> Any:
    import yaml.emitter  # only policies that use YAML need it

    class GoEmitter(yaml.emitter.Emitter):
        """PyYAML's, with Go's idea of what can be printed."""

        def analyze_scalar(self, scalar: str) -> Any:
            analysis = super().analyze_scalar(scalar)
            if _UNPRINTABLE.search(scalar):
                analysis.allow_flow_plain = analysis.allow_block_plain = False
                analysis.allow_single_quoted = analysis.allow_block = False
            return analysis

        def check_empty_document(self) -> bool:
            return False

        def check_simple_key(self) -> bool:
            if isinstance(self.event, yaml.ScalarEvent) and self.event.value == "":
                return True
            return bool(super().check_simple_key())

    return GoEmitter


_UNPRINTABLE: Final = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


def _check_size(value: Value) -> None:
    if len(json_text(value)) > MAX_TEXT:
        raise LimitError(f"yaml: text is longer than {MAX_TEXT} characters")


def _events(yaml: Any, value: Value) -> Iterator[Any]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=not value)
        texts: dict[str, Value] = {}
        for key in sorted_keys(value):
            texts[key if type(key) is str else json_text(from_key(key))] = value[key]
        for text in sorted(texts, key=_natural):
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
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    resolved = _resolve(number_text(value))  # type: ignore[arg-type] # a number is left
    return _go_g(resolved) if isinstance(resolved, float) else str(resolved)


def _string(yaml: Any, text: str) -> Any:
    if re.search("[\ufffe\uffff\ud800-\udfff]", text):
        raise BuiltinError("yaml: control characters are not allowed")
    if not isinstance(_resolve(text), str) or _BASE_60.match(text) or _TIMESTAMP.match(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    else:
        style = ""
    return yaml.ScalarEvent(None, None, (True, True), text, style=style)


_RUNS: Final = re.compile(r"\d+|\D")


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key: runs of digits by number, before letters; other characters before digits."""
    key: list[tuple[int, int, str]] = []
    for run in _RUNS.findall(text):
        if run[0].isdigit():
            key.append((1, int(run) if len(run) < 4300 else 0, run))
        else:
            key.append((2 if run.isalpha() else 0, 0, run))
    return key
