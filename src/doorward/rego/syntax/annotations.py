"""METADATA comments to `Annotations`: what they may contain, and to which rule they belong.

Only the parser calls this, and only when annotations are requested: a policy with invalid METADATA
still works. The YAML is read in `metadata`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from doorward.base.records import record
from doorward.rego.errors import PARSE_ERROR, Diagnostic, ParseError
from doorward.rego.source import Span
from doorward.rego.syntax.metadata import (
    General,
    KeyTypeError,
    YamlError,
    read_yaml,
    with_text_keys,
)
from doorward.rego.syntax.nodes import (
    Annotations,
    Comment,
    Import,
    Package,
    Ref,
    Rule,
    Scalar,
    Term,
    Var,
)
from doorward.rego.syntax.walk import walk

__all__ = ["SchemaPath", "Statement", "annotate", "read_annotations"]

SCOPES: Final = ("rule", "document", "package", "subpackages")
Statement: TypeAlias = Package | Import | Rule
ParseTerm: TypeAlias = Callable[[str], Term]

_HINT: Final = "METADATA"
_LINE: Final = re.compile(r"yaml:(?: unmarshal errors:\n ?)? line (\d+):")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})(.{0,2})")


class _AnnotationError(Exception):
    """The YAML of an annotation is well-formed, but its content is not a valid annotation."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@record
class _Block:
    """The comments that form one `# METADATA` block: `span` is that of the first comment, `lines`
    are those below it.
    """

    span: Span
    lines: list[Comment]

    @property
    def text(self) -> str:
        """The YAML text of the block: its lines without `#` and one space."""
        return "".join(line.text.removeprefix(" ") + "\n" for line in self.lines)

    def span_of(self, message: str) -> Span:
        """Return the span of the comment at the row in a YAML error's text. As in OPA that row
        counts from 0 here, so it is one comment further down. The first comment if the text has no
        row, the last one if the row is beyond it.
        """
        match = _LINE.match(message)
        index = int(match[1]) if match else 0
        return self.lines[min(index, len(self.lines) - 1)].span


def read_annotations(
    comments: Iterable[Comment], parse_term: ParseTerm
) -> tuple[list[Annotations], list[Diagnostic]]:
    """Return the annotations in a module's comments, in order, and the errors in them; a block with
    an error is left out. A scope that is not written is "". `parse_term` parses references in
    fields.
    """
    annotations: list[Annotations] = []
    errors: list[Diagnostic] = []
    for block in _blocks(comments):
        try:
            annotations.append(_read(block, parse_term))
        except YamlError as error:
            message = str(error)
            errors.append(Diagnostic(PARSE_ERROR, message, block.span_of(message)))
        except _AnnotationError as error:
            errors.append(Diagnostic(PARSE_ERROR, str(error), block.span, error.hint))
        except KeyTypeError as error:
            errors.append(Diagnostic(PARSE_ERROR, str(error), block.span))
    return annotations, errors


def _blocks(comments: Iterable[Comment]) -> Iterator[_Block]:
    """Yield each comment at the start of a line whose text begins with `METADATA`, with the
    comments directly below it that also are at the start of a line.
    """
    block: _Block | None = None
    last = 0
    for comment in comments:
        if block is not None:
            if comment.span.row == last + 1 and comment.span.col == 1:
                block.lines.append(comment)
                last = comment.span.row
                continue
            yield block
            block = None
        if comment.span.col == 1 and comment.text.strip().startswith(_HINT):
            block, last = _Block(comment.span, []), comment.span.row
    if block is not None:
        yield block


