"""What stands at the top of a module: its package and its imports, and what an import turns on."""

from __future__ import annotations

from typing import Final

from doorward.rego.source import Source
from doorward.rego.syntax.bodies import BodyParser
from doorward.rego.syntax.cursor import FUTURE_KEYWORDS, KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.lexer import IDENT, WHITESPACE
from doorward.rego.syntax.nodes import Import, Package, Ref, Scalar, Var
from doorward.rego.syntax.terms import is_variable, value_name

__all__ = ["ImportParser"]

_ROOTS: Final = ("data", "future", "input", "rego")


class ImportParser(BodyParser):
    """The productions of packages and imports. Each returns None after noting an error."""

    def __init__(self, source: Source, *, v0: bool = False) -> None:
        super().__init__(source, v0=v0)
        self.v1 = not v0
        """The rules are to be those of v1, by themselves or by `import rego.v1`."""

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

    def parse_package(self) -> Package | None:
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

    def parse_import(self) -> Import | None:
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

    def use_import(self, imported: Import) -> None:
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
        self.composite_not = self.composite_not or names[1:] == ("not",)


def _strings(ref: Ref) -> tuple[str, ...]:
    return tuple(str(a.value) for a in ref.args if isinstance(a, Scalar))
