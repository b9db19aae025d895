"""One JSON line for each decision: who asked for what, and what was answered.

Nothing of the request's body or headers is in a line, and its target only with secrets masked; with
`with_input` the masked input of the decision is there too, for `doorward docker replay`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, Final, NamedTuple

from doorward.base.line_files import is_cut_off
from doorward.base.os_errors import describe_os_error
from doorward.docker.reply import Verdict, clean
from doorward.docker.request.secrets import mask_env
from doorward.rego import to_json

__all__ = ["OFF", "AuditLog", "AuditLogError", "Entry"]

OFF: Final = "off"
"""The path that stands for no audit log at all."""

_SHORT: Final = 64
_LONGEST: Final = 200
"""Characters of a word that is remembered, and of one that is written."""
_log: Final = logging.getLogger(__name__)


class AuditLogError(Exception):
    """A log file that cannot be opened."""


class Entry(NamedTuple):
    """One answered call. `input` is None if the call was refused before its input could be
    built.
    """

    verdict: Verdict
    input: dict[str, Any] | None
    decision_id: str
    phase: str
    method: str
    user: str
    seconds: float
    refused: dict[str, Any] | None = None
    """Action, target and path of a request that was refused before its input could be built; None
    for others."""


class AuditLog:
    """Appends one JSON line per decision to a file, or to standard output where `path` is `-`. Safe
    in any number of threads.

    `with_input` adds the input, with the values of `Env` masked; `denied_only` leaves out allowed
    requests. Raise AuditLogError if the file cannot be opened.
    """

    def __init__(
        self, path: str = "-", *, with_input: bool = False, denied_only: bool = False
    ) -> None:
        self._with_input = with_input
        self._denied_only = denied_only
        self._lock = threading.Lock()
        self.lost = 0
        self._path = path
        self._fd, self._torn = self._open()

    def _open(self) -> tuple[int, bool]:
        """Open the log for appending, `-` for standard output. Return the descriptor, and True if
        the last line is cut off. Raise AuditLogError if the file cannot be opened.
        """
        if self._path == "-":
            # A copy, so that `close` and `reopen` leave standard output itself alone.
            return os.dup(1), False
        try:
            # O_APPEND: a plugin and a proxy, or an old and a new process, may write to one file.
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AuditLogError(f"{self._path}: {describe_os_error(error)}") from None
        return fd, is_cut_off(self._path, fd)

    def reopen(self) -> None:
        """Open the file that has the log's name now, after a rotation, and close the old one. If it
        cannot be opened, log an error and keep the old one.
        """
        try:
            # Opened before the old one closes: where that fails, lines still have a place.
            fd, torn = self._open()
        except AuditLogError as error:
            _log.error(
                "Audit log cannot be reopened: lines go to the old file until SIGHUP is sent again",
                extra={"error": str(error)},
            )
            return
        with self._lock:
            os.close(self._fd)
            self._fd, self._torn = fd, torn

    def write(self, entry: Entry) -> bool:
        """Write the line of one decision at once; return False if it is lost or incomplete.

        A lost line is counted in `lost`. Returns True without a line for allowed requests if only
        denials are logged.
        """
        verdict, input = entry.verdict, entry.input
        if self._denied_only and verdict.allow:
            return True
        input_doc = input or entry.refused or {}
        seconds, rest = divmod(time.time_ns(), 1_000_000_000)
        # What `json.dumps` writes, at a third of its cost: every call waits for its line.
        text = (
            f'{{"time": "{_second(seconds)}.{rest // 1000:06d}Z", '
            f'"decision_id": {_quoted(entry.decision_id)}, '
            f'"user": {_word(input_doc.get("User", entry.user))}, '
            f'"method": {_word(entry.method[:20])}, '
            f'"action": {_word(input_doc.get("action", ""))}, '
            f'"target": {_quoted(clean(input_doc.get("target", ""))[:300])}, '
            f'"uri": {_quoted(clean(input_doc.get("Path", ""))[:1000])}, '
            f'"phase": "{entry.phase}", '
            f'"decision": "{"allow" if verdict.allow else "deny"}", '
            f'"reason": {_quoted(verdict.reason)}, '
            f'"rule": {_word(verdict.rule)}, '
            f'"latency_ms": {round(entry.seconds * 1000, 3)}'
        )
        if self._with_input and input is not None:
            text += f', "input": {to_json(_without_env(input))}'
        return self._append(f"{text}}}\n".encode("utf-8", errors="replace"))

    def _append(self, line: bytes) -> bool:
        """Append a line, which ends with a line break, to the log in one write, on a new line if
        the one before was cut off. Return False if it is not written completely: it is counted in
        `lost`, and an error is logged.
        """
        with self._lock:
            # After a line that was cut off, at a full disk, the next begins on its own.
            line = b"\n" + line if self._torn else line
            try:
                # One call for the whole line, which the kernel appends as one.
                written = os.write(self._fd, line)
                reason = "the line was cut off"
            except OSError as error:
                written, reason = 0, describe_os_error(error)
            if written == len(line):
                self._torn = False
                return True
            self._torn = self._torn or written > 0
            self.lost += 1
            lost = self.lost
        _log.error(
            "Audit log line lost: check that its disk has room",
            extra={"path": self._path, "error": reason, "lost": lost},
        )
        return False

    def close(self) -> None:
        os.close(self._fd)


def _word(text: str) -> str:
    """Return a text as a JSON string: one line of at most `_LONGEST` printable characters. Short
    ones are cached.
    """
    return _short_word(text) if len(text) <= _SHORT else _quoted(clean(text)[:_LONGEST])


@lru_cache(maxsize=512)
def _short_word(text: str) -> str:
    return _quoted(clean(text))


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """Return seconds since the epoch as a time in UTC, `2024-05-01T12:30:00`; cached, since many
    lines share one.
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _without_env(value: Any) -> Any:
    """Return `value` with the values of each `Env` list masked, at any depth, even if the policy
    saw them.
    """
    if type(value) is dict:
        return {
            key: mask_env(item)
            if key == "Env" and type(item) is list
            else (_without_env(item) if type(item) in (dict, list) else item)
            for key, item in value.items()
        }
    if type(value) is list:
        return [_without_env(item) if type(item) in (dict, list) else item for item in value]
    return value
