"""A JSON Schema as text becomes a `Schema`: what is wrong with it is said here, in OPA's words.

Drafts 4, 6 and 7, and without `$schema` all of them at once. References reach only into the schema
itself, by `$id` or by pointer, and into the schemas of the drafts: nothing is fetched. What a
schema says of a value is in `rules`; the order of `_KEYWORDS` here decides which of several
mistakes is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from doorward.base.records import replace
from doorward.rego.builtins.json_schema import rules
from doorward.rego.builtins.json_schema.metaschemas import DRAFTS, metaschema
from doorward.rego.builtins.json_schema.rules import KINDS, Schema, canonical, exact_number
from doorward.rego.errors import BuiltinError
from doorward.rego.golang.regexp import matcher
from doorward.rego.golang.urls import URL, read_url, resolve
from doorward.rego.numbers import integer_of, number_text
from doorward.rego.pointers import read_name

__all__ = ["read_schema"]

_HYBRID: Final = 100
"""The draft for a schema that names none: it has every keyword of any draft."""

_SCHEMA: Final = "Valid Schema"
_SCHEMAS: Final = "Array Of Schemas"


def read_schema(document: Any) -> Schema:
    """Compile a JSON Schema document; BuiltinError, in OPA's words, if it is invalid. Changes the
    document: its references become absolute.
    """
    draft = _draft(document)
    reader = _Reader(document)
    return reader.read(document, draft)


def _draft(document: Any) -> int:
    """The draft that `$schema` names, as a number; `_HYBRID` if it is absent or unknown.
    BuiltinError for a document that is not an object or boolean, or for a `$schema` that is not a
    URL.
    """
    if isinstance(document, bool):
        return _HYBRID
    if not isinstance(document, dict):
        raise BuiltinError("schema is invalid")
    named = document.get("$schema", "")
    if not isinstance(named, str):
        raise BuiltinError("$schema must be of type string")
    return DRAFTS.get(str(read_url(named)), _HYBRID)


def _invalid_type(expected: str, actual: str) -> BuiltinError:
    return BuiltinError(f"Invalid type. Expected: {expected}, given: {actual}")


class _Reader:
    """Reads the schemas of one document. `referred` holds the schemas of places that a `$ref`
    points to, so that each is read once and may refer to itself.
    """

    def __init__(self, document: Any) -> None:
        self.known: dict[str, Any] = {}
        """Documents by the URL in their id; the whole one by ""."""
        self.drafts: dict[str, int] = {}
        """The drafts of documents that are not part of this one, by their URLs."""
        self.referred: dict[str, Schema] = {}
        self._resolve(document, URL())
        self.known[""] = document

    def _resolve(self, node: Any, base: URL) -> None:
        """Make all `$ref` below `node` absolute, in place, and record every schema with an id in
        `known`. `base` is the URL that they are relative to. BuiltinError if two schemas have one
        id. An id or `$ref` that is not a URL is left as it is: `fill` refuses it where it means
        something.
        """
        waiting: list[tuple[Any, URL]] = [(node, base)]
        while waiting:
            node, base = waiting.pop()
            if isinstance(node, list):
                waiting += [(item, base) for item in reversed(node)]
            elif isinstance(node, dict):
                waiting += self._resolve_ids(node, base)

    def _resolve_ids(self, node: dict[str, Any], base: URL) -> Iterator[tuple[Any, URL]]:
        """Record the node in `known` under its absolute id, if it has one, and make its `$ref`
        absolute, in place. Yield its parts with the base URL for each, in reverse order of their
        names; `const` and `enum`, which hold values, are left out. BuiltinError for an id that
        another schema has, or an invalid id or reference.
        """
        name = _read_reference(node.get("id" if "id" in node else "$id"))
        if name is not None:
            base = resolve(base, name)
            address = str(base)
            if address in self.known:
                raise BuiltinError(f'Reference already exists: "{address}"')
            self.known[address] = node
        reference = _read_reference(node.get("$ref"))
        if reference is not None:
            node["$ref"] = str(resolve(base, reference))
        # Reversed, since what is yielded goes on a stack: it is taken off in the order of the
        # names.
        for key in sorted(node, reverse=True):
            part = node[key]
            if key in _NAMED:
                # A property may have any name, that of a keyword too.
                if isinstance(part, dict):
                    yield from ((inner, base) for _, inner in sorted(part.items(), reverse=True))
            elif key not in ("const", "enum"):
                yield part, base

    def read(self, document: Any, draft: int) -> Schema:
        """Compile `document` into a new schema; BuiltinError if it is invalid."""
        schema = Schema()
        self.fill(schema, document, draft)
        return schema

    def fill(self, schema: Schema, document: Any, draft: int) -> None:
        """Compile `document` into `schema`, keyword by keyword; after the first `$ref` to a place
        the keywords beside it are ignored. BuiltinError for an invalid keyword, or a document that
        is neither an object nor, from draft 6 on, a boolean.
        """
        if isinstance(document, bool) and draft >= 6:
            schema.passes = document
            return
        if not isinstance(document, dict):
            raise BuiltinError(f"Expected: {_SCHEMA}, given: Invalid JSON")
        _check_id(document, draft)
        part = _Part(self, document, draft, schema)
        for keyword, (first_draft, read) in _KEYWORDS.items():
            if keyword in document and draft >= first_draft:
                read(part, keyword, document[keyword])
                if part.is_referred:
                    return
        part.finish()

    def refer(self, reference: str, draft: int) -> Schema:
        """Compile the schema at an absolute reference. It is put into `referred` before it is
        compiled, since it may refer to itself. BuiltinError if there is none, or it is not a
        schema.
        """
        document, draft = self._find(reference, draft)
        if not isinstance(document, (dict, bool)):
            raise BuiltinError(f"{_SCHEMA} must be of type object")
        # Known before it is read: a schema that refers to itself must find this one, not read
        # again.
        schema = self.referred[reference] = Schema()
        self.fill(schema, document, draft)
        return schema

    def _find(self, reference: str, draft: int) -> tuple[Any, int]:
        """The document at an absolute reference, by id or by pointer, and the draft of what it is
        in: `draft` for a part of this document. The schema of a draft is added to `known` at its
        first use. BuiltinError if it is neither in this document nor in the schema of a draft:
        nothing is fetched.
        """
        if reference in self.known:
            return self.known[reference], self.drafts.get(reference, draft)
        url = read_url(reference)
        address = str(replace(url, fragment="", written_fragment=""))
        if address not in self.known:
            if address not in DRAFTS:
                raise BuiltinError(
                    f"reference `{reference}` cannot be resolved: other documents are not fetched"
                    if url.scheme and (url.host or url.scheme == "file")
                    else f"Reference {reference} must be canonical"
                )
            self._resolve(metaschema(address), url)
            self.drafts[address] = DRAFTS[address]
        here = self.known[address]
        for step in url.fragment.split("/")[1:] if url.fragment.startswith("/") else []:
            here = _step(here, step)
        return here, self.drafts.get(address, draft)


def _read_reference(value: Any) -> URL | None:
    """The URL in an id or `$ref`; None if it is not a string, or not a URL."""
    if not isinstance(value, str):
        return None
    try:
        return read_url(value)
    except BuiltinError:
        return None


def _check_id(document: dict[str, Any], draft: int) -> None:
    """Check that the id of a schema, under its name in the draft, is a URL; BuiltinError if not."""
    keyword = "id" if draft == 4 or (draft == _HYBRID and "id" in document) else "$id"
    if keyword in document:
        name = document[keyword]
        if not isinstance(name, str):
            raise _invalid_type("string", keyword)
        read_url(name)


def _step(here: Any, step: str) -> Any:
    """Return the child of a document at one step of a JSON pointer: the member of an object with
    the unescaped name, or the item of an array at a decimal index, which may have a sign and
    leading zeros. BuiltinError if there is none, or if `here` is neither.
    """
    if isinstance(here, dict):
        name = read_name(step)
        if name not in here:
            raise BuiltinError(f"Object has no key '{name}'")
        return here[name]
    if isinstance(here, list):
        digits = step[1:] if step[:1] in ("+", "-") else step
        if not (digits.isascii() and digits.isdecimal()):
            raise BuiltinError(f"Invalid array index '{step}'")
        digits = digits.lstrip("0") or "0"
        if len(digits) > 10 or int(digits) >= len(here) or (step[0] == "-" and digits != "0"):
            raise BuiltinError(f"Out of bound array[0,{len(here)}] index '{step}'")
        return here[int(digits)]
    raise BuiltinError(f"Invalid token reference '{step}'")


class _Part:
    """One schema while it is read: its document, and the `Schema` that it becomes. Keywords that
    depend on each other are collected here until `finish`.
    """

    def __init__(self, reader: _Reader, document: dict[str, Any], draft: int, to: Schema) -> None:
        self.reader = reader
        self.document = document
        self.draft = draft
        self.schema = to
        self.is_referred = False
        self.names: frozenset[str] = frozenset()
        self.patterns: list[tuple[rules.Matcher, Schema]] = []
        self.other_names: Schema | bool = True
        self.items: list[Schema] = []
        self.more_items: Schema | bool = True

    def finish(self) -> None:
        """Add the rules of `patternProperties` and `additionalProperties`, and of a list in `items`
        with `additionalItems`; each depends on several keywords, so this comes last.
        """
        if self.patterns or self.other_names is not True:
            rule = rules.other_names(self.names, self.patterns, self.other_names)
            self.schema.add("additionalProperties", rule)
        if self.items:
            self.schema.add("items", rules.items(self.items, self.more_items))

    def read(self, document: Any) -> Schema:
        return self.reader.read(document, self.draft)

    def number(self, keyword: str) -> Any:
        """The number under `keyword` of this schema; None if it is absent or not a number."""
        value = self.document.get(keyword)
        return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


# One function for each kind of keyword: it refuses what the keyword cannot be, and adds its rule.


def _schemas_by_name(part: _Part, keyword: str, value: Any) -> None:
    """Check a keyword whose value is an object of schemas, such as `definitions`. BuiltinError if
    it is not, or one of them is invalid. They are compiled again where a `$ref` uses them.
    """
    if not isinstance(value, dict):
        raise _invalid_type(_SCHEMAS, keyword)
    for name in sorted(value):
        if not _is_schema(value[name]):
            raise _invalid_type(_SCHEMAS, keyword)
        part.read(value[name])


def _require_string(part: _Part, keyword: str, value: Any) -> None:
    """Raise BuiltinError unless the value of the keyword is a string; it has no other effect."""
    if not isinstance(value, str):
        raise _invalid_type("string", keyword)


def _reference(part: _Part, keyword: str, value: Any) -> None:
    """Read `$ref` into `reference` of the part's schema, which stands for the schema that it refers
    to. BuiltinError if the reference cannot be resolved. Keywords beside the first `$ref` to a
    schema are ignored; beside further ones to the same schema they are read, so that mistakes in
    them are found.
    """
    _require_string(part, keyword, value)
    read_url(value)
    known = part.reader.referred.get(value)
    # What is beside a reference means nothing; mistakes in it are looked for the second time.
    part.is_referred = known is None
    part.schema.reference = known or part.reader.refer(value, part.draft)


def _type(part: _Part, keyword: str, value: Any) -> None:
    """Add the kinds that `type` names, one or a list of them, to those of the part's schema.
    BuiltinError for an unknown or repeated name, or another value.
    """
    for kind in value if isinstance(value, list) else [value]:
        if not isinstance(kind, str):
            raise _invalid_type("type", "string/Array Of Strings")
        if kind not in KINDS:
            raise BuiltinError(
                f"has a primitive type that is NOT VALID -- given: /{kind}/ "
                f"Expected valid values are:[{' '.join(KINDS)}]"
            )
        if kind in part.schema.types:
            raise BuiltinError(f"{kind} type is duplicated")
        part.schema.types = (*part.schema.types, kind)


def _properties(part: _Part, keyword: str, value: Any) -> None:
    """Read `properties`: the value of each of these names, if present, must match its schema. The
    names are stored in `part.names`. BuiltinError if it is not an object of schemas.
    """
    if not isinstance(value, dict):
        raise BuiltinError("Properties must be of type object")
    properties = {name: part.read(value[name]) for name in sorted(value)}
    part.names = frozenset(properties)
    part.schema.add(keyword, rules.properties(properties))


def _pattern_properties(part: _Part, keyword: str, value: Any) -> None:
    """Read `patternProperties`, schemas by regular expression, into `part.patterns`. BuiltinError
    for another value or an invalid expression or schema, LimitError for an expression that is too
    large.
    """
    if not isinstance(value, dict):
        raise _invalid_type(_SCHEMA, keyword)
    for pattern in sorted(value):
        try:
            matches = matcher(pattern)
        except BuiltinError:
            raise BuiltinError(f"Invalid regex pattern '{pattern}'") from None
        part.patterns.append((matches, part.read(value[pattern])))


def _other_names(part: _Part, keyword: str, value: Any) -> None:
    part.other_names = _schema_or_boolean(part, keyword, value)


def _schema_or_boolean(part: _Part, keyword: str, value: Any) -> Schema | bool:
    """Read the value of a keyword that may be a schema or a boolean: return the compiled schema or
    the boolean. BuiltinError for other values.
    """
    if isinstance(value, dict):
        return part.read(value)
    if isinstance(value, bool):
        return value
    raise _invalid_type(f"boolean/{_SCHEMA}", keyword)


def _property_names(part: _Part, keyword: str, value: Any) -> None:
    """Read `propertyNames`: a schema that every name in an object must match. BuiltinError if it is
    not one.
    """
    if not _is_schema(value):
        raise _invalid_type(_SCHEMA, "patternProperties")
    part.schema.add(keyword, rules.property_names(part.read(value)))


def _dependencies(part: _Part, keyword: str, value: Any) -> None:
    """Read `dependencies`: for each name, a schema that the object must match if it has that name,
    or a list of other names that it must have then. BuiltinError for other values.
    """
    if not isinstance(value, dict):
        raise BuiltinError("dependencies must be of type object")
    dependencies: dict[str, Schema | list[str]] = {}
    for name in sorted(value):
        item = value[name]
        if _is_schema(item):
            dependencies[name] = part.read(item)
        elif isinstance(item, list) and all(isinstance(other, str) for other in item):
            dependencies[name] = item
        else:
            raise BuiltinError("Dependency must be of type Schema Or Array Of Strings")
    part.schema.add(keyword, rules.dependencies(dependencies))


def _items(part: _Part, keyword: str, value: Any) -> None:
    """Read `items`: one schema for every item, or a list of schemas by position, which is stored in
    `part.items`. BuiltinError for other values.
    """
    if isinstance(value, list) and all(map(_is_schema, value)):
        part.items = [part.read(item) for item in value]
    elif _is_schema(value):
        part.schema.add(keyword, rules.each_item(part.read(value)))
    else:
        raise _invalid_type(f"{_SCHEMA}/{_SCHEMAS}", keyword)


def _additional_items(part: _Part, keyword: str, value: Any) -> None:
    part.more_items = _schema_or_boolean(part, keyword, value)


def _multiple_of(part: _Part, keyword: str, value: Any) -> None:
    """Add the rule of `multipleOf` to the part's schema; BuiltinError unless `value` is a number
    above 0.
    """
    if not _is_number(value):
        raise _invalid_type("Number", keyword)
    if exact_number(value) <= 0:
        raise BuiltinError(f"{keyword} must be strictly greater than 0")
    part.schema.add(keyword, rules.multiple_of(value))


def _limit(part: _Part, keyword: str, value: Any) -> None:
    """Read `minimum` or `maximum`. In draft 4, and without `$schema`, `exclusiveMinimum: true` or
    `exclusiveMaximum: true` beside it makes it strict. BuiltinError unless it is a number.
    """
    if not _is_number(value):
        raise BuiltinError(f"{keyword} must be of a Number")
    exclusive = f"exclusive{keyword.capitalize()}"
    if part.document.get(exclusive) is True and part.draft in (4, _HYBRID):
        keyword = exclusive
    part.schema.add(keyword, rules.limit(keyword, value))


def _exclusive_limit(part: _Part, keyword: str, value: Any) -> None:
    """Read `exclusiveMinimum` or `exclusiveMaximum`: in draft 4 a boolean, which makes `minimum` or
    `maximum` beside it strict; in later drafts a number; without `$schema` either. BuiltinError for
    another value, or for a boolean without the limit beside it.
    """
    beside = keyword.removeprefix("exclusive").lower()
    by_boolean = part.draft in (4, _HYBRID)
    if isinstance(value, bool) and by_boolean:
        if part.number(beside) is None:
            raise BuiltinError(f"{keyword} cannot be used without {beside}")
    elif not _is_number(value) or part.draft == 4:
        expected = {4: "boolean", _HYBRID: "boolean/number"}.get(part.draft, "number")
        raise _invalid_type(expected, keyword)
    else:
        part.schema.add(keyword, rules.limit(keyword, value))


def _count(part: _Part, keyword: str, value: Any) -> None:
    """Add the rule of a bound on a length, such as `minItems`, to the part's schema. BuiltinError
    if `value` is not an integer of at least 0, or is a maximum below the minimum beside it (not
    checked for `maxItems`, as in OPA).
    """
    size = 0 if _is_number(value) and number_text(value) == "-0" else value
    if type(size) is not int or integer_of(size) is None:
        raise BuiltinError(f"{keyword} must be of an integer")
    if size < 0:
        raise BuiltinError(f"{keyword} must be greater than or equal to 0")
    least = f"min{keyword[3:]}"
    if keyword != least and keyword != "maxItems":
        other = part.number(least)
        if other is not None and exact_number(other) > size:
            raise BuiltinError(f"{least} cannot be greater than {keyword}")
    part.schema.add(keyword, rules.count(keyword, size))


def _pattern(part: _Part, keyword: str, value: Any) -> None:
    """Add the rule of `pattern` to the part's schema. BuiltinError unless `value` is a string with
    a valid regular expression, LimitError for one that is too large.
    """
    if not isinstance(value, str):
        raise _invalid_type("string", keyword)
    try:
        matches = matcher(value)
    except BuiltinError:
        raise BuiltinError("pattern must be a valid regex") from None
    part.schema.add(keyword, rules.pattern(value, matches))


def _format(part: _Part, keyword: str, value: Any) -> None:
    """Read `format`; the name of an unknown format accepts every value. BuiltinError if it is not a
    string.
    """
    if not isinstance(value, str):
        raise _invalid_type("string", keyword)
    part.schema.add(keyword, rules.format_(value))


def _read_required(part: _Part, keyword: str, value: Any) -> None:
    """Add the rule of `required` to the part's schema. BuiltinError unless `value` is a list of
    different strings.
    """
    if not isinstance(value, list):
        raise BuiltinError("required must be of an array")
    names: dict[str, None] = {}
    for name in value:
        if not isinstance(name, str):
            raise _invalid_type("string", keyword)
        if name in names:
            raise BuiltinError("required items must be unique")
        names[name] = None
    part.schema.add(keyword, rules.required(list(names)))


def _unique_items(part: _Part, keyword: str, value: Any) -> None:
    """Add the rule of `uniqueItems` to the part's schema if it is true; false adds none.
    BuiltinError unless it is a boolean.
    """
    if not isinstance(value, bool):
        raise BuiltinError("uniqueItems must be of a boolean")
    if value:
        part.schema.add(keyword, rules.unique_items)


def _contains(part: _Part, keyword: str, value: Any) -> None:
    part.schema.add(keyword, rules.contains(part.read(value)))


def _const(part: _Part, keyword: str, value: Any) -> None:
    part.schema.add(keyword, rules.const(canonical(value)))


def _enum(part: _Part, keyword: str, value: Any) -> None:
    """Add the rule of `enum` to the part's schema; with an empty list no value matches.
    BuiltinError unless `value` is a list of different values.
    """
    if not isinstance(value, list):
        raise BuiltinError("enum must be of an array")
    texts: dict[str, None] = {}
    for text in map(canonical, value):
        if text in texts:
            raise BuiltinError("enum items must be unique")
        texts[text] = None
    part.schema.add(keyword, rules.enum(list(texts)))


def _alternatives(part: _Part, keyword: str, value: Any) -> None:
    """Read `anyOf`, `oneOf` or `allOf`; an empty list adds no rule. BuiltinError unless it is a
    list of schemas.
    """
    if not isinstance(value, list):
        raise BuiltinError(f"{keyword} must be of an array")
    if value:
        part.schema.add(keyword, rules.ALTERNATIVES[keyword]([part.read(item) for item in value]))


def _not(part: _Part, keyword: str, value: Any) -> None:
    part.schema.add(keyword, rules.not_(_condition(part, keyword, value)))


def _if(part: _Part, keyword: str, value: Any) -> None:
    """Read `if` with the `then` and `else` beside it. BuiltinError if one of them is not a
    schema.
    """
    condition = _condition(part, keyword, value)
    branches: dict[str, Schema] = {
        name: _condition(part, name, part.document[name])
        for name in ("then", "else")
        if name in part.document
    }
    part.schema.add(keyword, rules.if_(condition, branches))


def _branch(part: _Part, keyword: str, value: Any) -> None:
    """Check a `then` or `else` without an `if`, which has no effect. BuiltinError if it is not a
    schema.
    """
    if "if" not in part.document:
        _condition(part, keyword, value)


def _condition(part: _Part, keyword: str, value: Any) -> Schema:
    """Read a schema for `not`, `if`, `then` or `else`; BuiltinError if it is not one."""
    if not _is_schema(value):
        raise BuiltinError(f"{keyword} must be of an object")
    return part.read(value)


_Read = Callable[[_Part, str, Any], None]

_KEYWORDS: Final[dict[str, tuple[int, _Read]]] = {
    "definitions": (4, _schemas_by_name),
    "title": (4, _require_string),
    "description": (4, _require_string),
    "$ref": (4, _reference),
    "type": (4, _type),
    "properties": (4, _properties),
    "additionalProperties": (4, _other_names),
    "patternProperties": (4, _pattern_properties),
    "propertyNames": (6, _property_names),
    "dependencies": (4, _dependencies),
    "items": (4, _items),
    "additionalItems": (4, _additional_items),
    "multipleOf": (4, _multiple_of),
    "minimum": (4, _limit),
    "exclusiveMinimum": (4, _exclusive_limit),
    "maximum": (4, _limit),
    "exclusiveMaximum": (4, _exclusive_limit),
    "minLength": (4, _count),
    "maxLength": (4, _count),
    "pattern": (4, _pattern),
    "format": (4, _format),
    "minProperties": (4, _count),
    "maxProperties": (4, _count),
    "required": (4, _read_required),
    "minItems": (4, _count),
    "maxItems": (4, _count),
    "uniqueItems": (4, _unique_items),
    "contains": (6, _contains),
    "const": (6, _const),
    "enum": (4, _enum),
    "oneOf": (4, _alternatives),
    "anyOf": (4, _alternatives),
    "allOf": (4, _alternatives),
    "not": (4, _not),
    "if": (7, _if),
    "then": (7, _branch),
    "else": (7, _branch),
}
"""The keywords that are read, each with the first draft that has it and its reader. They are read
in this order, so the first of several mistakes is the one that OPA reports.
"""

_NAMED: Final = frozenset({"properties", "dependencies", "patternProperties"})
"""Keywords whose value is an object from names to schemas: a name in it is not a keyword."""
