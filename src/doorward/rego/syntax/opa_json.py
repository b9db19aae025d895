"""A module as the JSON that OPA prints for it: `opa parse --format json`, and the policy API's AST.

Keys are in OPA's order and numbers keep their text. Values and bodies that are `true` and not
written in the text are written out here, as in OPA.
"""

from __future__ import annotations

import base64
from typing import Any, Final, TypeAlias

from doorward.base.records import record
from doorward.rego.source import Span
from doorward.rego.syntax.annotations import SchemaPath
from doorward.rego.syntax.nodes import (
    And,
    Annotations,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Comment,
    Every,
    Expr,
    Head,
    Import,
    Module,
    Not,
    Object,
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
    With,
)
from doorward.rego.syntax.term_order import distinct_in_order, is_root, membership, pairs_in_order
from doorward.rego.syntax.walk import walk

__all__ = [
    "has_braces",
    "head_key",
    "is_repeated",
    "module_to_json",
    "term_to_json",
]

Json: TypeAlias = dict[str, Any]

_TRUE: Final = Scalar(True)


def module_to_json(module: Module, *, locations: bool = False) -> Json:
    """Return the module's JSON; `locations` adds file, row, column and, in base64, the text of
    every part. Comments have file, row and column without it, too.
    """
    return _Writer(locations=locations).module(module)


def term_to_json(term: Term) -> Json:
    """Return one term's JSON, without locations."""
    return _Writer(locations=False).term(term)