def _read(block: _Block, parse_term: ParseTerm) -> Annotations:
    """Parse the YAML of a METADATA block to annotations; fields that are missing or empty are left
    out, and `scope` is "" if it is not given. `parse_term` reads the references and definitions in
    it as Rego. YamlError, _AnnotationError or KeyTypeError if the block is empty or invalid.
    """
    if not block.text.strip():
        hint = "write its YAML in comments directly below `# METADATA`"
        raise _AnnotationError("expected METADATA block, found whitespace", hint)
    raw = read_yaml(block.text)
    fields: dict[str, object] = {}
    for name in ("title", "description", "entrypoint", "organizations"):
        if raw.get(name):
            fields[name] = raw[name]
    resources = [_resource(item) for item in raw.get("related_resources") or ()]
    compiling = _compile(raw.get("compile"), parse_term)
    schemas = [_schema(pair, parse_term) for pair in raw.get("schemas") or ()]
    authors = [_author(item) for item in raw.get("authors") or ()]
    for name, value in (
        ("related_resources", resources),
        ("compile", compiling),
        ("schemas", schemas),
        ("authors", authors),
        ("labels", raw.get("labels")),
        ("custom", {k: with_text_keys(v) for k, v in (raw.get("custom") or {}).items()}),
    ):
        if value:
            fields[name] = value
    # There is a last line: a block without text was refused above.
    first, last = block.span, block.lines[-1].span
    return Annotations(raw.get("scope") or "", fields, replace(first, end=last.end))


# What it is said of


def annotate(
    annotations: Iterable[Annotations],
    statements: Sequence[Statement],
    rules: Sequence[Rule],
) -> tuple[list[Annotations], list[Rule], list[Diagnostic]]:
    """Return the annotations with their scopes, the rules with the annotations that apply to each,
    and the errors of those that do not suit the statement below; these are returned and applied
    too. `statements` are in the order of the text.
    """
    scoped: list[Annotations] = []
    targets: list[Statement | None] = []
    errors: list[Diagnostic] = []
    for block in annotations:
        row = block.span.row
        target = next((s for s in statements if s.span.row > row), None)
        block = replace(block, scope=block.scope or _default_scope(block, target))
        errors.extend(_misfits(block, target))
        scoped.append(block)
        targets.append(target)
    waiting = [
        (block, _path(target))
        for block, target in zip(scoped, targets, strict=True)
        if isinstance(target, Rule)
    ]
    return scoped, [_with_annotations(rule, waiting) for rule in rules], errors


def _default_scope(annotations: Annotations, target: Statement | None) -> str:
    """Return the scope of an annotation without one, from the statement below it: `package`,
    `import` (which no annotation may have), `document` for a rule that is an entrypoint, or `rule`
    for another. "" if there is no statement.
    """
    match target:
        case Rule():
            return "document" if annotations.fields.get("entrypoint") else "rule"
        case Package():
            return "package"
        case Import():
            return "import"
        case _:
            return ""


def _misfits(annotations: Annotations, target: Statement | None) -> Iterator[Diagnostic]:
    """Yield an error if the scope of an annotation is unknown or does not suit `target`, the
    statement below it, and one if it has `entrypoint` in a scope that does not allow it.
    """
    scope = annotations.scope
    if scope not in SCOPES:
        allowed = "', '".join(SCOPES[:-1])
        message = f"invalid annotation scope '{scope}'. Use one of '{allowed}', or '{SCOPES[-1]}'"
        yield Diagnostic(PARSE_ERROR, message, annotations.span)
    else:
        expected = Rule if scope in ("rule", "document") else Package
        if not isinstance(target, expected):
            have = f" (have {type(target).__name__.lower()})" if target else ""
            name = expected.__name__.lower()
            message = f"annotation scope '{scope}' must be applied to {name}{have}"
            yield Diagnostic(PARSE_ERROR, message, annotations.span)
    if annotations.fields.get("entrypoint") and scope not in ("document", "package"):
        message = f"annotation entrypoint applied to non-document or package scope '{scope}'"
        yield Diagnostic(PARSE_ERROR, message, annotations.span)


def _path(rule: Rule) -> tuple[Term, ...]:
    """Return the path of a rule's name as terms: the variable with which it starts, and the
    operands before the first one with a variable.
    """
    path: list[Term] = [rule.head.ref.head]
    for arg in rule.head.ref.args:
        if any(isinstance(node, Var) for node in walk(arg)):
            break
        path.append(arg)
    return tuple(path)


def _with_annotations(rule: Rule, waiting: list[tuple[Annotations, tuple[Term, ...]]]) -> Rule:
    """Return the rule with the annotations in `waiting` for its path that have the scope
    `document`, or the scope `rule` and are above the rule; the rule itself if there are none.
    `waiting`: annotations, each with the path of the rule below it. The last one of scope `rule`
    that is applied is removed from `waiting`, since it belongs to one rule only.
    """
    mine: list[Annotations] = []
    used: int | None = None
    for index, (block, path) in enumerate(waiting):
        if path != _path(rule):
            continue
        if block.scope == "document":
            mine.append(block)
        elif block.scope == "rule" and rule.span.row > block.span.row:
            mine.append(block)
            used = index
    # As OPA's `attachRuleAnnotations`: only the last one is taken away, so a second METADATA block
    # above the same rule is applied to the next rule of that path, too.
    if used is not None:
        del waiting[used]
    return replace(rule, annotations=tuple(mine)) if mine else rule


