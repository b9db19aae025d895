"""`doorward diff`: requests that two versions of a policy decide differently, found by search."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import colors, extensions
from doorward.cli.arguments import argument, style_option
from doorward.cli.durations import seconds
from doorward.cli.waiting import waiting
from doorward.replay import KINDS, ReplayError
from doorward.replay.deciding import Version
from doorward.search import Search, are_same, as_json, entry_points, markdown, search, text

__all__ = ["command"]

_FORMATS: Final = {"text": text, "json": as_json, "markdown": markdown}
UNKNOWN: Final = 3
"""The exit code if no difference was found and equality was not proved."""
_FAILS: Final = [kind for kind in KINDS if kind not in ("unchanged", "not-replayable")]


@click.command(
    "diff",
    epilog="""\b
Examples:
  doorward diff old/ new/
  doorward diff --query data.app.allow --time 20s old.rego new.rego
  doorward diff --format markdown --fail-on new-allow old/ new/           # for a pull request
""",
)
@argument("old", help="Policies before the change: a file, a folder or a bundle.")
@argument("new", help="Policies after the change: a file, a folder or a bundle.")
@click.option(
    "-d",
    "--data",
    multiple=True,
    metavar="PATH",
    help="File or folder with data or more policies, for both versions; repeatable.",
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    metavar="data.a.b",
    help="Document to compare; repeatable. By default, the rules of both versions that no "
    "other rule reads.",
)
@click.option(
    "--time",
    "duration",
    default="2s",
    show_default=True,
    help="Time limit for the search for differences, such as 20s.",
)
@click.option(
    "--seed", default=0, show_default=True, help="Seed for the random requests of the search."
)
@click.option(
    "--limit",
    default=10,
    show_default=True,
    help="Maximum number of differences to report, one for each cause.",
)
@style_option(*_FORMATS, default="text")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write the report to; by default standard output.",
)
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice([*_FAILS, "change"]),
    help="Exit with 2 if a difference of this kind is found; `change` means any kind.",
)
@click.option(
    "--searched",
    is_flag=True,
    help="Exit with 0 instead of 3 if no difference was found, and each changed "
    "expression was true for some request and not for another.",
)
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(old: str, new: str, **options: Any) -> int:
    """Search for requests that policies OLD and NEW decide differently.

    Requests are generated from what the policies read and compare, and both versions decide each
    one. A difference is reduced to a small request and shown with its cause and a test for it.

    The exit code is 0 if the versions are equal or if --fail-on does not name the difference, 2 if
    --fail-on names it, and 3 if none was found: requests that were not tried may differ.
    """
    try:
        with waiting("compiling both versions"):
            before, after = (_version((path, *options["data"]), options) for path in (old, new))
        queries = [_path(query) for query in options["queries"]]
        for path in queries:
            if all(each.snapshot.is_nowhere(path) for each in (before, after)):
                raise ReplayError(f"--query: neither version has data.{path.replace('/', '.')}")
        paths = queries or entry_points([before, after])
        if not paths:
            raise ReplayError("the versions have no document in common: name one with --query")
        if are_same(before, after):
            result = Search(is_equal=True)
        else:
            with waiting("searching for differences"):
                result = search(
                    before,
                    after,
                    paths,
                    seconds=seconds(options["duration"], "--time") or 2.0,
                    seed=options["seed"],
                    most=options["limit"],
                )
    except (ReplayError, LoadError) as error:
        raise click.ClickException(str(error)) from None
    report = _FORMATS[options["style"]](result)
    if options["output"] is not None:
        options["output"].write_text(report, encoding="utf-8")
    elif options["style"] == "text":
        colors.echo(report, "diff", nl=False)
    else:
        click.echo(report, nl=False)
    kinds = {each.kind for each in result.findings} | ({"change"} if result.findings else set())
    if kinds & set(options["fail_on"]):
        return 2
    if result.findings or result.is_equal:
        return 0
    is_reached = bool(result.reach) and all(each.is_full for each in result.reach)
    if is_reached and options["searched"]:
        return 0
    remedy = (
        "every changed expression was true for some request and false for another: "
        "--searched accepts that"
        if is_reached
        else "search longer with --time"
    )
    click.echo(
        f"no difference was found, but requests that were not tried may differ: {remedy}", err=True
    )
    return UNKNOWN


def _version(paths: tuple[str, ...], options: dict[str, Any]) -> Version:
    """Return the policies of one side, compiled; raise LoadError or ReplayError if that fails."""
    sources = Sources(paths, ignore=options["ignore"], v0=options["v0_compatible"])
    registry = extensions.registry_for(options["builtins"], paths)
    return Version.load(sources, registry=registry, deadline=0.5)


def _path(query: str) -> str:
    """Return the path `a/b` of a document that is written `data.a.b` or `a/b`."""
    return query.removeprefix("data.").replace(".", "/").strip("/")
