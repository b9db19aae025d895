"""JSON Schema (drafts 4, 6 and 7): is a document as its schema says, and if not, why not.

jsonschema finds what is wrong, `schema_errors` says it in the words and the order that OPA's
policies know. References reach only into the schema itself: nothing is fetched. Patterns are RE2,
so a document cannot make one slow. Schemas can (`anyOf` of `anyOf`): each keyword of each value
looks at the clock. The schemas used last stay prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from doorward.rego.builtins.context import Context
from doorward.rego.builtins.go_json import marshal, unmarshal
from doorward.rego.builtins.patterns import matcher
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.schema_errors import explain, in_order
from doorward.rego.builtins.schema_formats import FORMATS
from doorward.rego.builtins.signature import (
    ObjectType,
    any_,
    any_of,
    array,
    boolean,
    null,
    object_,
    string,
    tuple_,
)
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.numbers import number_text
from doorward.rego.values import Value, equal, to_python

MAX_ERRORS: Final = 1000
"""Most findings that json.match_schema lists."""

_JSON: Final = any_of(string, object_(any_, any_))
_FINDING: Final = ObjectType(
    fields=(("error", string), ("type", string), ("field", string), ("desc", string))
)


@builtin(
    "json.match_schema",
    _JSON,
    _JSON,
    returns=tuple_(boolean, array(_FINDING)),
    context=True,
    checked=False,
)
def json_match_schema(context: Context, document: Value, schema: Value) -> list[Value]:
    """`[true, []]`, or `[false, errors]` for a document that is not as its schema says.

    Both are objects, or strings that hold JSON.
    """
    instance = _loaded(document)
    validator = _validator(context, schema)
    looking = _Looking(validator.format_checker, context.check_deadline)
    from referencing.exceptions import Unresolvable  # loaded by now

    try:
        errors = validator.evolve(format_checker=looking).iter_errors(to_python(instance))
        found = explain(errors, MAX_ERRORS, looking.look)
    except RecursionError:
        raise LimitError("document or schema is nested too deeply") from None
    except Unresolvable as error:
        raise BuiltinError(f"reference `{error.ref}` cannot be resolved") from None
    return [not found, found]


@builtin(
    "json.verify_schema",
    _JSON,
    returns=tuple_(boolean, any_of(string, null)),
    context=True,
    checked=False,
)
def json_verify_schema(context: Context, schema: Value) -> list[Value]:
    """`[true, null]`, or `[false, why]` for what is no JSON Schema."""
    try:
        _validator(context, schema)
    except BuiltinError as error:
        return [False, f"jsonschema: {error}"]
    return [True, None]


def _loaded(value: Value) -> Value:
    if isinstance(value, str):
        try:
            return unmarshal(value)
        except BuiltinError:
            raise BuiltinError("invalid JSON string") from None
    if not isinstance(value, (dict, list)):
        raise BuiltinError("wrong type, expected string or object")
    return value


class _Looking:
    """The checker of formats, which all parts of a validator share, with a look at the clock."""

    def __init__(self, checker: Any, look: Callable[[], None]) -> None:
        self.check = checker.check
        self.look = look


def _validator(context: Context, schema: Value) -> Any:
    text = marshal(_loaded(schema))
    with context.watching(len(text)):
        return _kept_validator(text)


@lru_cache(maxsize=64)
def _kept_validator(text: str) -> Any:
    schema = unmarshal(text)
    if not isinstance(schema, (dict, bool)):
        raise BuiltinError("schema is invalid")
    try:
        if isinstance(schema, dict):
            _check(schema, schema)
        return _prepared(in_order(schema))
    except RecursionError:
        raise LimitError("schema is nested too deeply") from None


def _prepared(schema: Any) -> Any:
    # only policies with schemas need it
    from jsonschema import Draft4Validator, Draft7Validator, FormatChecker
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import extend
    from referencing import Registry

    given = schema.get("$schema", "") if isinstance(schema, dict) else ""
    base = Draft4Validator if "draft-04" in given or _is_draft_4(schema) else Draft7Validator
    try:
        base.check_schema(schema)
    except SchemaError as error:
        raise BuiltinError(f"schema is invalid: {error.message}") from None
    checker = FormatChecker(formats=())
    for name, is_valid in FORMATS.items():
        checker.checks(name)(is_valid)
    rules = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "enum": _enum,
        "const": _const,
        "uniqueItems": _unique_items,
        "multipleOf": _multiple_of,
        "propertyNames": _property_names,
        "contains": _contains,
        "if": _if,
    }
    looking = {name: _rule(rule) for name, rule in {**base.VALIDATORS, **rules}.items()}
    extended: Any = extend(base, looking)  # type: ignore[no-untyped-call] # jsonschema leaves it untyped
    extended.evolve = _in_kind(extended.evolve)
    return extended(schema, format_checker=checker, registry=Registry())


def _in_kind(evolve: Callable[..., Any]) -> Callable[..., Any]:
    """`evolve` without the change to another draft where a part of a schema names one.

    That draft's rules would be jsonschema's own: patterns by backtracking, nothing that looks.
    """

    def evolved(validator: Any, **changes: Any) -> Any:
        schema = changes.get("schema", validator.schema)
        if isinstance(schema, dict) and "$schema" in schema:
            changes["schema"] = {k: v for k, v in schema.items() if k != "$schema"}
        return evolve(validator, **changes)

    return evolved


def _rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a keyword, with a look at the clock before."""

    def looking(validator: Any, part: Any, instance: Any, schema: Any) -> Any:
        validator.format_checker.look()
        return rule(validator, part, instance, schema)

    return looking


