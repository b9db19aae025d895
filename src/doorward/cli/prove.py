"""`doorward prove`: the `never_` rules of policies, refuted by a request, proved, or not known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from doorward.base.os_errors import describe_os_error
from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import extensions
from doorward.cli.arguments import argument, style_option
from doorward.cli.durations import seconds
from doorward.cli.waiting import waiting
from doorward.rego import RegoError
from doorward.replay import ReplayError
from doorward.replay.deciding import Version
from doorward.search.proofs import KnownProofs, Verdict, as_json, prove, text

__all__ = ["command"]

_FORMATS: Final = {"text": text, "json": as_json}
BROKEN: Final = 2
"""The exit code if a property has a counterexample."""
UNKNOWN: Final = 3
"""The exit code if a property is neither proved nor refuted."""


@click.command(
    "prove",
    epilog="""\b
Examples:
  doorward prove properties/
  doorward prove --time 10s --searched properties/ data.json
  doorward prove --format json properties/
  doorward prove --known proofs.json properties/ data.json
""",
)
@argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILES...",
    help="Files and folders with policies and data.",
)
@click.option(
    "--time",
    "duration",
    default="2s",
    show_default=True,
    help="Time limit for the search for a counterexample of each property.",
)
@style_option(*_FORMATS, default="text")
@click.option(
    "--searched",
    is_flag=True,
    help="Exit with 0 instead of 3 if no counterexample was found, and each condition was "
    "true for some input.",
)
@click.option(
    "--known",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File that keeps proofs from run to run: only properties that changed are proved again.",
)
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(files: tuple[str, ...], **options: Any) -> int:
    """Prove that no input makes rules true whose names begin with `never_`.

    FILES are policies and data. The answer for each rule is a counterexample, "none exists" (a
    proof), "none found", or "cannot say". The exit code is 0 if all rules are proved, 2 if there
    is a counterexample, and 3 if an answer is unknown.
    """
    sources = Sources(files, ignore=options["ignore"], v0=options["v0_compatible"])
    try:
        registry = extensions.registry_for(options["builtins"], files)
        loaded = sources.load()
        version = Version.compile(loaded, v0=sources.v0, registry=registry, deadline=0.5)
        duration = seconds(options["duration"], "--time") or 2.0
        known = None if options["known"] is None else KnownProofs.read(options["known"])
        if known is not None and options["builtins"]:
            raise click.UsageError("--known cannot be combined with --builtins")
        find = partial(prove, seconds=duration, v0=sources.v0, registry=registry, known=known)
        with waiting("proving"):
            verdicts = list(find(loaded, version))
    except (LoadError, RegoError, ReplayError) as error:
        raise click.ClickException(str(error)) from None
    if known is not None:
        _write(known, options["known"])
    click.echo(_FORMATS[options["style"]](verdicts), nl=False)
    if not verdicts:
        raise click.ClickException("nothing to prove: no rule has a name that begins with `never_`")
    return _code(verdicts, is_searched=options["searched"])


def _write(known: KnownProofs, path: Path) -> None:
    """Write the proofs to the file; raise ClickException if it cannot be written."""
    try:
        known.write(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {describe_os_error(error)}") from None


def _code(verdicts: list[Verdict], *, is_searched: bool) -> int:
    """Return the exit code: `BROKEN` with a counterexample, 0 if all is proved, else `UNKNOWN`.

    With `is_searched`, a search that found no counterexample counts as a proof.
    """
    outcomes = {each.outcome for each in verdicts}
    if "counterexample" in outcomes:
        return BROKEN
    enough = {"none exists", "none found"} if is_searched else {"none exists"}
    return 0 if outcomes <= enough else UNKNOWN
