"""Regular expressions in RE2's syntax: linear time, so no look-around and no back references.

`golang.regexp` matches; here matches become answers. Results are at most `MAX_TEXT` characters long
and hold at most `MAX_MATCHES` strings. One search takes time in the length of its text, many of
them that much each: the deadline is checked between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from doorward.rego.builtins.globbing.intersection import intersect
from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import machine_integer
from doorward.rego.builtins.registry.signature import array, boolean, number, string
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.octets import combine
from doorward.rego.golang.regexp import (
    MAX_PATTERN,
    Pattern,
    Spans,
    matcher,
    pattern,
    quote_meta,
    small_matcher,
)
from doorward.rego.golang.strings import MAX_TEXT, is_word_character, quote
from doorward.rego.values import Value

__all__: list[str] = []

MAX_MATCHES: Final = 1 << 20

_CACHED: Final = 256
_CACHED_TEXT: Final = 4096


@builtin(
    "regex.match",
    string,
    string,
    returns=boolean,
    prepare=small_matcher,
    inverse=inverse("regex"),
)
def regex_match(expression: str, value: str) -> bool:
    """Return true if the pattern matches somewhere in `value`. An invalid pattern is an error;
    LimitError for one that is too large, or a `value` that is too long for it.
    """
    return matcher(expression)(value)  # type: ignore[no-any-return] # a function of str to bool


@builtin(
    "re_match",
    string,
    string,
    returns=boolean,
    deprecated="use `regex.match`",
    inverse=inverse("regex"),
)
def re_match(expression: str, value: str) -> bool:
    """Return true if the pattern matches somewhere in `value`. An invalid pattern is an error;
    LimitError for one that is too large, or a `value` that is too long for it.
    """
    return matcher(expression)(value)  # type: ignore[no-any-return] # a function of str to bool


@builtin(
    "regex.is_valid",
    string,
    returns=boolean,
    checked=False,
    inverse=inverse("valid", "a", "("),
)
def regex_is_valid(expression: Value) -> bool:
    """Return true if the operand is a string with a valid regular expression; false for other
    kinds. LimitError for one that is too long or too large.
    """
    if not isinstance(expression, str):
        return False
    if expression.isalnum() and len(expression) <= MAX_PATTERN:
        return True  # it stands for itself
    try:
        matcher(expression)
    except BuiltinError:
        return False
    return True


@builtin(
    "regex.split",
    string,
    string,
    returns=array(string),
    context=True,
    inverse=inverse("regex_split"),
)
def regex_split(context: Context, expression: str, value: str) -> list[str]:
    """The parts of `value` between the matches of the expression. An empty `value` gives `[""]`, or
    [] if the expression is empty too. An invalid expression is an error; LimitError for more than
    `MAX_MATCHES` matches, groups included, or if `value` is too long for the expression.
    """
    regex = pattern(expression)
    if expression and not value:
        return [""]
    data = _bytes(value)
    pieces: list[Any] = []
    # In ASCII a byte is a character.
    text: str | bytes = value if value.isascii() else data
    start = end = 0
    for spans in _matches(context, regex, data, -1):
        # As in Go's Split, `end` is where the last match begins, and a match that is empty at 0
        # splits nothing.
        end, stop = spans[0]
        if stop:
            pieces.append(text[start:end])
        start = stop
    if end != len(data):
        pieces.append(text[start:])
    return pieces if text is value else [*map(_text, pieces)]


def _matches(context: Context, regex: Pattern, data: bytes, limit: int) -> Iterator[Spans]:
    """Yield the spans of up to `limit` matches and their groups; -1 for all. LimitError, while
    they are read, for more than `MAX_MATCHES` spans. The deadline is checked between matches.
    """
    matches = regex.every(data, limit, context.check_deadline)
    if (len(data) + 1) * len(regex.names) <= MAX_MATCHES:
        return matches
    return _limit(matches)


def _limit(matches: Iterable[Spans]) -> Iterator[Spans]:
    """Yield the matches unchanged; LimitError once they have more than `MAX_MATCHES` spans in all,
    groups included.
    """
    room = MAX_MATCHES
    for spans in matches:
        room -= len(spans)
        if room < 0:
            raise LimitError(f"the pattern finds more than {MAX_MATCHES} strings")
        yield spans


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


@builtin(
    "regex.find_n",
    string,
    string,
    number,
    returns=array(string),
    context=True,
    checked=False,
    inverse=inverse("regex_find"),
)
def regex_find_n(context: Context, expression: Value, value: Value, count: Value) -> list[str]:
    """The first `count` matches; all of them for a negative `count`, [] if there are none. An
    invalid expression is an error; LimitError for more than `MAX_MATCHES` matches, groups included,
    or if `value` is too long for the expression.
    """
    regex, text, limit = _find(expression, value, count)
    data = _bytes(text)
    matches = [spans[0] for spans in _matches(context, regex, data, limit)]
    if text.isascii():
        return [text[start:end] for start, end in matches]
    return [_text(data[start:end]) for start, end in matches]


@builtin(
    "regex.find_all_string_submatch_n",
    string,
    string,
    number,
    returns=array(array(string)),
    context=True,
    checked=False,
    inverse=inverse("regex_find"),
)
def regex_find_all_string_submatch_n(
    context: Context, expression: Value, value: Value, count: Value
) -> list[list[str]]:
    """The first `count` matches, each with its groups; "" for a group that did not take part. All
    matches for a negative `count`, [] if there are none. An invalid expression is an error;
    LimitError for more than `MAX_MATCHES` matches, groups included, or if `value` is too long for
    the expression.
    """
    regex, text, limit = _find(expression, value, count)
    data = _bytes(text)
    return [
        [_text(data[start:end]) if start >= 0 else "" for start, end in spans]
        for spans in _matches(context, regex, data, limit)
    ]


def _find(expression: Value, value: Value, count: Value) -> tuple[Pattern, str, int]:
    """Check the operands of `regex.find_n` and its like. Return the compiled pattern, the text, and
    the limit on matches, -1 for none. OperandError for a wrong kind, BuiltinError for an invalid
    pattern, LimitError for one that is too large.
    """
    if not isinstance(expression, str):
        raise operand_error(1, expression, "string")
    if not isinstance(value, str):
        raise operand_error(2, value, "string")
    limit = machine_integer(3, count)
    return pattern(expression), value, max(limit, -1)


@builtin(
    "regex.replace",
    string,
    string,
    string,
    returns=string,
    context=True,
    inverse=inverse("regex_replace"),
)
def regex_replace(context: Context, base: str, expression: str, value: str) -> str:
    """`base` with every match replaced by `value`, in which `$1` and `${name}` mean groups and `$$`
    a dollar sign; a group that does not exist or did not match gives nothing. An invalid expression
    is an error; LimitError if more than `MAX_TEXT` bytes are inserted, or if `base` is too long for
    the pattern.
    """
    regex = pattern(expression)
    data = _bytes(base)
    # What is long is not worth the memory of keeping it.
    is_short = len(value) + len(expression) <= _CACHED_TEXT
    pieces = _cached_template(value, expression) if is_short else _template(value, regex)
    return combine(_text(regex.replace(data, pieces, MAX_TEXT, context.check_deadline)))


@lru_cache(maxsize=_CACHED)
def _cached_template(value: str, expression: str) -> list[bytes | int]:
    return _template(value, pattern(expression))


def _template(value: str, compiled: Pattern) -> list[bytes | int]:
    return _resolve(_read_template(value), compiled)


def _read_template(value: str) -> list[bytes | str | int]:
    """The parts of a replacement text in order: literal bytes, group names (str) and group numbers
    (int). `$$` is a dollar sign, and so is a `$` without a name.
    """
    pieces: list[bytes | str | int] = []
    before, dollar, rest = value.partition("$")
    while dollar:
        pieces.append(_bytes(before))
        if rest.startswith("$"):
            pieces.append(b"$")
            rest = rest[1:]
        else:
            name, after = _reference(rest)
            if name:
                pieces.append(int(name) if _is_number(name) else name)
                rest = after
            else:
                pieces.append(b"$")
        before, dollar, rest = rest.partition("$")
    pieces.append(_bytes(before))
    return pieces


def _reference(text: str) -> tuple[str, str]:
    """The group name at the start of `text`, after its `$`, with or without braces, and the rest of
    the text. "" and all of `text` if there is none or a brace is not closed.
    """
    braced = text.startswith("{")
    start = end = int(braced)
    while end < len(text) and is_word_character(text[end]):
        end += 1
    if braced and (end == len(text) or text[end] != "}"):
        return "", text
    return text[start:end], text[end + braced :]


def _is_number(name: str) -> bool:
    """Return True for a group number: decimal digits without leading zeros, below 10^8."""
    plain = name.isascii() and name.isdigit() and len(name) < 9
    return plain and (name == "0" or not name.startswith("0"))


def _resolve(template: list[bytes | str | int], compiled: Pattern) -> list[bytes | int]:
    """The template with group numbers in place of names. An unknown group stands for the empty
    text, as in Go.
    """
    numbers = {name: number for number, name in enumerate(compiled.names) if name}
    pieces: list[bytes | int] = []
    for piece in template:
        if isinstance(piece, str):
            pieces.append(numbers.get(piece, b""))
        elif isinstance(piece, bytes) or piece < len(compiled.names):
            pieces.append(piece)
    return pieces


@builtin(
    "regex.template_match",
    string,
    string,
    string,
    string,
    returns=boolean,
    inverse=inverse("template_match"),
)
def regex_template_match(template: str, value: str, start: str, end: str) -> bool:
    """Return true if all of `value` matches the template, which is plain text with regular
    expressions between the delimiters `start` and `end`. A delimiter that is not one byte,
    delimiters that are not balanced, and an invalid expression are errors; LimitError for an
    expression that is too large, or a `value` too long for it.
    """
    for which, delimiter in (("start", start), ("end", end)):
        size = len(delimiter.encode("utf-8", "surrogatepass"))
        if size != 1:
            # OPA names the length of the start delimiter in either case.
            length = len(start.encode("utf-8", "surrogatepass"))
            raise BuiltinError(
                f"{which} delimiter has to be exactly one character long but is {length} long"
            )
    return _template_matcher(template, start, end)(value)  # type: ignore[no-any-return] # a bool


@lru_cache(maxsize=_CACHED)
def _template_matcher(template: str, start: str, end: str) -> Any:
    """Compile a template, whose expressions stand between `start` and `end`, to a function that is
    True for a complete text that matches. BuiltinError for an invalid expression or unbalanced
    delimiters, LimitError for one that is too large. Cached.
    """
    expression = "^"
    copied = 0
    for opening, closing in _outermost_spans(template, start, end):
        inner = template[opening + 1 : closing]
        matcher(f"^{inner}$")  # each part must be a pattern by itself
        expression += f"{quote_meta(template[copied:opening])}({inner})"
        copied = closing + 1
    return matcher(f"{expression}{quote_meta(template[copied:])}$")


def _outermost_spans(template: str, start: str, end: str) -> list[tuple[int, int]]:
    """The positions of the opening and closing delimiter of each pair that is not inside another
    pair, in order; [] without delimiters. BuiltinError if they are not balanced.
    """
    spans: list[tuple[int, int]] = []
    level = opening = 0
    for at, char in enumerate(template):
        if char == start:
            level += 1
            if level == 1:
                opening = at
        elif char == end:
            level -= 1
            if level == 0:
                spans.append((opening, at))
        if level < 0:
            break
    if level != 0:
        raise BuiltinError(f"unbalanced braces in {quote(template)}")
    return spans


@builtin("regex.globs_match", string, string, returns=boolean, context=True)
def regex_globs_match(context: Context, glob1: str, glob2: str) -> bool:
    r"""Return true if some non-empty text matches both globs, also for two empty globs; `.`,
    `[a-z]`, `*`, `+` and `\` are special. An invalid glob is an error; LimitError for globs that
    are too long to compare.
    """
    return intersect(glob1, glob2, context.check_deadline)
