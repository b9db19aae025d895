"""A plugin that runs tests in several processes: `--processes NUMBER`.

The tests are collected once, and the processes are forked from the one that has collected them:
collecting takes 15 seconds of CPU and 800 MB, which processes that collect for themselves
(pytest-xdist) pay each. A process takes one part of the run after the other (`tests/schedule.py`)
and sends the reports of each test when it is over; the parent, which runs no test, reports them as
if it had. A process that ends before its part does fails the test that it ran, and another one
takes the rest.
"""

from __future__ import annotations

import atexit
import marshal
import mmap
import os
import pickle
import struct
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from types import SimpleNamespace
from typing import Any, Final, Literal

import pytest
from tests.schedule import parts_of

__all__ = ["Processes", "pytest_addoption", "pytest_configure"]

_INDEX: Final = struct.Struct("q")
_NO_TEST: Final = -1
_END: Final[Sequence[int]] = ()
"""The part of a process that shall end."""
_MOST_CRASHES: Final = 10
"""Processes that end early before the run is given up."""
_PHASES: Final = ("setup", "call", "teardown")

# What a process sends begins with one of these.
_PASSED: Final = b"p"
"""A test that passed without output: its index; start, stop and duration of each phase."""
_REPORTS: Final = b"r"
"""The reports of a test, or of the end of the process, with the index of the test."""
_WARNING: Final = b"w"
_READY: Final = b"n"
"""The process wants the next part."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes", type=int, default=1, metavar="NUMBER", help="processes that run the tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.processes > 1:
        config.pluginmanager.register(Processes(config.option.processes))


class Processes:
    """Runs the collected tests in `number` processes."""

    def __init__(self, number: int) -> None:
        self._number = number

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly or session.testsfailed:
            return None  # pytest's own loop runs nothing, and says why
        _Run(session, self._number).run()
        return True

    def pytest_report_header(self) -> str:
        return f"processes: {self._number}"


class _Child:
    """A process of the run, as its parent knows it."""

    def __init__(self, number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.left: deque[int] = deque()
        """The tests of its part that have not ended."""
        # What pytest's terminal asks a report for where several processes run tests.
        name = f"process {number}"
        self.node = SimpleNamespace(
            gateway=SimpleNamespace(id=name),
            workerinfo={
                "id": name,
                "sysplatform": sys.platform,
                "version_info": sys.version_info,
                "executable": sys.executable,
            },
        )


class _Run:
    """The parent's side: hands out parts, and reports what the processes send."""

    def __init__(self, session: pytest.Session, number: int) -> None:
        self._session = session
        self._config = session.config
        self._items = session.items
        self._parts = deque(parts_of([item.nodeid for item in self._items]))
        self._number = min(number, len(self._parts))
        self._started = 0
        self._crashes = 0
        self._children: dict[Connection[Any, Any], _Child] = {}
        # Shared with the processes: the test that each is at, which one that was killed cannot say.
        self._current = mmap.mmap(-1, max(self._number + _MOST_CRASHES, 1) * _INDEX.size)

    def run(self) -> None:
        """Run all tests; raises `Session.Failed` where as many have failed as may fail."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.showfspath = False  # tests of several files end at the same time
        self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # as xdist does
        try:
            for _ in range(self._number):
                self._start()
            while self._children:
                for connection in wait(list(self._children)):
                    assert isinstance(connection, Connection)
                    self._receive(connection)
        finally:
            self._end()

    def _start(self) -> None:
        """Fork a process."""
        number = self._started
        self._started += 1
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Libraries have threads of their own, which they stop for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid:
            theirs.close()
            self._children[ours] = _Child(number, pid)
            return
        code = 1
        try:
            atexit._clear()  # what the parent does at its end is not the child's
            ours.close()
            for connection in self._children:
                connection.close()
            _Worker(self._session, theirs, number, self._current).run()
            atexit._run_exitfuncs()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # what is below on the stack is pytest's, and ends in the parent

    def _receive(self, connection: Connection[Any, Any]) -> None:
        """Do what a process asks for, report what it says, or replace it if it ended early."""
        child = self._children[connection]
        try:
            message = connection.recv_bytes()
        except (EOFError, ConnectionError):
            del self._children[connection]
            connection.close()
            _, status = os.waitpid(child.pid, 0)
            if child.left or status:
                self._replace(child, status)
            return
        kind, content = message[:1], message[1:]
        if kind == _READY:
            part = self._parts.popleft() if self._parts else _END
            child.left = deque(part)
            with suppress(ConnectionError):  # it is dead, which is read next
                connection.send(part)
        elif kind == _WARNING:
            self._config.hook.pytest_warning_recorded.call_historic(kwargs=pickle.loads(content))
        elif kind == _PASSED:
            index, phases = marshal.loads(content)
            self._report(child, index, self._passed(index, phases))
        else:
            index, reports = pickle.loads(content)
            from_serializable = self._config.hook.pytest_report_from_serializable
            self._report(
                child,
                index,
                [from_serializable(config=self._config, data=each) for each in reports],
            )

    def _passed(
        self, index: int, phases: Iterable[tuple[float, float, float]]
    ) -> Iterator[pytest.TestReport]:
        """Yield the reports of a test that passed."""
        item = self._items[index]
        keywords: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
        for when, (start, stop, duration) in zip(_PHASES, phases, strict=True):
            yield pytest.TestReport(
                item.nodeid,
                item.location,
                keywords,
                outcome="passed",
                longrepr=None,
                when=when,  # type: ignore[arg-type]  # a literal
                start=start,
                stop=stop,
                duration=duration,
            )

    def _report(self, child: _Child, index: int, reports: Iterable[pytest.TestReport]) -> None:
        """Report a test that has ended, as pytest does where it runs tests itself."""
        hook = self._config.hook
        if index != _NO_TEST:
            with suppress(ValueError):
                child.left.remove(index)
            item = self._items[index]
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            report.node = child.node  # type: ignore[attr-defined]  # as xdist does
            hook.pytest_runtest_logreport(report=report)
        if index != _NO_TEST:
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _replace(self, child: _Child, status: int) -> None:
        """Fail the test that a process was at when it ended, and let another one take the rest."""
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        (index,) = _INDEX.unpack_from(self._current, child.number * _INDEX.size)
        item = self._items[index] if index != _NO_TEST else None
        at = "during this test" if item else "between two tests or at its end"
        report = pytest.TestReport(
            item.nodeid if item else f"process {child.number}",
            item.location if item else ("", None, ""),
            {},
            outcome="failed",
            longrepr=f"a process of the tests ended with {how} {at}",
            when="call" if item else "teardown",
        )
        self._report(child, index, [report])
        if child.left:
            self._parts.appendleft(list(child.left))
        self._crashes += 1
        if self._crashes > _MOST_CRASHES:
            raise self._session.Interrupted(f"{self._crashes} processes of the tests ended early")
        if self._parts:
            self._start()

    def _end(self) -> None:
        """Wait for the processes, which end behind the test that they are at: nobody takes their
        reports. Ctrl-C in a terminal interrupts them as well, and a second signal would interrupt
        their fixtures.
        """
        for connection, child in self._children.items():
            connection.close()
            os.waitpid(child.pid, 0)
        self._children = {}


class _Boundary(pytest.Item):
    """The item after the last test of a part: only fixtures of the session outlive that test."""

    def runtest(self) -> None:
        raise NotImplementedError  # never run


class _Worker:
    """A process of the run: runs parts until there is none, and sends reports."""

    def __init__(
        self, session: pytest.Session, parent: Connection[Any, Any], number: int, current: mmap.mmap
    ) -> None:
        self._session = session
        self._config = session.config
        self._parent = parent
        self._number = number
        self._current = current
        self._index = _NO_TEST
        self._reports: list[pytest.TestReport] = []

    def run(self) -> None:
        """Run parts until the parent has none or is gone; then end the fixtures of the session."""
        self._prepare()
        with suppress(EOFError, ConnectionError, KeyboardInterrupt):
            try:
                while part := self._next_part():
                    self._run_part(part)
            finally:
                self._note(_NO_TEST)
                self._session._setupstate.teardown_exact(None)

    def _prepare(self) -> None:
        """Take what the process must have for itself: output, temporary files, reports."""
        manager = self._config.pluginmanager
        capture = manager.get_plugin("capturemanager")
        if capture is not None:
            # Its file would be shared with the parent, position included.
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        terminal = manager.get_plugin("terminalreporter")
        if terminal is not None:
            manager.unregister(terminal)
        folders: Any = self._config._tmp_path_factory  # type: ignore[attr-defined]  # as xdist does
        folders._basetemp = folders.getbasetemp() / f"process-{self._number}"
        folders._basetemp.mkdir(mode=0o700)
        manager.register(self)

    def _next_part(self) -> Sequence[int]:
        self._parent.send_bytes(_READY)
        part: Sequence[int] = self._parent.recv()
        return part

    def _run_part(self, part: Sequence[int]) -> None:
        items = [self._session.items[index] for index in part]
        boundary: pytest.Item = _Boundary.from_parent(self._session, name="")
        for index, item, following in zip(part, items, [*items[1:], boundary], strict=True):
            self._note(index)
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _note(self, index: int) -> None:
        """Let the parent see the test that begins."""
        self._index = index
        _INDEX.pack_into(self._current, self._number * _INDEX.size, index)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self) -> None:
        reports, self._reports = self._reports, []
        if _is_plain(reports):
            phases = [(each.start, each.stop, each.duration) for each in reports]
            self._parent.send_bytes(_PASSED + marshal.dumps((self._index, phases)))
            return
        to_serializable = self._config.hook.pytest_report_to_serializable
        data = [to_serializable(config=self._config, report=each) for each in reports]
        self._parent.send_bytes(_REPORTS + pickle.dumps((self._index, data)))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        content = {
            "warning_message": warning_message,
            "when": when,
            "nodeid": nodeid,
            "location": location,
        }
        # A source is any object, and nobody shows it.
        warning_message.source = None
        self._parent.send_bytes(_WARNING + pickle.dumps(content))


def _is_plain(reports: Sequence[pytest.TestReport]) -> bool:
    """Return True if the reports say no more than that a test passed."""
    return tuple(each.when for each in reports) == _PHASES and all(
        each.passed
        and not each.sections
        and not each.user_properties
        and not each.longrepr
        and not hasattr(each, "wasxfail")
        for each in reports
    )
