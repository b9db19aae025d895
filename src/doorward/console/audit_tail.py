"""The newest lines of the Docker plugin's audit log, for the list of decisions.

The plugin is a process of its own, often with its own policies; its log is the only thing that it
shares. The file is read from the last position on, at most a piece at a time, and read from its
start when it is replaced.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from doorward.decision_log.redaction.hiding import hide_credentials
from doorward.rego import from_json, to_python

__all__ = ["AuditTail"]

LINES: Final = 500
"""The number of decisions that are kept."""
PIECE: Final = 256 << 10
"""The most bytes that are read at once; of a longer piece the beginning is skipped."""
LONGEST: Final = 200
"""The characters to which texts are cut."""


class AuditTail:
    """Follows the audit log of the Docker plugin, for the list of decisions; thread-safe. Decisions
    are numbered in the order of their lines.
    """

    def __init__(self, path: str, *, start: int = 0) -> None:
        """Keep the last `LINES` lines of the audit log at `path`, which is not read yet; `start` is
        the number before that of the first line, as of a `Ring`.
        """
        self._path = path
        self._place: tuple[int, int] | None = None
        self._offset = 0
        self._rest = b""
        self._number = self._start = start
        self._lines: deque[tuple[int, dict[str, Any]]] = deque(maxlen=LINES)
        self._lock = threading.Lock()

    def after(self, number: int, most: int) -> tuple[list[dict[str, Any]], int]:
        """Read new lines of the file. Return summaries of the newest `most` decisions whose number
        is greater than `number`, the oldest first, and the number of the newest decision. A
        `number` that is greater than that is not of this process, as after a restart: then all
        decisions are new.
        """
        with self._lock:
            self._read()
            number = number if number <= self._number else self._start
            new = [_summary(n, line) for n, line in self._lines if n > number]
            return new[len(new) - min(most, len(new)) :], self._number

    def get(self, decision_id: str) -> dict[str, Any] | None:
        """Return the details of a decision among the last `LINES` that `after` has read; None if it
        is not among them. Does not read the file.
        """
        with self._lock:
            for number, line in reversed(self._lines):
                if line.get("decision_id") == decision_id:
                    return _detail(number, line)
        return None

    def _read(self) -> None:
        """Read the lines added since the last call, of more than `PIECE` bytes only the last ones.
        A replaced file is read from its start; one that cannot be read gives nothing.
        """
        try:
            with open(self._path, "rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_dev, status.st_ino) != self._place or status.st_size < self._offset:
                    self._place, self._offset, self._rest = (status.st_dev, status.st_ino), 0, b""
                if status.st_size - self._offset > PIECE:
                    # Its first line is cut off, and is not JSON.
                    self._offset, self._rest = status.st_size - PIECE, b""
                file.seek(self._offset)
                content = file.read(PIECE)
                self._offset += len(content)
        except OSError:
            return  # not there yet, or moved away: it is looked for again
        # The last line may still be under way: it is completed by the next read.
        *lines, self._rest = (self._rest + content).split(b"\n")
        # A line that never ends must not grow for ever; cut off, it is not JSON and is ignored.
        self._rest = self._rest[-PIECE:]
        for text in lines:
            self._note(text)

    def _note(self, text: bytes) -> None:
        """Number and keep a line of the log if it is a decision; other lines are ignored."""
        try:
            line = to_python(from_json(text)) if text.strip() else None
        except ValueError:
            return
        if isinstance(line, dict) and isinstance(line.get("decision_id"), str):
            self._number += 1
            self._lines.append((self._number, line))


def _summary(number: int, line: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row of the list of decisions, in the form of `rows.row_of`, with texts cut to
    `LONGEST` characters; its number is negative.
    """
    latency = line.get("latency_ms")
    request = f"{_text(line, 'action')} {_text(line, 'target')}".strip()
    return {
        "number": -number,
        "id": _text(line, "decision_id"),
        "time_ms": _time_ms(_text(line, "time")),
        "path": "docker",
        "verdict": "allow" if line.get("decision") == "allow" else "deny",
        "request": request[:LONGEST],
        "user": _text(line, "user"),
        "role": "",
        "reason": "" if line.get("decision") == "allow" else _text(line, "reason"),
        "rules": [],
        "failed": _read_failed_rule(line),
        "revision": "",
        "eval_us": latency * 1000.0 if isinstance(latency, (int, float)) else 0.0,
    }


def _read_failed_rule(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rule that refused, in the form of `reasons.Condition`; [] for an allowed request,
    and if no rule is named.
    """
    rule = _text(line, "rule")
    if not rule or line.get("decision") == "allow":
        return []
    return [{"rule": rule, "file": "", "row": 0, "text": _text(line, "reason")}]


def _detail(number: int, line: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a line, credentials masked, in the form of `views.detail`."""
    public = hide_credentials({"path": "docker", "input": line.get("input", dict(line))})
    rule = _text(line, "rule")
    return _summary(number, line) | {
        "has_input": True,
        "handler_us": None,
        "hidden": [*public.get("erased", ()), *public.get("masked", ())],
        "input": to_python(public["input"]),
        "result": line.get("decision"),
        "why": ": ".join(each for each in (rule, _text(line, "reason")) if each),
    }


def _text(line: Mapping[str, Any], name: str) -> str:
    """The string in a field, cut to `LONGEST` characters; "" if it is not a string."""
    value = line.get(name)
    return value[:LONGEST] if isinstance(value, str) else ""


def _time_ms(text: str) -> int:
    """Return an ISO time in milliseconds since the epoch; 0 if it is not valid."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0
