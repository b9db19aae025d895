"""Policies to modules: packages, imports and rules, and the three ways to parse.

The grammar is OPA's, its errors too: an alternative that fails is taken back together with its
errors, and what no production wants is read as a query, which may still be a short rule (`p := 1`).
Nothing here knows what names mean; which names are built-ins' is told by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from doorward.rego.errors import PARSE_ERROR, Diagnostic, ParseError
from doorward.rego.source import Source, Span
from doorward.rego.syntax.annotations import Statement, annotate, read_annotations
from doorward.rego.syntax.bodies import BodyParser
from doorward.rego.syntax.cursor import FUTURE_KEYWORDS, KEYWORDS, TOO_DEEP, V1_KEYWORDS, TooDeep
from doorward.rego.syntax.lexer import EOF, IDENT, WHITESPACE
from doorward.rego.syntax.nodes import (
    And,
    Annotations,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Import,
    Module,
    Not,
    ObjectComprehension,
    Or,
    Package,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
)
from doorward.rego.syntax.terms import is_variable, value_name
from doorward.rego.syntax.walk import Node, children, walk

__all__ = ["MAX_ERRORS", "parse_module", "parse_query", "parse_term"]

MAX_ERRORS: Final = 10
"""How many errors one parse reports."""

_ROOTS: Final = ("data", "future", "input", "rego")
_BINARY: Final = frozenset({"+", "-", "*", "/", "%", "&", "|", "==", "!=", ">", ">=", "<", "<="})
_CLOSURES: Final = (ArrayComprehension, SetComprehension, ObjectComprehension)
_T = TypeVar("_T")


def parse_module(
    source: Source,
    *,
    v0: bool = False,
    annotations: bool = False,
    builtins: Container[str] = (),
) -> Module:
    """The module that a policy text is; ParseError if it is none.

    METADATA comments are read, and refused if wrong, only with `annotations`. `builtins` are the
    names that a rule without a body must not have.
    """
    parser = _ModuleParser(source, v0=v0, builtins=builtins)
    return _guard(lambda: parser.parse_module(annotations=annotations))


def parse_query(source: Source, *, v0: bool = False) -> Body:
    """The expressions of a query, () for an empty text; ParseError if it is no query."""
    return _guard(lambda: _ModuleParser(source, v0=v0).parse_query())


def parse_term(source: Source | str) -> Term:
    """The single term that a text is; ParseError if it is none."""
    if isinstance(source, str):
        source = Source("", source)
    body = parse_query(source)
    if len(body) == 1 and not body[0].negated and not body[0].withs:
        term = body[0].term
        if not isinstance(term, SomeDecl | SomeIn | Every | Not | And | Or):
            return term
    span = body[0].span if body else Span(source, 0, 0, 0, 0)
    raise ParseError([Diagnostic(PARSE_ERROR, "expected exactly one term", span)])


@dataclass(slots=True)
class _Draft:
    """A rule being read, with what only the checks of v1 want to know."""

    head: Head
    span: Span
    body: Body = ()
    default: bool = False
    keyed: bool = False
    """The head's last operand is a key, so that no `else` may follow."""
    has_if: bool = False
    has_contains: bool = False
    wrote_body: bool = True
    wrote_value: bool = True
    elses: list[_Draft] = field(default_factory=list)

    def build(self) -> Rule:
        following: Rule | None = None
        for draft in reversed([self, *self.elses]):
            following = Rule(draft.head, draft.body, draft.default, following, draft.span)
        assert following is not None
        return following


