"""Globs as OPA's library reads them: `*`, `**`, `?`, `[abc]`, `[!a-z]`, `{a,b}` and `\\`.

`*` and `?` stop at a delimiter, `**` does not; `globbing.compiler` has the bounds.
"""

from __future__ import annotations

from doorward.rego.builtins.globbing.compiler import Matcher, compile_glob
from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.operands import refuse_operand
from doorward.rego.builtins.registry.signature import any_of, array, boolean, null, string
from doorward.rego.golang.regexp import only_small
from doorward.rego.values import Value, kind_name

__all__: list[str] = []


def prepare_glob(pattern: str, delimiters: Value) -> Matcher:
    """Return a function that returns True if a string matches the glob. `delimiters` is null or an
    array of characters. OperandError for another value, BuiltinError for an invalid glob,
    LimitError for one that is too long, too deeply nested, or too large for texts of any length.
    Called once for a pattern that is constant in the policy.
    """
    return only_small(compile_glob(pattern, _stops(delimiters)))  # type: ignore[no-any-return] # itself


@builtin(
    "glob.match",
    string,
    any_of(array(string), null),
    string,
    returns=boolean,
    checked=False,
    prepare=prepare_glob,
    inverse=inverse("glob"),
)
def glob_match(pattern: Value, delimiters: Value, match: Value) -> bool:
    """Return true if all of `match` matches the glob; `*` and `?` do not match a delimiter. The
    delimiters are `.` for an empty array, none for null. An invalid glob, or a delimiter that is
    not one character, is an error; LimitError for a glob that is too long or nested too deeply, or
    a text that is too long for it.
    """
    if type(pattern) is not str:
        raise operand_error(1, pattern, "string")
    stops = _stops(delimiters)
    if type(match) is not str:
        raise operand_error(3, match, "string")
    return compile_glob(pattern, stops)(match)


def _stops(delimiters: Value) -> str:
    """The delimiters as one string: "" for null, "." for an empty array. OperandError unless the
    value is null or an array of strings of one character each.
    """
    if delimiters is None:
        return ""
    if type(delimiters) is list and len(delimiters) == 1 and type(delimiters[0]) is str:
        if len(delimiters[0]) != 1:
            refuse_operand(2, "array of runes", "array containing string")
        return delimiters[0]
    return _delimiters(delimiters)


def _delimiters(delimiters: Value) -> str:
    """Join the delimiters of an array into one string; "." for an empty array. OperandError for
    another value, or for an item that is not a string of one character.
    """
    if not isinstance(delimiters, list):
        raise operand_error(2, delimiters, "array", "null")
    if not delimiters:
        return "."
    texts: list[str] = []
    for delimiter in delimiters:
        if not isinstance(delimiter, str):
            refuse_operand(2, "array of strings", f"array containing {kind_name(delimiter)}")
        if len(delimiter) != 1:
            refuse_operand(2, "array of runes", "array containing string")
        texts.append(delimiter)
    return "".join(texts)


@builtin("glob.quote_meta", string, returns=string, checks_deadline=True)
def glob_quote_meta(pattern: str) -> str:
    """`pattern` with its special characters escaped: a glob that matches just this text."""
    return "".join([f"\\{char}" if char in "*?\\[]{}" else char for char in pattern])
