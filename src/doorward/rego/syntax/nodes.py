"""The syntax tree, in the order of the grammar: the result of the parser and the input of every
later stage.

Nodes are records (nothing changes them) with a position (`span`, not compared). Facts about nodes,
such as the type of a term, are never stored on them, except `is_ground`, which depends on the node
alone and which every later stage reads. The tree keeps enough of the spelling to be printed again:
infix operators are calls with `infix` set; parentheses are only visible in the text of the span.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from itertools import chain
from typing import Final, TypeAlias

from doorward.base.records import record, remember
from doorward.rego.numbers import Number
from doorward.rego.source import NOWHERE, Span
from doorward.rego.values import operand_text

__all__ = [
    "And",
    "Annotations",
    "Array",
    "ArrayComprehension",
    "Body",
    "Call",
    "Comment",
    "Every",
    "Expr",
    "Head",
    "Import",
    "Module",
    "Not",
    "Object",
    "ObjectComprehension",
    "Or",
    "Package",
    "Ref",
    "Rule",
    "Scalar",
    "Set",
    "SetComprehension",
    "SomeDecl",
    "SomeIn",
    "TemplateString",
    "Term",
    "Var",
    "With",
    "is_ground",
]


class _Named:
    """A node that caches its name, since every stage asks for it."""

    __slots__ = ("_name",)
    _name: str


class _Composite:
    """A composite literal of terms; it caches whether it contains no variables or calls."""

    __slots__ = ("_is_ground",)
    _is_ground: bool

    @property
    def is_ground(self) -> bool:
        """True if the literal contains only scalars and literals of such, so that it needs no
        evaluation. Computed once.
        """
        try:
            return self._is_ground
        except AttributeError:
            answer = all(map(is_ground, self._terms()))
            remember(self, "_is_ground", answer)
            return answer

    def _terms(self) -> Iterable[Term]:
        raise AssertionError("each class of literals must define `_terms`")


@record
class Comment:
    """A comment `# …`; `text` is what follows the `#`."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


@record
class Scalar:
    """The scalar null, true, false, a number or a string (raw strings too)."""

    value: bool | int | Number | str | None
    span: Span = field(default=NOWHERE, compare=False)
    raw: bool = field(default=False, compare=False)

    def __eq__(self, other: object) -> bool:
        # To Python True is 1.
        return (
            type(other) is Scalar
            and (type(self.value) is bool) is (type(other.value) is bool)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value) is bool, self.value))


