"""Requests without a pause, good ones and forbidden ones, and what became of each kind.

A good request is one that the policy allows; of forbidden ones none may ever be answered by the
application, which their targets would show in its log.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.waiting import PATIENCE, wait_until

from acceptance.row import person
from acceptance.wire import send, write_request

__all__ = ["Load", "running"]

WORKERS: Final = 3
FORBIDDEN: Final = "forbidden"
_JSON: Final = ("content-type", "application/json")


@dataclass(slots=True)
class Load:
    """What was answered, by kind: a status, or the name of an error."""

    good: Counter[int | str] = field(default_factory=Counter)
    forbidden: Counter[int | str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    row: int = 0
    """How many good requests in a row were served, up to now."""
    refused: int = 0
    """How many good requests in a row were denied, up to now."""

    def count(self, *, is_good: bool, outcome: int | str) -> None:
        """One answer more."""
        with self.lock:
            (self.good if is_good else self.forbidden)[outcome] += 1
            if is_good:
                self.row = self.row + 1 if outcome == 200 else 0
                self.refused = self.refused + 1 if outcome == 403 else 0

    def wait_for_service(self) -> float:
        """The seconds until twenty good requests in a row were served."""
        begin = time.monotonic()
        with self.lock:
            self.row = 0
        wait_until(lambda: self.row >= 20, lambda: f"not served again: {self.good}")
        return time.monotonic() - begin

    def wait_for_denials(self, count: int = 20) -> float:
        """The seconds until so many good requests in a row were denied."""
        begin = time.monotonic()
        with self.lock:
            self.refused = 0
        wait_until(lambda: self.refused >= count, lambda: f"not denied: {self.good}")
        return time.monotonic() - begin

    def wait_for_answers(self, count: int = 20) -> None:
        """Until so many more requests of each kind have an outcome."""
        with self.lock:
            good, forbidden = self.good.total() + count, self.forbidden.total() + count
        wait_until(lambda: self.good.total() >= good and self.forbidden.total() >= forbidden)


@contextmanager
def running(port: int, tokens: Mapping[str, str]) -> Iterator[Load]:
    """The load, for as long as the block lasts."""
    load, end = Load(), threading.Event()
    workers = [
        threading.Thread(target=_work, args=(port, requests, load, end))
        for requests in [_write(tokens)] * WORKERS
    ]
    for worker in workers:
        worker.start()
    try:
        yield load
    finally:
        end.set()
        for worker in workers:
            worker.join()


def _write(tokens: Mapping[str, str]) -> list[tuple[bool, bytes]]:
    guest, admin = (("authorization", f"Bearer {tokens[role]}") for role in ("guest", "admin"))
    target = f"/people?{FORBIDDEN}"
    good = (True, write_request("GET", "/people/1", (guest,)))
    bad = [
        write_request("GET", target),
        write_request("GET", target, (("authorization", f"Bearer {tokens['expired']}"),)),
        write_request("POST", target, (guest, _JSON), person("Charlie")),
        write_request("DELETE", target, (admin,)),
        write_request("POST", "/people", (admin, _JSON), person("Bob")),
    ]
    return [item for request in bad for item in (good, (False, request))]


def _work(port: int, requests: list[tuple[bool, bytes]], load: Load, end: threading.Event) -> None:
    while not end.is_set():
        for is_good, request in requests:
            try:
                outcome: int | str = send(port, request, within=PATIENCE).status
            except OSError as error:
                outcome = type(error).__name__
                time.sleep(0.01)  # nobody is there
            load.count(is_good=is_good, outcome=outcome)
