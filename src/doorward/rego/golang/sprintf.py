"""Go's `fmt.Sprintf`, for the arguments that `sprintf` of a policy and templates can have.

An argument is an `int` (an int64 or *big.Int to Go, by its size), a `float` (float64), a `bool` or
a `str`; what else Rego has is text by the time `sprintf` comes here, and templates have lists,
dictionaries and None as well. A subclass of `str` or `int` may say what type it is to Go
(`go_type`). A width or precision too far past a million is what Go makes of it (`%!(NOVERB)`); a
result past `MAX_TEXT` characters is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from doorward.base.records import mutable
from doorward.rego.clock import count_step
from doorward.rego.errors import LimitError
from doorward.rego.golang.octets import combine, to_bytes
from doorward.rego.golang.strings import MAX_TEXT, is_graphic, quote

__all__ = ["Argument", "format_text"]

Argument: TypeAlias = "int | float | str | list[Argument] | dict[str, Argument] | None"

_MAX_FIELD: Final = 1_000_000
"""The largest width or precision from an argument, as in Go. In a template it is compared before
the last digit is added.
"""
_MAX_RUNE: Final = 0x10FFFF
_INT: Final = 1 << 63
_BASES: Final = {"b": 2, "o": 8, "O": 8, "x": 16, "X": 16, "d": 10, "v": 10}
_DIGITS: Final = {2: "b", 8: "o", 10: "d", 16: "x"}


@mutable
class _Spec:
    """The flags, width and precision of one verb. `sharp_v` and `plus_v` are `#` and `+` of `%v`
    and `%w`, which mean other things there.
    """

    sharp: bool = False
    zero: bool = False
    plus: bool = False
    minus: bool = False
    space: bool = False
    width: int | None = None
    precision: int | None = None
    sharp_v: bool = False
    plus_v: bool = False

    def pad(self, text: str, *, zeros: bool = True) -> str:
        """Pad a text to the width: on the right with the flag `-`, otherwise on the left, with
        zeros if the flag `0` is set and `zeros` is True. A longer text stays.
        """
        missing = (self.width or 0) - len(text)
        if missing <= 0:
            return text
        if self.minus:
            return text + " " * missing
        return ("0" if self.zero and zeros else " ") * missing + text

    def apply_verb(self, verb: str) -> None:
        """Move `#` and `+` to `sharp_v` and `plus_v` if the verb is `v` or `w`; does nothing for
        others.
        """
        if verb in "vw":
            self.sharp_v, self.sharp = self.sharp, False
            self.plus_v, self.plus = self.plus, False

    def cut(self, text: str) -> str:
        """Return the first `precision` characters of a text; the whole text without a precision."""
        return text if self.precision is None else text[: self.precision]

    @property
    def sign(self) -> str:
        """The sign of a number that is not negative: "+", " " or ""."""
        return "+" if self.plus else " " if self.space else ""


_NO_FLAGS: Final = _Spec()
_NIL: Final = "<nil>"


def format_text(template: str, arguments: Sequence[Argument]) -> str:
    """Format a template as Go's `fmt.Sprintf`. As in Go, a verb or argument that does not fit is
    described in the text (`%!d(string=a)`), never raised. LimitError if the result is too long.
    """
    return combine(_format(template, arguments))


def _format(template: str, arguments: Sequence[Argument]) -> str:
    """Format a template as Go's `fmt.Sprintf`, but leave bytes of different parts that are UTF-8
    only together as lone surrogates. A verb or argument that does not fit is described in the text.
    LimitError if the result is too long.
    """
    plain = _plain_template(template)
    if plain is None or len(plain.verbs) != len(arguments):
        return _Printer(template, arguments).run()
    out, size = [plain.first], len(template)
    for (verb, spec, literal), argument in zip(plain.verbs, arguments, strict=True):
        text = _print(argument, verb, spec)
        size += len(text)
        if size > MAX_TEXT:
            return _Printer(template, arguments).run()  # which counts what stays
        out += (text, literal)
    return "".join(out)


class _Template(NamedTuple):
    """A template whose verbs take one argument each, in order."""

    first: str
    verbs: list[tuple[str, _Spec, str]]
    """Each verb, its flags, and the text after it. The flags are shared and never modified."""


# Six digits stay below `_MAX_FIELD`; what is longer is left to `_Printer`, which knows that limit.
_VERB: Final = re.compile(r"([#0+ -]*)([0-9]{1,6})?(?:\.([0-9]{0,6}))?([A-Za-z])", re.ASCII)
_MAX_TEMPLATE: Final = 4096


@lru_cache(maxsize=1024)
def _plain_template(template: str) -> _Template | None:
    """Return a template cut at its verbs, each with its flags, width and precision, if all of them
    are of the plain form; None for one with argument indexes, `*` or `%%`, with an unknown or
    missing verb, or too long. Cached.
    """
    if len(template) > _MAX_TEMPLATE:
        return None
    first, *pieces = template.split("%")
    result = _Template(first, [])
    for piece in pieces:
        match = _VERB.match(piece)
        if match is None:
            return None
        flags, width, precision, verb = match.groups()
        spec = _Spec(
            sharp="#" in flags,
            zero="0" in flags,
            plus="+" in flags,
            minus="-" in flags,
            space=" " in flags,
            width=int(width) if width else None,
            precision=None if precision is None else int(precision or 0),
        )
        spec.apply_verb(verb)
        result.verbs.append((verb, spec, piece[match.end() :]))
    return result


class _Printer:
    """Formats a template as Go does, character by character. `at` is the position in the template,
    `next` the next argument; `good` is False after an invalid index of the present verb.
    """

    def __init__(self, template: str, arguments: Sequence[Argument]) -> None:
        self.template = template
        self.arguments = arguments
        self.at = 0
        self.last_bracket = template.rfind("]")
        self.next = 0
        self.reordered = False
        self.good = True
        self.out: list[str] = []
        self.size = 0

    def put(self, text: str) -> None:
        """Append text to the result; LimitError above `MAX_TEXT` characters."""
        self.size += len(text)
        if self.size > MAX_TEXT:
            raise LimitError(f"result is longer than {MAX_TEXT} characters")
        self.out.append(text)

    def run(self) -> str:
        """Format the template with the arguments and return the text; arguments that no verb took
        are listed at the end (`%!(EXTRA …)`), unless an explicit index was used. LimitError if the
        result is longer than `MAX_TEXT` characters. Can be called once.
        """
        template = self.template
        while True:
            percent = template.find("%", self.at)
            if percent < 0:
                self.put(template[self.at :])
                break
            self.put(template[self.at : percent])
            self.at = percent + 1
            self.verb()
        if not self.reordered and self.next < len(self.arguments):
            self.extra()
        return "".join(self.out)

    def extra(self) -> None:
        """Append the arguments from `next` on, which no verb has used, with their Go types, as
        `%!(EXTRA int64=1)`. LimitError if the result gets too long.
        """
        rest = self.arguments[self.next :]
        texts = [
            f"{_type(argument)}={_print(argument, 'v', _NO_FLAGS)}"
            if argument is not None
            else _NIL
            for argument in rest
        ]
        self.put(f"%!(EXTRA {', '.join(texts)})")

    @property
    def here(self) -> str:
        """The character of the template at the present position, which is not passed; "" at the
        end.
        """
        return self.template[self.at] if self.at < len(self.template) else ""

    def verb(self) -> None:
        """Read one verb behind its `%`, with flags, argument index, width and precision, and append
        the next argument formatted by it, or Go's text for what is wrong (`%!d(BADINDEX)`,
        `%!d(MISSING)`, `%!(NOVERB)`); `%%` takes no argument. LimitError if the result gets too
        long.
        """
        self.good = True
        spec = self.flags()
        # As Go's fast path: a verb directly after its flags.
        if "a" <= self.here <= "z" and self.next < len(self.arguments):
            self.print(self.take(), spec)
            return
        indexed = self.index()
        indexed = self.width(spec, indexed=indexed)
        indexed = self.precision(spec, indexed=indexed)
        if not indexed:
            self.index()
        if not self.here:
            self.put("%!(NOVERB)")
            return
        verb = self.take()
        if verb == "%":
            self.put("%")
        elif not self.good:
            self.put(f"%!{verb}(BADINDEX)")
        elif self.next >= len(self.arguments):
            self.put(f"%!{verb}(MISSING)")
        else:
            self.print(verb, spec)

    def take(self) -> str:
        """Return the present character and go on to the next."""
        self.at += 1
        return self.template[self.at - 1]

    def print(self, verb: str, spec: _Spec) -> None:
        """Append the next argument, formatted by the verb, and go on to the one after it."""
        spec.apply_verb(verb)
        self.put(_print(self.arguments[self.next], verb, spec))
        self.next += 1

    def flags(self) -> _Spec:
        """Move past the flags at the present position, of which there may be none, and return them
        as a new spec; each may be repeated.
        """
        spec = _Spec()
        while self.here and self.here in "#0+- ":
            flag = self.take()
            spec.sharp |= flag == "#"
            spec.zero |= flag == "0"
            spec.plus |= flag == "+"
            spec.minus |= flag == "-"
            spec.space |= flag == " "
        return spec

    def index(self) -> bool:
        """Read `[n]`, which makes argument `n` (from 1) the next one, and set `reordered`; do
        nothing if no `[` is here. Return True if `n` is a number. `good` becomes False for other
        text in the brackets and if there is no argument `n`.
        """
        if self.here != "[":
            return False
        self.reordered = True
        # Not searched behind the last one: `%[%[%[…` without any would take the square of its
        # length.
        end = self.template.find("]", self.at + 1) if self.at < self.last_bracket else -1
        # As Go's parseArgNumber, which goes on behind the `[` if the three bytes of `[n]` are not
        # there.
        if len(self.template) - self.at < 3 or end < 0:
            self.at += 1
            self.good = False
            return False
        text = self.template[self.at + 1 : end]
        self.at = end + 1
        number = _number(text)
        if number is None:
            self.good = False
            return False
        if 0 < number <= len(self.arguments):
            self.next = number - 1
        else:
            self.good = False
        return True

    def width(self, spec: _Spec, *, indexed: bool) -> bool:
        """Read a width, `*` from the next argument, into `spec`; there may be none. A `*` without a
        suitable argument is described in the result; a width in digits after an index (`indexed`)
        sets `good` to False. Return True if that index still applies to the verb.
        """
        if self.here == "*":
            self.at += 1
            spec.width = self.star()
            if spec.width is None:
                self.put("%!(BADWIDTH)")
            elif spec.width < 0:
                spec.width, spec.minus, spec.zero = -spec.width, True, False
            return False
        spec.width = self.number()
        if indexed and spec.width is not None:
            self.good = False
        return indexed

    def precision(self, spec: _Spec, *, indexed: bool) -> bool:
        """Read a precision, `.*` from an argument, into `spec`; there may be none. A `*` without a
        suitable argument is described in the result. `indexed`: an index was read before it, which
        beside a precision sets `good` to False. Return True if an index was read and still applies
        to the verb.
        """
        # A point that ends the text is a verb, and an unknown one.
        if self.here != "." or self.at + 1 == len(self.template):
            return indexed
        self.at += 1
        if indexed:
            self.good = False
        indexed = self.index()
        if self.here == "*":
            self.at += 1
            spec.precision = self.star()
            if spec.precision is not None and spec.precision < 0:
                spec.precision = None
            if spec.precision is None:
                self.put("%!(BADPREC)")
            return False
        spec.precision = self.number() or 0
        return indexed

    def star(self) -> int | None:
        """Take the next argument as a width or precision. None if there is none, or it is not an
        integer up to `_MAX_FIELD`.
        """
        if self.next >= len(self.arguments):
            return None
        argument = self.arguments[self.next]
        self.next += 1
        if not isinstance(argument, int) or isinstance(argument, bool):
            return None
        return argument if abs(argument) <= _MAX_FIELD else None

    def number(self) -> int | None:
        """Read a number. None if there is none, with the position unchanged, or if it is above
        `_MAX_FIELD`, with the position at the end of the template.
        """
        start = self.at
        while self.here.isascii() and self.here.isdigit():
            self.at += 1
        text = self.template[start : self.at]
        if not text:
            return None
        number = _number(text)
        if number is None:
            self.at = len(self.template)
        return number


def _number(text: str) -> int | None:
    """Return the number in a text of digits; None for another text, or if it is above `_MAX_FIELD`
    without its last digit.
    """
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > 8:
        return None
    number = int(text)
    return number if number // 10 <= _MAX_FIELD else None


def _is_big(number: int) -> bool:
    return not -_INT <= number < _INT


def _type(argument: Argument) -> str:
    """Return the name of the argument's Go type, as `%T` prints it, such as `int64`, `*big.Int` for
    an integer of more than 64 bits, or `<nil>`. A subclass of `str` or `int` may name its own in
    `go_type`.
    """
    if argument is None:
        return _NIL
    if isinstance(argument, bool):
        return "bool"
    if isinstance(argument, int):
        return getattr(argument, "go_type", "*big.Int" if _is_big(argument) else "int64")
    if isinstance(argument, list):
        return "[]interface {}"
    if isinstance(argument, dict):
        return "map[string]interface {}"
    return "float64" if isinstance(argument, float) else getattr(argument, "go_type", "string")


def _print(argument: Argument, verb: str, spec: _Spec) -> str:
    """Format one argument by a verb with the flags, width and precision of `spec`; `T` gives its Go
    type. None is `<nil>` with `v` and `T`, else `%!d(<nil>)`. Another verb that does not fit gives
    `%!d(string=a)`, with the Go type and the value as `%v`, in a collection for each item.
    LimitError for a collection with too long a text.
    """
    if argument is None:  # its text is never cut
        return spec.pad(_NIL) if verb in ("v", "T") else f"%!{verb}({_NIL})"
    if verb == "T":
        return spec.pad(spec.cut(_type(argument)))
    text: str | None
    if isinstance(argument, str):
        text = _string(argument, verb, spec)
    elif isinstance(argument, (list, dict)):
        text = None if verb == "w" else _collection(argument, verb, spec)
    elif isinstance(argument, bool):
        text = spec.pad(str(argument).lower()) if verb in "tv" else None
    elif isinstance(argument, float):
        text = _float(argument, verb, spec)
    elif _is_big(argument):
        text = _big(argument, verb, spec)
    else:
        text = _integer(argument, verb, spec)
    if text is None:
        return f"%!{verb}({_type(argument)}={_print(argument, 'v', spec)})"
    return text


def _collection(argument: list[Argument] | dict[str, Argument], verb: str, spec: _Spec) -> str:
    """Format each item of a list or dictionary by a verb, as Go's `[a b]` and `map[k:v]`, or with
    `#` in `spec` (`%#v`) as Go source; pairs are in the order of the dictionary, and None is
    written as nil. Each call counts a step of the limit on work; LimitError if the items have more
    than `MAX_TEXT` characters.
    """
    count_step()
    parts: list[str] = []
    size = 0
    is_list = isinstance(argument, list)
    for key, item in enumerate(argument) if isinstance(argument, list) else argument.items():
        null = "interface {}(nil)" if spec.sharp_v else _NIL
        text = null if item is None else _print(item, verb, spec)
        parts.append(text if is_list else f"{_print(key, verb, spec)}:{text}")
        size += len(parts[-1])
        if size > MAX_TEXT:
            raise LimitError(f"result is longer than {MAX_TEXT} characters")
    if spec.sharp_v:
        return f"{_type(argument)}{{{', '.join(parts)}}}"
    return f"{'' if is_list else 'map'}[{' '.join(parts)}]"


def _string(text: str, verb: str, spec: _Spec) -> str | None:
    """Format a string for `%s`, `%v`, `%q` (in quotes, as `%#v`), `%x` or `%X`, cut to the
    precision of `spec` and padded to its width; None for another verb.
    """
    if verb == "s" or (verb == "v" and not spec.sharp_v):
        return spec.pad(spec.cut(text))
    if verb in "vq":
        return spec.pad(_quote(spec.cut(text), spec))
    if verb in "xX":
        return _hex_bytes(to_bytes(spec.cut(text)), verb, spec)
    return None


def _quote(text: str, spec: _Spec) -> str:
    """Return a string quoted for `%q`: in backquotes with `#` if it can be written so, in ASCII
    with `+`.
    """
    if spec.sharp and all(_is_raw(char) for char in text):
        return f"`{text}`"
    return quote(text, ascii_only=spec.plus)


def _is_raw(char: str) -> bool:
    return char == "\t" or (char >= " " and char not in "`\x7f\ufeff")


def _hex_bytes(data: bytes, verb: str, spec: _Spec) -> str:
    """Format bytes in hexadecimal for the verb `x` or `X`: at most as many bytes as the precision
    of `spec`, with `0x` before them if `#` is set, and with a space between bytes if the space flag
    is set (then each has the prefix), padded to the width.
    """
    if spec.precision is not None:
        data = data[: spec.precision]
    pairs = [f"{byte:02{verb}}" for byte in data]
    prefix = f"0{verb}" if spec.sharp and pairs else ""
    text = f" {prefix}".join(pairs) if spec.space else "".join(pairs)
    return spec.pad(prefix + text)


def _integer(number: int, verb: str, spec: _Spec) -> str | None:
    """Format an integer as Go does one of 64 bits, with the flags, width and precision of `spec`;
    None for a verb that integers do not have (other than `b c d o O q U v x X`). A precision is the
    least number of digits, and 0 with the number 0 gives no digit; `%#v` of a uint8 is hexadecimal.
    """
    if verb == "c":
        return spec.pad(_rune(number))
    if verb == "q":
        return spec.pad(quote(_rune(number), "'", ascii_only=spec.plus))
    if verb == "U":
        return _unicode(number, spec)
    if verb == "v" and spec.sharp_v and _type(number) == "uint8":
        return spec.pad(f"{number:#x}", zeros=False)
    base = _BASES.get(verb)
    if base is None:
        return None
    digits = format(abs(number), _DIGITS[base])
    if spec == _NO_FLAGS and verb in "dxv":
        return "-" + digits if number < 0 else digits
    sign = "-" if number < 0 else spec.sign
    if spec.precision is not None:
        if spec.precision == 0 and number == 0:
            return spec.pad("", zeros=False)
        digits = digits.zfill(spec.precision)
    elif spec.zero and not spec.minus and spec.width:
        digits = digits.zfill(spec.width - len(sign))
    if verb == "X":
        digits = digits.upper()
    return spec.pad(sign + _prefix(digits, verb, base, spec) + digits, zeros=False)


def _prefix(digits: str, verb: str, base: int, spec: _Spec) -> str:
    """Return the prefix of an integer, such as `0x`, that a verb of this base and its flags ask
    for; "" for none. `digits`: the number as formatted; a leading 0 stands for an octal prefix.
    """
    octal = "0" if spec.sharp and base == 8 and not digits.startswith("0") else ""
    if verb == "O":
        return "0o" + octal
    if not spec.sharp:
        return ""
    return octal if base == 8 else {2: "0b", 16: f"0{verb}", 10: ""}[base]


def _rune(number: int) -> str:
    """The character with this code; U+FFFD for an invalid code."""
    valid = 0 <= number <= _MAX_RUNE and not 0xD800 <= number < 0xE000
    return chr(number) if valid else "\ufffd"


def _unicode(number: int, spec: _Spec) -> str:
    """Format an integer as `U+0041` for `%U`, with as many digits as the precision of `spec` and at
    least four; with the flag `#` as `U+0041 'A'` if the character can be printed. A negative one
    wraps around at 64 bits, as in Go.
    """
    code = number % (1 << 64)
    text = "U+" + format(code, "X").zfill(max(4, spec.precision or 0))
    if spec.sharp and code <= _MAX_RUNE and is_graphic(_rune(code)):
        text += f" '{_rune(code)}'"
    return spec.pad(text, zeros=False)


def _big(number: int, verb: str, spec: _Spec) -> str:
    """Format an integer of more than 64 bits, as Go does a `*big.Int`, with the flags, precision
    and width of `spec`. A verb that does not fit gives text such as `%!c(big.Int=1…)`, and `%w`
    Go's dump of the words.
    """
    if verb == "w":
        words = []
        rest = abs(number)
        while rest:
            words.append(str(rest % (1 << 64)))
            rest >>= 64
        return f"%!w(*big.Int=&{{{str(number < 0).lower()} [{' '.join(words)}]}})"
    base = 10 if verb == "s" else _BASES.get(verb)
    if base is None:
        return f"%!{verb}(big.Int={number})"
    digits = format(abs(number), _DIGITS[base])
    digits = digits.upper() if verb == "X" else digits
    prefix = {"b": "0b", "o": "0", "x": "0x", "X": "0X"}.get(verb, "") if spec.sharp else ""
    sign = "+" if spec.plus_v else spec.sign
    head = ("-" if number < 0 else sign) + ("0o" if verb == "O" else prefix)
    if spec.precision is not None:
        digits = digits.zfill(spec.precision)
    elif spec.zero and not spec.minus and spec.width:
        digits = digits.zfill(spec.width - len(head))
    return spec.pad(head + digits, zeros=False)


def _float(number: float, verb: str, spec: _Spec) -> str | None:
    """Format a float by a verb with the flags, width and precision of `spec`, as Go does (`v` as
    `g`); None for a verb that floats do not have. With the flag `0`, zeros fill the width, between
    the sign and the digits.
    """
    if verb == "v":
        verb = "g"
    form = _FLOATS.get(verb)
    if form is None:
        return None
    text = form(abs(number), spec.precision)
    if verb in "EGX":
        text = text.upper()
    if spec.sharp and verb != "b":
        text = _with_point(text, verb, spec.precision)
    sign = "-" if math.copysign(1, number) < 0 else spec.sign
    if sign and spec.zero and not spec.minus and spec.width:
        return sign + text.rjust(spec.width - len(sign), "0")
    return spec.pad(sign + text)


def _with_point(text: str, verb: str, precision: int | None) -> str:
    """Return a float's text as with the flag `#`: always with a decimal point, for `g` and `x` with
    trailing zeros up to the precision.
    """
    mark = "pP" if verb in "xX" else "eE"
    end = next((n for n, char in enumerate(text) if char in mark), len(text))
    number, tail = text[:end], text[end:]
    digits = 0
    if verb in "gGx":
        digits = 6 if precision is None else precision
    significant = number.replace(".", "").lstrip("0")
    digits -= len(significant)
    if "." not in number:
        digits -= number == "0"
        number += "."
    return number + "0" * max(digits, 0) + tail


def _shortest(number: float, precision: int | None) -> str:
    """Format a float that is not negative, infinite or NaN for `%g`: with `precision` significant
    digits (0 counts as 1), or with None with the fewest that read back to it; with an exponent
    below 1e-4 and from 1e+06, or 1e`precision`, on.
    """
    if precision is not None:
        return f"{number:.{precision or 1}g}"
    digits, exponent = _split(repr(number))
    if exponent < -4 or exponent >= 6:
        point = "." + digits[1:] if len(digits) > 1 else ""
        return f"{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    integer = digits[: exponent + 1].ljust(exponent + 1, "0")
    return integer + ("." + digits[exponent + 1 :] if len(digits) > exponent + 1 else "")


def _split(text: str) -> tuple[str, int]:
    """Return the digits of an unsigned number, which may have an exponent, without zeros at both
    ends, and the decimal exponent of the first one: `0.0120` -> `("12", -2)`, `0` -> `("0", 0)`.
    """
    mantissa, _, power = text.partition("e")
    integer, _, rest = mantissa.partition(".")
    digits = (integer + rest).lstrip("0")
    exponent = len(integer) - 1 + int(power or 0) - (len(integer + rest) - len(digits))
    return (digits.rstrip("0"), exponent) if digits else ("0", 0)


def _binary(number: float, _precision: int | None) -> str:
    mantissa, exponent = _mantissa(number)
    return f"{mantissa}p{exponent:+d}"


def _mantissa(number: float) -> tuple[int, int]:
    """Return a float as an integer mantissa of at most 53 bits and a power of two: their product is
    the number.
    """
    _, power = math.frexp(number)
    # Denormal numbers share the exponent of the smallest normal one: `%b` of 5e-324 is `1p-1074`.
    power = max(power, -1021)
    return int(math.ldexp(number, 53 - power)) if number else 0, power - 53


def _hexadecimal(number: float, precision: int | None) -> str:
    """Format a float that is not negative, infinite or NaN as `0x1.8p+01` for `%x`, rounded (halves
    to even) to `precision` digits after the point, or with None with as many as it needs.
    """
    if number == 0:
        return "0x0" + ("." + "0" * precision if precision else "") + "p+00"
    mantissa, exponent = _mantissa(number)
    # One bit before the point, 52 behind it: 13 hexadecimal digits.
    shift = 53 - mantissa.bit_length()
    mantissa, exponent = mantissa << shift, exponent - shift + 52
    if precision is not None and precision < 13:
        cut = 52 - 4 * precision
        integer, rest = divmod(mantissa, 1 << cut)
        half = 1 << (cut - 1)
        integer += rest > half or (rest == half and integer & 1)
        mantissa = integer << cut
        if mantissa.bit_length() > 53:
            mantissa, exponent = mantissa >> 1, exponent + 1
    digits = f"{mantissa & ((1 << 52) - 1):013x}"
    digits = digits.rstrip("0") if precision is None else digits.ljust(precision, "0")[:precision]
    return f"0x1{'.' if digits else ''}{digits}p{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _fixed_point(number: float, precision: int | None) -> str:
    return f"{number:.{6 if precision is None else precision}f}"


def _scientific(number: float, precision: int | None) -> str:
    return f"{number:.{6 if precision is None else precision}e}"


_FLOATS: Final[dict[str, Callable[[float, int | None], str]]] = {
    "b": _binary,
    "e": _scientific,
    "E": _scientific,
    "f": _fixed_point,
    "F": _fixed_point,
    "g": _shortest,
    "G": _shortest,
    "x": _hexadecimal,
    "X": _hexadecimal,
}