@record
class Var:
    """A variable. Each wildcard `_` has its own name, `$0`, `$1`, …, as in OPA."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def is_wildcard(self) -> bool:
        return self.name.startswith("$")


@record
class Ref:
    """A reference `head.a["b"][c]`: a head (variable, call or composite value) and at least one
    operand. `.a` and `["a"]` are both the operand `Scalar("a")`. A variable alone is a `Var`, never
    a `Ref`, except as the operator of a `Call` and in `Head.ref`, where a `Ref` may have no
    operands.
    """

    head: Term
    args: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Call(_Named):
    """A call of a function or built-in: `operator` is a `Ref`, `args` the operands.

    Infix operators and assignments are calls too, of the built-in's name, with `infix` set:
    `x + 1` plus, `-` minus, `*` mul, `/` div, `%` rem, `&` and, `|` or, `==` equal, `!=` neq,
    `<` lt, `<=` lte, `>` gt, `>=` gte, `=` eq, `:=` assign; `x in xs` is internal.member_2,
    `k, v in xs` internal.member_3.
    """

    operator: Ref
    args: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)
    infix: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        """The operator as text, such as `io.jwt.decode`; a head that is not a variable is `?`, an
        operand that is not constant `[?]`. Computed once.
        """
        try:
            return self._name
        except AttributeError:
            head, args = self.operator.head, self.operator.args
            first = head.name if isinstance(head, Var) else "?"
            name = first + "".join(
                [operand_text(a.value) if isinstance(a, Scalar) else "[?]" for a in args]
            )
            remember(self, "_name", name)
            return name


@record
class Array(_Composite):
    """An array literal: its terms in order."""

    items: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def _terms(self) -> Iterable[Term]:
        return self.items


@record
class Object(_Composite):
    """An object literal: its key and value terms in the order written; a key may occur twice."""

    items: tuple[tuple[Term, Term], ...]
    span: Span = field(default=NOWHERE, compare=False)

    def _terms(self) -> Iterable[Term]:
        return chain.from_iterable(self.items)


@record
class Set(_Composite):
    """A set literal: its member terms in the order written; `set()` has none."""

    items: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def _terms(self) -> Iterable[Term]:
        return self.items


@record
class ArrayComprehension:
    """An array comprehension `[term | body]`."""

    term: Term
    body: Body
    span: Span = field(default=NOWHERE, compare=False)


@record
class SetComprehension:
    """A set comprehension `{term | body}`."""

    term: Term
    body: Body
    span: Span = field(default=NOWHERE, compare=False)


@record
class ObjectComprehension:
    """An object comprehension `{key: value | body}`."""

    key: Term
    value: Term
    body: Body
    span: Span = field(default=NOWHERE, compare=False)


@record
class TemplateString:
    """A template string `$"…{expr}…"`: text parts as `str`, expressions as `Expr` (they may have
    `with`).
    """

    parts: tuple[str | Expr, ...]
    span: Span = field(default=NOWHERE, compare=False)
    multi_line: bool = field(default=False, compare=False)


Term: TypeAlias = (
    Scalar
    | Var
    | Ref
    | Call
    | Array
    | Object
    | Set
    | ArrayComprehension
    | SetComprehension
    | ObjectComprehension
    | TemplateString
)


def is_ground(node: object) -> bool:
    """Return True for a scalar, or an array, object or set of ground terms: one without variables,
    references, calls, comprehensions and template strings.
    """
    kind = type(node)
    return kind is Scalar or (kind in _COMPOSITES and node.is_ground)  # type: ignore[attr-defined] # one of those


_COMPOSITES: Final = frozenset({Array, Object, Set})


@record
class With:
    """The modifier `with target as value`; the target is a `Ref` or a `Var` alone (`input`, a
    function).
    """

    target: Ref | Var
    value: Term
    span: Span = field(default=NOWHERE, compare=False)


@record
class SomeDecl:
    """The declaration `some x, y`."""

    symbols: tuple[Var, ...]
    span: Span = field(default=NOWHERE, compare=False)


@record
class SomeIn:
    """The declaration `some x in xs` or `some k, v in xs`; key and value may be patterns."""

    key: Term | None
    value: Term
    domain: Term
    span: Span = field(default=NOWHERE, compare=False)
    operator: Ref | None = field(default=None, compare=False)
    """The operator of the `in`: internal.member_2 or internal.member_3, with its place."""


@record
class Every:
    """The quantifier `every x in xs { … }` or `every k, v in xs { … }`."""

    key: Var | None
    value: Var
    domain: Term
    body: Body
    span: Span = field(default=NOWHERE, compare=False)


@record
class Not:
    """The negation `not …` where `future.keywords.not` is imported: true if `body` as a whole does
    not hold. `not { … }` has `braces`; `not x` has one expression. Without the import, `not` is
    `Expr.negated`.
    """

    body: Body
    braces: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@record
class And:
    """The expression `left and right` (`future.keywords.and`); an operand is a body in `{ … }` or
    one expression. `braces`: which of the two are in braces. Without braces an operand binds no
    variables.
    """

    left: Body
    right: Body
    braces: tuple[bool, bool] = field(default=(False, False), compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Or:
    """The expression `left or right` (`future.keywords.or`), with the same fields as `And`. The
    right operand counts if the left one fails.
    """

    left: Body
    right: Body
    braces: tuple[bool, bool] = field(default=(False, False), compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@record
class Expr:
    """One expression of a body: a term or declaration, possibly negated, possibly with `with`
    modifiers. The parser leaves `before` empty. The analysis puts there the parts of a negated term
    that must hold before the negation: equations of generated variables (`negation.py`).
    """

    term: Term | SomeDecl | SomeIn | Every | Not | And | Or
    negated: bool = False
    withs: tuple[With, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    before: Body = ()


Body: TypeAlias = tuple[Expr, ...]


@record
class Package:
    """The declaration `package a.b["c"]`, a path below `data`; `terms` are its parts as written."""

    path: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)
    terms: tuple[Term, ...] = field(default=(), compare=False)


@record
class Import:
    """An import: `import data.a.b as c`, `import rego.v1`, `import future.keywords.in`. `path`
    starts with `data`, `input`, `rego` or `future`.
    """

    path: Ref | Var
    alias: str | None = None
    span: Span = field(default=NOWHERE, compare=False)


@record
class Head:
    """The head of a rule: name, parameters, key and value.

    `ref`: the name and what follows it as written (`p`, `a.b[x].c`); its head is a `Var`.
    `args`: parameters of a function, else None (`f()` has `()`).
    `key`: the member of `p contains key`, or None.
    `value`: the term after `:=` or `=`; None where none was written.
    `assign`: `:=` was written.
    In v0, `p[x]` without a value is `key`, with the ref `p`, as the language has it there.
    """

    ref: Ref
    args: tuple[Term, ...] | None = None
    key: Term | None = None
    value: Term | None = None
    assign: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@record
class Annotations:
    """One METADATA block: its scope, and its other fields as plain data."""

    scope: str
    fields: dict[str, object]
    span: Span = field(default=NOWHERE, compare=False)


@record
class Rule:
    """One rule. `body` is () where none was written; `else_rule` continues the chain.

    Several bodies after one head (`p if {…} {…}` of v0) are several rules with the same head.
    The head of an `else` rule repeats the name and arguments of the first.
    """

    head: Head
    body: Body = ()
    default: bool = False
    else_rule: Rule | None = None
    span: Span = field(default=NOWHERE, compare=False)
    annotations: tuple[Annotations, ...] = field(default=(), compare=False)


@record
class Module:
    """One policy file. `v1` is True if it was read in the syntax of v1, also by `import
    rego.v1`.
    """

    package: Package
    imports: tuple[Import, ...]
    rules: tuple[Rule, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
    annotations: tuple[Annotations, ...] = field(default=(), compare=False)
    v1: bool = field(default=True, compare=False)
    span: Span = field(default=NOWHERE, compare=False)
