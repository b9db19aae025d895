"""`doorward capabilities`: what policies may use, as JSON made from the registry."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from doorward.rego.builtins import REGISTRY, Builtin
from doorward.rego.builtins.signature import AnyOf, ArrayType, ObjectType, ScalarType, SetType, Type
from doorward.rego.capabilities import (
    FEATURES,
    V0_FEATURES,
    WASM_ABI_VERSIONS,
    Capabilities,
    future_keywords,
)

__all__ = ["command", "of_builtin", "option"]

MAX_FILE: Final = 16 << 20


def _read(_ctx: click.Context, _param: click.Parameter, path: str | None) -> Capabilities | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return Capabilities.from_document(json.loads(file.read(MAX_FILE)))
    except OSError as error:
        what = (error.strerror or "failed").lower()
        raise click.BadParameter(f"open {path}: {what}") from None
    except ValueError as error:
        raise click.BadParameter(f"{path}: {error}") from None


option: Final = click.option(
    "--capabilities",
    callback=_read,
    metavar="FILE",
    help="Allow policies only what this file names: built-ins, keywords, features, hosts.",
)
"""The option of every command that compiles policies."""


@click.command("capabilities")
@click.option("--names", is_flag=True, help="Only the names of the built-ins.")
@click.option("--current", is_flag=True, help="Those of this version, as without the option.")
@click.option("--v0-compatible", is_flag=True, help="Those of Rego v0.")
def command(names: bool, current: bool, v0_compatible: bool) -> None:
    """Print what policies may use, in the shape of OPA's capabilities file.

    The file can be cut down and given to the commands that take --capabilities.
    """
    if names:
        click.echo("\n".join(builtin.name for builtin in REGISTRY))
        return
    document = {
        "builtins": [of_builtin(builtin) for builtin in REGISTRY],
        "future_keywords": future_keywords(v0=v0_compatible),
        "wasm_abi_versions": [
            {"version": version, "minor_version": minor} for version, minor in WASM_ABI_VERSIONS
        ],
        "features": list(V0_FEATURES if v0_compatible else FEATURES),
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
