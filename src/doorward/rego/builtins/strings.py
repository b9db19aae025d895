"""Strings, counted in characters (Unicode code points).

Results are at most `MAX_TEXT` characters long; more is an error before the memory is used. What
compares many texts with many others looks at the clock.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import Any, Final, TypeAlias

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import exact_operand, machine_integer, refuse_operand
from doorward.rego.builtins.registry.signature import (
    any_of,
    array,
    boolean,
    number,
    object_,
    set_,
    string,
)
from doorward.rego.errors import BuiltinError, LimitError, OperandError
from doorward.rego.golang.octets import combine, from_bytes, to_bytes
from doorward.rego.golang.strings import MAX_TEXT
from doorward.rego.golang.strings import lower as go_lower
from doorward.rego.golang.strings import upper as go_upper
from doorward.rego.numbers import AnyNumber
from doorward.rego.values import Key, Value, kind_name, sorted_keys, sorted_values

__all__: list[str] = []

Strings: TypeAlias = "list[Value] | frozenset[Key]"

_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_STRINGS = any_of(set_(string), array(string))
_SEARCH = any_of(string, set_(string), array(string))


@builtin("startswith", string, string, returns=boolean, inverse=inverse("startswith"))
def startswith(search: str, base: str) -> bool:
    """Return true if `search` starts with `base`."""
    return search.startswith(base)


@builtin("endswith", string, string, returns=boolean, inverse=inverse("endswith"))
def endswith(search: str, base: str) -> bool:
    """Return true if `search` ends with `base`."""
    return search.endswith(base)


@builtin("contains", string, string, returns=boolean, inverse=inverse("contains"))
def contains(haystack: str, needle: str) -> bool:
    """Return true if `needle` is somewhere in `haystack`."""
    return needle in haystack


@builtin("lower", string, returns=string, inverse=inverse("lower"))
def lower(x: str) -> str:
    """`x` in lower case, one character for each character, as Go maps them."""
    return x.lower() if x.isascii() else go_lower(x)


@builtin("upper", string, returns=string, inverse=inverse("upper"))
def upper(x: str) -> str:
    """`x` in upper case, one character for each character: `ß` stays."""
    return x.upper() if x.isascii() else go_upper(x)


@builtin("split", string, string, returns=array(string), inverse=inverse("split"))
def split(x: str, delimiter: str) -> list[str]:
    """The pieces between the delimiters; with an empty delimiter, the characters."""
    return x.split(delimiter) if delimiter else list(x)


@builtin("strings.split_n", string, string, number, returns=array(string), inverse=inverse("split"))
def strings_split_n(x: str, delimiter: str, n: AnyNumber) -> list[str]:
    """The first `n` parts of `x` between the delimiters (for an empty delimiter, characters); for a
    negative `n` the last `-n`, [] for 0. An `n` that is not an integer of 64 bits is an error.
    """
    pieces = split(x, delimiter)
    count = machine_integer(3, n)
    return pieces[:count] if count > 0 else pieces[count:] if count else []


@builtin("concat", string, _STRINGS, returns=string, inverse=inverse("concat"))
def concat(delimiter: str, collection: Strings) -> str:
    """The strings of an array or set, a set's in Rego's order, joined by `delimiter`. An item that
    is not a string is an error; LimitError for more than `MAX_TEXT` characters.
    """
    texts = _texts(2, collection)
    # One delimiter too many: a cheap bound first, exact only where it matters.
    if sum(map(len, texts)) + len(delimiter) * len(texts) > MAX_TEXT:
        _check_size(sum(map(len, texts)) + len(delimiter) * max(len(texts) - 1, 0))
    return combine(delimiter.join(texts))


def _check_size(size: int) -> None:
    """Raise LimitError if `size`, in characters, is more than `MAX_TEXT`."""
    if size > MAX_TEXT:
        raise LimitError(f"result is longer than {MAX_TEXT} characters")


def _texts(position: int, collection: Strings) -> list[str]:
    """The strings of operand `position` as a list, a set's in Rego's order; OperandError if an item
    is not a string.
    """
    texts: list[Any] = (
        sorted_values(collection) if isinstance(collection, frozenset) else collection
    )
    for text in texts:
        if type(text) is not str:
            kind = "array" if isinstance(collection, list) else "set"
            refuse_operand(position, f"{kind} of strings", f"{kind} containing {kind_name(text)}")
    return texts


@builtin(
    "replace", string, string, string, returns=string, context=True, inverse=inverse("replace")
)
def replace(context: Context, x: str, old: str, new: str) -> str:
    """`x` with every `old` replaced by `new`; an empty `old` matches before each byte and at the
    end. LimitError for a result of more than `MAX_TEXT` characters.
    """
    context.check_deadline()
    if not old:
        return _replace_everywhere(context, x, {"": new})
    grown = len(new) - len(old)
    if grown > 0 and len(x) // len(old) * grown + len(x) > MAX_TEXT:
        _check_size(len(x) + x.count(old) * grown)
    return combine(x.replace(old, new))


@builtin(
    "strings.replace_n",
    object_(string, string),
    string,
    returns=string,
    context=True,
    inverse=inverse("replace_n"),
)
def strings_replace_n(context: Context, patterns: dict[Key, Value], value: str) -> str:
    """`value` with each key of `patterns` replaced by its text, in one pass; of two keys that match
    at one place, the first in Rego's order wins. An empty key matches before each byte and at the
    end. A key or text that is not a string is an error; LimitError for a result of more than
    `MAX_TEXT` characters.
    """
    context.check_deadline()
    replacements: dict[str, str] = {}
    for key in sorted_keys(patterns):
        new = patterns[key]
        if type(key) is not str:
            raise OperandError("operand 1 non-string key found in pattern object")
        if type(new) is not str:
            raise OperandError("operand 1 non-string value found in pattern object")
        replacements[key] = new
    if not replacements:
        return value
    if "" in replacements:
        return _replace_everywhere(context, value, replacements)
    return combine(_replace_all(context, value, replacements))


def _replace_all(context: Context, value: str, replacements: dict[str, str]) -> str:
    """Replace each key by its value, in one pass from the left; where several keys match, the first
    in the order of `replacements` wins. There is at least one key, and none is empty. LimitError if
    the result is too long; the deadline is checked for long texts.
    """
    longest = max(map(len, replacements.values()))
    sizes = sum(map(len, replacements))
    if sizes * len(value) <= _QUICK and len(value) * longest <= MAX_TEXT:
        if sizes == len(replacements):
            return value.translate({ord(key): new for key, new in replacements.items()})
        # Literal alternatives only: no backtracking that could take long.
        alternatives = re.compile("|".join(map(re.escape, replacements)))
        return alternatives.sub(lambda match: replacements[match[0]], value)
    return _replace_each(context, value, replacements)


_QUICK: Final = 1 << 20
"""If the characters of the patterns times those of the text are at most this, the replacement is
quick enough to go without checks of the deadline.
"""


def _replace_each(context: Context, value: str, replacements: dict[str, str]) -> str:
    """Replace each key by its value, in one pass from the left, for long texts or patterns; where
    several keys match, the first in the order of `replacements` wins. LimitError if the result is
    too long. Checks the deadline on the way.
    """
    # The keys that fit at a place begin each other, so the first one is the shortest: it is enough
    # to ask for one length after the other.
    firsts = {key[0] for key in replacements}
    lengths = sorted(set(map(len, replacements)))
    out: list[str] = []
    size = copied = after = 0
    for at in context.checked_iter(range(len(value)), max(1, 2000 // len(lengths))):
        if at < after or value[at] not in firsts:
            continue
        for length in lengths:
            new = replacements.get(value[at : at + length])
            if new is not None:
                out += [value[copied:at], new]
                size += len(new) + at - copied
                _check_size(size)
                copied = after = at + length
                break
    out.append(value[copied:])
    _check_size(size + len(out[-1]))
    return "".join(out)


def _replace_everywhere(context: Context, value: str, replacements: dict[str, str]) -> str:
    """Return `value` with the replacements, of which one must be for the empty string: it is put
    before each byte and at the end. At each byte the shortest text that is there is replaced.
    LimitError if the result is too long. Checks the deadline.
    """
    # Go goes byte by byte here, and so cuts characters outside ASCII into what is not UTF-8.
    empty = to_bytes(replacements[""])
    rest = {to_bytes(old): to_bytes(new) for old, new in replacements.items() if old}
    lengths = sorted(set(map(len, rest)))
    data = to_bytes(value)
    _check_size((len(data) + 1) * len(empty))
    out: list[bytes] = []
    at = size = 0
    checks = context.checked_iter(repeat(None), max(1, 2000 // (len(lengths) + 1)))
    while at <= len(data):
        next(checks)
        out.append(empty)
        old = next((data[at : at + n] for n in lengths if data[at : at + n] in rest), None)
        # After a match Go looks for the empty string again, after a plain byte too.
        out.append(data[at : at + 1] if old is None else rest[old])
        size += len(empty) + len(out[-1])
        _check_size(size)
        at += len(old or b" ")
    return from_bytes(b"".join(out))


@builtin("trim", string, string, returns=string, inverse=inverse("trim"))
def trim(value: str, cutset: str) -> str:
    """`value` without characters of `cutset` at both ends."""
    return trim_left(trim_right(value, cutset), cutset)


@builtin("trim_left", string, string, returns=string, inverse=inverse("trim"))
def trim_left(value: str, cutset: str) -> str:
    """`value` without its leading characters that are in `cutset`, up to the first one that is
    not.
    """
    if len(cutset) <= _FEW:
        return value.lstrip(cutset) if cutset else value
    # Python looks for each character in all of `cutset`.
    unwanted = frozenset(cutset)
    return value[next((n for n, char in enumerate(value) if char not in unwanted), len(value)) :]


@builtin("trim_right", string, string, returns=string, inverse=inverse("trim"))
def trim_right(value: str, cutset: str) -> str:
    """`value` without its trailing characters that are in `cutset`, back to the last one that is
    not.
    """
    if len(cutset) <= _FEW:
        return value.rstrip(cutset) if cutset else value
    return trim_left(value[::-1], cutset)[::-1]


_FEW: Final = 64


@builtin("trim_prefix", string, string, returns=string, inverse=inverse("trim_prefix"))
def trim_prefix(value: str, prefix: str) -> str:
    """`value` without `prefix`, if it starts with it."""
    return value.removeprefix(prefix)


@builtin("trim_suffix", string, string, returns=string, inverse=inverse("trim_suffix"))
def trim_suffix(value: str, suffix: str) -> str:
    """`value` without `suffix`, if it ends with it."""
    return value.removesuffix(suffix)


@builtin("trim_space", string, returns=string, inverse=inverse("trim_space"))
def trim_space(value: str) -> str:
    """`value` without white space at both ends."""
    return value.strip(_SPACES)


@builtin(
    "substring",
    string,
    number,
    number,
    returns=string,
    checked=False,
    inverse=inverse("substring"),
)
def substring(value: Value, offset: Value, length: Value) -> str:
    """`length` characters from `offset` on; with a negative length all characters to the end. ""
    for an offset beyond the end, fewer characters where the text ends. A negative offset, and an
    offset or length that is not an integer of 64 bits, is an error.
    """
    if not isinstance(value, str):
        raise operand_error(1, value, "string")
    start, count = machine_integer(2, offset), machine_integer(3, length)
    if start < 0:
        raise BuiltinError("negative offset")
    return value[start:] if count < 0 else value[start : start + count]


@builtin("indexof", string, string, returns=number, inverse=inverse("indexof"))
def indexof(haystack: str, needle: str) -> int:
    """The index of the first occurrence of `needle`, from 0; -1 if there is none. An empty `needle`
    is an error.
    """
    if not needle:
        raise BuiltinError("empty search character")
    return haystack.find(needle)


@builtin("indexof_n", string, string, returns=array(number), context=True)
def indexof_n(context: Context, haystack: str, needle: str) -> list[int]:
    """The indices of all occurrences of `needle`, overlapping ones included; [] if there is none.
    An empty `needle` is an error.
    """
    if not needle:
        raise BuiltinError("empty search character")
    positions: list[int] = []
    # Python prepares each search, which takes as long as the needle is.
    checks = context.checked_iter(repeat(None), max(1, 100_000 // len(needle)))
    at = haystack.find(needle)
    while at >= 0:
        next(checks)
        positions.append(at)
        at = haystack.find(needle, at + 1)
    return positions


@builtin("strings.count", string, string, returns=number, inverse=inverse("strings_count"))
def strings_count(search: str, substring: str) -> int:
    """The number of occurrences of `substring` in `search`, without overlaps; for an empty
    `substring` the number of characters plus 1.
    """
    return search.count(substring)


@builtin(
    "strings.reverse", string, returns=string, checks_deadline=True, inverse=inverse("reverse")
)
def strings_reverse(x: str) -> str:
    """The characters, last one first."""
    return x[::-1]


@builtin(
    "strings.any_prefix_match",
    _SEARCH,
    _SEARCH,
    returns=boolean,
    context=True,
    inverse=inverse("any_match"),
)
def strings_any_prefix_match(context: Context, search: str | Strings, base: str | Strings) -> bool:
    """Return true if any string in `search` starts with any string in `base`; false if one of them
    is an empty collection. An item that is not a string is an error.
    """
    if type(search) is str and type(base) is list and len(base) <= _FEW_TEXTS:
        return search.startswith(tuple(_texts(2, base)))
    texts = _text_or_texts(1, search)
    prefixes = tuple(_text_or_texts(2, base))
    if len(texts) <= _FEW_TEXTS and len(prefixes) <= _FEW_TEXTS:
        return any([text.startswith(prefixes) for text in texts])
    checked = context.checked_iter(texts, _pace(prefixes))
    return any([text.startswith(prefixes) for text in checked])


@builtin(
    "strings.any_suffix_match",
    _SEARCH,
    _SEARCH,
    returns=boolean,
    context=True,
    inverse=inverse("any_match"),
)
def strings_any_suffix_match(context: Context, search: str | Strings, base: str | Strings) -> bool:
    """Return true if any string in `search` ends with any string in `base`; false if one of them is
    an empty collection. An item that is not a string is an error.
    """
    if type(search) is str and type(base) is list and len(base) <= _FEW_TEXTS:
        return search.endswith(tuple(_texts(2, base)))
    texts = _text_or_texts(1, search)
    suffixes = tuple(_text_or_texts(2, base))
    if len(texts) <= _FEW_TEXTS and len(suffixes) <= _FEW_TEXTS:
        return any([text.endswith(suffixes) for text in texts])
    checked = context.checked_iter(texts, _pace(suffixes))
    return any([text.endswith(suffixes) for text in checked])


_FEW_TEXTS: Final = 32
"""At most this many texts are compared with as many others without a check of the deadline."""


def _pace(parts: tuple[str, ...]) -> int:
    """Return how many texts are compared with all of `parts` between two checks of the deadline:
    as many as make about 20,000 comparisons, at least one.
    """
    return max(1, 20_000 // (len(parts) + 1))


def _text_or_texts(position: int, value: str | Strings) -> list[str]:
    return [value] if isinstance(value, str) else _texts(position, value)


_BASES: Final = {2: "b", 8: "o", 10: "d", 16: "x"}


@builtin("format_int", number, number, returns=string, inverse=inverse("format_int"))
def format_int(value: AnyNumber, base: AnyNumber) -> str:
    """The number, its fraction dropped, as text in base 2, 8, 10 or 16, without a prefix; another
    base is an error.
    """
    form = _BASES.get(base) if type(base) is int else None
    if form is None:
        raise OperandError("operand 2 must be one of {2, 8, 10, 16}")
    return format(int(exact_operand(value)), form)
