"""`doorward fmt`: policies in their one canonical layout, with the flags of `opa fmt`."""

from __future__ import annotations

import difflib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from io import StringIO
from typing import Final

import click

from doorward.base.collector import gc_paused
from doorward.base.os_errors import describe_os_error, io_message
from doorward.base.records import record
from doorward.bundles.loader import LoadError
from doorward.cli import capabilities as options
from doorward.cli.arguments import argument
from doorward.cli.errors import for_people
from doorward.rego import REGISTRY, CompileError, RegoError
from doorward.rego.shared import Capabilities, ParseError, Source
from doorward.rego.tools import Target, format_policy, parse_module

__all__ = ["command"]

_MAX_BYTES: Final = 16 << 20


class _RefusedResult(Exception):
    """A formatted policy that cannot be parsed, since the target has no form for it."""

    def __init__(self, name: str, error: ParseError) -> None:
        super().__init__(
            f"{name} was successfully formatted, but the result is invalid: {for_people(error)}\n\n"
            "To inspect the formatted Rego, you can turn off this check with --no-check-result."
        )


@record
class _Request:
    """The options of one call of `doorward fmt`."""

    v0: bool
    target: Target
    drop_v0_imports: bool
    check_result: bool
    capabilities: Capabilities | None
    write: bool
    list_: bool
    diff: bool
    fail: bool


