"""Go's `text/template`: executes a parsed template on values.

Values are those of JSON; a number is a `json.Number` to Go, that is, a kind of string: never zero,
never equal to a number written in the template. A key that an object does not have prints as
`<undefined>`. Work is bounded: at most `MAX_STEPS` nodes, `MAX_CALLS` nested templates, `MAX_TEXT`
characters of the result and of the result of any function. The deadline is checked on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote_plus

from doorward.rego.clock import count_step
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.octets import combine, from_bytes, scrub, to_bytes
from doorward.rego.golang.sprintf import Argument, format_text
from doorward.rego.golang.strings import MAX_TEXT, is_graphic, quote
from doorward.rego.golang.template_syntax import (
    Action,
    Block,
    Branch,
    Call,
    Command,
    Constant,
    Fields,
    Function,
    Node,
    Operand,
    Overflow,
    Pipeline,
    Template,
    Text,
    Variable,
    parse_template,
)
from doorward.rego.numbers import number_text

__all__ = ["MAX_CALLS", "MAX_STEPS", "JSONNumber", "render"]

MAX_STEPS: Final = 1_000_000
"""The most nodes, items and functions in one execution; more is a LimitError."""
MAX_CALLS: Final = 50
"""The most nested calls of templates; more is a LimitError."""
_BETWEEN: Final = 0xFF


class JSONNumber(str):
    """A number of the data, compared and printed by its text."""

    __slots__ = ()
    go_type = "json.Number"


class _JumpError(Exception):
    """A `break` or `continue` on its way to the enclosing `range`."""


def render(source: str, variables: Any, check_deadline: Callable[[], None]) -> str:
    """Execute a template on a Rego value and return the text. BuiltinError where Go reports an
    error, LimitError above a limit of this module. `check_deadline` is called regularly and may
    raise.
    """
    return _Run(_parse(source), _from_rego(variables), check_deadline).text()


@lru_cache(maxsize=256)
def _parse(source: str) -> Template:
    return parse_template(source)


def _from_rego(value: Any) -> Any:
    """Convert a Rego value for the template: numbers become `JSONNumber`s, objects are sorted by
    key. BuiltinError for values that OPA, which passes them as JSON, refuses: sets, keys that are
    not strings, and texts with some control characters or bytes that are not UTF-8.
    """
    if isinstance(value, dict):
        count_step()
        for key in value:
            if type(key) is not str:
                raise _execution_error("object key is not a string")
            _check_text(key)
        return {key: _from_rego(value[key]) for key in sorted(value)}
    if isinstance(value, frozenset):
        raise BuiltinError("a set has no JSON")
    if isinstance(value, list):
        count_step()
        return [_from_rego(item) for item in value]
    if isinstance(value, str):
        _check_text(value)
        return value
    if value is None or isinstance(value, bool):
        return value
    return JSONNumber(number_text(value))


_NOT_JSON: Final = re.compile(r"(?:\\[^xavU]|[^\\])*+\\([xavU])")
"""Matches a text in Go's quotes with an escape that JSON does not have, which is its group."""


def _check_text(text: str) -> None:
    r"""Raise BuiltinError, in Go's words, for a text that has characters which Go's quoting escapes
    in a way that JSON does not have, such as `\x01`.
    """
    match = None if text.isprintable() else _NOT_JSON.match(quote(text))
    if match:
        raise BuiltinError(f"invalid character '{match[1]}' in string escape code")


def _execution_error(problem: str) -> BuiltinError:
    """Return Go's error for a template whose execution fails."""
    return BuiltinError(f'template: template: executing "template": {problem}')


_MISSING: Final = object()
_NULL: Final = object()
"""A null that is an item of an array or a member of an object: a field of it is an error, and one
of nothing is nothing.
"""


class _Int(int):
    """An integer of a template, for `printf`."""

    __slots__ = ()
    go_type = "int"


class _Byte(int):
    """A byte of a string."""

    __slots__ = ()
    go_type = "uint8"