@record
class _Writer:
    """Returns the JSON of nodes, with locations if `locations`."""

    locations: bool
    span: Span | None = None
    """The location that all parts get, since OPA gives some parts the location of the whole; None:
    each its own.
    """

    def location(self, span: Span | None) -> Json:
        """Return the `location` member; {} if locations are off or the span is unknown."""
        span = self.span or span
        if not self.locations or span is None or not span.row:
            return {}
        return {"location": _location(span, text=True)}

    def at(self, span: Span) -> _Writer:
        """Return a writer that gives all parts the location `span`."""
        return _Writer(self.locations, span)

    # Modules

    def module(self, module: Module) -> Json:
        """Return the JSON of a module: its package always, and imports, annotations, rules and
        comments if it has any. With `locations`, each node has its location.
        """
        result = {"package": self.package(module.package)}
        # The first comment of a METADATA block has the block's location.
        blocks = {a.span.start: _block_location(a.span) for a in module.annotations}
        for name, items in (
            ("imports", [self.import_(i) for i in module.imports]),
            ("annotations", [self.annotations(a) for a in module.annotations]),
            ("rules", [self.rule(r) for r in module.rules]),
            ("comments", [self.comment(c, blocks) for c in module.comments]),
        ):
            if items:
                result[name] = items  # type: ignore[assignment]  # a list where the package is not
        return result

    def package(self, package: Package) -> Json:
        """Return the JSON of a package statement: its path, with `data` first; with `locations`,
        also where its parts and the keyword are.
        """
        terms = package.terms or tuple(Scalar(name) for name in package.path)
        first = terms[0].span
        path = [
            {**self.location(first), "type": "var", "value": "data"},
            *(
                {**self.location(t.span), "type": "string", "value": name}
                for name, t in zip(package.path, terms, strict=True)
            ),
        ]
        return {**self.location(_cut(package.span, len("package"))), "path": path}

    def import_(self, item: Import) -> Json:
        """Return the JSON of an import: alias, if there is one, and path."""
        alias = {"alias": item.alias} if item.alias is not None else {}
        span = _cut(item.span, len("import"))
        return {**alias, **self.location(span), "path": self.reference(item.path)}

    def annotations(self, block: Annotations) -> Json:
        """Return the JSON of an annotation block, all keys in it sorted; `compile` and `labels` are
        left out, as in OPA. With `locations`, it has its location.
        """
        fields = {k: _sort(v) for k, v in block.fields.items() if k not in ("compile", "labels")}
        schemas = block.fields.get("schemas")
        if isinstance(schemas, list):
            fields["schemas"] = [self.schema(s) for s in schemas]
        location = {"location": _block_location(block.span)} if self.locations else {}
        result = {**fields, **location, "scope": block.scope}
        return dict(sorted(result.items()))

    def schema(self, schema: Json) -> Json:
        """Return the JSON of one entry of `schemas` in METADATA: its path, and the reference to a
        schema or the schema itself, keys sorted.
        """
        return {
            name: self.schema_path(schema[name]) if name != "definition" else _sort(schema[name])
            for name in ("path", "schema", "definition")
            if name in schema
        }

    def schema_path(self, path: SchemaPath) -> list[Json]:
        """Return the JSON of a reference in the `schemas` of METADATA, the names of its parts, the
        first one as a variable. With `locations` each part has its location in a text of its own
        (file ""), except in the path `schema` alone.
        """
        kinds = ["var", *(_scalar_kind(name) for name in path[1:])]
        locations: list[Json] = [{} for _ in path]
        if self.locations and path != ["schema"]:
            # The reference is a text of its own, in no file; `schema` alone is one that OPA shares.
            locations = [{"location": _location(s, text=True) | {"file": ""}} for s in path.spans]
        return [
            {**location, "type": kind, "value": name}
            for location, kind, name in zip(locations, kinds, path, strict=True)
        ]

    def comment(self, comment: Comment, blocks: dict[int, Json]) -> Json:
        """Return the JSON of a comment, its text in base64 (None if it is empty), always with its
        location; with `locations`, the first one of a METADATA block has that of the block, from
        `blocks`.
        """
        text = base64.b64encode(comment.text.encode()).decode() or None
        location = blocks.get(comment.span.start) if self.locations else None
        return {
            "Text": text,
            "Location": location or _location(comment.span, text=self.locations),
        }

    # Rules

    def rule(self, rule: Rule, first: Rule | None = None) -> Json:
        """Return the JSON of a rule with its annotations, its `else` branches below `else`, and a
        body that OPA generates if none is written. `first` is the first rule of the chain if `rule`
        is an `else` branch (default None); its head then comes from there. With `locations`, nodes
        have their locations as OPA gives them, a `default` rule that of the keyword alone.
        """
        result: Json = {}
        if rule.annotations:
            result["annotations"] = [self.annotations(a) for a in rule.annotations]
        is_else = first is not None
        below = self.at(rule.span) if is_else and not has_braces(rule) else self
        result["body"] = below.body(rule.body) if rule.body else below.no_body(rule)
        if rule.default:
            result["default"] = True
        if rule.else_rule is not None:
            result["else"] = self.rule(rule.else_rule, first or rule)
        result["head"] = self.head(rule, first or rule)
        span = _cut(rule.span, len("default")) if rule.default else rule.span
        return {**result, **self.location(_head_span(rule) if _is_lone_call(rule) else span)}

    def no_body(self, rule: Rule) -> list[Json]:
        """Return the body `true` that OPA shows for a rule without a body, with OPA's location of
        it.
        """
        head = rule.head
        if rule.default:
            span = _cut(rule.span, len("default"))
        elif head.key is not None:
            span = head.ref.head.span
        elif head.value is None:
            span = _head_span(rule) if _is_lone_call(rule) else rule.span
        else:
            span = head.value.span
        return [{"index": 0, **self.location(span), "terms": self.term(Scalar(True, span))}]

    def head(self, rule: Rule, first: Rule) -> Json:
        """Return the JSON of a rule's head, with the fields that OPA has for its form; a value that
        is not written is `true`, except for a partial set. `first` is the first rule of the chain
        (or `rule` itself), whose name and key an `else` repeats. With `locations`, parts have
        locations.
        """
        head = rule.head
        name, key = _name_and_key(first)
        result: Json = {}
        if name:
            result["name"] = name
        # A further body after the same head has no head of its own.
        parts = self.at(head.span) if is_repeated(head) else self
        if head.args:
            result["args"] = [parts.term(a) for a in head.args]
        if key is not None:
            result["key"] = parts.term(key)
        if head.value is not None:
            result["value"] = parts.term(head.value)
        elif head.key is None:
            has_location = is_repeated(head) or _is_lone_call(rule)
            has_location = has_location or (len(head.ref.args) == 1 and head.args is None)
            result["value"] = self.term(Scalar(True, _head_span(rule)) if has_location else _TRUE)
        if head.assign:
            result["assign"] = True
        result["ref"] = [self.term(head.ref.head, bare=True), *map(self.term, head.ref.args)]
        return {**result, **self.location(_head_span(rule))}

    # Expressions

    def body(self, body: Body) -> list[Json]:
        return [self.expr(expr, index) for index, expr in enumerate(body)]

    def expr(self, expr: Expr, index: int) -> Json:
        """Return the JSON of an expression with its `not` and `with`, which are left out if it has
        none; `index` is its position in the body, from 0. With `locations`, it has its location.
        """
        result: Json = {"index": index, **self.location(expr.span)}
        if expr.negated:
            result["negated"] = True
        result["terms"] = self.terms(expr)
        if expr.withs:
            result["with"] = [self.with_(w) for w in expr.withs]
        return result

    def terms(self, expr: Expr) -> Json | list[Json]:
        """Return the `terms` of an expression: a list of operator and operands for a call,
        otherwise an object, whose form depends on whether it is a `some`, an `every`, a `not`,
        `and` or `or` with bodies, or a single term.
        """
        match expr.term:
            case Call() as call:
                return self.call(call)
            case SomeDecl() as some:
                span = _cut(some.span, len("some"))
                return {**self.location(span), "symbols": [self.term(s) for s in some.symbols]}
            case SomeIn() as some:
                return self.some_in(some)
            case Every() as every:
                return {
                    "body": self.body(every.body),
                    "domain": self.term(every.domain),
                    "key": None if every.key is None else self.term(every.key),
                    **self.location(_cut(every.span, len("every"))),
                    "value": self.term(every.value),
                }
            case Not(body=body, span=span):
                return {**self.location(span), "type": "not", "body": self.body(body)}
            case And(left=left, right=right, span=span):
                return self.logical("and", left, right, span)
            case Or(left=left, right=right, span=span):
                return self.logical("or", left, right, span)
            case term:
                return self.term(term)

    def logical(self, name: str, left: Body, right: Body, span: Span) -> Json:
        operands = {"left": self.body(left), "right": self.body(right)}
        return {**self.location(span), "type": name, **operands}

    def some_in(self, some: SomeIn) -> Json:
        """Return the JSON of `some … in …`: its only symbol is a call of the membership
        built-in.
        """
        call = membership(some)
        first = call.args[0].span
        span = Span(some.span.source, first.start, some.span.end, first.row, first.col)
        symbol = self.term(Call(call.operator, call.args, span))
        return {**self.location(_cut(some.span, len("some"))), "symbols": [symbol]}

    def with_(self, modifier: With) -> Json:
        """Return the JSON of a `with` modifier, `target` and `value`; `input` or `data` alone as
        target is a reference there. With `locations`, it has its location.
        """
        return {
            **self.location(modifier.span),
            "target": self.reference(modifier.target)
            if is_root(modifier.target)
            else self.term(modifier.target),
            "value": self.term(modifier.value),
        }

    # Terms

    def term(self, term: Term, *, bare: bool = False) -> Json:
        """Return the JSON of a term. `input` and `data` alone are references, unless `bare`, which
        keeps them as variables.
        """
        if is_root(term) and not bare:
            return self.reference(term)
        kind, value = self.value(term)
        return {**self.location(term.span), "type": kind, "value": value}

    def value(self, term: Term) -> tuple[str, Any]:
        """Return the type and the value of a term as OPA's JSON has them. Equal members of sets are
        written once, and members of sets and pairs of objects in OPA's order; the value of null is
        an empty object.
        """
        match term:
            case Scalar(value=value):
                return _scalar_kind(value), {} if value is None else value
            case Var(name=name):
                return "var", name
            case Ref(head=head, args=args):
                return "ref", [self.term(head, bare=True), *map(self.term, args)]
            case Call():
                return "call", self.call(term)
            case Array(items=items):
                return "array", [self.term(i) for i in items]
            case Set(items=items):
                return "set", [self.term(i) for i in distinct_in_order(items)]
            case Object(items=pairs):
                return "object", [[self.term(k), self.term(v)] for k, v in pairs_in_order(pairs)]
            case ArrayComprehension(term=head, body=body):
                return "arraycomprehension", {"term": self.term(head), "body": self.body(body)}
            case SetComprehension(term=head, body=body):
                return "setcomprehension", {"term": self.term(head), "body": self.body(body)}
            case ObjectComprehension(key=key, value=head, body=body):
                return "objectcomprehension", {
                    "key": self.term(key),
                    "value": self.term(head),
                    "body": self.body(body),
                }
            case _:
                items_ = [self.part(p) for p in term.parts]
                return "templatestring", {"parts": items_, "multi_line": term.multi_line}

    def part(self, part: str | Expr) -> Json:
        """Return the JSON of a part of a template string: a string for text, a term for a scalar
        alone, otherwise an expression.
        """
        if isinstance(part, str):
            return {"type": "string", "value": part}
        plain = not part.withs and not part.negated
        if plain and isinstance(part.term, Scalar):
            return self.term(part.term)
        return self.expr(part, 0)

    def call(self, call: Call) -> list[Json]:
        return [self.reference(call.operator), *map(self.term, call.args)]

    def reference(self, ref: Term) -> Json:
        """Return the JSON of a reference; a variable alone becomes a reference of one part."""
        args = ref.args if isinstance(ref, Ref) else ()
        head = ref.head if isinstance(ref, Ref) else ref
        value = [self.term(head, bare=True), *map(self.term, args)]
        return {**self.location(ref.span), "type": "ref", "value": value}


