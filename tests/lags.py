"""A plugin that slows the threads of a test's process: `make lags`.

A test may assert only what it has waited for. Where it asserts what another thread is about to do
(a server in its process that still writes a line, a list that a callback fills), it passes as long
as that thread is quick. With this plugin each thread but the main one stops for a moment at calls
that chance chooses, so that such a test fails soon and not once in a thousand runs. The main thread
stops as well, where a test's own function begins or calls: what it believes to come first comes
second then. `DOORWARD_LAGS` is the seed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from random import Random
from types import FrameType
from typing import Any, Final

import pytest

LAG: Final = 0.03
"""Seconds of a stop: more than a system that is idle lets a thread wait."""
_EVERY: Final = 300
"""Calls of a thread between two stops, on the average."""
_EVERY_OF_MAIN: Final = 12
_SHARE: Final = 1.0
"""The most that a thread stops, as a multiple of the time that it runs."""
_TESTS: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Lags:
    """Stops threads at random calls."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._local = threading.local()

    def stop_thread(self, _frame: FrameType, event: str, _: Any) -> None:
        """The profile function of each thread that a test starts."""
        if event != "c_call" and self._chance.random() * _EVERY < 1.0:
            self._stop()

    def stop_main(self, frame: FrameType, event: str, _: Any) -> None:
        """The profile function of the thread that runs the tests."""
        if event != "return" or not frame.f_code.co_filename.startswith(_TESTS):
            return
        if self._chance.random() * _EVERY_OF_MAIN < 1.0:
            self._stop()

    def _stop(self) -> None:
        local = self._local.__dict__
        now = time.monotonic()
        begin = local.setdefault("begin", now)
        stopped = local.get("stopped", 0.0)
        if stopped <= (now - begin - stopped) * _SHARE + LAG:
            time.sleep(LAG)
            local["stopped"] = stopped + time.monotonic() - now

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        threading.setprofile(self.stop_thread)
        sys.setprofile(self.stop_main)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Lags(int(os.environ.get("DOORWARD_LAGS", "1"))))
