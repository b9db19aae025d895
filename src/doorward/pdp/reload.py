"""Files that change bring a new snapshot into force; files that are broken leave the old one.

The files are looked at every so often, by name: that sees every way in which a file is replaced
(written in place, renamed over, or behind a symbolic link that is swapped, as Kubernetes does with
a ConfigMap), on every file system, and is a few system calls for a sidecar's handful of files.
A change counts when two looks in a row find the same, so that a half-written file is not read.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from doorward.pdp.health import Health
from doorward.pdp.loader import LoadError
from doorward.pdp.snapshot import Snapshot
from doorward.rego.errors import RegoError

__all__ = ["Watcher", "changes", "look"]

INTERVAL: Final = 0.5
"""Seconds between two looks. Looks that take long come less often: at most 2 % of the time."""

_log: Final = logging.getLogger(__name__)
Signature: TypeAlias = tuple[tuple[str, int, int, int, int], ...]

Files: TypeAlias = Callable[[], Iterable[str]]
"""The files to look at, as they are now; LoadError where they cannot be listed."""


def look(files: Files) -> Signature:
    """What the files are like now, without reading them."""
    try:
        names = files()
    except LoadError:
        return ()
    return tuple(filter(None, map(_signature, names)))


def changes(
    files: Files, known: Signature, wait: Callable[[float], object], interval: float = INTERVAL
) -> Iterator[None]:
    """Yields each time that files are not as they were `known`, and rest; until `wait` is true."""
    before = known
    pause = interval
    while not wait(pause):
        started = time.monotonic()
        seen = look(files)
        if seen != known and seen == before:
            known = seen
            yield
        before = seen
        pause = max(interval, 50 * (time.monotonic() - started))


class Watcher:
    """Looks at files from a thread of its own and puts new snapshots into force."""

    def __init__(
        self,
        files: Files,
        read: Callable[[], Snapshot],
        replace: Callable[[Snapshot], None],
        *,
        health: Health,
        on_reload: Callable[[bool], object] = lambda _failed: None,
        interval: float = INTERVAL,
    ) -> None:
        self._files = files
        self._read = read
        self._replace = replace
        self._health = health
        self._on_reload = on_reload
        self._interval = interval
        self._stop = threading.Event()
        self._known = look(files)
        self._thread = threading.Thread(target=self._run, name="policy-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        for _ in changes(self._files, self._known, self._stop.wait, self._interval):
            self.reload()

    def reload(self) -> bool:
        """Read everything again; whether what was read is now in force."""
        try:
            snapshot = self._read()
        except (LoadError, RegoError) as error:
            self._fail(error)
            return False
        self._replace(snapshot)
        self._health.reloaded(None)
        self._on_reload(False)
        _log.info("Policies and data reloaded.", extra={"revision": snapshot.revision})
        return True

    def _fail(self, error: LoadError | RegoError) -> None:
        self._health.reloaded(_short(error))
        self._on_reload(True)
        _log.error(
            "Reload failed; the policies in force stay in force.", extra={"error": str(error)}
        )


def _signature(name: str) -> tuple[str, int, int, int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _short(error: LoadError | RegoError) -> str:
    """The first thing wrong, in a line."""
    if isinstance(error, LoadError):
        return error.messages[0]
    return str(error.diagnostics[0])