# Fields with a form of their own


def _author(item: object) -> dict[str, str]:
    """Parse an author in METADATA, the text `name <email>` or an object with `name` and `email`, to
    a dict of these two, without empty ones. _AnnotationError, in OPA's words, if both are missing,
    or for another type.
    """
    try:
        item = with_text_keys(item)
    except KeyTypeError as error:
        raise _AnnotationError(f"invalid author definition {_go(item)}: {error}") from None
    match item:
        case str():
            words = item.split()
            if not words:
                raise _AnnotationError(
                    f"invalid author definition {item}: author is an empty string"
                )
            name, email = " ".join(words), ""
            if len(words[-1]) >= 2 and words[-1][0] == "<" and words[-1][-1] == ">":
                name, email = " ".join(words[:-1]), words[-1][1:-1]
        case dict():
            name, email = _text(item, "name"), _text(item, "email")
            if not name and not email:
                raise _AnnotationError(
                    f"invalid author definition {_go(item)}: "
                    "'name' and/or 'email' values required in object"
                )
        case _:
            raise _AnnotationError(
                f"invalid author definition {_go(item)}: invalid value type, must be string or map"
            )
    return {k: v for k, v in (("name", name), ("email", email)) if v}


def _resource(item: object) -> dict[str, str]:
    """Parse a related resource, a URL or an object with `ref`, to `ref` and, if given,
    `description`. _AnnotationError, in OPA's words, if it is invalid.
    """
    description = ""
    try:
        item = with_text_keys(item)
    except KeyTypeError as error:
        text = f"invalid related-resource definition {_go(item)}: {error}"
        raise _AnnotationError(text) from None
    match item:
        case str():
            ref, fault = item, "ref URL may not be empty string"
        case dict():
            ref, fault = _text(item, "ref"), "'ref' value required in object"
            description = _text(item, "description")
        case _:
            ref, fault = "", "invalid value type, must be string or map"
    if ref:
        fault = _url_fault(ref)
    if fault:
        raise _AnnotationError(f"invalid related-resource definition {_go(item)}: {fault}")
    return {"ref": ref} | ({"description": description} if description else {})


def _url_fault(url: str) -> str:
    """Return the error in a URL with an invalid escape (in Go's words) or an invalid host (in
    Python's); "" for other URLs.
    """
    if (match := _BAD_ESCAPE.search(url)) is not None:
        return f'parse "{url}": invalid URL escape "%{match[1]}"'
    try:
        urlsplit(url)
    except ValueError as error:
        return f'parse "{url}": {error}'
    return ""


class SchemaPath(list[object]):
    """A reference in `schemas` as a list of names, such as `["input", "user"]`; `spans` has the
    span of each in the text of the reference.
    """

    def __init__(self, names: Iterable[object], spans: Iterable[Span]) -> None:
        super().__init__(names)
        self.spans = tuple(spans)


def _schema(pair: dict[str, Any], parse_term: ParseTerm) -> dict[str, object]:
    """Parse one entry of `schemas`: a path with a reference to a schema, or with a schema itself
    (`definition`). Only the first member of `pair` counts. _AnnotationError if it is invalid.
    """
    key, value = next(iter(pair.items()), ("", None))
    try:
        path = _ref(parse_term(key))
    except ParseError:
        path = None
    if path is None:
        raise _AnnotationError(
            "invalid document reference",
            "a key in `schemas` is `input`, `data` or a path below, such as `input.user`",
        )
    match value:
        case str():
            try:
                schema = _ref(parse_term(value))
            except ParseError:
                schema = None
            if not schema or schema[0] != "schema":
                raise _AnnotationError(
                    "invalid schema reference",
                    "a value in `schemas` is `schema` or a path below it, such as `schema.user`",
                )
            return {"path": path, "schema": schema}
        # In Go a mapping with other keys is of another type, which OPA's switch does not name.
        case dict() if not isinstance(value, General):
            try:
                return {"path": path, "definition": with_text_keys(value)}
            except KeyTypeError as error:
                raise _AnnotationError(f"invalid schema definition: {error}") from None
        case _:
            raise _AnnotationError(f'invalid schema declaration for path "{key}"')