class _ModuleParser(BodyParser):
    """The productions from rules upwards."""

    def __init__(self, source: Source, *, v0: bool, builtins: Container[str] = ()) -> None:
        super().__init__(source, v0=v0)
        self.builtins = builtins
        self.v1 = not v0
        self.packages: list[Package] = []
        self.imports: list[Import] = []
        self.drafts: list[_Draft] = []
        self.late: list[Diagnostic] = []
        """Errors of statements that are well-formed but stand in the wrong place."""

    # Whole texts

    def parse_module(self, *, annotations: bool) -> Module:
        """module = package { import | rule }"""
        seen = False
        while self.kind != EOF:
            place = self.here()
            if not self._parse_statement(place, first=not seen):
                break
            seen = True
            self.forget()
        comments = self.lexer.comment_nodes()
        found: list[Annotations] = []
        if annotations:
            found, faults = read_annotations(comments, parse_term)
            self.errors.extend(faults)
        self._stop(self.errors)
        if not seen:
            self._stop([Diagnostic(PARSE_ERROR, "empty module", Span(self.source, 0, 0, 0, 0))])
        if self.v1:
            for draft in self.drafts:
                for part in (draft, *draft.elses):
                    self.late.extend(_check_v1(part))
        self._stop(self.late)
        rules = [draft.build() for draft in self.drafts]
        if found:
            statements: list[Statement] = [*self.packages, *self.imports, *rules]
            statements.sort(key=lambda s: s.span.start)
            found, rules, faults = annotate(found, statements, rules)
            self._stop(faults)
        return Module(
            self.packages[0],
            tuple(self.imports),
            tuple(rules),
            comments=comments,
            annotations=tuple(found),
            v1=self.v1,
            span=self.lexer.span(0, len(self.source.text)),
        )

    def _stop(self, errors: list[Diagnostic]) -> None:
        if errors:
            raise ParseError(errors[:MAX_ERRORS])

    def parse_query(self) -> Body:
        """query = { literal ( ";" | newline ) }"""
        exprs: list[Expr] = []
        while self.kind != EOF:
            body = self.parse_query_part()
            if body is None:
                break
            exprs.extend(body)
            self.forget()
        self._stop(self.errors)
        return tuple(exprs)

    def _parse_statement(self, place: Span, *, first: bool) -> bool:
        state = self.save()
        package = self._parse_package()
        if package is not None:
            if not first:
                self._misplaced("unexpected package", place)
            self.packages.append(package)
            return True
        if self.errors:
            return False
        self.restore(state)
        imported = self._parse_import()
        if imported is not None:
            if first:
                self._misplaced("package expected", place)
            self._use_import(imported)
            self.imports.append(imported)
            return True
        if self.errors:
            return False
        self.restore(state)
        if first:
            self._misplaced("package expected", place)
        drafts = self._parse_rules()
        if drafts is not None:
            self.drafts.extend(drafts)
            return True
        if self.errors:
            return False
        self.restore(state)
        body = self.parse_query_part()
        if body is None:
            return False
        if not first:
            self._take_body(body)
        return True

    def _misplaced(self, message: str, span: Span) -> None:
        self.late.append(Diagnostic(PARSE_ERROR, message, span))

    # Package and imports

    def _start_path(self) -> bool:
        """Step over `package` or `import`; False if it is a name here (`package.x := 1`)."""
        self.scan_blank()
        if self.kind in (".", "["):
            return False
        if self.kind == WHITESPACE:
            self.scan()
        if self.is_ref_keyword(self.kind):
            self.kind = IDENT
        if self.kind != IDENT:
            self.illegal()
            return False
        return True

    def _parse_package(self) -> Package | None:
        """package = "package" ref"""
        if self.kind != "package":
            return None
        start = self.token.start
        if not self._start_path():
            return None
        term = self.parse_term()
        span = self.since(start)
        match term:
            case None:
                pass
            case Var():
                return Package((term.name,), span, (term,))
            case Ref(head=Var()) if self._all_strings(term):
                path = (term.head.name, *_strings(term))  # type: ignore[union-attr]
                return Package(path, span, (term.head, *term.args))
            case Ref(head=Var()):
                pass
            case Ref():
                name = value_name(term.head)
                self.error(f"unexpected {name} token: expecting var", term.head.span)
            case _:
                self.illegal()
        return None

    def _all_strings(self, ref: Ref) -> bool:
        for term in ref.args:
            if not (isinstance(term, Scalar) and isinstance(term.value, str)):
                self.error(f"unexpected {value_name(term)} token: expecting string", term.span)
                return False
        return True

    def _parse_import(self) -> Import | None:
        """import = "import" ref [ "as" var ]"""
        if self.kind != "import":
            return None
        start = self.token.start
        if not self._start_path():
            return None
        path = self._parse_import_path()
        if path is None:
            return None
        head = path.head if isinstance(path, Ref) else path
        if not (isinstance(head, Var) and head.name in _ROOTS):
            self.hint("if this is unexpected, try updating OPA")
            roots = ", ".join(_ROOTS)
            message = f"unexpected import path, must begin with one of: {{{roots}}}"
            self.error(f"{message}, got: {head.span.text}", path.span)
            return None
        if self.kind == "as":
            return self._parse_alias(path, start)
        last = path.args[-1] if isinstance(path, Ref) else path
        name = last.value if isinstance(last, Scalar) else head.name
        if head.name != "future" and name in self.ref_keywords:
            message = f"unexpected import path, must not end with a keyword, got: {name}"
            self.error(message, last.span)
        return Import(path, None, self.since(start))

    def _parse_import_path(self) -> Ref | Var | None:
        # In `import future.keywords.in` the last name is no keyword even if it already is one.
        keywords = self.keywords
        self.keywords = keywords - (FUTURE_KEYWORDS - KEYWORDS)
        term = self.parse_term()
        self.keywords = keywords
        if isinstance(term, Var):
            return term
        if isinstance(term, Ref):
            return term if self._all_strings(term) else None
        self.error("expected path")
        return None

    def _parse_alias(self, path: Ref | Var, start: int) -> Import | None:
        self.scan()
        if self.kind == IDENT:
            alias = self.parse_term()
            if is_variable(alias):
                return Import(path, alias.name, self.since(start))
        self.illegal("expected var")
        return None

    def _use_import(self, imported: Import) -> None:
        """Let an import of keywords take effect."""
        path = imported.path
        root = path.head if isinstance(path, Ref) else path
        names = _strings(path) if isinstance(path, Ref) else ()
        match root:
            case Var(name="rego"):
                self._use_rego(imported, names)
            case Var(name="future"):
                self._use_future(imported, names)

    def _use_rego(self, imported: Import, names: tuple[str, ...]) -> None:
        if names != ("v1",):
            path = ".".join(("rego", *names))
            message = f"invalid import `{path}`, must be `rego.v1`"
            self.error(message, imported.path.span)
        elif self.v0:
            if imported.alias is not None:
                self.error("`rego` imports cannot be aliased", imported.path.span)
                return
            self.v1 = True
            self.keywords |= V1_KEYWORDS

    def _use_future(self, imported: Import, names: tuple[str, ...]) -> None:
        span = imported.path.span
        if not names or names[0] != "keywords":
            self.error("invalid import, must be `future.keywords`", span)
        elif imported.alias is not None:
            self.error("`future` imports cannot be aliased", span)
        elif len(names) == 2 and names[1] not in FUTURE_KEYWORDS:
            known = " ".join(sorted(FUTURE_KEYWORDS))
            self.error(f"unexpected keyword, must be one of [{known}]", span)
        elif len(names) == 2:
            self.keywords |= {names[1], "in"} if names[1] == "every" else {names[1]}
        else:
            self.keywords |= FUTURE_KEYWORDS
        self.composite_not = self.composite_not or names[1:] in ((), ("not",))

    # Rules

    def _parse_rules(self) -> list[_Draft] | None:
        """rules = [ "default" ] head [ [ "if" ] body { else } { "{" body "}" } ]"""
        start = self.token.start
        self.take_ref_keyword()
        default = self.kind == "default"
        if default:
            self.scan()
            self.take_ref_keyword()
        if self.kind != IDENT:
            return None
        draft = self._parse_head(default=default)
        if draft is None:
            return None
        if default:
            if not self._check_default(draft, self.since(start)):
                return None
            draft.span = self.since(start)
            return [draft]
        draft.has_if = self.kind == "if"
        self._sort_out_key(draft)
        if draft.has_if:
            self.scan()
            body = self._parse_if_body()
        elif self.kind == "{":
            self.scan()
            body = self._parse_braced_body()
        elif draft.has_contains:
            draft.wrote_body = False
            draft.span = draft.head.span
            return [draft]
        else:
            return None
        if body is None:
            return None
        draft.body = body
        has_else = self.kind == "else" and not self.take_ref_keyword()
        if has_else and not self._parse_elses(draft):
            return None
        draft.span = self.since(start)
        return self._parse_more_bodies(draft)

    def _sort_out_key(self, draft: _Draft) -> None:
        """`p[x]` is a partial set without `if`, a single value with it."""
        head = draft.head
        if draft.has_contains:
            draft.keyed = True
        elif head.args is None and len(head.ref.args) == 1:
            key = head.ref.args[0]
            if draft.has_if:
                draft.keyed = not _is_ground(key)
                return
            draft.keyed = True
            if head.value is None:
                draft.head = replace(head, ref=replace(head.ref, args=()), key=key)

    def _parse_if_body(self) -> Body | None:
        state = self.save()
        expr = self.parse_literal()
        # A set is always true, so `if { x }` can only mean a body.
        if expr is not None and not isinstance(expr.term, Set):
            return (expr,)
        self.restore(state)
        self.scan()
        return self._parse_braced_body()

    def _parse_braced_body(self) -> Body | None:
        body = self.parse_body("}")
        if body is not None:
            self.scan()
        return body

    def _parse_more_bodies(self, draft: _Draft) -> list[_Draft] | None:
        drafts = [draft]
        while self.kind == "{":
            if draft.elses:
                self.error("expected else keyword")
                return None
            start = self.token.start
            self.scan()
            body = self._parse_braced_body()
            if body is None:
                return None
            head = replace(self._with_own_wildcards(draft.head), span=self.since(start))
            drafts.append(replace(draft, head=head, body=body, span=self.since(start)))
        return drafts

    def _with_own_wildcards(self, head: Head) -> Head:
        if not head.args:
            return head
        args = tuple(
            Var(self.wildcard(), a.span) if isinstance(a, Var) and a.is_wildcard else a
            for a in head.args
        )
        return replace(head, args=args)

    def _parse_elses(self, draft: _Draft) -> bool:
        """else = "else" [ ( ":=" | "=" ) term-infix ] [ "if" ] [ body ]"""
        if not all(_is_ground(a) for a in draft.head.ref.args):
            self.error("else keyword cannot be used on rules with variables in head")
            return False
        if draft.keyed:
            self.error("else keyword cannot be used on multi-value rules")
            return False
        starts = []
        while self.kind == "else":
            starts.append(self.token.start)
            following = self._parse_else(draft.head)
            if following is None:
                return False
            draft.elses.append(following)
        for start, following in zip(starts, draft.elses, strict=True):
            following.span = self.since(start)
        return True

    def _parse_else(self, first: Head) -> _Draft | None:
        start = self.token.start
        head = replace(self._with_own_wildcards(first), value=None)
        draft = _Draft(head, self.here())
        self.scan()
        if self.kind in (":=", "="):
            assign = self.kind == ":="
            self.scan()
            value = self.parse_infix()
            if value is None:
                return None
            head = replace(head, value=value, assign=assign)
        elif self.kind in ("{", "if"):
            draft.wrote_value = False
        else:
            self.illegal("expected else value term or rule body")
            return None
        draft.head = replace(head, span=self.since(start))
        if self.kind in ("{", "if"):
            if not self._parse_else_body(draft):
                return None
        else:
            draft.wrote_body = False
        return draft

    def _parse_else_body(self, draft: _Draft) -> bool:
        if self.kind == "if":
            draft.has_if = True
            self.scan()
        if self.kind == "{":
            self.scan()
            body = self._parse_braced_body()
            if body is None:
                return False
            draft.body = body
            return True
        if self.kind == EOF:
            self.illegal("rule body expected")
            return False
        expr = self.parse_literal()
        if expr is None:
            return False
        draft.body = (expr,)
        return True

    def _parse_head(self, *, default: bool) -> _Draft | None:
        """head = ref [ "(" [ terms ] ")" ] [ "contains" term-infix | ( ":=" | "=" ) term-infix ]"""
        start = self.token.start
        term = self._parse_head_name()
        if term is None:
            self.illegal("expected rule head name")
            return None
        head = self._head_of(term)
        if head is None:
            if not isinstance(term, Set):
                self.error(f"rule head ref {term.span.text} invalid", term.span)
            return None
        draft = _Draft(head, self.here(), default=default)
        name = head.ref.span.text
        if self.kind == "contains":
            draft.has_contains = True
            if head.args is not None:
                self.illegal(
                    "the contains keyword can only be used with multi-value rule definitions "
                    f"(e.g., {name} contains <VALUE> {{ ... }})"
                )
            self.scan()
            key = self.parse_infix()
            if key is None:
                self.illegal(f"expected rule key term (e.g., {name} contains <VALUE> {{ ... }})")
            head = replace(head, key=key)
        elif self.kind in (":=", "="):
            assign = self.kind == ":="
            self.scan()
            value = self.parse_infix()
            if value is None:
                self.illegal(_expected_value(name, head, assign=assign, default=default))
            head = replace(head, value=value, assign=assign)
        if head.value is None and head.key is None:
            draft.wrote_value = len(head.ref.args) == 1 and not head.args
        draft.head = replace(head, span=self.since(start))
        return draft

    def _parse_head_name(self) -> Term | None:
        start = self.token.start
        name = self.parse_var()
        self.scan_blank()
        if self.kind in _BINARY:
            self.illegal()
        elif self.kind == WHITESPACE:
            self.scan()
        if self.kind in ("(", ".", "["):
            return self.parse_ref(name, start)
        return name

    def _head_of(self, term: Term) -> Head | None:
        match term:
            case Var():
                return Head(Ref(term, (), term.span), span=term.span)
            case Ref(head=Var()):
                return Head(term, span=term.span)
            case Call(operator=Ref(head=Var())):
                return Head(term.operator, term.args, span=term.span)
            case _:
                return None

    def _check_default(self, draft: _Draft, span: Span) -> bool:
        head = draft.head
        if head.value is None and draft.wrote_value:
            self.error("illegal default rule (must have a value)", span)
            return False
        names = () if head.value is None else _names_in(head.value)
        faults = [f"value cannot contain {value_name(t)}" for t in names]
        seen: set[str] = set()
        for arg in head.args or ():
            if not isinstance(arg, Var):
                faults.append(f"arguments cannot contain {value_name(arg)}")
            elif arg.name in seen:
                faults.append(f"arguments cannot be repeated {arg.name}")
            else:
                seen.add(arg.name)
        for fault in faults:
            self.error(f"illegal default rule ({fault})", span)
        return not faults

    # Queries that are rules: `p := 1`, `p.a.b`, `f(x) = y`

    def _take_body(self, body: Body) -> None:
        fault: str | None
        draft, fault = None, "multiple expressions cannot be used for rule head"
        if len(body) == 1:
            draft, fault = self._rule_of(body[0])
        if draft is None:
            self._misplaced(fault, body[0].span)
        else:
            draft.wrote_body = False
            self.drafts.append(draft)

    def _rule_of(self, expr: Expr) -> tuple[_Draft | None, str]:
        """The rule that an expression stands for, or why it stands for none."""
        if expr.withs:
            return None, "expressions using with keyword cannot be used for rule head"
        if expr.negated:
            return None, "negated expressions cannot be used for rule head"
        match expr.term:
            case SomeDecl() | SomeIn():
                return None, "'some' declarations cannot be used for rule head"
            case Call(args=(_, _)) as call if call.name in ("eq", "assign"):
                return self._rule_of_equation(expr, call)
            case Call() as call:
                return self._rule_of_call(expr, call)
            case Var(name="data" | "input"):
                return None, "refs cannot be used for rule head"
            case Ref(head=Var()) as ref:
                head = Head(ref, span=expr.span)
                if len(ref.args) == 1:
                    head = replace(head, ref=replace(ref, args=()), key=ref.args[0])
                return _Draft(head, expr.span, wrote_value=False), ""
            case Ref() as ref:
                return None, f"invalid rule head: {ref.span.text}"
            case Every() | Not() | And() | Or():
                return None, "expression cannot be used for rule head"
            case term:
                return None, f"{value_name(term)} cannot be used for rule name"

    def _rule_of_equation(self, expr: Expr, call: Call) -> tuple[_Draft | None, str]:
        left, right = call.args
        head = self._head_of(left) if not (isinstance(left, Call) and left.infix) else None
        if head is None:
            if isinstance(left, Ref):
                return None, f"invalid rule head: {left.span.text}"
            return None, f"{value_name(left)} cannot be used for rule name"
        head = replace(head, value=right, assign=call.name == "assign", span=expr.span)
        return _Draft(head, expr.span), ""

    def _rule_of_call(self, expr: Expr, call: Call) -> tuple[_Draft | None, str]:
        if call.infix or call.name in self.builtins:
            return None, "rule name conflicts with built-in function"
        if not call.args:
            return None, "rule argument list must take at least one argument"
        if not isinstance(call.operator.head, Var):
            return None, f"invalid rule head: {call.operator.span.text}"
        return _Draft(Head(call.operator, call.args, span=expr.span), expr.span), ""


