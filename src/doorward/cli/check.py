"""`doorward check`: compile policies, and report everything that is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

import click

from doorward.cli.errors import OneOf, documents_text, for_people
from doorward.pdp.go_json import object_text
from doorward.pdp.loader import LoadError, load
from doorward.rego import Diagnostic, Engine, ParseError, RegoError, Source
from doorward.rego.builtins.go_json import indent
from doorward.rego.syntax.parser import parse_module

__all__ = ["command"]


@click.command(
    "check",
    epilog="""\b
Examples:
  doorward check policy.rego
  doorward check --strict --format json policies/
""",
)
@click.argument("paths", nargs=-1)
@click.option(
    "-f",
    "--format",
    "style",
    type=OneOf("pretty", "json"),
    default="pretty",
    show_default=True,
)
@click.option("-S", "--strict", is_flag=True, help="Add strict mode's errors: what is unused.")
@click.option(
    "-m", "--max-errors", default=10, show_default=True, help="Stop after; 0 reports all."
)
@click.option("--ignore", multiple=True, help="Names to leave out of folders.")
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
def command(
    paths: tuple[str, ...],
    style: str,
    strict: bool,
    max_errors: int,
    ignore: tuple[str, ...],
    v0_compatible: bool,
    v1_compatible: bool,
) -> int:
    """Check the policies in files and folders; ends with 1 if anything is wrong.

    Several errors are reported at once, on standard error, each with its code, its place and the
    line of the source.
    """
    if not paths:
        raise click.UsageError("specify at least one file")
    try:
        loaded = load(paths, ignore=ignore)
        _check_annotations(loaded.modules, v0=v0_compatible)
        Engine(modules=loaded.modules, v0=v0_compatible, strict=strict, max_errors=max_errors)
    except (LoadError, RegoError) as error:
        if style == "json":
            text = indent(object_text({"errors": documents_text(error)}), "", "  ")
            click.echo(text, err=True)
        else:
            said = str(error) if isinstance(error, LoadError) else for_people(error)
            click.echo(said, err=True)
        return 1
    return 0


def _check_annotations(modules: Mapping[str, str], *, v0: bool) -> None:
    """Read what compiling has no need of: METADATA blocks."""
    errors: list[Diagnostic] = []
    for name, text in modules.items():
        try:
            parse_module(Source(name, text), v0=v0, annotations=True)
        except ParseError as error:
            errors += error.diagnostics
    if errors:
        raise ParseError(errors)
