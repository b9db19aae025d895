"""Built-ins that Python computes exactly, written out where they are called.

A built-in is written out for operands of which one test tells that Python may: `a.startswith(b)`
for two strings, `a + b` for two integers. For all others it is called, and says what is wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from doorward.base.records import record, replace
from doorward.rego.builtins.registry import Builtin
from doorward.rego.builtins.registry.signature import kinds
from doorward.rego.codegen.emit.ast_nodes import all_of, call, method_of, runtime
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.patterns import equality, is_class
from doorward.rego.values import compare

__all__ = [
    "COMPARISONS",
    "WRITTEN",
    "Inline",
    "arithmetic",
    "operand_tests",
    "written_out",
]

Comparison = Callable[[Operand, Operand], ast.expr]


@record
class Inline:
    """How a call is written in line. `value` is the result of the built-in if all of `tests` hold;
    it cannot fail there. `raises`: operands that are not strings raise one of
    `runtime.operations.KIND_ERRORS`.
    """

    value: ast.expr
    tests: Sequence[ast.expr] = ()
    raises: bool = False

    @property
    def is_total(self) -> bool:
        """True if the built-in itself is never called."""
        return not self.tests and not self.raises

    def otherwise(self, general: ast.expr) -> ast.expr:
        """Return code that gives `value` if the tests hold at run time, and what the `general` call
        gives if not; without tests `value` alone.
        """
        if not self.tests:
            return self.value
        return ast.IfExp(test=all_of(self.tests), body=self.value, orelse=general)


_TEST_THEMSELVES: Final = frozenset({"count"})
"""Built-ins whose operand may be of several kinds; the code written for them tests the kind
itself.
"""


MAX_FACTOR: Final = 1 << 31
"""The largest constant factor for which a product is written in line: the result is hardly larger
than the other factor.
"""


def operand_tests(builtin: Builtin, operands: Sequence[Operand]) -> list[ast.expr] | None:
    """Return the tests that the operands have the declared kinds, as far as that is not known; []
    if it is known. None if one test each is not enough, more than `MAX_INLINE` are needed, an
    operand to be tested is not a variable, or the built-in takes any number of operands.
    """
    if builtin.signature.variadic is not None:
        return None
    tests: list[ast.expr] = []
    for type_, operand in zip(builtin.signature.args, operands, strict=True):
        allowed = kinds(type_)
        if not allowed or operand.kind in allowed:
            continue
        name = _CLASS.get(allowed[0])
        if len(allowed) > 1 or name is None or not isinstance(operand.code, ast.Name):
            return None
        tests.append(is_class(operand.code, name))
    return tests if len(tests) <= MAX_INLINE else None


MAX_INLINE: Final = 2
"""The most operands that are tested in line; with more, a call checks them."""

_CLASS: Final[Mapping[str, str]] = {
    "string": "str",
    "array": "list",
    "object": "dict",
    "set": "frozenset",
}
"""Kinds that are one Python class, with the name of the class."""


def arithmetic(name: str, operands: Sequence[Operand], direct: ast.Call) -> ast.expr:
    """Return code for `plus`, `minus` or `mul`: Python's operator if the operands are integers at
    run time, otherwise the call `direct`. Returns `direct` alone for other built-ins, for operands
    that have no name or are constants but not integers, for two that are known integers, and for a
    product without a small constant factor.
    """
    operator = _ARITHMETIC.get(name)
    if operator is None or not all(
        isinstance(o.code, ast.Name) or type(o.value) is int for o in operands
    ):
        return direct
    tests = [is_class(o.code, "int") for o in operands if not o.is_integer]
    if not tests or any(type(o.value) is not int for o in operands if o.is_constant):
        return direct
    # The built-in bounds the product of two numbers that are both the input's choice, or large.
    if name == "mul" and not any(o.is_constant and abs(o.value) <= MAX_FACTOR for o in operands):
        return direct
    a, b = (o.code for o in operands)
    return ast.IfExp(
        test=all_of(tests), body=ast.BinOp(left=a, op=operator, right=b), orelse=direct
    )


_ARITHMETIC: Final[Mapping[str, ast.operator]] = {
    "plus": ast.Add(),
    "minus": ast.Sub(),
    "mul": ast.Mult(),
}


def written_out(builtin: Builtin, operands: Sequence[Operand]) -> Inline | None:
    """Return Python operations that give the result of a built-in, with the tests of the operands
    that they need; None if there are none for these operands.
    """
    write = WRITTEN.get(builtin.name)
    if write is None or len(builtin.signature.args) != len(operands):
        return None
    inline = write(*operands)
    if inline is None or builtin.name in _TEST_THEMSELVES:
        return inline
    tests = operand_tests(builtin, operands)
    if inline.raises:
        return replace(inline, raises=tests is None or len(tests) > 0)
    return None if tests is None else Inline(inline.value, (*tests, *inline.tests))


_Writer = Callable[..., "Inline | None"]


def _method(name: str) -> _Writer:
    """Return a function that writes the call of a built-in as a call of the string method `name`.
    The written call raises an error for operands that are not strings.
    """

    def write(first: Operand, *rest: Operand) -> Inline:
        value = method_of(first.code, name, *[operand.code for operand in rest])
        return Inline(value, raises=True)

    return write


def _of_ascii(name: str) -> _Writer:
    """Return a function that writes the call of a built-in as a call of the string method `name`,
    which agrees with Go's for ASCII text only.
    """

    def write(text: Operand) -> Inline | None:
        """Return the method call with a test for ASCII; None for a constant."""
        if text.is_constant:
            return None
        # Python and Go differ for other letters: `"ß".upper()` is `"SS"` in Python, `"ß"` in Go.
        return Inline(method_of(text.code, name), [method_of(text.code, "isascii")], raises=True)

    return write


def _of_text(name: str, position: int) -> _Writer:
    """Return a function that writes the call of a built-in as a call of the string method `name`,
    which agrees with Go's only if operand `position` is a constant text and not empty.
    """
    write_method = _method(name)

    def write(*operands: Operand) -> Inline | None:
        text = operands[position].value
        # `split(text, "")` is the list of characters in Go, and an error in Python.
        return write_method(*operands) if type(text) is str and text else None

    return write


def _contains(haystack: Operand, needle: Operand) -> Inline:
    return Inline(ast.Compare(left=needle.code, ops=[ast.In()], comparators=[haystack.code]))


def _count(collection: Operand) -> Inline | None:
    """Return `count` written in line as Python's `len`, with a test of the class unless that is
    known; None for a constant, and for code that is not a variable.
    """
    if collection.is_constant or not isinstance(collection.code, ast.Name):
        return None
    kind = call(runtime("type"), collection.code)
    counted = ast.Compare(left=kind, ops=[ast.In()], comparators=[runtime("COUNTED")])
    known = collection.kind in ("array", "object", "set", "string")
    return Inline(call(runtime("len"), collection.code), () if known else [counted])


def _concat(delimiter: Operand, parts: Operand) -> Inline | None:
    """Return `concat` of an array literal with at most `MAX_INLINE` variables as a join in line,
    with tests that they are short texts; None for other operands.
    """
    if not isinstance(parts.code, ast.List):
        return None
    names = [part for part in parts.code.elts if type(getattr(part, "value", None)) is not str]
    if len(names) > MAX_INLINE or not all(isinstance(name, ast.Name) for name in names):
        return None
    tests: list[ast.expr] = []
    for name in names:
        short = ast.Compare(
            left=call(runtime("len"), name),
            ops=[ast.Lt()],
            comparators=[ast.Constant(value=SHORT_TEXT)],
        )
        tests += [is_class(name, "str"), short]
    return Inline(call(runtime("combine"), method_of(delimiter.code, "join", parts.code)), tests)


SHORT_TEXT: Final = 1 << 16
"""A text of at most this many characters is concatenated without a check of the total length."""


def _marshal(value: Operand) -> Inline | None:
    """Return `json.marshal` of an array literal of at most `MAX_INLINE` variables as an f-string,
    with tests that they are integers; None for other operands.
    """
    parts = value.code.elts if isinstance(value.code, ast.List) else []
    if not 0 < len(parts) <= MAX_INLINE or not all(isinstance(part, ast.Name) for part in parts):
        return None
    written: list[ast.expr] = []
    for before, part in zip("[,", parts, strict=False):
        written += [
            ast.Constant(value=before),
            ast.FormattedValue(value=part, conversion=-1, format_spec=None),
        ]
    text = ast.JoinedStr(values=[*written, ast.Constant(value="]")])
    return Inline(text, [is_class(part, "int") for part in parts])


def _get(of: Operand, key: Operand, default: Operand) -> Inline | None:
    """Return `object.get` of a variable with a constant string key as Python's `dict.get`; None
    otherwise.
    """
    if not (key.is_constant and type(key.value) is str and isinstance(of.code, ast.Name)):
        return None
    tests = [is_class(of.code, "dict")] if of.kind != "object" else []
    return Inline(method_of(of.code, "get", key.code, default.code), tests)


def _keys(of: Operand) -> Inline:
    return Inline(call(runtime("frozenset"), of.code))


def _substring(text: Operand, offset: Operand, length: Operand) -> Inline | None:
    """Return `substring` as a slice, of a variable with bounds that are integer constants from 0
    on; None for others. Unless the variable is known to hold a string, that is tested first.
    """
    for number in (offset, length):
        if type(number.value) is not int or number.value < 0:
            return None
    if not isinstance(text.code, ast.Name):
        return None
    end = ast.Constant(value=offset.value + length.value)
    cut = ast.Slice(lower=offset.code, upper=end, step=None)
    tests = [is_class(text.code, "str")] if text.kind != "string" else []
    return Inline(ast.Subscript(value=text.code, slice=cut, ctx=ast.Load()), tests)


def _is_kind(name: str) -> _Writer:
    """Return a function that writes the call of `is_string` and the like as a test for the Python
    class `name`, and returns None for an operand that is not a variable.
    """

    def write(value: Operand) -> Inline | None:
        return Inline(is_class(value.code, name)) if isinstance(value.code, ast.Name) else None

    return write


WRITTEN: Final[Mapping[str, _Writer]] = {
    "concat": _concat,
    "contains": _contains,
    "count": _count,
    "endswith": _method("endswith"),
    "indexof": _of_text("find", 1),
    "is_array": _is_kind("list"),
    "is_object": _is_kind("dict"),
    "is_set": _is_kind("frozenset"),
    "is_string": _is_kind("str"),
    "json.marshal": _marshal,
    "lower": _of_ascii("lower"),
    "object.keys": _keys,
    "object.get": _get,
    "split": _of_text("split", 1),
    "startswith": _method("startswith"),
    "substring": _substring,
    "trim": _of_text("strip", 1),
    "trim_left": _of_text("lstrip", 1),
    "trim_prefix": _method("removeprefix"),
    "trim_right": _of_text("rstrip", 1),
    "trim_suffix": _method("removesuffix"),
    "upper": _of_ascii("upper"),
}
"""Functions that write a built-in's call as one line of Python for its operands, by the name of the
built-in.
"""


def _order(
    name: str, operator: ast.cmpop, decide: Callable[[int], bool], *, swap: bool
) -> Comparison:
    """Return a writer for a comparison such as `a < b`: code that compares by Python's `operator`
    if both operands are integers, which it tests for variables, and otherwise calls the runtime
    function `name`, with the operands exchanged if `swap`. For two constants, `decide` gives the
    result from the sign of `compare`.
    """

    def write(a: Operand, b: Operand) -> ast.expr:
        """Return code that compares in Python if the variables are integers, and otherwise the code
        of `general`; that alone if an operand is known to be no integer, is not a variable, or both
        are constant.
        """
        fixed = [o for o in (a, b) if o.is_constant or o.is_plain]
        tests = [
            is_class(o.code, "int")
            for o in (a, b)
            if isinstance(o.code, ast.Name) and not o.is_plain
        ]
        plain = all(o.is_integer for o in fixed)
        if tests and plain and len(tests) + len(fixed) == 2:
            direct = ast.Compare(left=a.code, ops=[operator], comparators=[b.code])
            return ast.IfExp(test=all_of(tests), body=direct, orelse=general(a, b))
        return general(a, b)

    def general(a: Operand, b: Operand) -> ast.expr:
        """Return code that calls the runtime's comparison of two operands, or its result if both
        are constant.
        """
        if a.is_constant and b.is_constant:
            return ast.Constant(value=decide(compare(a.value, b.value)))
        first, second = (b, a) if swap else (a, b)
        return call(runtime(name), first.code, second.code)

    return write


def _different(a: Operand, b: Operand) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=equality(a, b))


COMPARISONS: Final[Mapping[str, Comparison]] = {
    "equal": equality,
    "neq": _different,
    "lt": _order("less", ast.Lt(), lambda order: order < 0, swap=False),
    "lte": _order("less_equal", ast.LtE(), lambda order: order <= 0, swap=False),
    "gt": _order("less", ast.Gt(), lambda order: order > 0, swap=True),
    "gte": _order("less_equal", ast.GtE(), lambda order: order >= 0, swap=True),
}
