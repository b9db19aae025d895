"""The query of a command: an argument, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

__all__ = ["read_query"]


def read_query(query: Sequence[str], *, stdin: bool, stdin_input: bool) -> str:
    """Return the query: the only argument, or with `stdin` all of standard input. `stdin_input`:
    the input is read from there.

    Raise UsageError without a query, for several, or if standard input is also the input.
    """
    if len(query) > 1:
        raise click.UsageError("specify at most one query argument")
    if stdin and stdin_input:
        raise click.UsageError("specify --stdin or --stdin-input but not both")
    if stdin and query:
        raise click.UsageError("specify query argument or --stdin but not both")
    if stdin:
        return sys.stdin.read()
    if not query:
        raise click.UsageError("specify query argument or --stdin")
    return query[0]
