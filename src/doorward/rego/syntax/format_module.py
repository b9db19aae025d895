"""A whole module in its canonical layout: package, imports and rules.

Each rule is written in one of four styles. `plain` is OPA's. Where that loses a comment or does not
format to itself, `spread` gives each comment in a collection a line of its own, `kept` leaves the
rule as it was written, and `hoisted` puts its comments above it. The choice is made in `format`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from doorward.rego.source import Source, Span
from doorward.rego.syntax.format_terms import MEMBERS, TermWriter, in_row, scalar_text
from doorward.rego.syntax.keywords import KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.layout import Layout, UnexpectedComment, last_row
from doorward.rego.syntax.nodes import (
    And,
    Call,
    Every,
    Expr,
    Head,
    Import,
    Module,
    Not,
    Or,
    Package,
    Ref,
    Rule,
    Scalar,
    Set,
    Term,
    Var,
)
from doorward.rego.syntax.opa_json import has_braces, head_key, is_repeated
from doorward.rego.syntax.term_order import rank
from doorward.rego.syntax.walk import rewrite, walk

__all__ = ["ModuleWriter", "Style", "Target", "needed_imports"]

Target: TypeAlias = Literal["v0", "v0v1", "v1"]
"""The syntax to write: v0, v0 and v1 at once (`import rego.v1`), or v1."""

Style: TypeAlias = Literal["plain", "spread", "kept", "hoisted"]
"""The style in which a rule is written."""

_TRUE_BODY: Final = (Expr(Scalar(True)),)
_KEYWORDS_FUTURE: Final = frozenset({"and", "not", "or"})
"""Keywords that still need an import in v1."""


class ModuleWriter:
    """Writes a module for a target: packages, imports and rules; `terms` writes the parts of rules
    on the same layout. One object writes one module. UnexpectedComment if a comment has no place.
    """

    def __init__(self, module: Module, target: Target, styles: Mapping[int, Style]) -> None:
        trimmed = (replace(c, text=c.text.rstrip()) for c in module.comments)
        self.layout = Layout(trimmed)
        self.source = module
        self.styles = styles
        """The styles of rules that are not plain, by their position among the rules."""
        names = {name for i in module.imports for name in _future(i)}
        everything = any(_is_rego_v1(i) or _is_all_future(i) for i in module.imports)
        self.v1 = target != "v0"
        self.contains = self.v1 or everything or "contains" in names
        self.ifs = self.v1 or everything or "if" in names
        self.ref_heads = any(_needs_ref_heads(rule.head) for rule in module.rules)
        keywords = KEYWORDS | V1_KEYWORDS if self.v1 else KEYWORDS | names
        self.terms = TermWriter(self.layout, keywords)
        self.count = 0
        """The number of rules written so far."""

    def module(self, imports: Sequence[Import]) -> str:
        """Write the whole module, with `imports` in place of its own, and return its text: package
        first, then imports and rules in the order of the source, comments behind the last rule at
        the end. UnexpectedComment if a comment has no place. Can be called once.
        """
        self.package(self.source.package)
        others: list[Import | Rule] = [*imports, *self.source.rules]
        others.sort(key=lambda node: (node.span.row, node.span.col))
        while others:
            kind = type(others[0])
            count = next((i for i, o in enumerate(others) if type(o) is not kind), len(others))
            if kind is Import:
                self.imports([o for o in others[:count] if isinstance(o, Import)])
            else:
                self.rules([o for o in others[:count] if isinstance(o, Rule)])
            del others[:count]
        for comment in self.layout.comments:
            self.layout.write_line(f"#{comment.text}")
        return self.layout.text()

    def package(self, package: Package) -> None:
        """Write the comments above the package, its line without a comment of its own, and a blank
        line. UnexpectedComment if a comment has no place.
        """
        self.layout.pass_row(package.span.row)
        self.layout.start_line()
        terms = package.terms or tuple(Scalar(name) for name in package.path)
        self.layout.write("package ")
        with self.layout.without_comments():
            self.terms.ref(Ref(Var(package.path[0], terms[0].span), terms[1:]))
        self.layout.blank_line()

    # Imports

    def imports(self, imports: Sequence[Import]) -> None:
        """Write the imports, sorted within groups on consecutive rows of the source, each with the
        comment beside it; a blank line follows each group.
        """
        # As in OPA only what is beside the first row stays beside the import.
        first = {imported.span.row: imported for imported in reversed(imports)}
        beside = {
            id(first[c.span.row]): c.text for c in self.layout.comments if c.span.row in first
        }
        self.layout.comments = tuple(c for c in self.layout.comments if c.span.row not in first)
        for group in _groups(imports):
            self.layout.pass_row(group[0].span.row)
            for imported in sorted(group, key=_import_rank):
                self.layout.start_line()
                self.import_(imported)
                if id(imported) in beside:
                    self.layout.write(f" #{beside[id(imported)]}")
                self.layout.end_line()
            self.layout.blank_line()

    def import_(self, item: Import) -> None:
        """Write one import with its alias, without its comment and without ending the line.
        Keywords behind `future.keywords` are written without the quotes of the source.
        """
        self.layout.write("import ")
        path = item.path if isinstance(item.path, Ref) else Ref(item.path, ())
        keywords = self.terms.keywords
        # A keyword is a name in such a path: `future.keywords["in"]` is written `.in`. In other
        # paths the quotes stay, since `import data.b.in` is an error.
        if _future(item):
            self.terms.keywords = frozenset()
        with self.layout.without_comments():
            self.terms.ref(path)
        self.terms.keywords = keywords
        if item.alias is not None:
            self.layout.write(f" as {item.alias}")

    # Rules

    def rules(self, rules: Sequence[Rule]) -> None:
        """Write the rules, each in its style, and count them in `count`. A blank line follows each,
        except between two one-line rules in adjacent rows of the source. A comment above a rule
        that has no place is left to the writing of the rule.
        """
        for index, rule in enumerate(rules):
            with suppress(UnexpectedComment):
                self.layout.pass_row(rule.span.row)
            self.styled_rule(rule, self.styles.get(self.count, "plain"))
            self.count += 1
            if index + 1 < len(rules):
                following = rules[index + 1]
                # Behind a rule with `else`, which takes several lines, a rule is adjacent no more.
                adjacent = following.span.row == rule.span.row + 1 and rule.else_rule is None
                if adjacent and self.is_one_line(rule) and self.is_one_line(following):
                    continue
            self.layout.blank_line()

    def styled_rule(self, rule: Rule, style: Style) -> None:
        """Write a rule in a style: `kept` as in the source, `hoisted` with its comments above it,
        others in the canonical layout. From here on the layout spreads collections only for
        `spread`.
        """
        self.layout.spreads = style == "spread"
        if style == "kept":
            self.kept_rule(rule)
        elif style == "hoisted":
            self.hoisted_rule(rule)
        else:
            self.rule(rule)

    def kept_rule(self, rule: Rule) -> None:
        """Write the source text of the rule on lines of its own; the comments inside it count as
        written, and one beside its last row is written behind it if it has a place.
        """
        self.layout.start_line()
        self.layout.write(rule.span.text)
        end = last_row(rule.span)
        self.layout.comments = tuple(c for c in self.layout.comments if c.span.row >= end)
        if self.layout.beside is not None and self.layout.beside.span.row < end:
            self.layout.beside = None
        with suppress(UnexpectedComment):
            self.layout.pass_row(end)
        self.layout.end_line()

    def hoisted_rule(self, rule: Rule) -> None:
        """Write all comments of the rule, also those inside it, on lines above it, then the rule
        without comments.
        """
        inside = self.layout.take_comments(rule.span)
        above = inside if self.layout.beside is None else [self.layout.beside, *inside]
        self.layout.beside = None
        with self.layout.without_comments():
            for comment in above:
                self.layout.write_line(f"#{comment.text}")
            self.rule(rule)

    def is_one_line(self, rule: Rule) -> bool:
        """Return True if the rule may stand next to another without a blank line: it is not a
        default, has at most one expression, and is of a form that is written with `if`.
        """
        if len(rule.body) > 1 or rule.default:
            return False
        return self.uses_if(rule.head)

    def uses_if(self, head: Head) -> bool:
        """Return True if `if` is written before the body of a rule with this head: always in v1; in
        v0 if the keyword is imported and, for a partial set, `contains` is imported too.
        """
        return self.ifs and (self.contains or head.key is None)

    def rule(self, rule: Rule, *, is_else: bool = False) -> None:
        """Write a rule, or with `is_else` the `else` branch of one: head, `if` where the target or
        the imports have it, body (on the same line if it fits) and further branches. A body that is
        `true` is left out, unless an `else` follows. UnexpectedComment if a comment has no place.
        """
        if not is_else:
            self.layout.start_line()
        if rule.default:
            self.layout.write("default ")
        constant = (not rule.body or rule.body == _TRUE_BODY) and rule.else_rule is None
        self.layout.keep_final_comment = constant
        if is_repeated(rule.head):
            # In OPA all of the head that a further body of v0 repeats is where the body begins.
            row = rule.head.span.row
            rule = replace(rule, head=rewrite(rule.head, lambda node: in_row(node, row)))
            with self.layout.without_comments():
                spoiled = not self.head(rule, is_constant=constant, is_else=is_else)
        else:
            spoiled = not self.head(rule, is_constant=constant, is_else=is_else)
        if constant:
            self.layout.end_line()
            return
        self.layout.keep_final_comment = True
        if self.uses_if(rule.head):
            self.layout.write(" if")
            if self.fits_on_line(rule, is_else=is_else):
                self.one_line_body(rule)
                return
        self.block(rule, spoiled=spoiled, is_else=is_else)

    def fits_on_line(self, rule: Rule, *, is_else: bool) -> bool:
        """Return True if the body can follow `if` on the same line: it is one expression that was
        on that line in the source, or with `is_else` one without braces. False for a set alone,
        which would be read as a body in braces.
        """
        if len(rule.body) != 1:
            return False
        (expr,) = rule.body
        # A set alone would be read as the body's braces, even behind `not`.
        if isinstance(expr.term, Set):
            return False
        # What follows an `if` of `else` without braces is, to OPA, where its `else` is.
        return expr.span.row == rule.head.span.row or (is_else and not has_braces(rule))

    def one_line_body(self, rule: Rule) -> None:
        """Write the only expression of a body on the line of the head, end the line, and write the
        `else` branch if there is one.
        """
        self.layout.write(" ")
        (expr,) = rule.body
        row = rule.head.span.row
        if expr.span.row != row:
            expr = rewrite(expr, lambda node: in_row(node, row))
        self.terms.expr_or_as_is(expr)
        self.layout.end_line()
        if rule.else_rule is not None:
            self.else_rule(rule, rule.else_rule)

    def block(self, rule: Rule, *, spoiled: bool, is_else: bool) -> None:
        """Write a body in braces, one expression per line, and the `else` branch if there is one.
        `spoiled`: the head had to be written unchanged and may end with a comment. `is_else`: it is
        the body of an `else`.
        """
        if spoiled and self.layout.comments:
            self.layout.write(" { ")
        else:
            self.layout.write(" {")
            self.layout.end_line()
        self.layout.level += 1
        self.terms.body(rule.body)
        skip = "()" if rule.head.args and not is_else else ""
        if not skip and head_key(rule) is not None:
            skip = "[]"
        with suppress(UnexpectedComment):
            self.layout.pass_row(self.layout.closing_row(rule.span, "{}", skip))
        self.layout.level -= 1
        self.layout.start_line()
        self.layout.write("}")
        if rule.else_rule is not None:
            self.else_rule(rule, rule.else_rule)

    def else_rule(self, rule: Rule, following: Rule) -> None:
        """Write the `else` branch `following` of a rule: after `}` on the same line, or on its own
        line if it was on one in the source or a comment is above it.
        """
        row = following.span.row
        lines = rule.span.text.split("\n")
        distance = row - rule.span.row
        has_own_row = not 0 < distance < len(lines) or lines[distance].strip().startswith("else")
        comment_above = bool(self.layout.comments) and self.layout.comments[0].span.row < row
        comment_above = comment_above or self.layout.beside is not None
        if not comment_above and not has_own_row:
            self.layout.write(" ")
        else:
            self.layout.blank_line()
            self.layout.start_line()
        self.layout.pass_row(row)
        if comment_above and has_own_row:
            self.layout.start_line()
        self.rule(following, is_else=True)

    # Heads

    def head(self, rule: Rule, *, is_constant: bool, is_else: bool) -> bool:
        """Write the head, or with `is_else` the `else` with its value. `is_constant`: the rule has
        neither a body nor an `else`. Return False if only the key or value had to be written
        unchanged because of a comment; True otherwise, also if the whole head was.
        """
        head = rule.head
        if is_else:
            self.layout.write("else")
        elif not self.name(head):
            return True
        if head.args and not is_else:
            self.layout.write("(")
            close = self.layout.closing_row(head.span, "()")
            self.terms.items(head.args, head.span, close, self.terms.argument)
            self.layout.write(")")
        try:
            if head.key is not None:
                self.key(head.key)
            else:
                self.value(rule, is_constant=is_constant, is_else=is_else)
        except UnexpectedComment:
            return False
        return True

    def name(self, head: Head) -> bool:
        """Write the name of a rule with the operands of its reference; a single one is written as
        OPA prints it, on one line, unless some rule of the module needs a general reference. Return
        False if a comment is there: then the whole head is written as in the source.
        """
        if self.ref_heads or len(head.ref.args) != 1:
            self.terms.ref(head.ref)
            return True
        (key,) = head.ref.args
        if self.layout.comments and key.span.row == self.layout.comments[0].span.row:
            self.layout.write_as_is(head.span, self.layout.mark())
            return False
        self.layout.write(head.ref.head.name if isinstance(head.ref.head, Var) else "")
        self.layout.write(f"[{self.terms.plain_text(key)}]")
        return True

    def key(self, key: Term) -> None:
        """Write the key of a partial rule, ` contains key` or in v0 `[key]`; UnexpectedComment if a
        comment in it has no place.
        """
        self.layout.write(" contains " if self.contains else "[")
        try:
            self.terms.term(key)
        finally:
            self.layout.write("" if self.contains else "]")

    def value(self, rule: Rule, *, is_constant: bool, is_else: bool) -> None:
        """Write ` := value` (in v0 ` = value` if so written), unless the value is `true` and
        implied by the rest of the rule. `is_constant`: the rule has neither a body nor an `else`;
        `is_else`: the value is that of an `else`. UnexpectedComment if a comment in it has no
        place.
        """
        head = rule.head
        value = head.value
        has_key = len(head.ref.args) == 1 and not head.args and not is_else and not rule.default
        if value is None:
            # `f(1)` and, in v0, `a.b.c` stay as they are; anything else without a body needs its
            # value to mean the same.
            stays = head.args or (head.ref.args and not self.v1)
            if not is_constant or (stays and not rule.body and not is_else):
                return
            value = Scalar(True, head.span)
        elif value == Scalar(True) and not (has_key or is_constant or rule.default):
            return
        self.layout.write(" := " if head.assign or self.v1 else " = ")
        if is_else and not self.layout.spreads:
            # As in OPA, the value stands where its `else` does.
            self.layout.pass_row(head.span.row)
            if not isinstance(value, Scalar):
                value = replace(value, span=head.span)
            else:
                self.layout.write(scalar_text(value))
                return
        self.terms.term(value)


def _needs_ref_heads(head: Head) -> bool:
    """Return True for a general reference as head: with several operands, or one and a key."""
    parts = len(head.ref.args)
    return parts > 1 or (parts == 1 and head.key is not None)


# Imports


def _path(item: Import) -> tuple[str, ...]:
    """Return the names in the path of an import, such as `("data", "a")`."""
    head, args = (item.path.head, item.path.args) if isinstance(item.path, Ref) else (item.path, ())
    first = head.name if isinstance(head, Var) else ""
    return (first, *(str(a.value) for a in args if isinstance(a, Scalar)))


def _future(item: Import) -> tuple[str, ...]:
    """Return the keyword that `import future.keywords.<keyword>` names, as a tuple; () for other
    imports, also for that of all keywords.
    """
    path = _path(item)
    return path[2:] if path[:2] == ("future", "keywords") and len(path) == 3 else ()


def _is_all_future(item: Import) -> bool:
    return _path(item) == ("future", "keywords")


def _is_rego_v1(item: Import) -> bool:
    return _path(item) == ("rego", "v1")


def _import_rank(item: Import) -> tuple[object, str]:
    """Return the sort key of an import: OPA's order of the paths, then the alias."""
    path = item.path if isinstance(item.path, Ref) else Ref(item.path, ())
    return rank(path), item.alias or ""