def _is_draft_4(schema: Any) -> bool:
    """Whether a schema that names no draft has limits that are exclusive by a boolean."""
    if isinstance(schema, dict):
        for name in ("exclusiveMaximum", "exclusiveMinimum"):
            if isinstance(schema.get(name), bool):
                return True
        return any(map(_is_draft_4, schema.values()))
    return isinstance(schema, list) and any(map(_is_draft_4, schema))


_KINDS: Final = ("array", "boolean", "integer", "number", "null", "object", "string")


def _check(schema: dict[Any, Any], root: dict[Any, Any]) -> None:
    """What a schema can be wrong in, in the words that OPA has for it."""
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if isinstance(kind, str) and kind not in _KINDS:
            raise BuiltinError(
                f"has a primitive type that is NOT VALID -- given: /{kind}/ "
                f"Expected valid values are:[{' '.join(_KINDS)}]"
            )
    if not isinstance(schema.get("properties", {}), dict):
        raise BuiltinError("Properties must be of type object")
    if not isinstance(schema.get("required", []), list):
        raise BuiltinError("required must be of an array")
    for pattern in [schema.get("pattern", ""), *_keys(schema.get("patternProperties"))]:
        try:
            matcher(pattern if isinstance(pattern, str) else "")
        except BuiltinError:
            raise BuiltinError("pattern must be a valid regex") from None
    reference = schema.get("$ref")
    if isinstance(reference, str):
        _check_reference(reference, root)
    for part in _subschemas(schema):
        _check(part, root)


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


def _check_reference(reference: str, root: dict[Any, Any]) -> None:
    if not reference.startswith("#"):
        return  # by an $id of the same schema, or it is refused when it is met
    here: Any = root
    for step in reference[1:].split("/")[1:] if reference.startswith("#/") else []:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        elif isinstance(here, dict) and name in here:
            here = here[name]
        else:
            raise BuiltinError(f"Object has no key '{name}'")


_ONE: Final = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
)
_MANY: Final = ("allOf", "anyOf", "items", "oneOf")
_NAMED: Final = ("definitions", "dependencies", "patternProperties", "properties")


def _subschemas(schema: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    parts: list[Any] = [schema.get(name) for name in _ONE]
    for name in _MANY:
        part = schema.get(name)
        parts += part if isinstance(part, list) else []
    for name in _NAMED:
        part = schema.get(name)
        parts += part.values() if isinstance(part, dict) else []
    return (part for part in parts if isinstance(part, dict))


def _error(text: str, context: list[Any] | None = None) -> Any:
    from jsonschema import ValidationError  # loaded by now

    return ValidationError(text, context=context or ())


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not matcher(pattern)(instance):
        yield _error("pattern")


def _pattern_properties(
    validator: Any, properties: dict[str, Any], instance: Any, schema: Any
) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, part in properties.items():
        matches = matcher(pattern)
        for name, value in instance.items():
            validator.format_checker.look()
            if matches(name):
                yield from validator.descend(value, part, path=name, schema_path=pattern)


def _additional_properties(validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict) or part is True:
        return
    known = schema.get("properties", {})
    patterns = [matcher(pattern) for pattern in schema.get("patternProperties", {})]
    wrong = False
    for name, value in instance.items():
        validator.format_checker.look()
        if name in known or any([matches(name) for matches in patterns]):
            continue
        wrong = True
        if part is not False:
            yield from validator.descend(value, part, path=name)
    if wrong and part is False:
        yield _error("additionalProperties")


def _enum(validator: Any, values: list[Any], instance: Any, schema: Any) -> Iterator[Any]:
    if not any(equal(value, instance) for value in values):
        yield _error("enum")


def _const(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not equal(value, instance):
        yield _error("const")


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not wanted or not isinstance(instance, list):
        return
    seen: dict[str, int] = {}
    for place, item in enumerate(instance):
        validator.format_checker.look()
        first = seen.setdefault(marshal(item), place)
        if first != place:
            yield _error(f"{first},{place}")
            return


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, bool) or not isinstance(instance, (int, float)):
        return
    if divisor and Fraction(number_text(instance)) % Fraction(number_text(divisor)):
        yield _error("multipleOf")


def _property_names(validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[Any]:
    for name in instance if isinstance(instance, dict) else ():
        wrong = list(validator.descend(name, part))
        if wrong:
            yield _error(name, wrong)


def _contains(validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, list):
        return
    wrong: list[Any] = []
    for place, item in enumerate(instance):
        found = list(validator.descend(item, part, path=place, schema_path=place))
        if not found:
            return
        wrong += found
    yield _error("contains", wrong)


def _if(validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[Any]:
    name = "then" if validator.evolve(schema=part).is_valid(instance) else "else"
    if name in schema:
        wrong = list(validator.descend(instance, schema[name], schema_path=name))
        if wrong:
            yield _error(name, wrong)