def _guard(parse: Callable[[], _T]) -> _T:
    """Run a parse; text that nests too deep for us is an error like any other."""
    try:
        return parse()
    except TooDeep as stop:
        raise ParseError(stop.errors) from None
    except RecursionError:
        # The caller's own stack left less room than the limit counts on.
        raise ParseError([Diagnostic(PARSE_ERROR, TOO_DEEP)]) from None


def _check_v1(draft: _Draft) -> Iterator[Diagnostic]:
    """What v1 demands of a rule that the grammar alone would let pass."""
    head = draft.head
    kind = "rule" if not head.args else "function"
    name = head.ref.span.text
    faults = []
    if not head.ref.args and name in KEYWORDS | V1_KEYWORDS:
        faults.append(f"{name} keyword cannot be used for rule name")
    if not draft.wrote_body and not draft.wrote_value and head.key is None:
        faults.append(f"{kind} must have value assignment and/or body declaration")
    if draft.wrote_body and not draft.has_if and not draft.default:
        faults.append(f"`if` keyword is required before {kind} body")
    if head.key is not None and not draft.has_contains:
        faults.append("`contains` keyword is required for partial set rules")
    return (Diagnostic(PARSE_ERROR, fault, draft.span) for fault in faults)


def _expected_value(name: str, head: Head, *, assign: bool, default: bool) -> str:
    if not assign:
        return f"expected rule value term (e.g., {name}[<nil>] = <VALUE> {{ ... }})"
    if head.args:
        return f"expected function value term (e.g., {name}(...) := <VALUE> {{ ... }})"
    if default:
        return f"expected default rule value term (e.g., default {name} := <VALUE>)"
    return f"expected rule value term (e.g., {name} := <VALUE> {{ ... }})"


def _strings(ref: Ref) -> tuple[str, ...]:
    return tuple(str(a.value) for a in ref.args if isinstance(a, Scalar))


def _is_ground(term: Term) -> bool:
    return not any(isinstance(node, Var) for node in walk(term))


def _names_in(node: Node) -> Iterator[Term]:
    """The variables, references and calls in a term, not looking into them or comprehensions."""
    if isinstance(node, Var | Ref | Call):
        yield node
    elif not isinstance(node, _CLOSURES):
        for child in children(node):
            yield from _names_in(child)