def _location(span: Span, *, text: bool) -> Json:
    """Return a span as file, row and column, with the base64 of its text if `text`."""
    location: Json = {"file": span.file, "row": span.row, "col": span.col}
    if text:
        location["text"] = base64.b64encode(span.text.encode()).decode()
    return location


def _block_location(span: Span) -> Json:
    """Return the location of a METADATA block, whose text OPA rebuilds from its lines."""
    _, *lines = span.text.split("\n")
    text = "\n".join(["# METADATA", *("# " + line[1:].removeprefix(" ") for line in lines)])
    location = _location(span, text=False)
    return {**location, "text": base64.b64encode(text.encode()).decode()}


def _cut(span: Span, length: int) -> Span:
    """Return the span of the first `length` characters: OPA gives some nodes only the text of their
    keyword.
    """
    return Span(span.source, span.start, span.start + length, span.row, span.col)


def _is_lone_call(rule: Rule) -> bool:
    """Return True if a rule is `f(x)` and nothing else."""
    return bool(rule.head.args) and rule.head.value is None and not rule.body


def _head_span(rule: Rule) -> Span:
    """Return the span that OPA gives a head: of `f(x)` alone only the name."""
    return rule.head.ref.span if _is_lone_call(rule) else rule.head.span


def is_repeated(head: Head) -> bool:
    """Return True if the head is not written but repeated for a further body: `p { a } { b }` of
    v0.
    """
    return head.span.text.startswith("{")