class _Run:
    """One execution of a template. `scope` holds the variables, innermost last; `dot` in its
    methods is the present value. Its methods raise BuiltinError where Go reports an error.
    """

    def __init__(self, template: Template, data: Any, check_deadline: Callable[[], None]) -> None:
        self.template = template
        self.check_deadline = check_deadline
        self.data = data
        self.out: list[str] = []
        self.size = self.steps = self.calls = 0
        self.scope: list[tuple[str, Any]] = [("$", data)]

    def text(self) -> str:
        self.block(self.template.main, self.data)
        # OPA looks for these words in the whole text.
        return combine("".join(self.out)).replace(_NO_VALUE, "<undefined>")

    def put(self, text: str) -> None:
        """Append text to the result; LimitError above `MAX_TEXT` characters."""
        self.size += len(text)
        if self.size > MAX_TEXT:
            raise LimitError(f"result is longer than {MAX_TEXT} characters")
        self.out.append(text)

    def step(self) -> None:
        """Count a node or round; LimitError above `MAX_STEPS`. Every 256 steps the deadline is
        checked, whose error passes through.
        """
        self.steps += 1
        if self.steps & _BETWEEN == 0:
            self.check_deadline()
        if self.steps > MAX_STEPS:
            raise LimitError(f"template takes more than {MAX_STEPS} steps")

    def block(self, nodes: Block, dot: Any) -> None:
        """Execute nodes in order and append their output; `dot` is the present value. _JumpError
        for `break` and `continue`.
        """
        for node in nodes:
            self.step()
            self.node(node, dot)

    def node(self, node: Node, dot: Any) -> None:
        """Execute one node for the present value `dot` and append its output; a value that is
        missing prints as `<no value>` (replaced at the end), and an action that sets variables
        prints nothing. `break` and `continue` raise _JumpError, which the enclosing `range`
        catches. Variables of a branch end with it.
        """
        match node:
            case Text(text):
                self.put(text)
            case Action(pipeline):
                value = self.pipeline(pipeline, dot)
                if not pipeline.variables:
                    self.put(_show(value) if value is not None else _NO_VALUE)
            case Branch():
                outer = len(self.scope)
                try:
                    self.branch(node, dot)
                finally:
                    del self.scope[outer:]
            case Call(name, pipeline_):
                self.call(name, self.pipeline(pipeline_, dot) if pipeline_ else None)
            case _:
                raise _JumpError(node.kind)

    def branch(self, node: Branch, dot: Any) -> None:
        """Execute `if`, `with` or `range` for the present value `dot`: for a value that is true by
        Go's rules the block `then`, in which `with` makes that value the dot, otherwise the block
        `otherwise`, with the dot unchanged. `range` executes `then` for each item.
        """
        value = self.pipeline(node.pipeline, dot)
        if node.kind == "range":
            self.range(node, value, dot)
        elif _truth(value):
            self.block(node.then, value if node.kind == "with" else dot)
        else:
            self.block(node.otherwise, dot)

    def range(self, node: Branch, value: Any, dot: Any) -> None:
        """Execute the block once for each item of `value`, with the item as the dot and as the
        value of the variable, or of two variables its key and the item, until `break`; without
        items execute the `else` block with `dot`. Variables end with each round. BuiltinError for a
        value without items, and for an integer with two variables.
        """
        names = node.pipeline.variables
        if len(names) > 1 and isinstance(value, int) and not isinstance(value, bool):
            raise _execution_error(f"can't use {value} to iterate over more than one variable")
        outer = len(self.scope)
        empty = True
        for key, item in _items(value):
            empty = False
            item = _NULL if item is None else item
            self.step()
            if names:
                values = [item] if len(names) == 1 else [key, item]
                self.set(names, values, assigns=node.pipeline.assigns)
            try:
                self.block(node.then, item)
            except _JumpError as jump:
                if str(jump) == "break":
                    break
            finally:
                del self.scope[outer:]
        if empty:
            self.block(node.otherwise, dot)

    def call(self, name: str, dot: Any) -> None:
        """Execute a named template with `dot`, in a scope of its own. BuiltinError if it is not
        defined, LimitError above `MAX_CALLS` nested calls.
        """
        body = self.template.defined.get(name)
        if body is None:
            raise _execution_error(f"template {name} not defined")
        if self.calls == MAX_CALLS:
            raise LimitError(f"templates call each other more than {MAX_CALLS} deep")
        # A template sees none of its caller's variables (text/template, "Variables").
        outer, self.scope = self.scope, [("$", dot)]
        self.calls += 1
        # No `finally` around it: the parser refuses a `break` whose `range` is outside of the
        # definition, and an error ends the run.
        self.block(body, dot)
        self.calls -= 1
        self.scope = outer

    def set(self, names: tuple[str, ...], values: list[Any], *, assigns: bool) -> None:
        """Declare variables with these values in the present scope, or with `assigns` change the
        innermost ones of these names; `names` and `values` have equal length. BuiltinError for a
        variable to be changed that does not exist.
        """
        for name, value in zip(names, values, strict=True):
            if not assigns:
                self.scope.append((name, value))
                continue
            known = [position for position, (each, _) in enumerate(self.scope) if each == name]
            if not known:
                raise _execution_error(f"undefined variable: {name}")
            self.scope[known[-1]] = (name, value)

    def pipeline(self, pipeline: Pipeline, dot: Any) -> Any:
        """Return the value of the last command, and set the pipeline's variables to it, of which a
        `range` may have two. Each command gets the value of the one before as its last operand.
        """
        value: Any = _MISSING
        for command in pipeline.commands:
            value = self.command(command, dot, value)
        # A range sets its variables again for each item.
        names = pipeline.variables
        self.set(names, [value] * len(names), assigns=pipeline.assigns)
        return value

    def command(self, command: Command, dot: Any, final: Any) -> Any:
        """Return the value of a command: the result of a function with its operands, or the value
        of a single operand. `final` is the value piped into it, or `_MISSING`. BuiltinError for
        operands of something that is not a function, and for `nil` alone.
        """
        first, *rest = command.operands
        if isinstance(first, Function):
            return self.function(first.name, rest, dot, final)
        if rest or final is not _MISSING:
            raise _execution_error("can't give argument to non-function")
        if first == Constant(None):
            raise _execution_error("nil is not a command")
        return self.value(first, dot)

    def value(self, operand: Operand, dot: Any) -> Any:
        """Return the value of an operand; None for a field that is missing. BuiltinError for a
        field of a value that is not an object, an integer that is too large, or a function that
        fails.
        """
        match operand:
            case Constant(value):
                return value
            case Overflow(text):
                raise _execution_error(f"{text} overflows int")
            case Variable(name):
                return _at(self.variable(name), ())
            case Fields(Variable(name), names):
                return _at(self.variable(name), names)
            case Fields(of, names):
                return _at(dot if of is None else self.value(of, dot), names)
            case Pipeline():
                return self.pipeline(operand, dot)
            case _:
                return self.function(operand.name, [], dot, _MISSING)

    def variable(self, name: str) -> Any:
        """Return the value of the innermost variable of a name. BuiltinError if there is none."""
        for known, value in reversed(self.scope):
            if known == name:
                return value
        raise _execution_error(f"undefined variable: {name}")

    def function(self, name: str, operands: list[Operand], dot: Any, final: Any) -> Any:
        """Call a function of templates and return its result; `final`, the value piped into it, is
        its last operand unless it is `_MISSING`. `and` and `or` stop at the operand that decides.
        Counts a step and checks the deadline. BuiltinError for a wrong number or kind of operands.
        """
        self.step()
        # A function may have a whole document to write: each call looks.
        self.check_deadline()
        if name in {"and", "or"} and operands:
            # The operands after the one that decides are not looked at.
            for operand in operands:
                value = self.value(operand, dot)
                if _truth(value) == (name == "or"):
                    return value
            return value if final is _MISSING else final
        values = [self.value(operand, dot) for operand in operands]
        if final is not _MISSING:
            values.append(final)
        return _FUNCTIONS[name](*_check_count(name, values))


