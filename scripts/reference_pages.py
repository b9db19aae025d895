"""Commands, API and error codes -> docs/commands.md, docs/rest.md and docs/errors.md; with
`--check` whether the pages are current.

Commands and API are read from what serves them. What causes an error and what cures it is written
in `docs/errors.toml`: a code without an entry, and an entry without a code, are errors here.
"""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import doorward.forward.request  # noqa: F401  # declares a refusal of its own
from doorward.cli.main import cli
from doorward.enforcement.errors import RequestError
from doorward.rego import errors
from doorward.rest.openapi import document
from doorward.rest.routes import ROUTES

DOCS = Path(__file__).resolve().parent.parent / "docs"
MADE = "Made by `make docs`; do not edit.\n"


def commands_page() -> str:
    """Every command with its options."""
    parts = ["# Commands", "", MADE]
    context = click.Context(cli, info_name="doorward")
    for name, command, inner in commands(cli, context):
        parts += [f"## `{name}`", "", plain(command.help or command.short_help or ""), ""]
        usage = " ".join(command.collect_usage_pieces(inner))
        parts += ["```", f"{name} {usage}", "```", ""]
        rows = list(options(command, inner))
        if rows:
            parts += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def commands(
    group: click.Group, context: click.Context, prefix: str = "doorward"
) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield f"{prefix} {name}", command, inner
        if isinstance(command, click.Group):
            yield from commands(command, inner, f"{prefix} {name}")


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or "--help" in record[0]:
            continue
        yield f"| `{cell(record[0])}` | {cell(record[1])} |"


def plain(text: str) -> str:
    """The text of a help without the marks of its layout, and without examples."""
    return inspect.cleandoc(text.partition("\f")[0].replace("\b\n", ""))


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def rest_page() -> str:
    """Every path of the HTTP API."""
    api = document(ROUTES)
    parts = ["# HTTP API", "", MADE]
    parts += ["`GET /openapi.json` gives it as OpenAPI, for generated clients.", ""]
    for path, methods in api["paths"].items():
        parts += [f"## `{path}`", ""]
        for method, operation in methods.items():
            if isinstance(operation, dict) and "responses" in operation:
                parts += list(operation_lines(method, operation))
    return "\n".join(parts)


def operation_lines(method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"**{method.upper()}**: {operation.get('summary') or operation.get('description') or ''}"
    yield ""
    parameters = [each for each in operation.get("parameters", ()) if "name" in each]
    if parameters:
        yield from ("| parameter | in | meaning |", "|---|---|---|")
        for each in parameters:
            yield f"| `{each['name']}` | {each['in']} | {cell(each.get('description', ''))} |"
        yield ""
    yield from ("| status | meaning |", "|---|---|")
    for status, answer in operation["responses"].items():
        yield f"| {status} | {cell(answer.get('description', ''))} |"
    yield ""


def errors_page() -> str:
    """Every code of an error, with cause and cure."""
    entries = tomllib.loads((DOCS / "errors.toml").read_text())
    codes = known_codes()
    missing, unknown = sorted(codes - entries.keys()), sorted(entries.keys() - codes)
    if missing or unknown:
        sys.exit(f"docs/errors.toml: no entry for {missing}, no code {unknown}")
    parts = ["# Error codes", "", MADE]
    for code, entry in entries.items():
        parts += [f"## `{code}`", "", f"**Cause.** {entry['cause']}", ""]
        parts += [f"**Cure.** {entry['cure']}", ""]
        if "example" in entry:
            parts += ["```rego", entry["example"].strip(), "```", ""]
    return "\n".join(parts)


def known_codes() -> set[str]:
    """The codes of the language, and those of requests that are refused."""
    named = {
        value
        for name, value in vars(errors).items()
        if name.endswith("_ERROR") and isinstance(value, str)
    }
    return named | {each.code for each in refusals(RequestError)}


def refusals(kind: type[RequestError]) -> Iterator[type[RequestError]]:
    for each in kind.__subclasses__():
        yield each
        yield from refusals(each)


PAGES = {"commands.md": commands_page, "rest.md": rest_page, "errors.md": errors_page}


def main() -> int:
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.stderr.write(f"docs/{name} is not current: run `make docs`\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