def has_braces(rule: Rule) -> bool:
    """Return True if a rule's body is written in braces; False also without a body."""
    if not rule.body:
        return False
    head, body = rule.head.span, rule.body[0].span
    return "{" in head.source.text[head.end : body.start]


def _scalar_kind(value: object) -> str:
    """Return the name of a scalar's type in OPA's JSON: `null`, `boolean`, `string` or `number`."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case _:
            return "number"


def _sort(value: object) -> object:
    """Return a JSON document with the keys of its objects sorted as texts, at any depth."""
    match value:
        case dict():
            return {key: _sort(value[key]) for key in sorted(value)}
        case list():
            return [_sort(item) for item in value]
        case _:
            return value


def _name_and_key(rule: Rule) -> tuple[str, Term | None]:
    """Return the `name` and `key` of a rule's head in OPA's JSON; "" if it has no name there, such
    as a head of three parts or more, and None if it has no key.
    """
    head = rule.head
    ref = head.ref
    name = ref.head.name if isinstance(ref.head, Var) else ""
    if not ref.args:
        return name, head.key
    if head.key is not None or rule.default or len(ref.args) > 1:
        return "", head.key
    if head.args is not None:
        return (name if rule.body else ""), None
    if not rule.body or not _has_if(rule):
        return name, ref.args[0]
    ground = not any(isinstance(node, Var) for node in walk(ref.args[0]))
    return ("" if head.value is None else name), (None if ground else ref.args[0])


def head_key(rule: Rule) -> Term | None:
    """Return the operand that OPA takes for the key of the rule's head, of a set or an object; None
    if it has none.
    """
    return _name_and_key(rule)[1]


def _has_if(rule: Rule) -> bool:
    """Return True if the body of a rule, which has one, follows `if`, not only a brace."""
    if is_repeated(rule.head):
        return False  # only a body in braces can follow another one
    rest = rule.span.source.text[rule.head.span.end : rule.span.end]
    return not rest.lstrip().startswith("{")