@click.command(
    "fmt",
    epilog="""\b
Examples:
  doorward fmt policy.rego               # print it
  doorward fmt -w policies/              # rewrite what is not formatted
  doorward fmt --list --fail policies/   # for CI: ends with 2 if anything is not
""",
)
@argument("paths", nargs=-1, help="Files and folders with policies; without them, standard input.")
@click.option("-w", "--write", is_flag=True, help="Rewrite the files instead of printing them.")
@click.option("-l", "--list", "list_", is_flag=True, help="List the files that would change.")
@click.option("-d", "--diff", is_flag=True, help="Print the differences.")
@click.option("--fail", is_flag=True, help="Exit with 2 if a file would change.")
@click.option(
    "--check-result/--no-check-result",
    default=True,
    help="Parse the formatted text again, and fail if it is not valid.",
)
@click.option("--drop-v0-imports", is_flag=True, help="Remove imports that only Rego v0 needs.")
@click.option(
    "--v0-v1", "--rego-v1", is_flag=True, help="Write policies that are valid in both v0 and v1."
)
@click.option("--v0-compatible", is_flag=True, help="Read and write policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, help="Read and write policies as Rego v1.")
@options.option
def command(
    paths: tuple[str, ...],
    write: bool,
    list_: bool,
    diff: bool,
    fail: bool,
    check_result: bool,
    drop_v0_imports: bool,
    v0_v1: bool,
    v0_compatible: bool,
    v1_compatible: bool,
    capabilities: Capabilities | None,
) -> int:
    """Format the policies in files and folders, or a policy on standard input.

    Formatting keeps comments and meaning. Formatting again changes nothing. The exit code is 2
    after an error in a file, and 1 for one on standard input or a path that does not exist.
    """
    target: Target = "v1"
    if v0_v1:
        target = "v0v1"
    elif v0_compatible and not v1_compatible:
        target = "v0"
    request = _Request(
        v0=(v0_compatible or v0_v1) and not v1_compatible,
        target=target,
        drop_v0_imports=drop_v0_imports,
        check_result=check_result,
        capabilities=capabilities,
        write=write,
        list_=list_,
        diff=diff,
        fail=fail,
    )
    if not paths:
        return _format_stdin(request)
    paths = tuple(path.removeprefix("file://") for path in paths)
    for path in paths:
        if not os.path.exists(path):
            click.echo(f"lstat {path}: no such file or directory", err=True)
            return 1
    return _format_files(paths, request)


def _format_files(paths: Iterable[str], request: _Request) -> int:
    """Format all files and return the exit code: 2 after an error or a difference with --fail, else
    0.

    --fail stops at the first difference. Errors are printed at the end.
    """
    broken: list[str] = []
    differs = False
    for root, name in _below(paths, broken):
        try:
            differs = _format_file(root, name, request) and request.fail
        except (_RefusedResult, LoadError, RegoError) as error:
            broken.append(_message_of(error))
        if differs:
            click.echo("unexpected diff", err=True)
            break
    for message in broken:
        click.echo(message, err=True)
    return 2 if broken or differs else 0


def _below(paths: Iterable[str], broken: list[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of folder and `.rego` file, for each path in its order, those of a folder sorted.
    The folder is that in `paths`, or the parent of a file in `paths`.

    Links to folders are followed only in `paths`. Other files and missing paths are skipped; errors
    of folders that cannot be read are added to `broken`.
    """
    for root in paths:
        folder = root if os.path.isdir(root) else os.path.dirname(root)
        waiting = [root]
        while waiting:
            path = waiting.pop()
            if os.path.isdir(path) and (path == root or not os.path.islink(path)):
                try:
                    names = sorted(os.listdir(path), reverse=True)
                except OSError as error:
                    broken.append(io_message("open", path, error))
                    continue
                waiting += [name if path == "." else os.path.join(path, name) for name in names]
            elif path.endswith(".rego") and os.path.isfile(path):
                yield folder, path


def _message_of(error: RegoError | LoadError | _RefusedResult) -> str:
    """Return the text that `fmt` prints for an error, with OPA's prefix unless a result was
    refused.
    """
    if isinstance(error, _RefusedResult):
        return str(error)
    message = for_people(error) if isinstance(error, RegoError) else str(error)
    return f"failed to format Rego source file: {message}"


def _format_file(root: str, name: str, request: _Request) -> bool:
    """Format one file and, by the options in `request`, list it, print the difference, write it
    back or print the result; return True if its text changes. `root` is the folder out of which a
    link must not lead.

    Raise _RefusedResult, LoadError or RegoError.
    """
    text = _read(name)
    formatted = _format(name, text, request)
    changed = formatted != text
    if request.list_:
        if changed:
            click.echo(name)
    elif request.diff:
        click.echo(_difference(name, text, formatted), nl=False)
    elif request.write:
        if changed:
            _write(root, name, formatted)
    elif not (changed and request.fail):
        click.echo(formatted, nl=False)
    return changed


def _format_stdin(request: _Request) -> int:
    """Format the policy on standard input and print it; return 1 after an error."""
    try:
        text = _text("stdin", sys.stdin.buffer.read(_MAX_BYTES + 1))
        click.echo(_format("stdin", text, request), nl=False)
    except (_RefusedResult, LoadError) as error:
        click.echo(str(error), err=True)
        return 1
    except RegoError as error:
        click.echo(for_people(error), err=True)
        return 1
    return 0


class _Deprecated:
    """The set of names of deprecated built-ins. A test with `in` looks up only the built-in of that
    name, so that the others are not imported.
    """

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in REGISTRY and bool(REGISTRY[name].deprecated)


@gc_paused()
def _format(name: str, text: str, request: _Request) -> str:
    """Return the formatted policy.

    Raise ParseError if it cannot be parsed, CompileError if it needs more than the capabilities or
    than v1 has, InternalError if formatting would change its meaning, and with
    `request.check_result` _RefusedResult if the result cannot be parsed.
    """
    if request.capabilities is not None:
        module = parse_module(Source(name, text), v0=request.v0)
        problems = request.capabilities.problems(module, v0=request.v0)
        if problems:
            raise CompileError(problems)
    formatted = format_policy(
        Source(name, text),
        v0=request.v0,
        target=request.target,
        drop_v0_imports=request.drop_v0_imports,
        removed=_Deprecated(),
    )
    if request.check_result and not formatted.is_read:
        try:
            parse_module(Source("formatted", formatted.text), v0=request.target == "v0")
        except ParseError as error:
            raise _RefusedResult(name, error) from None
    return formatted.text


def _read(name: str) -> str:
    """Return a policy file as text; raise LoadError if it is unreadable, too long or not UTF-8."""
    try:
        with open(name, "rb") as file:
            return _text(name, file.read(_MAX_BYTES + 1))
    except OSError as error:
        raise LoadError([f"open {name}: {describe_os_error(error)}"]) from None


def _text(name: str, content: bytes) -> str:
    """Return a policy as text; raise LoadError, naming `name`, if it is too long or not UTF-8."""
    # What is too long is refused, never cut: the result may be written over the original.
    if len(content) > _MAX_BYTES:
        raise LoadError([f"{name}: file is larger than {_MAX_BYTES} bytes"])
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError([f"{name}: policy is not UTF-8 at byte {error.start}"]) from None


def _write(root: str, name: str, text: str) -> None:
    """Replace the file in one step by `text`; a failure leaves the old file.

    A link is followed only within the folder `root`: a policy that somebody hands in must not
    choose which of our files is written. Raise LoadError if it leads out, or if writing fails.
    """
    real = os.path.realpath(name)
    if os.path.commonpath([os.path.realpath(root), real]) != os.path.realpath(root):
        raise LoadError(
            [f"write {name}: the link leads out of {root or '.'}: format the file that it leads to"]
        )
    try:
        _replace(real, text.encode())
    except OSError as error:
        raise LoadError([io_message("write", name, error)]) from None


def _replace(path: str, content: bytes) -> None:
    """Replace a file in one step by another content with the same mode and, if possible, owner.

    Raise OSError if that fails; the old file is unchanged then, unless only the flush of its folder
    failed.
    """
    old = os.stat(path)
    folder = os.path.dirname(path)
    handle, temp = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=folder)
    with ExitStack() as undo:
        undo.callback(os.unlink, temp)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            file.flush()
            # Before the rename: after a crash the name must not lead to an empty file.
            os.fsync(file.fileno())
        os.replace(temp, path)
        undo.pop_all()
    _sync(folder)


def _sync(folder: str) -> None:
    """Flush the entries of a folder to disk, so that a rename in it survives a crash. Raise OSError
    if that fails.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _difference(name: str, text: str, formatted: str) -> str:
    """Return the unified diff between a policy and its formatted text; "" if they are equal."""
    # Not `splitlines`, which also cuts at a form feed and other breaks inside of lines.
    lines: Sequence[str] = list(
        difflib.unified_diff(
            list(StringIO(text)),
            list(StringIO(formatted)),
            name,
            f"{name} (formatted)",
        )
    )
    return "".join([line if line.endswith("\n") else f"{line}\n" for line in lines])
