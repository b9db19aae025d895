"""Texts of the errors of the operating system, in lower case, as Go writes them and as OPA's
messages therefore have them: `no such file or directory`.
"""

from __future__ import annotations

__all__ = ["describe_os_error", "io_message"]


def describe_os_error(error: OSError) -> str:
    """Return the reason of an error, without the file that it names: the system's text, else the
    text that the error was raised with, else the name of its type.
    """
    if error.strerror:
        return error.strerror.lower()
    # A library's text, which may name a file: as it is written.
    return str(error) or type(error).__name__


def io_message(verb: str, path: str, error: OSError) -> str:
    """Return a message as Go writes it: `open a.rego: no such file or directory`."""
    return f"{verb} {path}: {describe_os_error(error)}"
