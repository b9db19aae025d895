"""A policy in its one canonical layout: `opa fmt`.

Rows decide: what was on lines of its own stays on lines of its own, everything else is joined.
The layout is OPA's where that means the same, keeps every comment and stays as it is when it is
formatted again. That is checked; a rule for which it does not hold is written in another style.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from doorward.base.records import record
from doorward.rego.errors import PARSE_ERROR, Diagnostic, InternalError, ParseError
from doorward.rego.source import NOWHERE, Source
from doorward.rego.syntax.format_module import ModuleWriter, Style, Target, needed_imports
from doorward.rego.syntax.layout import UnexpectedComment, last_row
from doorward.rego.syntax.nodes import Body, Module, Package
from doorward.rego.syntax.parser import parse_module
from doorward.rego.syntax.sameness import is_same
from doorward.rego.syntax.v1 import check_is_v1
from doorward.rego.syntax.walk import Node, rewrite

__all__ = [
    "Formatted",
    "Target",
    "format_module",
    "format_policy",
    "format_source",
    "format_tree",
]

MAX_ROUNDS: Final = 5
"""The most times that a text is formatted: a comment that moved may change the rows of others, so
the result is formatted again until it stays.
"""

_CHANGED: Final = "formatting would change what the policy says, or lose a comment"
_STYLES: Final[tuple[Style, ...]] = ("plain", "spread", "kept", "hoisted")
"""The styles of rules, in the order in which they are tried."""


@record
class Formatted:
    """A formatted text. `is_read` is False if the target version cannot parse it, for example
    because of a variable named `if`.
    """

    text: str
    is_read: bool


def format_source(
    source: Source,
    *,
    v0: bool = False,
    target: Target = "v1",
    drop_v0_imports: bool = False,
    removed: Container[str] = (),
) -> str:
    """Format a policy for a target version and return its text, even one that the target cannot
    parse. The source is parsed as v0 if `v0`; `drop_v0_imports` leaves out the imports that v1
    makes superfluous. ParseError if the policy is invalid; CompileError, except for the target v0,
    if it uses what v1 does not have, such as the built-ins in `removed`; InternalError if
    formatting would change the meaning or lose a comment.
    """
    return format_policy(
        source, v0=v0, target=target, drop_v0_imports=drop_v0_imports, removed=removed
    ).text


def format_policy(
    source: Source,
    *,
    v0: bool = False,
    target: Target = "v1",
    drop_v0_imports: bool = False,
    removed: Container[str] = (),
    module: Module | None = None,
) -> Formatted:
    """Format a policy for a target version. It is parsed as v0 if `v0`, unless `module`, the result
    of that, is given. `drop_v0_imports` leaves out the imports that v1 makes superfluous. Syntax
    that the target cannot express may result in text that it cannot parse (`Formatted.is_read`).

    ParseError if the policy is invalid; CompileError, except for the target v0, if it uses what v1
    does not have, such as the built-ins in `removed`. InternalError if formatting would change the
    meaning or lose a comment.
    """
    if module is None:
        module = parse_module(source, v0=v0)
    if target != "v0":
        check_is_v1(module, removed)
    text = source.text
    last, origin = module, text if v0 == (target == "v0") else None
    formatter = _Formatter(target, drop_v0_imports)
    is_certain = True
    for _ in range(MAX_ROUNDS):  # pragma: no branch - no text is known to need all of them
        formatted, again = formatter.format(last, origin)
        if again is not None:
            text, last = formatted, again
            break
        if formatted == text:
            break
        # `format` has not proved this text: all rounds together are compared at the end.
        is_certain = False
        text = origin = formatted
        try:
            last = parse_module(Source(source.name, text), v0=target == "v0")
        except ParseError:
            # What the target cannot say, as a variable named `if`.
            return Formatted(text, is_read=False)
    if not is_certain and not is_same(module, last):  # pragma: no cover - a fault of ours
        raise InternalError([Diagnostic(PARSE_ERROR, _CHANGED)])
    return Formatted(text, is_read=True)


def format_module(module: Module, *, target: Target = "v1", drop_v0_imports: bool = False) -> str:
    """Return the formatted text, with its comments, of a module that was parsed from a text.
    `drop_v0_imports` leaves out the imports that v1 makes superfluous. The text may not parse in
    `target` if the module uses syntax that the target does not have.
    """
    return _Formatter(target, drop_v0_imports).format(module, None)[0]


def format_tree(tree: Module | Body, *, target: Target = "v1") -> str:
    """Format a tree that was not parsed from text, such as a residual, without the imports of a
    module; "" for an empty body.
    """
    # Its parts may know rows of a policy, in which they do not stand any more.
    if isinstance(tree, Module):
        return ModuleWriter(rewrite(tree, _without_span), target, {}).module(())
    if not tree:
        return ""
    writer = ModuleWriter(Module(Package(()), (), ()), target, {})
    writer.terms.body(tuple([rewrite(expr, _without_span) for expr in tree]))
    return writer.layout.text()


def _without_span(node: Node) -> Node:
    return node if node.span is NOWHERE else replace(node, span=NOWHERE)


class _Formatter:
    """Formats one module for one target, and checks that the result has the same meaning and
    comments.
    """

    def __init__(self, target: Target, drop_v0_imports: bool) -> None:
        self.target: Target = target
        self.drop_v0_imports = drop_v0_imports

    def format(self, module: Module, origin: str | None) -> tuple[str, Module | None]:
        """Return the formatted text, and the module that it parses to. The latter is None if it
        could not be shown that this module is the same and formats to itself. `origin` is the text
        that `module` was parsed from if it has the target's syntax, otherwise None.
        """
        text = self.text(module, {})
        # An unchanged text needs no proof: it is the one that `module` was parsed from.
        if text is not None and text == origin:
            return text, module
        # First the whole module at once: each proof parses a text, and most modules stay plain.
        again = self.read(module, text, {})
        if again is not None:
            assert text is not None, "what holds was written"
            return text, again
        styles = {
            number: self.style(part)
            for number, part in enumerate(_parts(module))
            # Rules without comments are mostly plain: only the others are tried in other styles.
            if part.comments or not self.holds(part, self.text(part, {}), {})
        }
        text = self.text(module, styles)
        assert text is not None, "a style that holds for its rule can be written"
        return text, None

    def text(self, module: Module, styles: Mapping[int, Style]) -> str | None:
        """Return the text of a module; `styles` has the style of each rule that is not plain, by
        its position. None if a comment cannot be kept in these styles.
        """
        imports = needed_imports(module, target=self.target, drop_v0_imports=self.drop_v0_imports)
        try:
            return ModuleWriter(module, self.target, styles).module(imports)
        except UnexpectedComment:
            return None

    def holds(self, module: Module, text: str | None, styles: Mapping[int, Style]) -> bool:
        """Return True if `text` parses to `module`, comments included, and formats to itself."""
        return self.read(module, text, styles) is not None

    def read(self, module: Module, text: str | None, styles: Mapping[int, Style]) -> Module | None:
        """Return the module that `text` parses to. None if `text` is None or invalid, or if the
        module does not mean the same as `module` with the same comments, or does not format to
        `text` itself. The last is not checked if a rule is hoisted.
        """
        if text is None:
            return None
        try:
            again = parse_module(Source(module.span.file, text), v0=self.target == "v0")
        except ParseError:
            return None
        if not is_same(module, again):
            return None
        # Nothing waits any more in what was hoisted: in the next round it is plain.
        stays = "hoisted" in styles.values() or self.text(again, styles) == text
        return again if stays else None

    def style(self, part: Module) -> Style:
        """Return the first style for the one rule in `part` whose text means the same and formats
        to itself; if there is none, the first in which it can be written.
        """
        texts = {style: self.text(part, {0: style}) for style in _STYLES}
        possible = [style for style in _STYLES if texts[style] is not None]
        holding = (style for style in possible if self.holds(part, texts[style], {0: style}))
        # INVARIANT: `possible` is not empty. `kept` copies the source text and so places any
        # comment.
        return next(holding, possible[0])


def _parts(module: Module) -> list[Module]:
    """Split a module into modules with one rule each, with the comments below the rule before it
    (for the first rule, below the package and imports) up to the rule's last row. Comments further
    up or below the last rule are in none of them.
    """
    ends = [last_row(rule.span) for rule in module.rules]
    above = max(map(last_row, (module.package.span, *(i.span for i in module.imports))))
    return [
        replace(
            module,
            rules=(rule,),
            comments=tuple(c for c in module.comments if first < c.span.row <= last),
        )
        for rule, (first, last) in zip(module.rules, pairwise([above, *ends]), strict=True)
    ]
