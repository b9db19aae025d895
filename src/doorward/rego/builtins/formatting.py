"""Built-ins that write values by a template: `sprintf`, and Go's `text/template`.

Apart from other strings because Go's formatter and its templates take as long to import as all
other built-ins of strings. `sprintf` has at most `MAX_TEXT` characters as its result.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, array, object_, string
from doorward.rego.golang.octets import combine
from doorward.rego.golang.sprintf import Argument, format_text
from doorward.rego.golang.strings import MAX_TEXT
from doorward.rego.golang.templates import render
from doorward.rego.numbers import Number, integer_of, number_text
from doorward.rego.values import Key, Value, to_rego

__all__: list[str] = []


@builtin("sprintf", string, array(any_), returns=string, context=True, inverse=inverse("sprintf"))
def sprintf(context: Context, template: str, values: list[Value]) -> str:
    """Go's `fmt.Sprintf`: `%v` for any value, `%s` for strings, `%d` for integers, … A value that
    does not fit its verb, and one that is missing or left over, is noted in the text, as in Go:
    `%!d(string=a)`. LimitError for more than `MAX_TEXT` characters.
    """
    pieces = _compile(template)
    if pieces is not None and len(pieces) == len(values) + 1:
        quick = _quick(pieces, values)
        if quick is not None:
            return quick
    context.check_deadline()
    return format_text(template, [_argument(value) for value in values])


@record
class _Piece:
    """A verb of a template, with the text after it."""

    verb: str
    """The verb: `s`, `v`, `d`, `x` or `f`; empty for the first piece, which is only text."""
    layout: str
    """The width and precision in the syntax of Python's format; empty if there are none."""
    text: str


_VERB: Final = re.compile(r"(-)?([1-9][0-9]?)?(?:\.([0-9]))?([svdxf])", re.ASCII)


@lru_cache(maxsize=1024)
def _compile(template: str) -> list[_Piece] | None:
    """Split a template of `sprintf` for `_quick`. None if it has verbs other than s, v, d, x and f
    with a precision, flags other than `-`, or at least 4,096 characters: then `golang.sprintf`
    formats it. Cached.
    """
    if len(template) >= 4096:
        return None
    first, *others = template.split("%")
    pieces = [_Piece("", "", first)]
    for piece in others:
        match = _VERB.match(piece)
        if match is None:
            return None
        left, width, precision, verb = match.groups()
        if (precision is None) == (verb == "f"):
            return None
        layout = ""
        if width is not None:
            layout = ("<" if left else ">") + width
        elif left:
            return None
        if verb == "f":
            layout += f".{precision}f"
        pieces.append(_Piece(verb, layout, piece[match.end() :]))
    return pieces


def _quick(pieces: list[_Piece], values: list[Value]) -> str | None:
    """Return the result of `sprintf` for a template cut into `pieces` (text, and before all but the
    first a verb) with as many `values` as verbs, where each value fits its verb in a simple way.
    None for any other value, such as a text for `%d`, or a result above `MAX_TEXT` characters: then
    `golang.sprintf` decides.
    """
    out = [pieces[0].text]
    for piece, value in zip(islice(pieces, 1, None), values, strict=True):
        kind, verb, layout = type(value), piece.verb, piece.layout
        if kind is str:
            if verb != "s" and verb != "v":
                return None
            text: Any = value
        elif kind is int:
            if verb == "x":
                text = format(value, "x")
            elif verb == "d" or verb == "v":
                text = str(value)
            else:
                return None
        elif kind is Number or kind is float:
            if verb != "f":
                return None
            if kind is float or not _FRACTION.fullmatch(value.text):  # type: ignore[union-attr]
                number = _argument(value)
                if type(number) is not float:
                    return None
            text, layout = float.__format__(value, layout), ""  # type: ignore[arg-type] # a number
        elif verb == "v" or verb == "s":
            text = to_rego(value)
        else:
            return None
        out.append(format(text, layout) if layout else text)
        out.append(piece.text)
    return combine("".join(out)) if sum(map(len, out)) <= MAX_TEXT else None


_FRACTION: Final = re.compile(r"-?[0-9]{1,18}\.[0-9]{0,18}[1-9]")
"""Matches a number that Go holds as a float64: one that is not written as an integer."""


def _argument(value: Any) -> Argument:
    """A value as Go's formatter gets it. A string, and a number that is written as an integer (also
    as `1.0`), stays what it is; a number with a point becomes a float, or its text if it is too
    large for one; a number with an exponent and no point becomes its text. Other values become Rego
    text.
    """
    if type(value) in {int, str}:
        return value  # type: ignore[no-any-return] # checked on the line above
    if type(value) is Number or type(value) is float:
        integer = integer_of(value)
        text = number_text(value)
        if integer is not None or "." not in text:
            return text if integer is None else integer
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    return to_rego(value)


@builtin("strings.render_template", string, object_(string, any_), returns=string, context=True)
def strings_render_template(context: Context, value: str, variables: dict[Key, Value]) -> str:
    """The text that the Go template `value` (`text/template`) gives with `variables` as its dot; a
    missing key is `<undefined>`. A template that cannot be parsed or executed is an error;
    LimitError above the limits of `golang.templates`.
    """
    return render(value, variables, context.check_deadline)
