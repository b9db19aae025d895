"""`doorward exec`: one decision for each of many input files, as `opa exec` makes it."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from doorward.base.os_errors import io_message
from doorward.bundles.loader import LoadError, read_document
from doorward.bundles.sources import Sources
from doorward.cli import overrides
from doorward.cli.arguments import argument
from doorward.cli.durations import seconds
from doorward.cli.errors import OneOf, for_people
from doorward.cli.log_options import log_options
from doorward.config.configuration import Config, ConfigError, read_config
from doorward.config.log_options import LEVELS
from doorward.decision_log.log import DecisionLog
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rego import EvalError, RegoError, Undefined, Value
from doorward.rego.golang import indent, marshal, object_text
from doorward.rego.shared import within
from doorward.server.open_log import open_log
from doorward.telemetry.log import line_for, now, stamp_for

__all__ = ["command"]

_STDIN: Final = "--stdin-input"
_MAX_BYTES: Final = 256 << 20
"""The largest input in bytes."""
_FLAGS: Final = ("fail", "fail-defined", "fail-non-empty")
_KINDS: Final = (".json", ".yaml", ".yml")


class _ExecError(Exception):
    """The command cannot go on; the message is in OPA's words."""


@click.command(
    "exec",
    epilog="""\b
Examples:
  doorward exec -b bundle/ --decision authz/allow requests/
  doorward exec -b bundle.tar.gz --fail-non-empty --decision deploy/problems plan.json
""",
)
@argument("paths", nargs=-1, help="Files and folders with inputs, JSON or YAML.")
@click.option("-b", "--bundle", "bundles", multiple=True, help="A bundle; repeatable.")
@click.option(
    "--decision",
    help="Document to evaluate, such as authz/allow; by default `default_decision` of the "
    "configuration.",
)
@click.option("-c", "--config-file", help="Configuration file.")
@overrides.option
@overrides.file_option
@click.option(
    "--timeout", default="0s", metavar="DURATION", help="Time limit for all inputs together."
)
@log_options(level="error")
@click.option(
    "-f", "--format", type=OneOf("json"), default="json", expose_value=False, help="Output format."
)
@click.option("--fail", is_flag=True, help="Exit with 1 if a decision is undefined or fails.")
@click.option("--fail-defined", is_flag=True, help="Exit with 1 if a decision is defined.")
@click.option(
    "--fail-non-empty", is_flag=True, help="Exit with 1 if a decision is defined and not empty."
)
@click.option(
    "-I",
    "--stdin-input",
    is_flag=True,
    help="Read an input from standard input too, before those in PATHS.",
)
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
def command(paths: tuple[str, ...], **options: Any) -> int:
    """Evaluate a decision for each JSON or YAML file in PATHS, with the policies of bundles."""
    log = _Log(options["log_level"], options["log_format"], options["log_timestamp_format"])
    try:
        return _run(paths, options, log)
    except (LoadError, RegoError) as error:
        log.say("error", "Unexpected error.", err=for_people(error))
    except (ConfigError, _ExecError) as error:
        log.say("error", "Unexpected error.", err=str(error))
    return 1


def _run(paths: Sequence[str], options: dict[str, Any], log: _Log) -> int:
    """Decide on each input and print all decisions as one JSON document, in which an input without
    a decision has an error.

    Return 1 if the results meet the --fail… flag, else 0. Raise _ExecError, ConfigError, LoadError
    or RegoError, with nothing printed, if the command cannot go on.
    """
    chosen = [f"--{flag}" for flag in _FLAGS if options[flag.replace("-", "_")]]
    if not paths and not options["stdin_input"]:
        raise _ExecError("requires at least 1 path arg, or the --stdin-input flag")
    if len(chosen) > 1:
        raise _ExecError(f"exec error: specify {chosen[0]} or {chosen[1]} but not both")
    timeout = seconds(options["timeout"], "--timeout")
    until = math.inf if timeout is None else time.monotonic() + timeout
    config = read_config(
        options["config_file"], overrides=options["settings"], files=options["setting_files"]
    )
    if config.bundles or config.discovery:
        raise _ExecError(
            "exec error: `bundles` and `discovery` of the configuration are not used here: give "
            "--bundle"
        )
    v0 = options["v0_compatible"]
    sources = Sources(bundles=options["bundles"], v0=v0)
    # Of the configuration nothing else matters to decisions that are made here.
    deadline = config.evaluation.deadline if timeout is None else timeout
    pdp = PDP(build(sources.load(), Settings(v0=v0, deadline=deadline)))
    pdp.log_to(_decision_log(config, options))
    for name in sources.bundles:
        log.say("info", "Bundle loaded and activated successfully.", name=name, plugin="bundle")
    decision = options["decision"]
    path = decision or f"/{config.default_decision}"
    results = []
    try:
        for each in _inputs(paths, reads_stdin=options["stdin_input"]):
            # Between two inputs: each decision has a deadline of its own.
            if time.monotonic() > until:
                raise _ExecError("exec error: context deadline exceeded")
            results.append(_decide(pdp, path, each, deadline))
    finally:
        pdp.close()
    texts = [object_text(fields) for fields, _ in results]
    click.echo(indent(object_text({"result": f"[{','.join(texts)}]"}), "", "  "))
    failed = _failure([value for _, value in results], chosen)
    if failed:
        log.say("error", "Unexpected error.", err=failed)
    return 1 if failed else 0


