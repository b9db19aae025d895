"""The top of a module: its package and its imports, and the effect of imports of keywords."""

from __future__ import annotations

from typing import Final

from doorward.rego.syntax.keywords import FUTURE_KEYWORDS, KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.lexer import IDENT, WHITESPACE
from doorward.rego.syntax.nodes import Import, Package, Ref, Scalar, Var
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.names import is_variable, value_name
from doorward.rego.syntax.parser.productions import TermProductions

__all__ = ["parse_import", "parse_package", "use_import"]

_ROOTS: Final = ("data", "future", "input", "rego")


def _start_path(cursor: Cursor) -> bool:
    """Skip the keyword `package` or `import`; True then. False if it is a name here (`package.x :=
    1`) or, with an error recorded, if no path follows.
    """
    cursor.scan_blank()
    if cursor.kind in (".", "["):
        return False
    if cursor.kind == WHITESPACE:
        cursor.scan()
    if cursor.is_ref_keyword(cursor.kind):
        cursor.kind = IDENT
    if cursor.kind != IDENT:
        cursor.illegal()
        return False
    return True


def parse_package(cursor: Cursor, terms: TermProductions) -> Package | None:
    """package = "package" ref

    None without an error if no package statement begins here; None after recording an error for an
    invalid path.
    """
    if cursor.kind != "package":
        return None
    start = cursor.token.start
    if not _start_path(cursor):
        return None
    term = terms.parse_term()
    span = cursor.since(start)
    match term:
        case None:
            pass
        case Var():
            return Package((term.name,), span, (term,))
        case Ref(head=Var() as head):
            if _all_strings(cursor, term):
                return Package((head.name, *_strings(term)), span, (head, *term.args))
        case Ref():
            name = value_name(term.head)
            cursor.error(f"unexpected {name} token: expecting var", term.head.span)
        case _:
            cursor.illegal()
    return None


def _all_strings(cursor: Cursor, ref: Ref) -> bool:
    """Return True if all operands of a reference are strings; otherwise record an error and return
    False.
    """
    for term in ref.args:
        if not (isinstance(term, Scalar) and isinstance(term.value, str)):
            cursor.error(f"unexpected {value_name(term)} token: expecting string", term.span)
            return False
    return True


def parse_import(cursor: Cursor, terms: TermProductions) -> Import | None:
    """import = "import" ref [ "as" var ]

    None without an error if no import begins here; None after recording an error for an invalid
    path or alias. A path that ends with a keyword is recorded as an error, and the import is
    returned. The import takes no effect here; see `use_import`.
    """
    if cursor.kind != "import":
        return None
    start = cursor.token.start
    if not _start_path(cursor):
        return None
    path = _parse_path(cursor, terms)
    if path is None:
        return None
    head = path.head if isinstance(path, Ref) else path
    if not (isinstance(head, Var) and head.name in _ROOTS):
        cursor.hint("if this is unexpected, try updating OPA")
        roots = ", ".join(_ROOTS)
        message = f"unexpected import path, must begin with one of: {{{roots}}}"
        cursor.error(f"{message}, got: {head.span.text}", path.span)
        return None
    if cursor.kind == "as":
        return _parse_alias(cursor, terms, path, start)
    last = path.args[-1] if isinstance(path, Ref) else path
    name = last.value if isinstance(last, Scalar) else head.name
    # Without an alias the last name would become a variable that cannot be written.
    if head.name != "future" and name in cursor.ref_keywords:
        message = f"unexpected import path, must not end with a keyword, got: {name}"
        cursor.error(message, last.span)
    return Import(path, None, cursor.since(start))


def _parse_path(cursor: Cursor, terms: TermProductions) -> Ref | Var | None:
    """path = var | ref

    The keywords of v1 and future ones are names in it. None after recording an error.
    """
    # In `import future.keywords.in` the last name is not a keyword even if it already is one.
    with cursor.with_keywords(cursor.keywords - (FUTURE_KEYWORDS - KEYWORDS)):
        term = terms.parse_term()
    if isinstance(term, Var):
        return term
    if isinstance(term, Ref):
        return term if _all_strings(cursor, term) else None
    cursor.error("expected path")
    return None


def _parse_alias(
    cursor: Cursor, terms: TermProductions, path: Ref | Var, start: int
) -> Import | None:
    """alias = "as" var

    Returns the import of `path` with the alias. None after recording an error.
    """
    cursor.scan()
    if cursor.kind == IDENT:
        alias = terms.parse_term()
        if is_variable(alias):
            return Import(path, alias.name, cursor.since(start))
    cursor.illegal("expected var")
    return None


def use_import(cursor: Cursor, imported: Import) -> None:
    """Put an import of keywords into effect for the rest of the module; others have no effect. An
    invalid one is recorded as an error.
    """
    path = imported.path
    root = path.head if isinstance(path, Ref) else path
    names = _strings(path) if isinstance(path, Ref) else ()
    match root:
        case Var(name="rego"):
            _use_rego(cursor, imported, names)
        case Var(name="future"):
            _use_future(cursor, imported, names)


def _use_rego(cursor: Cursor, imported: Import, names: tuple[str, ...]) -> None:
    """Put `import rego.v1` into effect in a v0 module. An error is recorded for other paths below
    `rego` and, in v0, for an alias.
    """
    if names != ("v1",):
        path = ".".join(("rego", *names))
        message = f"invalid import `{path}`, must be `rego.v1`"
        cursor.error(message, imported.path.span)
    elif cursor.dialect.v0:
        if imported.alias is not None:
            cursor.error("`rego` imports cannot be aliased", imported.path.span)
            return
        cursor.dialect.v1 = True
        cursor.keywords |= V1_KEYWORDS


def _use_future(cursor: Cursor, imported: Import, names: tuple[str, ...]) -> None:
    """Put an import of one future keyword, or of all, into effect; `every` brings `in` with it, and
    a path with further parts imports all. `not`, and all at once except in v0, give `not` its
    meaning with bodies. An error is recorded for an unknown keyword, another path or an alias.
    """
    span = imported.path.span
    if not names or names[0] != "keywords":
        cursor.error("invalid import, must be `future.keywords`", span)
    elif imported.alias is not None:
        cursor.error("`future` imports cannot be aliased", span)
    elif len(names) == 2 and names[1] not in FUTURE_KEYWORDS:
        known = " ".join(sorted(FUTURE_KEYWORDS))
        cursor.error(f"unexpected keyword, must be one of [{known}]", span)
    elif len(names) == 2:
        cursor.keywords |= {names[1], "in"} if names[1] == "every" else {names[1]}
    else:
        cursor.keywords |= FUTURE_KEYWORDS
    # All keywords at once bring the other meaning of `not` in v1 only.
    if names == ("keywords", "not") or (names == ("keywords",) and not cursor.dialect.v0):
        cursor.dialect.composite_not = True


def _strings(ref: Ref) -> tuple[str, ...]:
    return tuple([str(a.value) for a in ref.args if isinstance(a, Scalar)])