def _groups(imports: Sequence[Import]) -> list[list[Import]]:
    """Return the imports in groups of those on consecutive rows of the source, which are in the
    order of `imports`.
    """
    groups: list[list[Import]] = []
    last = -2
    for item in imports:
        if not groups or item.span.row - last > 1:
            groups.append([])
        groups[-1].append(item)
        last = item.span.row
    return groups


def needed_imports(module: Module, *, target: Target, drop_v0_imports: bool) -> list[Import]:
    """Return the imports to write: the module's and those that the target needs added. Imports of
    keywords that v1 has are left out beside `import rego.v1` and, for other targets than v0, with
    `drop_v0_imports`; `import future.keywords` then becomes imports of the keywords in use that v1
    lacks. With `drop_v0_imports` and the target v1, `import rego.v1` is left out too.
    """
    imports = list(module.imports)
    if target == "v1" and drop_v0_imports:
        imports = [i for i in imports if not _is_rego_v1(i)]
    elif target == "v0v1" and not any(map(_is_rego_v1, imports)):
        imports.append(_add("rego", "v1"))
    if target == "v0" and not any(map(_is_rego_v1, imports)):
        for name in sorted(_used_keywords(module) - _KEYWORDS_FUTURE):
            # `import future.keywords.every` brings `in`, too (`parser/imports.py`).
            known = {"in", "every"} if name == "in" else {name}
            if not any(_is_all_future(i) or known & set(_future(i)) for i in imports):
                imports.append(_add("future", "keywords", name))
    elif drop_v0_imports or any(map(_is_rego_v1, imports)):
        remaining = [
            i for i in imports if _path(i)[0] != "future" or set(_future(i)) & _KEYWORDS_FUTURE
        ]
        if any(map(_is_all_future, imports)):
            known = {name for i in remaining for name in _future(i)}
            missing = sorted((_used_keywords(module) & _KEYWORDS_FUTURE) - known)
            remaining += [_add("future", "keywords", name) for name in missing]
        imports = remaining
    return imports


def _used_keywords(module: Module) -> set[str]:
    """Return the keywords that may need an import and that a module uses: `every`, `and`, `or`,
    `not` if it negates a whole body (`future.keywords.not`), and `in` if `x in xs` is a whole
    expression.
    """
    used = set()
    for node in walk(module):
        # `if` and `contains` are not searched: v0 writes them only where they are imported.
        match node:
            case Every():
                used.add("every")
            case Expr(term=Call() as call) if call.name in MEMBERS:
                used.add("in")
            case Not() | And() | Or():
                used.add(type(node).__name__.lower())
            case _:
                pass
    return used


def _add(first: str, *rest: str) -> Import:
    """Return a new import of the path; its span, at row 0, sorts it before those of the source."""
    start = Span(Source("", ""), 0, 0, 1, 1)
    return Import(Ref(Var(first, start), tuple(Scalar(r, start) for r in rest), start), span=start)
