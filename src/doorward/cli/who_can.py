"""`doorward who-can`: who is allowed, with the reason for each, and who else may be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import extensions
from doorward.cli.arguments import argument, style_option
from doorward.cli.input_document import read_input
from doorward.cli.waiting import waiting
from doorward.rego import UNDEFINED, RegoError
from doorward.rego.tools import path_names
from doorward.replay import ReplayError
from doorward.replay.deciding import Version
from doorward.search.proofs.access import Question, answer, as_csv, as_json, text
from doorward.search.who_can import Path

__all__ = ["command"]

_FORMATS: Final = {"text": text, "json": as_json, "csv": as_csv}
UNKNOWN: Final = 3
"""The exit code if others than those listed may be allowed."""


@click.command(
    "who-can",
    epilog="""\b
Examples:
  doorward who-can data.app.allow --given input.json --unknown input.user app.rego
  doorward who-can data.app.allow --given kim.json --unknown input.path app.rego
  doorward who-can data.app.allow --unknown input.user --format csv app.rego
""",
)
@argument("query", help="Query that must be true for the listed values, such as data.authz.allow.")
@argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILES...",
    help="Files and folders with policies and data.",
)
@click.option(
    "--given", metavar="FILE", help="File with the known part of the input, in JSON or YAML."
)
@click.option(
    "--unknown",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Path of an unknown part of the input, such as input.user; repeatable.",
)
@click.option(
    "--without",
    metavar="PATH",
    help="List only subjects that are not allowed if this document is missing, such as data.roles.",
)
@style_option(*_FORMATS, default="text")
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(query: str, files: tuple[str, ...], **options: Any) -> int:
    """List the values of an unknown part of the input for which QUERY holds.

    FILES are policies and data. The engine decides each value; the output shows it with the
    definition that allowed it. Then it shows the conditions that anybody else must fulfil, or that
    there is nobody else. The exit code is 0 if that is certain, and 3 if there may be others.
    """
    sources = Sources(files, ignore=options["ignore"], v0=options["v0_compatible"])
    near_misses: Mapping[str, str] = {}
    try:
        registry = extensions.registry_for(options["builtins"], files)
        known_input = read_input([options["given"]] if options["given"] else [], stdin=False)
        paths = [_names(each, "input") for each in options["unknown"]]
        loaded = sources.load()
        version = Version.compile(loaded, v0=sources.v0, registry=registry, deadline=0.5)
        question = Question(
            query,
            {} if known_input is UNDEFINED else known_input,
            paths,
            _names(options["without"], "data") if options["without"] else (),
            time.time_ns(),
        )
        with waiting("searching"):
            result = answer(version.snapshot.engine, question)
        if not result.grants:
            near_misses = version.snapshot.engine.prepare(query).near_misses
    except (LoadError, RegoError, ReplayError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(_FORMATS[options["style"]](question, result), nl=False)
    for path, near in near_misses.items():
        click.echo(f"hint: there is no {path}: did you mean {near}?", err=True)
    return UNKNOWN if result.unknown else 0


def _names(text: str, root: str) -> Path:
    """Return the names after the root of a path: `input.user.name` -> `("user", "name")`.

    Raise ValueError if the path is not below `root` or has other parts than names.
    """
    head, names = path_names(text)
    texts: Sequence[Any] = names
    if head != root or not all(isinstance(name, str) for name in texts):
        raise ValueError(f"`{text}` is not a path of names below {root}, such as {root}.user.name")
    return tuple(texts)