def _check_count(name: str, values: list[Any]) -> list[Any]:
    """Return the operands unchanged; BuiltinError if the function takes another number of them."""
    least, most = _OPERANDS[name]
    if not least <= len(values) <= most:
        want = least if least == most else f"at least {least}"
        raise _execution_error(f"wrong number of args for {name}: want {want} got {len(values)}")
    return values


def _at(value: Any, names: tuple[str, ...]) -> Any:
    """Return the value at a path of fields, None if one of them is missing or the last one is null;
    BuiltinError for a field of a value that is not an object, such as a null on the way.
    """
    for name in names:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _execution_error(f"can't evaluate field {name}")
        value = value.get(name, _MISSING)
        value = None if value is _MISSING else _NULL if value is None else value
    return None if value is _NULL else value


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return the keys and items that `range` iterates over: of an array, an object, the integers
    below a number, or nothing for nil. BuiltinError for other values.
    """
    if value is None:
        return iter(())
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return ((n, n) for n in range(value))
    raise _execution_error("range can't iterate over the value")


def _truth(value: Any) -> bool:
    return bool(value)


def _show(value: Any) -> str:
    """Return a value as Go's `fmt.Sprint` prints it: a string as it is, null as `<nil>`, `[a b]`,
    and `map[k:v]` with keys in the order of the dictionary. Each collection counts a step:
    LimitError above the limit, and the deadline is checked.
    """
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        count_step()
        return "[" + " ".join(map(_show, value)) + "]"
    if isinstance(value, dict):
        count_step()
        return "map[" + " ".join([f"{k}:{_show(v)}" for k, v in value.items()]) + "]"
    return format_text("%v", [value])


def _argument(value: Any) -> Argument:
    argument: Argument = _Int(value) if type(value) is int else value
    return argument


def _printf(template: Any, *values: Any) -> str:
    """Execute the function `printf` of templates; BuiltinError unless its first operand is a
    string.
    """
    if not isinstance(template, str):
        raise _execution_error("wrong type for value; expected string")
    return format_text(template, [_argument(value) for value in values])


def _print(*values: Any) -> str:
    """Execute the function `print`: the operands as Go prints them, joined, with a space between
    two of which neither is a string. LimitError for a text that is too long.
    """
    out: list[str] = []
    for n, text in enumerate(_bounded_texts(values)):
        if n and not isinstance(values[n], str) and not isinstance(values[n - 1], str):
            out.append(" ")
        out.append(text)
    return combine("".join(out))


def _println(*values: Any) -> str:
    return " ".join(_bounded_texts(values)) + "\n"


def _bounded_texts(values: Iterable[Any]) -> Iterator[str]:
    """Yield each of `values` as Go prints it; LimitError as soon as they have more than `MAX_TEXT`
    characters together.
    """
    size = 0
    for value in values:
        text = _show(value)
        size += len(text)
        if size > MAX_TEXT:
            raise LimitError(f"result is longer than {MAX_TEXT} characters")
        yield text


_NO_VALUE: Final = "<no value>"


def _escape(escape: Callable[[str], str]) -> Callable[..., str]:
    """Return the template function that joins its operands as `print` does and applies `escape`."""

    def run(*values: Any) -> str:
        """Execute one of the escaping functions: return the operands, joined as by `print`,
        escaped; a missing value is `<no value>`.
        """
        return escape(_print(*[_NO_VALUE if value is None else value for value in values]))

    return run


_HTML: Final = str.maketrans(
    {"&": "&amp;", "'": "&#39;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "\0": "\ufffd"}
)


def _js(text: str) -> str:
    return "".join([_js_char(char) for char in text])


def _js_char(char: str) -> str:
    r"""Return a character as the function `js` escapes it for a JavaScript string: backslash and
    quotes behind a backslash, control characters, `<>&=` and what cannot be printed as `\u003C`.
    """
    if char in "\\'\"":
        return "\\" + char
    if char < " " or char in "<>&=":
        return f"\\u{ord(char):04X}"
    char = scrub(char)
    return char if char.isascii() or is_graphic(char) else f"\\u{ord(char):04X}"


def _index(value: Any, *keys: Any) -> Any:
    """Execute the function `index`: follow `keys` into an object, an array or a string, of which it
    gives a byte; without keys return `value`. None for a key that an object does not have.
    BuiltinError for null at the start, a key of the wrong type, an index out of range, and a value
    that has no parts.
    """
    if value is None:
        raise _execution_error("error calling index: index of untyped nil")
    for key in keys:
        if isinstance(value, dict):
            if type(key) is not str:
                raise _execution_error("value has wrong type for a key; should be string")
            value = value.get(key)
        elif isinstance(value, (list, str)):
            items: Any = to_bytes(value) if isinstance(value, str) else value
            if not isinstance(key, int) or isinstance(key, bool):
                raise _execution_error("cannot index slice/array with this type")
            if not 0 <= key < len(items):
                raise _execution_error(f"reflect: slice index out of range: {key}")
            value = _Byte(items[key]) if isinstance(value, str) else items[key]
        else:
            raise _execution_error("can't index item")
    return value


def _slice(value: Any, *bounds: Any) -> Any:
    """Execute the function `slice` on a string (by bytes, up to two bounds) or an array (up to
    three, of which the third only limits the second); missing bounds are the start and the end.
    BuiltinError for other values, and for bounds that are not integers, are out of range or not in
    order.
    """
    text = isinstance(value, str)
    if not text and not isinstance(value, list):
        raise _execution_error("can't slice item")
    if text and len(bounds) == 3:
        raise _execution_error("cannot 3-index slice a string")
    items: Any = to_bytes(value) if text else value
    limits = [0, len(items), len(items)]
    for n, bound in enumerate(bounds):
        is_number = isinstance(bound, int) and not isinstance(bound, bool)
        if not is_number or not 0 <= bound <= len(items):
            raise _execution_error("index out of range")
        limits[n] = bound
    if not limits[0] <= limits[1] <= limits[2]:
        raise _execution_error("invalid slice index")
    part = items[limits[0] : limits[1]]
    if not text:
        return part
    return JSONNumber(from_bytes(part)) if isinstance(value, JSONNumber) else from_bytes(part)


def _len(value: Any) -> int:
    """Execute the function `len`: the bytes of a string, the items of a collection; BuiltinError
    for other values.
    """
    if isinstance(value, str):
        return len(to_bytes(value))
    if isinstance(value, (list, dict)):
        return len(value)
    raise _execution_error("len of a value that has none")


def _kind(value: Any) -> str:
    """Return the kind of a value for comparisons: `bool`, `int`, `float` or `string` (also for
    numbers of the data). BuiltinError for values of other types.
    """
    # In this order, since a bool of Python is an int as well.
    for cls, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, cls):
            return name
    raise _execution_error("invalid type for comparison")


def _same(a: Any, b: Any) -> bool:
    """Return True if two values are equal for `eq`; nil equals only nil. Strings are compared by
    their text. BuiltinError for values of different kinds, and for collections.
    """
    if a is None or b is None:
        return a is b
    if _kind(a) != _kind(b):
        raise _execution_error("incompatible types for comparison")
    return str(a) == str(b) if isinstance(a, str) else a == b


def _eq(value: Any, *others: Any) -> bool:
    return any(_same(value, other) for other in others)


def _before(a: Any, b: Any) -> bool:
    """Return True if `a` is less than `b` for `lt`; BuiltinError for values of different kinds,
    booleans and collections.
    """
    if _kind(a) != _kind(b):
        raise _execution_error("incompatible types for comparison")
    if isinstance(a, bool):
        raise _execution_error("invalid type for comparison")
    # Go compares bytes, in which what is not UTF-8 stands elsewhere than its lone surrogate.
    return to_bytes(a) < to_bytes(b) if isinstance(a, str) else bool(a < b)


def _call(*_values: Any) -> Any:
    raise _execution_error("error calling call: non-function")


_MANY: Final = 1 << 20
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "and": lambda *values: next((v for v in values if not _truth(v)), values[-1]),
    "or": lambda *values: next((v for v in values if _truth(v)), values[-1]),
    "not": lambda value: not _truth(value),
    "len": _len,
    "index": _index,
    "slice": _slice,
    "print": _print,
    "printf": _printf,
    "println": _println,
    "html": _escape(lambda text: text.translate(_HTML)),
    "js": _escape(_js),
    "urlquery": _escape(lambda text: quote_plus(to_bytes(text))),
    "call": _call,
    "eq": _eq,
    "ne": lambda a, b: not _same(a, b),
    "lt": _before,
    "le": lambda a, b: _before(a, b) or _same(a, b),
    "gt": lambda a, b: not (_before(a, b) or _same(a, b)),
    "ge": lambda a, b: not _before(a, b),
}
_OPERANDS: Final = {
    "and": (1, _MANY),
    "or": (1, _MANY),
    "not": (1, 1),
    "len": (1, 1),
    "index": (1, _MANY),
    "slice": (1, 4),
    "print": (0, _MANY),
    "printf": (1, _MANY),
    "println": (0, _MANY),
    "html": (0, _MANY),
    "js": (0, _MANY),
    "urlquery": (0, _MANY),
    "call": (1, _MANY),
    "eq": (2, _MANY),
    "ne": (2, 2),
    "lt": (2, 2),
    "le": (2, 2),
    "gt": (2, 2),
    "ge": (2, 2),
}
