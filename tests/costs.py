"""A plugin that adds up what the tests of each file take: `make costs`.

Seconds of CPU are those of the test's process and of the processes that it started and waited for,
setup and teardown included: they hardly depend on what else a machine does. Those of the wall say
for how long a file keeps its process: one that waits for a daemon takes long and little CPU. With
several processes each measures its own tests, and the one that starts them writes
`tests/seconds.json`: seconds of CPU and of the wall for each file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.schedule import SECONDS

LEAST: Final = 0.5
"""Files that are over in less seconds are left out of `tests/seconds.json`."""
_PROPERTY: Final = "costs"


def read_cpu() -> float:
    """The seconds of CPU of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Costs:
    """What was measured so far: by file, the number of tests, seconds of CPU and of the wall."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, float, float]] = {}
        self._before = (0.0, 0.0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._before = (read_cpu(), time.monotonic())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        if call.when == "teardown":
            cpu, wall = self._before
            item.user_properties.append((_PROPERTY, (read_cpu() - cpu, time.monotonic() - wall)))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        file = report.nodeid.split("::")[0]
        costs: Any = dict(report.user_properties).get(_PROPERTY, (0.0, 0.0))
        tests, cpu, wall = self._files.get(file, (0, 0.0, 0.0))
        self._files[file] = (tests + 1, cpu + costs[0], wall + costs[1])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        parts: dict[str, list[float]] = {}
        for file, row in self._files.items():
            part = parts.setdefault(file.split("/")[1], [0, 0.0, 0.0])
            part[:] = [one + other for one, other in zip(part, row, strict=True)]
        parts["all"] = [sum(row[column] for row in parts.values()) for column in range(3)]
        terminalreporter.section("seconds by part: tests, CPU, wall")
        for part_name, (tests, cpu, wall) in sorted(parts.items(), key=lambda row: -row[1][1]):
            terminalreporter.write_line(f"{part_name:32}{tests:7.0f}{cpu:9.1f}{wall:9.1f}")
        option = terminalreporter.config.option
        if not option.markexpr and not option.keyword:  # else these are some tests of their files
            write(self._files)


def write(files: dict[str, tuple[int, float, float]]) -> None:
    """Put what was measured into `tests/seconds.json`; files that did not run stay as they are."""
    known = json.loads(SECONDS.read_text())
    known |= {file: [round(cpu, 1), round(wall, 1)] for file, (_, cpu, wall) in files.items()}
    rows = [
        f"  {json.dumps(file)}: {json.dumps(seconds)}"
        for file, seconds in sorted(known.items())
        if max(seconds) >= LEAST and (SECONDS.parent.parent / file).is_file()
    ]
    SECONDS.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())