def _ref(term: Term) -> SchemaPath | None:
    """Return a reference, or `data`, `input` or `schema` alone, as a list of names and constants;
    an operand that is not constant is its text. None for other terms.
    """
    match term:
        case Var(name="data" | "input" | "schema" as name):
            return SchemaPath([name], [term.span])
        case Ref(head=Var(name=name) as head, args=args):
            names = [a.value if isinstance(a, Scalar) else a.span.text for a in args]
            return SchemaPath([name, *names], [head.span, *(a.span for a in args)])
        case _:
            return None


def _compile(raw: dict[str, Any] | None, parse_term: ParseTerm) -> dict[str, object]:
    """Parse `compile`: its unknowns and its mask rule, each if present. _AnnotationError for an
    unknown that is a string but not a reference, and for a mask rule that is a string but not a
    variable, a reference or a string literal. Of other types, an unknown becomes "" and a mask rule
    is ignored.
    """
    result: dict[str, object] = {}
    unknowns = (raw or {}).get("unknowns")
    if isinstance(unknowns, list):
        result["unknowns"] = [
            # What is not a text is not a reference either: OPA keeps an empty one.
            _unknown(each, parse_term) if isinstance(each, str) else ""
            for each in unknowns
        ]
    mask = (raw or {}).get("mask_rule")
    if isinstance(mask, str):
        try:
            term = parse_term(mask)
        except ParseError as error:
            raise _AnnotationError(
                f'invalid mask_rule annotation "{mask}": failed to parse term: {_error_text(error)}'
            ) from None
        match term:
            case Var() | Ref() | Scalar(value=str()):
                result["mask_rule"] = mask
            case _:
                raise _AnnotationError(
                    f'invalid mask_rule annotation type "{mask}": string',
                    "`mask_rule` must be a variable, a reference or a string",
                )
    return result


def _unknown(text: str, parse_term: ParseTerm) -> str:
    """Return the text of an element of `unknowns` if it is a reference; _AnnotationError, in OPA's
    words, otherwise.
    """
    try:
        term = parse_term(text)
    except ParseError as error:
        fault = f"failed to parse ref: failed to parse term: {_error_text(error)}"
    else:
        if _ref(term) is not None:
            return text
        fault = f"expected ref but got {text}"
    raise _AnnotationError(f'invalid unknowns element "{text}": {fault}')


def _error_text(error: ParseError) -> str:
    """Return the text of an error as OPA prints it: with its line of the source and a caret."""
    (first, *_) = error.diagnostics
    line = first.span.source.line(first.span.row)
    return f"{error}\n\t{line}\n\t{' ' * (first.span.col - 1)}^"


def _text(item: dict[str, Any], key: str) -> str:
    """Return the string in field `key` without spaces at both ends; "" if it is absent or not a
    string.
    """
    value = item.get(key)
    return value.strip() if isinstance(value, str) else ""


def _go(value: object) -> str:
    """Return a value of YAML as Go's `%s` prints it, for OPA's errors: collections in brackets with
    their keys in Go's order, a scalar that is not text as `%!s(int=1)`, null as `%!s(<nil>)`.
    """
    match value:
        case General():
            # Go's order: nil first, then by type (the names have the order of Go's own), then by
            # value.
            keys = sorted(value, key=lambda key: (key.kind != "nil", key))
            items = [f"{_go_item(key.value)}:{_go_item(value[key])}" for key in keys]
            return f"map[{' '.join(items)}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_go_item(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_go_item, value))}]"
        case None:
            return "%!s(<nil>)"
        case bool():
            return f"%!s(bool={str(value).lower()})"
        case int():
            return f"%!s(int={value})"
        case float():
            return f"%!s(float64={value})"
        case _:
            return str(value)


def _go_item(value: object) -> str:
    """Return a value inside a list or mapping as Go's `%s` prints it."""
    return "<nil>" if value is None else _go(value)
