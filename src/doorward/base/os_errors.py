"""Texts of the errors of the operating system, in lower case, as Go writes them and as OPA's
messages therefore have them: `no such file or directory`.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "describe_folder_error",
    "describe_os_error",
    "describe_unreadable",
    "io_message",
    "os_reason",
]


def describe_os_error(error: OSError) -> str:
    """Return the reason of an error, without the file that it names: the system's text, else the
    text that the error was raised with, else the name of its type.
    """
    if error.strerror:
        return error.strerror.lower()
    # A library's text, which may name a file: as it is written.
    return str(error) or type(error).__name__


def describe_folder_error(error: OSError) -> str:
    """Return the reason why a folder could not be created, as `describe_os_error` has it, but for
    a file in its place what to do about that.
    """
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return "a file is in the way of the folder: move it, or name another folder"
    return describe_os_error(error)


def describe_unreadable(paths: Iterable[str]) -> str:
    """Return the first file that cannot be opened, with the reason, as `PATH: REASON`; "" if all
    can. For libraries that get several files and do not say which of them they could not read.
    """
    for path in paths:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            return f"{path}: {describe_os_error(error)}"
    return ""


def io_message(verb: str, path: str, error: OSError) -> str:
    """Return a message as Go writes it: `open a.rego: no such file or directory`."""
    return f"{verb} {path}: {describe_os_error(error)}"


def os_reason(error: BaseException) -> str | None:
    """Return the reason of the system's error that led to a library's, such as `connection refused`
    for httpx's ConnectError; None if no error of the system did. It never contains a URL.
    """
    below: BaseException | None = error
    while below is not None:
        # By their attributes: most that import this module have no use for `ssl`.
        if message := getattr(below, "verify_message", ""):
            return f"certificate verify failed: {message}"
        is_tls = type(below).__module__ == "ssl"
        if isinstance(below, OSError) and below.strerror and not is_tls:
            return below.strerror.lower()
        below = below.__cause__ or below.__context__
    return None