def _decision_log(config: Config, options: Mapping[str, Any]) -> DecisionLog | None:
    """Return the configured decision log, on standard error or in a file; None without one.

    Raise _ExecError for an upload, or if the file cannot be opened.
    """
    if config.decision_logs.upload is not None:
        raise _ExecError(
            "exec error: decision_logs: nothing is uploaded here: use `console` or `file`, not "
            "`service`"
        )
    formats = options["log_format"], options["log_timestamp_format"]
    try:
        return open_log(config, _write_lines, line_format=formats[0], timestamp_format=formats[1])
    except OSError as error:
        reason = io_message("open", error.filename, error)
        raise _ExecError(f"exec error: decision_logs: {reason}") from None


def _write_lines(lines: bytes) -> None:
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()


class _Log:
    """Writes log lines to standard error in the format of a server's log."""

    def __init__(self, level: str, style: str, timestamp_format: str) -> None:
        self._least = LEVELS[level]
        self._line = line_for(style)
        self._stamp = stamp_for(timestamp_format)

    def say(self, level: str, message: str, **fields: str) -> None:
        """Write a log line to standard error, if its level is at least that of `--log-level`."""
        if LEVELS[level] >= self._least:
            line = self._line({**fields, "level": level, "msg": message, "time": now(self._stamp)})
            click.echo(line, err=True, nl=False)


def _inputs(paths: Sequence[str], *, reads_stdin: bool) -> Iterator[tuple[str, Value | LoadError]]:
    """Yield each input as a pair of file name and value, or LoadError if it is malformed, too large
    or cannot be read; with `reads_stdin` the one on standard input is first. Raise _ExecError for a
    path that does not exist, a folder that cannot be read, or an empty standard input.
    """
    if reads_stdin:
        content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        if not content.strip():
            raise _ExecError(
                "exec error: cannot execute on empty input; please enter valid json or yaml when "
                "using the --stdin-input flag"
            )
        yield _STDIN, _document(_STDIN, content)
    for path in paths:
        if not os.path.lexists(path):
            raise _ExecError(f"exec error: lstat {path}: no such file or directory")
        for file in _walk(path) if os.path.isdir(path) else [path]:
            yield file, _read(file)


def _walk(folder: str) -> Iterator[str]:
    """Yield the input files below a folder in sorted order; links to folders are not followed.
    Raise _ExecError if a folder cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise _ExecError(f"exec error: {io_message('open', folder, error)}") from None
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _walk(path)
        elif name.endswith(_KINDS):
            yield path


def _read(file: str) -> Value | LoadError:
    """Read and parse an input file. If that fails, return the LoadError instead of raising it."""
    try:
        with open(file, "rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        return LoadError([io_message("open", file, error)])
    return _document(file, content)


def _document(name: str, content: bytes) -> Value | LoadError:
    """Return the parsed input file. A LoadError, for malformed content or more than `_MAX_BYTES`,
    is returned and not raised, so that one malformed input does not keep the command from deciding
    the others.
    """
    if len(content) > _MAX_BYTES:
        return LoadError([f"{name}: larger than {_MAX_BYTES} bytes"])
    try:
        return read_document(name, content)
    except LoadError as error:
        return error


class _Failed:
    """Stands for the value of an input without a decision."""


def _decide(
    pdp: PDP, path: str, named_input: tuple[str, Value | LoadError], deadline: float | None
) -> tuple[dict[str, str], Value | type[_Failed]]:
    """Return the JSON members of the result for one input, and the value of the decision.

    The value is `_Failed` if the input is malformed, or the decision failed or is undefined. The
    decision fails too if writing its result as JSON takes longer than `deadline` seconds. A
    decision that did not fail is logged.
    """
    name, input = named_input
    if isinstance(input, LoadError):
        error = {"code": "opa_input_error", "message": input.messages[0]}
        return {"path": marshal(name), "error": marshal(dict(error.items()))}, _Failed
    decision = pdp.decide(path, input, is_parsed=True)
    text, failure = "", decision.error
    try:
        # A result that shares its parts can be exponentially larger as JSON.
        with within(deadline):
            if not isinstance(decision.result, Undefined):
                text = marshal(decision.result)
    except EvalError as late:
        failure = failure or late
    if failure is not None:
        error = {"code": "opa_eval_error", "message": str(failure)}
        return {"path": marshal(name), "error": marshal(dict(error.items()))}, _Failed
    pdp.record(decision, input)
    if isinstance(decision.result, Undefined):
        error = {"code": "opa_undefined_error", "message": f"{path} decision was undefined"}
        return {"path": marshal(name), "error": marshal(dict(error.items()))}, _Failed
    fields = {
        "decision_id": marshal(decision.decision_id),
        "path": marshal(name),
        "result": text,
    }
    return fields, decision.result


def _failure(values: Sequence[Any], chosen: Sequence[str]) -> str:
    """Return the error text if the results meet the --fail… flag; "" otherwise. `values` are the
    results of all inputs, `_Failed` for one without a decision; `chosen` is the flag that is set,
    or empty.
    """
    if not chosen:
        return ""
    errors = sum([value is _Failed for value in values]) if chosen == ["--fail"] else 0
    defined = [value for value in values if value is not _Failed]
    if chosen == ["--fail-non-empty"]:
        failures = sum([not _is_empty(value) for value in defined])
    else:
        failures = len(defined) if chosen == ["--fail-defined"] else 0
    if failures or errors:
        return (
            f"exec error: there were {failures} failures and {errors} errors counted in the "
            f"results list, and {chosen[0]} is set"
        )
    return ""


def _is_empty(value: Value) -> bool:
    return isinstance(value, (list, dict, frozenset)) and not value
