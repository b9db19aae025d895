"""Colors of what commands print for people: on a terminal, and nowhere else.

Off where the output is not a terminal, with NO_COLOR set to anything, and on TERM=dumb. A text is
colored line by line, by the words that the reports are made of; nothing in it is changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final, TextIO

import click

from doorward.base.digits import parse_digits

__all__ = ["echo", "is_colored", "paint"]

BAD: Final = "red"
GOOD: Final = "green"
WARN: Final = "yellow"
QUIET: Final = "cyan"
_OUTCOMES: Final = {"PASS": GOOD, "FAIL": BAD, "ERROR": BAD, "SKIPPED": WARN}
_PROPERTIES: Final = {
    **{"counterexample": BAD, "cannot say": WARN},
    **{"none found": WARN, "none exists": GOOD},
}
"""Outcomes of `never_` rules, the worst first."""
_KINDS: Final = {"new-allow": BAD, "new-deny": WARN, "new-error": BAD, "changed": WARN}
_ANSWERS: Final = {" does not hold": BAD, " holds": GOOD, " is true": GOOD}


def echo(text: str, kind: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a report of a kind (`errors`, `tests`, `why`, `diff`), in color on a terminal. `err`:
    on standard error; `nl`: with a line break at its end.
    """
    stream = sys.stderr if err else sys.stdout
    painted = paint(text, kind) if is_colored(stream) else text
    click.echo(painted, err=err, nl=nl)


def is_colored(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if a stream is a terminal, NO_COLOR is unset or empty, and TERM is not `dumb`."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, kind: str) -> str:
    """Return a report of a kind (`errors`, `tests`, `why`, `diff`) with its words in color."""
    color = _PAINTERS[kind]
    return "\n".join([color(line) for line in text.split("\n")])


def _error(line: str) -> str:
    """Return a line of a compiler error with its location, code, caret or hint in color."""
    bare = line.strip(" |")
    if bare and not bare.strip("^"):
        return line.replace(bare, click.style(bare, fg=BAD), 1)
    if line.startswith("hint:"):
        return click.style("hint:", fg=QUIET) + line[5:]
    location, mark, rest = line.partition(": rego_")
    if not mark or line.startswith(" "):
        return line
    code, colon, message = rest.partition(":")
    styled = click.style(f"rego_{code}", fg=BAD, bold=True)
    return f"{click.style(location, bold=True)}: {styled}{colon}{message}"


def _test(line: str) -> str:
    """Return a line of a test report with the outcome of its test or property (PASS, FAIL, …) in
    color; a line without one is colored as that of an explanation.
    """
    for word, color in _PROPERTIES.items():
        if line.startswith("PROPERTIES: ") and word in line:
            return click.style("PROPERTIES", fg=color, bold=True) + line[len("PROPERTIES") :]
        if line.endswith(f": {word}") and not line.startswith("  "):
            return line.removesuffix(word) + click.style(word, fg=color, bold=True)
    for word, color in _OUTCOMES.items():
        styled = click.style(word, fg=color, bold=True)
        if line.startswith(f"{word}: "):
            return styled + line[len(word) :]
        if f": {word}" in line and not line.startswith("  "):
            return line.replace(f": {word}", f": {styled}", 1)
    return _why(line)


def _why(line: str) -> str:
    """Return a line of an explanation with the words for its outcome in color, the line `it is true
    with` in bold, and others unchanged.
    """
    # A heading, not an outcome, though it contains ` is true`.
    if line == "it is true with":
        return click.style(line, bold=True)
    for words, color in _ANSWERS.items():
        if words in line:
            return line.replace(words, click.style(words, fg=color), 1)
    return line


def _difference(line: str) -> str:
    """Return a line of a replay's report with the kind of change in color; comments are dimmed."""
    number, _, rest = line.partition(". ")
    kind, colon, after = rest.partition(":")
    if parse_digits(number) is not None and kind in _KINDS:
        return f"{number}. {click.style(kind, fg=_KINDS[kind], bold=True)}{colon}{after}"
    return click.style(line, fg=QUIET) if line.startswith("   # ") else line


_PAINTERS: Final[Mapping[str, Callable[[str], str]]] = {
    "diff": _difference,
    "errors": _error,
    "tests": _test,
    "why": _why,
}
