"""`doorward learn`: logs become a policy that a person can review, or the unused part of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from doorward.base.counting import counted
from doorward.bundles.loader import LoadError, data_files
from doorward.bundles.sources import Sources
from doorward.cli.arguments import argument
from doorward.cli.waiting import waiting
from doorward.learn.gathering import Gather, Gathered, failed_requests
from doorward.learn.observations import LearnError
from doorward.learn.output import make_files, write_files
from doorward.learn.reading import MAX_LOCATION, Options
from doorward.learn.shadow import entry_for, shadow_text
from doorward.learn.templates import Limits
from doorward.rego import RegoError
from doorward.replay import ReplayError, replay
from doorward.replay.reading import log_files

__all__ = ["command"]

_LIMITS: Final = Limits()
UNUSED: Final = 2
"""The exit code of --check if a part of the policy was not used."""
CHUNK: Final = 8 << 20
"""The bytes of a log that are counted before the counts are merged, which costs time as well."""


@click.command(
    "learn",
    epilog="""\b
Examples:
  doorward learn decisions.jsonl.gz --output learned
  doorward learn envoy-access.log --claims claims --output mesh
  doorward learn decisions.jsonl.gz --status envoy-access.log --shadow envoy/authz/allow
  doorward learn audit.log --only alice --output alice
  doorward learn --check policies/authz.rego decisions.jsonl.gz
""",
)
@argument(
    "logs",
    nargs=-1,
    required=True,
    metavar="LOG...",
    help="Logs to learn from: files or folders, plain or gzip.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("learned"),
    show_default=True,
    help="Folder to write to; your answers in its review.yaml are kept.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    help="Learn only from decisions of this document, such as a/b; repeatable.",
)
@click.option("--claims", metavar="a.b", help="Path to the claims in an input or a log line.")
@click.option("--name", metavar="a.b", help="Path to the subject's name in an input or a log line.")
@click.option("--only", metavar="NAME", help="Learn only from requests of this subject or user.")
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="/PATH",
    help="Leave out requests whose path begins with this text; repeatable.",
)
@click.option(
    "--status",
    multiple=True,
    metavar="LOG",
    help="Leave out requests that failed according to this access log or log of response "
    "decisions; repeatable.",
)
@click.option(
    "--floor",
    type=click.IntRange(1),
    default=_LIMITS.floor,
    show_default=True,
    help="Minimum number of requests from which a path segment is learned as variable.",
)
@click.option(
    "--words",
    type=click.IntRange(3),
    default=_LIMITS.words,
    show_default=True,
    help="Minimum number of different words for a path segment to be learned as a closed set "
    "of words.",
)
@click.option(
    "--events",
    type=click.IntRange(1),
    default=_LIMITS.events,
    show_default=True,
    help="Minimum number of requests that a learned rule needs.",
)
@click.option(
    "--users",
    type=click.IntRange(1),
    default=_LIMITS.users,
    show_default=True,
    help="Minimum number of users whose requests a learned rule needs.",
)
@click.option(
    "--spread",
    type=click.FloatRange(0, 1),
    default=_LIMITS.spread,
    show_default=True,
    help="Minimum number of users for a rule, as a fraction of the number that random use "
    "would give.",
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
    help="Spread the reading over the Ray cluster at ADDRESS, or one started here for "
    "`local`; --parallel is the number of actors.",
)
@click.option(
    "--shadow",
    metavar="a/b",
    help="Also print a configuration that evaluates the learned policy beside this document, "
    "without effect on decisions.",
)
@click.option(
    "--check",
    "policies",
    multiple=True,
    metavar="PATH",
    help="Instead of learning, report what the policy in this file or folder allows and "
    "nobody used; repeatable.",
)
def command(logs: tuple[str, ...], **options: Any) -> int:
    """Write a least-privilege policy from the requests in logs, for a person to review.

    LOG is a file or a folder: decision logs of `doorward run` and of OPA, access logs of Envoy in
    JSON, audit logs of the Docker plugin; JSON lines, gzip or Parquet. Values from a log are
    written to data.json and never to Rego: policy.rego is the same for every log.
    """
    try:
        files = log_files(logs)
        if options["policies"]:
            return _check(files, options["policies"], options["paths"])
        entry = entry_for(options["shadow"]) if options["shadow"] else None
        with waiting("reading logs"):
            gathered = _gather(files, options)
        limits = Limits(
            *(options[each] for each in ("floor", "words", "events", "users", "spread"))
        )
        with waiting("learning"):
            output = make_files(gathered, limits, options["output"])
        if entry is not None and "policy.rego" not in output.files:
            raise LearnError(
                "--shadow is not for audit logs of Docker: leave it out, and try data.json on the "
                "log with `doorward docker replay LOG --data data.json`"
            )
        write_files({**output.files, **({"entry.rego": entry} if entry else {})}, options["output"])
    except (LearnError, ReplayError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(
        f"{options['output']}: {counted(output.rules, 'rule')}, "
        f"{counted(output.questions, 'question')} for you in review.yaml",
        err=True,
    )
    if entry is not None:
        click.echo(shadow_text(options["output"]), nl=False)
    return 0


def _gather(files: list[str], options: dict[str, Any]) -> Gathered:
    """Return the counts of what the logs contain, computed in processes or on a Ray cluster.

    Raise LearnError or ReplayError if an option or a log is malformed.
    """
    failed = failed_requests(log_files(options["status"])) if options["status"] else frozenset()
    for name, most in zip(("claims", "name"), MAX_LOCATION, strict=True):
        if len((options[name] or "").split(".")) > most:
            raise LearnError(f"--{name}: the path has more than {most} names")
    reading = Options(
        frozenset(path.strip("/") for path in options["paths"]),
        tuple((options["claims"] or "").split(".")) if options["claims"] else (),
        tuple((options["name"] or "").split(".")) if options["name"] else (),
        options["ignored"],
        failed,
        options["only"],
    )
    job = Gather(reading)
    if options["ray"]:
        from doorward.replay.on_ray import replay_on_ray  # an extra that few need

        return replay_on_ray(files, job, address=options["ray"], actors=options["parallel"])
    processes = options["parallel"] or os.cpu_count() or 1
    return replay(files, job, processes=processes, size=CHUNK)


def _check(files: list[str], policies: tuple[str, ...], paths: tuple[str, ...]) -> int:
    """Find the parts of a policy that no decision in the logs used; print them, with a patch that
    removes them. Return the exit code `UNUSED` if there are any, else 0. Raise ClickException if
    the policies or the data are malformed, LearnError if the unused parts cannot be determined,
    and ReplayError if a log cannot be read.
    """
    from doorward.learn.data_patch import DataFile
    from doorward.learn.unused import find_unused  # of an option that few use

    try:
        loaded = Sources(policies).load()
        data = [
            DataFile(path, prefix, Path(path).read_text(encoding="utf-8"))
            for path, prefix in data_files(policies)
        ]
        documents = frozenset(path.strip("/") for path in paths)
        with waiting("deciding again"):
            unused = find_unused(files, loaded, documents, data=data)
    except (LoadError, RegoError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    skipped = f", {unused.skipped:,} not decidable" if unused.skipped else ""
    click.echo(f"{counted(unused.events, 'decision')}: {unused.allowed:,} allowed{skipped}")
    for part in unused.parts:
        click.echo(f"{part.file}:{part.row}: nobody used the {part.text}")
    click.echo(unused.patch, nl=False)
    for file in unused.unpatched:
        click.echo(
            f"{file or 'data in archives'}: no patch is possible: remove the unused parts by hand",
            err=True,
        )
    return UNUSED if unused.parts else 0
