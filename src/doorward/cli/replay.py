"""`doorward replay`: decision logs decided again by other policies, and what would change."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from doorward.base.counting import counted
from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.cli import extensions
from doorward.cli.arguments import style_option
from doorward.cli.waiting import waiting
from doorward.rego import RegoError
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
  doorward replay --log /shared/logs --policy policies/ --ray auto
""",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    required=True,
    metavar="FILE|FOLDER|URL",
    help="Decision log whose decisions are evaluated again; repeatable.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    help="Request header for a --log that is a URL; repeatable.",
)
@click.option(
    "--policy",
    "new",
    multiple=True,
    required=True,
    metavar="PATH",
    help="File or folder with the policies that decide again; repeatable.",
)
@click.option(
    "--against",
    "old",
    multiple=True,
    default=(_RECORDED,),
    show_default=True,
    metavar="recorded|PATH",
    help="Compare with the recorded answers, or with other policies.",
)
@click.option("-b", "--bundle", is_flag=True, help="Read policies as bundles: folders or .tar.gz.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    help="Evaluate only decisions of this document, such as a/b; repeatable.",
)
@click.option(
    "--by",
    multiple=True,
    metavar="a.b",
    help="Also group changes by the value at this path of the input; repeatable.",
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
    type=click.Choice(_FAILS),
    help="Exit with 2 if there is a change of this kind; `change` means any kind but "
    "not-replayable.",
)
@click.option(
    "-p",
    "--parallel",
    type=click.IntRange(0),
    default=0,
    help="Number of processes; 0 uses all CPUs.",
)
@click.option(
    "--ray",
    metavar="local|ADDRESS",
    help="Evaluate on the Ray cluster at ADDRESS, or one started here for `local`, with "
    "--parallel actors.",
)
@click.option(
    "--ignore",
    multiple=True,
    help="Skip policies and folders with this name or pattern, such as '.*', in folders; "
    "repeatable.",
)
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(
    logs: tuple[str, ...], new: tuple[str, ...], old: tuple[str, ...], **options: Any
) -> int:
    """Evaluate the decisions of a log again, and report which results change and why.

    It reads decision logs of `doorward run` and OPA: one JSON object per line or an array, plain
    or gzip, or Parquet. Time and non-deterministic built-ins have their recorded values. A decision
    that needs a masked or unrecorded value is "not replayable", never "unchanged".
    """
    try:
        with waiting("compiling"):
            decide = _decider(new, () if old == (_RECORDED,) else old, options)
        with TemporaryDirectory(prefix="doorward-replay-") as folder:
            files = log_files(_with_files(logs, options["headers"], Path(folder)))
            progress = _Progress(size_of(files))
            tally = decide(files, on_progress=progress.show)
            progress.end()
        if not tally.events:
            raise ReplayError(_describe_nothing(tally))
    except (ReplayError, LoadError, RegoError) as error:
        raise click.ClickException(str(error)) from None
    report = _FORMATS[options["style"]](tally)
    if options["output"] is not None:
        options["output"].write_text(report, encoding="utf-8")
    else:
        click.echo(report, nl=False)
    return 2 if any(_has_counted(kind, tally) for kind in options["fail_on"]) else 0


def _decider(
    new: tuple[str, ...], old: tuple[str, ...], options: dict[str, Any]
) -> Callable[..., Tally]:
    """Return the function that decides the requests in log files again, on this machine or on a Ray
    cluster, and returns the counts of results that changed (`Tally`). The policies are loaded and
    compiled here. Raise UsageError for --ray with --builtins, LoadError or ReplayError if the
    policies cannot be used.
    """
    paths = frozenset(path.strip("/") for path in options["paths"])
    by = tuple(tuple(path.removeprefix("input.").split(".")) for path in options["by"])
    if options["ray"]:
        from doorward.replay.on_ray import Recipe, replay_on_ray  # an extra that few need

        if options["builtins"]:
            raise click.UsageError("--ray cannot be combined with --builtins")
        before = _sources(old, options).load() if old else None
        loaded = _sources(new, options).load()
        recipe = Recipe(loaded, before, options["v0_compatible"], paths, by)
        return partial(
            replay_on_ray, recipe=recipe, address=options["ray"], actors=options["parallel"]
        )
    job = Job(_version(new, options), _version(old, options) if old else None, paths, by)
    return partial(replay, job=job, processes=options["parallel"] or os.cpu_count() or 1)


def _with_files(logs: tuple[str, ...], headers: tuple[str, ...], folder: Path) -> Sequence[str]:
    """Return the logs, with those at URLs downloaded into `folder`; UsageError for a malformed
    --header, ReplayError if a download fails.
    """
    from doorward.replay.fetching import is_url, with_files  # a client that few need

    if not any(map(is_url, logs)):
        return logs
    pairs = [header.partition(":") for header in headers]
    if not all(name.strip() and colon for name, colon, _ in pairs):
        raise click.UsageError("--header must be of the form NAME:VALUE")
    return with_files(logs, folder, {name.strip(): value.strip() for name, _, value in pairs})


def _version(paths: tuple[str, ...], options: dict[str, Any]) -> Version:
    registry = extensions.registry_for(options["builtins"], paths)
    return Version.load(_sources(paths, options), registry=registry)


def _sources(paths: tuple[str, ...], options: dict[str, Any]) -> Sources:
    """Return the policies to decide with: bundles if --bundle is set, else files and folders."""
    return Sources(
        paths=() if options["bundle"] else paths,
        bundles=paths if options["bundle"] else (),
        ignore=options["ignore"],
        v0=options["v0_compatible"],
    )


def _describe_nothing(tally: Tally) -> str:
    """Return the error for logs in which no decision was evaluated again: a gate with --fail-on
    would otherwise pass unchecked.
    """
    if tally.of_other_paths:
        decisions = counted(tally.of_other_paths, "decision")
        return f"the log contains no decisions of a --path, only {decisions} of other documents"
    if tally.no_events:
        others = counted(tally.no_events, "other line")
        return f"the log contains no decisions, only {others}: name a decision log with --log"
    return "the log contains no decisions: name a decision log with --log"


def _has_counted(kind: str, tally: Tally) -> bool:
    """Return True if the replay counted a change of this kind; `change` stands for any."""
    if kind == "change":
        return tally.changes > 0
    assert kind in KINDS
    return tally.kinds[kind] > 0


class _Progress:
    """A progress bar on standard error, drawn only if that is a terminal; `size` are the bytes to
    read.
    """

    def __init__(self, size: int) -> None:
        self._size = max(size, 1)
        self._began = self._drawn = time.monotonic()
        self._is_shown = sys.stderr.isatty()

    def show(self, tally: Tally) -> None:
        """Redraw the bar, at most ten times a second. Does nothing if no bar is shown."""
        now = time.monotonic()
        if not self._is_shown or now - self._drawn < 0.1:
            return
        self._drawn = now
        share = min(tally.taken / self._size, 1.0)
        rate = tally.events / max(now - self._began, 0.001)
        bar = "█" * round(30 * share)
        line = f"{bar:<30} {share:>4.0%}  {counted(tally.events, 'decision')}, {rate:,.0f}/s"
        changes = counted(tally.changes, "changes", "change")
        click.echo(f"\r{line}, {changes}\x1b[K", nl=False, err=True)

    def end(self) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)
