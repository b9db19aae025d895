"""`doorward fmt`: policies in their one canonical layout, with the flags of `opa fmt`."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import click

from doorward.cli.errors import for_people
from doorward.pdp.loader import LoadError, list_files
from doorward.rego import ParseError, Source
from doorward.rego.syntax.format import Target, format_source
from doorward.rego.syntax.parser import parse_module

__all__ = ["command"]

_MAX_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class _Asked:
    """How to read and write, and what to do with what was written."""

    v0: bool
    target: Target
    drop_v0_imports: bool
    check_result: bool
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
@click.argument("paths", nargs=-1)
@click.option("-w", "--write", is_flag=True, help="Rewrite the files.")
@click.option("-l", "--list", "list_", is_flag=True, help="Only name the files that would change.")
@click.option("-d", "--diff", is_flag=True, help="Only show what would change.")
@click.option("--fail", is_flag=True, help="End with 2 if anything would change.")
@click.option("--check-result/--no-check-result", default=True, help="Parse what was formatted.")
@click.option("--drop-v0-imports", is_flag=True, help="Remove imports that v1 does not need.")
@click.option("--v0-v1", "--rego-v1", is_flag=True, help="Write what is both v0 and v1.")
@click.option("--v0-compatible", is_flag=True, help="Read and write policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, help="Read and write policies as Rego v1.")
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
) -> int:
    """Format the policies in files and folders, or the one on standard input.

    Comments are kept, the meaning does not change, and formatting again changes nothing.
    """
    target: Target = "v1"
    if not v1_compatible:
        target = "v0v1" if v0_v1 else "v0" if v0_compatible else "v1"
    asked = _Asked(
        v0=(v0_compatible or v0_v1) and not v1_compatible,
        target=target,
        drop_v0_imports=drop_v0_imports,
        check_result=check_result,
        write=write,
        list_=list_,
        diff=diff,
        fail=fail,
    )
    if not paths:
        return _from_stdin(asked)
    for path in paths:
        if not os.path.exists(path.removeprefix("file://")):
            click.echo(f"lstat {path}: no such file or directory", err=True)
            return 1
    return _files(list_files(paths), asked)


def _files(names: Iterable[str], asked: _Asked) -> int:
    changed = False
    for name in names:
        if not name.endswith(".rego"):
            continue
        try:
            changed |= _file(name, asked)
        except (LoadError, ParseError) as error:
            said = for_people(error) if isinstance(error, ParseError) else str(error)
            click.echo(f"failed to format Rego source file: {said}", err=True)
            return 2
        if changed and asked.fail:
            click.echo("unexpected diff", err=True)
            return 2
    return 0


def _file(name: str, asked: _Asked) -> bool:
    """Format one file; whether it was not formatted yet."""
    text = _read(name)
    formatted = _formatted(name, text, asked)
    changed = formatted != text
    if asked.list_:
        if changed:
            click.echo(name)
    elif asked.diff:
        click.echo(_difference(name, text, formatted), nl=False)
    elif asked.write:
        if changed:
            _write(name, formatted)
    elif not (changed and asked.fail):
        click.echo(formatted, nl=False)
    return changed


def _from_stdin(asked: _Asked) -> int:
    try:
        text = _text("stdin", sys.stdin.buffer.read(_MAX_BYTES + 1))
        click.echo(_formatted("stdin", text, asked), nl=False)
    except (LoadError, ParseError) as error:
        click.echo(for_people(error), err=True)
        return 1
    return 0


def _formatted(name: str, text: str, asked: _Asked) -> str:
    formatted = format_source(
        Source(name, text), v0=asked.v0, target=asked.target, drop_v0_imports=asked.drop_v0_imports
    )
    if asked.check_result:
        parse_module(Source(f"{name} (formatted)", formatted), v0=asked.target == "v0")
    return formatted


def _read(name: str) -> str:
    try:
        with open(name, "rb") as file:
            return _text(name, file.read(_MAX_BYTES + 1))
    except OSError as error:
        raise LoadError([f"open {name}: {(error.strerror or 'failed').lower()}"]) from None


def _text(name: str, content: bytes) -> str:
    # What is too long is refused, never cut: the result may be written over the original.
    if len(content) > _MAX_BYTES:
        raise LoadError([f"{name}: file is larger than {_MAX_BYTES} bytes"])
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError([f"{name}: policy is not UTF-8 at byte {error.start}"]) from None


def _write(name: str, text: str) -> None:
    """Put `text` in place of the file at once: a fault on the way leaves the old one."""
    real = os.path.realpath(name)
    try:
        mode = os.stat(real).st_mode & 0o7777
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(real), delete=False) as file:
            file.write(text.encode())
        os.chmod(file.name, mode)
        os.replace(file.name, real)
    except OSError as error:
        raise LoadError([f"write {name}: {(error.strerror or 'failed').lower()}"]) from None


def _difference(name: str, text: str, formatted: str) -> str:
    lines: Sequence[str] = list(
        difflib.unified_diff(
            text.splitlines(keepends=True),
            formatted.splitlines(keepends=True),
            name,
            f"{name} (formatted)",
        )
    )
    return "".join([line if line.endswith("\n") else f"{line}\n" for line in lines])
