"""`doorward replay`: decision logs decided again by other policies, and what would change."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from doorward.cli import extensions
from doorward.cli.errors import OneOf
from doorward.pdp.loader import LoadError
from doorward.pdp.sources import Sources
from doorward.replay import KINDS, Job, ReplayError, Tally, as_json, markdown, page, replay, text
from doorward.replay.deciding import Version
from doorward.replay.reading import log_files, size_of

__all__ = ["command"]

_FORMATS: Final = {"text": text, "json": as_json, "markdown": markdown, "html": page}
_FAILS: Final = ("new-allow", "new-deny", "new-error", "changed", "not-replayable", "change")
_RECORDED: Final = "recorded"


@click.command(
    "replay",
    epilog="""\b
Examples:
  doorward replay --log decisions.jsonl.gz --policy policies/
  doorward replay --log logs/ --policy new/ --against old/ --format html -o report.html
  doorward replay --log logs/ --policy policies/ --fail-on new-allow      # for CI
  doorward replay --log https://logs.example/day.jsonl.gz --policy policies/
""",
)
@click.option("--log", "logs", multiple=True, required=True, metavar="FILE|FOLDER|URL")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="Sent where --log is a URL."
)
@click.option("--policy", "new", multiple=True, required=True, metavar="PATH", help="Repeatable.")
@click.option(
    "--against",
    "old",
    multiple=True,
    default=(_RECORDED,),
    show_default=True,
    metavar="recorded|PATH",
    help="What to compare with: the recorded answers, or other policies.",
)
@click.option("-b", "--bundle", is_flag=True, help="Policies are bundles: folders or .tar.gz.")
@click.option("--path", "paths", multiple=True, help="Only decisions of this document, a/b.")
@click.option("--by", multiple=True, metavar="a.b", help="Group by this value of the input, too.")
@click.option("-f", "--format", "style", type=OneOf(*_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report here.")
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(_FAILS),
    help="End with 2 if there is one; `change` is any but not-replayable.",
)
@click.option("-p", "--parallel", type=click.IntRange(0), default=0, help="Processes; 0: all CPUs.")
@click.option("--ignore", multiple=True, help="Names of policies to leave out of folders.")
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(
    logs: tuple[str, ...], new: tuple[str, ...], old: tuple[str, ...], **options: Any
) -> int:
    """Decide the decisions of a log again, and report which answers change and why.

    Reads decision logs as `doorward run` and OPA write them: a JSON object a line or an array,
    plain or gzip. Time and non-deterministic built-ins answer as they did then; a decision that
    needs a masked value, or what was not recorded, is "not replayable" and never "unchanged".
    """
    try:
        job = Job(
            _version(new, options),
            None if old == (_RECORDED,) else _version(old, options),
            frozenset(path.strip("/") for path in options["paths"]),
            tuple(tuple(path.removeprefix("input.").split(".")) for path in options["by"]),
        )
        with TemporaryDirectory(prefix="doorward-replay-") as folder:
            files = log_files(_with_files(logs, options["headers"], Path(folder)))
            progress = _Progress(size_of(files))
            processes = options["parallel"] or os.cpu_count() or 1
            tally = replay(files, job, processes=processes, on_progress=progress.show)
            progress.end()
    except (ReplayError, LoadError) as error:
        raise click.ClickException(str(error)) from None
    report = _FORMATS[options["style"]](tally)
    if options["output"] is not None:
        options["output"].write_text(report, encoding="utf-8")
    else:
        click.echo(report, nl=False)
    return 2 if any(_happened(kind, tally) for kind in options["fail_on"]) else 0


def _with_files(logs: tuple[str, ...], headers: tuple[str, ...], folder: Path) -> Sequence[str]:
    """The logs, with those at URLs fetched into a folder."""
    from doorward.replay.fetching import is_url, with_files  # a client that few need

    if not any(map(is_url, logs)):
        return logs
    pairs = [header.partition(":") for header in headers]
    if not all(name.strip() and colon for name, colon, _ in pairs):
        raise click.UsageError("--header is NAME:VALUE")
    return with_files(logs, folder, {name.strip(): value.strip() for name, _, value in pairs})


def _version(paths: tuple[str, ...], options: dict[str, Any]) -> Version:
    sources = Sources(
        paths=() if options["bundle"] else paths,
        bundles=paths if options["bundle"] else (),
        ignore=options["ignore"],
        v0=options["v0_compatible"],
    )
    registry = extensions.registry_for(options["builtins"], paths)
    return Version.load(sources, registry=registry)


def _happened(kind: str, tally: Tally) -> bool:
    if kind == "change":
        return tally.changes > 0
    assert kind in KINDS
    return tally.kinds[kind] > 0


class _Progress:
    """A bar on a terminal, drawn a few times a second."""

    def __init__(self, size: int) -> None:
        self._size = max(size, 1)
        self._began = self._drawn = time.monotonic()
        self._is_shown = sys.stderr.isatty()

    def show(self, tally: Tally) -> None:
        now = time.monotonic()
        if not self._is_shown or now - self._drawn < 0.1:
            return
        self._drawn = now
        share = min(tally.taken / self._size, 1.0)
        rate = tally.events / max(now - self._began, 0.001)
        bar = "█" * round(30 * share)
        line = f"{bar:<30} {share:>4.0%}  {tally.events:,} decisions, {rate:,.0f}/s"
        click.echo(f"\r{line}, {tally.changes:,} change\x1b[K", nl=False, err=True)

    def end(self) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)
