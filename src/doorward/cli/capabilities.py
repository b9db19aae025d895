"""`doorward capabilities`: what policies may use, as JSON made from the registry."""

from __future__ import annotations

import json
from typing import Any

import click

from doorward.rego.builtins import REGISTRY, Builtin
from doorward.rego.builtins.signature import AnyOf, ArrayType, ObjectType, ScalarType, SetType, Type

__all__ = ["command", "of_builtin"]


@click.command("capabilities")
@click.option("--names", is_flag=True, help="Only the names of the built-ins.")
def command(names: bool) -> None:
    """Print the built-ins with their types, in the shape of OPA's capabilities file."""
    if names:
        click.echo("\n".join(builtin.name for builtin in REGISTRY))
        return
    document = {
        "builtins": [of_builtin(builtin) for builtin in REGISTRY],
        "future_keywords": ["contains", "every", "if", "in"],
        "features": ["rego_v1", "keywords_in_refs", "template_strings"],
    }
    click.echo(json.dumps(document, indent=2))


def of_builtin(builtin: Builtin) -> dict[str, Any]:
    """One entry of the file."""
    signature = builtin.signature
    declaration: dict[str, Any] = {"type": "function"}
    if signature.args:
        declaration["args"] = [_type(each) for each in signature.args]
    if signature.result is not None:
        declaration["result"] = _type(signature.result)
    if signature.variadic is not None:
        declaration["variadic"] = _type(signature.variadic)
    entry: dict[str, Any] = {"name": builtin.name, "decl": declaration}
    if builtin.infix:
        entry["infix"] = builtin.infix
    if builtin.relation:
        entry["relation"] = True
    if not builtin.pure:
        entry["nondeterministic"] = True
    if builtin.deprecated is not None:
        entry["deprecated"] = True
    return entry


def _type(type_: Type) -> dict[str, Any]:
    match type_:
        case ScalarType(kind):
            return {"type": kind}
        case SetType(of):
            return {"type": "set", "of": _type(of)}
        case AnyOf(options):
            return {"type": "any"} | ({"of": [_type(each) for each in options]} if options else {})
        case ArrayType(items, rest):
            fixed = {"static": [_type(each) for each in items]} if items else {}
            return {"type": "array"} | fixed | ({"dynamic": _type(rest)} if rest else {})
        case ObjectType(fields, rest_pair):
            found: dict[str, Any] = {"type": "object"}
            if fields:
                found["static"] = [{"key": key, "value": _type(each)} for key, each in fields]
            if rest_pair:
                found["dynamic"] = {"key": _type(rest_pair[0]), "value": _type(rest_pair[1])}
            return found
