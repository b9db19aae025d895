"""Type errors in OPA's words, with what they know: the types at hand and the types wanted.

Which error applies is decided where types are inferred. A finding also says whether a type in it
could not be inferred at all: then it follows from an error reported elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from doorward.base.records import record
from doorward.rego.analysis.scope import operand_source, source_name
from doorward.rego.analysis.types import UNKNOWN, has_function, has_unknown
from doorward.rego.builtins.registry.signature import (
    AnyOf,
    ArrayType,
    Function,
    ObjectType,
    SetType,
    Type,
)
from doorward.rego.errors import TYPE_ERROR, Details, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Array, Object, Ref, Scalar, Set, Term, Var
from doorward.rego.values import Key, from_key, sorted_keys, to_json, to_rego

__all__ = [
    "Finding",
    "arguments_error",
    "bad_operand",
    "match_error",
    "not_a_collection",
    "ref_text",
    "type_json",
    "type_text",
    "undefined_function",
]


@record
class Finding:
    """One type error. `follows` is True if a type in it could not be inferred: then it may only
    follow from an error that is reported elsewhere.
    """

    diagnostic: Diagnostic
    follows: bool = False


def undefined_function(operator: Ref, span: Span) -> Finding:
    """Return the finding for a call of an unknown function."""
    message = f"undefined function {ref_text(operator)}"
    return Finding(Diagnostic(TYPE_ERROR, message, span))


def match_error(left: Type, right: Type, span: Span) -> Finding:
    """Return the finding for an equation whose sides can never be equal."""
    lines = (f"left  : {type_text(left)}", f"right : {type_text(right)}")
    details = Details(lines, {"a": type_json(left), "b": type_json(right)})
    error = Diagnostic(TYPE_ERROR, "match error", span, details=details)
    return Finding(error, has_unknown(left) or has_unknown(right))


def arguments_error(
    name: str, what: str, have: Sequence[Type], want: Sequence[Type], span: Span
) -> Finding:
    """Return the finding for a call of `name` whose operands do not fit: `have` are their types,
    `want` the declared ones. `what` is the rest of the message, such as "arity mismatch".
    """
    lines = (f"have: {_tuple_text(have)}", f"want: {_tuple_text(want)}")
    expected = {"args": [type_json(t) for t in want]} if want else {}
    details = Details(lines, {"have": [type_json(t) for t in have], "want": expected})
    error = Diagnostic(TYPE_ERROR, f"{name}: {what}", span, details=details)
    # A function among the operands is an error of its own, and hides none.
    follows = any(map(has_unknown, have)) and not any(map(has_function, have))
    return Finding(error, follows)


def not_a_collection(ref: Ref, position: int, have: Type) -> Finding:
    """Return the finding that the part of `ref` up to operand `position` (0 is the head) has type
    `have`, which has no members; for a function, that it is used without a call.
    """
    text = ref_text(ref)
    message = f"undefined ref: {text}"
    if isinstance(have, Function):
        message = f"function {text} used as reference, not called"
    lead = ref_text(Ref(ref.head, ref.args[:position]))
    lines = (text, "^" * len(lead), f"have: {type_text(have)}")
    details = Details(lines, {"ref": text, "pos": position, "have": type_json(have)})
    return Finding(Diagnostic(TYPE_ERROR, message, ref.head.span, details=details))


def bad_operand(
    ref: Ref, position: int, have: Type | None, want: Type, one_of: Sequence[Key]
) -> Finding:
    """Return the finding that operand `position` of `ref` (from 1) cannot be a key there. `have` is
    its type, None for a constant; `want` is the type of the keys, `one_of` the known keys.
    """
    text = ref_text(ref)
    pad = " " * (len(ref_text(Ref(ref.head, ref.args[: position - 1]))) + 1)
    operand = ref.args[position - 1]
    keys = [to_rego(from_key(key)) for key in _in_order(one_of)]
    data: dict[str, object] = {"ref": text, "pos": position}
    if have is None:
        actual = f"{pad}have: {term_text(operand)}"
    else:
        actual = f"{pad}have (type): {type_text(have)}"
        data["have"] = type_json(have)
    expected = f"(one of): [{' '.join(keys)}]" if keys else f"(type): {type_text(want)}"
    data |= {"want": type_json(want), "oneOf": keys or None}
    lines = (text, f"{pad}^", actual, f"{pad}want {expected}")
    error = Diagnostic(
        TYPE_ERROR, f"undefined ref: {text}", ref.head.span, details=Details(lines, data)
    )
    return Finding(error)


def _in_order(keys: Sequence[Key]) -> Iterator[Key]:
    return iter(sorted_keys(dict.fromkeys(keys)))


# Texts


def ref_text(ref: Ref | Var) -> str:
    """Return a reference as OPA prints it, `data.t.p["a b"][x]`, variables under the names in the
    source.
    """
    if isinstance(ref, Var):
        return source_name(ref.name)
    return term_text(ref.head) + "".join(_operand_text(arg) for arg in ref.args)


def _operand_text(term: Term) -> str:
    return operand_source(term.value) if isinstance(term, Scalar) else f"[{term_text(term)}]"


def term_text(term: Term) -> str:
    """Return a term as OPA prints it in errors, variables under the names in the source; calls,
    comprehensions and template strings, for which OPA has variables, as written.
    """
    match term:
        case Var(name):
            return source_name(name)
        case Ref():
            return ref_text(term)
        case Scalar(value):
            return to_rego(value)
        case Array(items):
            return f"[{', '.join(map(term_text, items))}]"
        case Set(items):
            return f"{{{', '.join(map(term_text, items))}}}" if items else "set()"
        case Object(items):
            return f"{{{', '.join(f'{term_text(k)}: {term_text(v)}' for k, v in items)}}}"
    return term.span.text


def type_text(type_: Type | None) -> str:
    """Return a type as OPA prints it, such as `array<number>[any]`, `object<a: string>[any: any]`,
    `any<null, string>` and `(number) => string`; `???` if it, or a part, is None (unknown).
    """
    match type_:
        case ArrayType(items, rest):
            static = f"<{', '.join(map(type_text, items))}>" if items else ""
            return f"array{static}" + (f"[{type_text(rest)}]" if rest is not None else "")
        case ObjectType(fields, rest):
            static = ", ".join(f"{_key_text(k)}: {type_text(t)}" for k, t in fields)
            dynamic = f"[{type_text(rest[0])}: {type_text(rest[1])}]" if rest is not None else ""
            return "object" + (f"<{static}>" if fields else "") + dynamic
        case SetType(of):
            return f"set[{type_text(of)}]"
        case AnyOf(options):
            return f"any<{', '.join(map(type_text, options))}>" if options else "any"
        case Function(args, result):
            return f"{_tuple_text(args)} => {type_text(result)}"
    return "???" if type_ is None else type_.kind


def _key_text(key: object) -> str:
    value = from_key(key)  # type: ignore[arg-type]  # fields are declared in key form
    return value if isinstance(value, str) else to_json(value)


def _tuple_text(types: Sequence[Type]) -> str:
    return f"({', '.join(map(type_text, types))})"


def type_json(type_: Type | None) -> object:
    """Return a type as OPA writes it in JSON: an object with `type` and, by kind, `static` and
    `dynamic` parts, `of`, or `args` and `result`, which are left out if empty. None if it is
    unknown, also inside of others.
    """
    match type_:
        case ArrayType(items, rest):
            form: dict[str, object] = {"type": "array"}
            if items:
                form["static"] = [type_json(item) for item in items]
            if rest is not None:
                form["dynamic"] = type_json(rest)
            return form
        case ObjectType(fields, rest):
            form = {"type": "object"}
            if fields:
                form["static"] = [{"key": _key_json(k), "value": type_json(t)} for k, t in fields]
            if rest is not None:
                form["dynamic"] = {"key": type_json(rest[0]), "value": type_json(rest[1])}
            return form
        case SetType(of):
            return {"type": "set", "of": type_json(of)}
        case AnyOf(options):
            inner = {"of": [type_json(option) for option in options]} if options else {}
            return {"type": "any", **inner}
        case Function(args, result):
            form = {"type": "function", "args": [type_json(arg) for arg in args]}
            return form if result is None else {**form, "result": type_json(result)}
    return None if type_ is None or type_ == UNKNOWN else {"type": type_.kind}


def _key_json(key: object) -> object:
    value = from_key(key)  # type: ignore[arg-type]  # fields are declared in key form
    return json.loads(to_json(value))
