"""A plugin that runs tests in several processes: `-p tests.processes --processes 6`.

One process imports and collects all tests, and forks those that run them: what pytest-xdist does in
each of its processes, which takes eight seconds of CPU, happens once. A process takes one file
after the other, the longest first (`tests.schedule`), and tells the first one what became of each
test. Where a process ends before its test does, that test has failed and another process goes on.

Threads do not survive a fork: a module of tests may not start one when it is imported.
"""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NoReturn

import pytest
from tests.schedule import A_TEST, read_seconds, scope_of

__all__ = ["Processes"]

_PLAIN: Final = frozenset(
    pytest.TestReport("", ("", None, ""), {}, "passed", None, "call").__dict__
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=0, help="processes that run the tests")


def pytest_configure(config: pytest.Config) -> None:
    if count := config.getoption("processes"):
        config.pluginmanager.register(Processes(count))


@dataclass(eq=False)
class Worker:
    """A process that runs tests, as the first process knows it."""

    name: str
    pid: int
    connection: Connection[Any, Any]
    ended: int
    """A descriptor that can be read once the process has ended."""
    tests: deque[int] = field(default_factory=deque)
    """What it was told to run and has not reported."""
    has_failed: bool = False
    """It said what it ends of."""


class Processes:
    """The loop over the tests, in the process that forks the others."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._begun = 0
        self._workers: list[Worker] = []
        self._units: deque[list[int]] = deque()
        self._stop = mmap.mmap(-1, 1)
        """A byte that all processes see: whether no other test may begin."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None  # pytest's own loop says so
        threads = [each.name for each in threading.enumerate()]
        if len(threads) > 1:
            raise pytest.UsageError(f"a module of tests starts a thread: {', '.join(threads)}")
        self._units.extend(units([item.nodeid for item in session.items]))
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        try:
            for _ in range(min(self._count, len(self._units))):
                self._begin(session)
            while self._workers:
                self._listen(session)
        finally:
            self._stop[0] = 1
            for worker in self._workers:
                worker.connection.close()
                os.kill(worker.pid, signal.SIGINT)  # its fixtures end as well
                os.waitpid(worker.pid, 0)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _begin(self, session: pytest.Session) -> None:
        """Fork a process, which does not return from here."""
        name = f"gw{self._begun}"
        self._begun += 1
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of libraries that have threads
            pid = os.fork()
        if pid == 0:
            ours.close()
            for worker in self._workers:
                worker.connection.close()
                os.close(worker.ended)
            session.config.pluginmanager.unregister(self)
            become_worker(session, name, theirs, self._stop)
        theirs.close()
        worker = Worker(name, pid, ours, os.pidfd_open(pid))
        self._workers.append(worker)

    def _listen(self, session: pytest.Session) -> None:
        """Wait for what the processes say, and answer."""
        connections = {worker.connection: worker for worker in self._workers}
        ends = {worker.ended: worker for worker in self._workers}
        ready = wait([*connections, *ends])
        for each in ready:
            if each in connections:
                worker = connections[each]
                with suppress(EOFError, ConnectionError):
                    self._take(session, worker, worker.connection.recv())
        for each in ready:
            if each in ends:
                worker = ends[each]
                with suppress(EOFError, ConnectionError):
                    while worker.connection.poll():
                        self._take(session, worker, worker.connection.recv())
                self._end(session, worker)

    def _take(self, session: pytest.Session, worker: Worker, message: Any) -> None:
        match message:
            case "next":
                unit = self._units.popleft() if self._units and not self._stop[0] else []
                worker.tests.extend(unit)
                worker.connection.send(unit)
            case (int(position), reports):
                worker.tests.popleft()
                for report in reports:
                    self._log(session, read_report(session, position, report))
            case ("warning", warning, said):
                session.config.hook.pytest_warning_recorded.call_historic(
                    kwargs={"warning_message": warnings.WarningMessage(*warning), **said}
                )
            case ("error", text):
                worker.has_failed = True
                self._fail(session, worker, text)

    def _end(self, session: pytest.Session, worker: Worker) -> None:
        """A process has ended: with its tests, or else in one of them."""
        self._workers.remove(worker)
        worker.connection.close()
        os.close(worker.ended)
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if not worker.has_failed and (code or (worker.tests and not self._stop[0])):
            self._fail(session, worker, f"the process of the test ended with {code}")
        if worker.tests:
            worker.tests.popleft()
            self._units.appendleft([*worker.tests])
        if any(self._units) and len(self._workers) < self._count and not self._stop[0]:
            self._begin(session)

    def _fail(self, session: pytest.Session, worker: Worker, text: str) -> None:
        nodeid = session.items[worker.tests[0]].nodeid if worker.tests else worker.name
        file = nodeid.split("::")[0]
        when: Any = "???"
        report = pytest.TestReport(nodeid, (file, None, file), {}, "failed", text, when)
        self._log(session, report)

    def _log(self, session: pytest.Session, report: pytest.TestReport) -> None:
        session.config.hook.pytest_runtest_logreport(report=report)
        if session.shouldfail or session.shouldstop:
            self._stop[0] = 1


def units(names: Sequence[str]) -> Iterable[list[int]]:
    """The positions of the tests, by what one process takes at once: the longest first."""
    scopes: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        scopes.setdefault(scope_of(name.split("::")[0]), []).append(position)
    seconds = read_seconds()
    return [
        tests
        for _, tests in sorted(
            scopes.items(), key=lambda each: -seconds.get(each[0], len(each[1]) * A_TEST)
        )
    ]


def become_worker(
    session: pytest.Session, name: str, connection: Connection[Any, Any], stop: mmap.mmap
) -> NoReturn:
    """Run what the first process says, and end as an interpreter does; its memory goes at once."""
    code = 0
    try:
        separate(session.config, name)
        teller = Teller(session, connection)
        session.config.pluginmanager.register(teller)
        try:
            teller.run(stop)
        finally:
            finish(session)
    except BaseException as error:
        code = 1
        with suppress(OSError):
            text = pytest.ExceptionInfo.from_exception(error).getrepr()
            connection.send(("error", str(text)))
    finally:
        connection.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def finish(session: pytest.Session) -> None:
    """End fixtures, plugins, threads and what the tests have left for the end of the process."""
    config: Any = session.config
    config.hook.pytest_sessionfinish(session=session, exitstatus=0)
    config._ensure_unconfigure()
    threads: Any = threading
    threads._shutdown()
    atexit._run_exitfuncs()


def separate(config: Any, name: str) -> None:
    """Take what a process has of its own: a folder, files of captured output; none of the terminal
    and of what is kept between runs."""
    config.workerinput = {"workerid": name}
    manager = config.pluginmanager
    terminal = manager.getplugin("terminalreporter")
    terminal._show_progress_info = False
    manager.unregister(terminal)
    capture = manager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory = config._tmp_path_factory
    factory._exit_stack.pop_all()  # for the first process
    factory._basetemp = factory.getbasetemp() / name
    factory._basetemp.mkdir(mode=0o700)


class Teller:
    """Runs tests in a process of their own, and tells the first process about each."""

    def __init__(self, session: pytest.Session, connection: Connection[Any, Any]) -> None:
        self._session = session
        self._connection = connection
        self._reports: list[Any] = []

    def run(self, stop: mmap.mmap) -> None:
        items = self._session.items
        unit = self._next()
        while unit:
            for position, following in zip(unit, [*unit[1:], None], strict=True):
                after: list[int] = [] if following is not None else self._next()
                follower = following if following is not None else next(iter(after), None)
                item = items[position]
                nextitem = None if follower is None else items[follower]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
                self._connection.send((position, self._reports))
                self._reports = []
                if stop[0] or self._session.shouldfail or self._session.shouldstop:
                    return
            unit = after

    def _next(self) -> list[int]:
        self._connection.send("next")
        unit: list[int] = self._connection.recv()
        return unit

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(write_report(self._session.config, report))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        warning = (
            str(warning_message.message),
            warning_message.category,
            warning_message.filename,
            warning_message.lineno,
            None,
            warning_message.line,
        )
        said = {"when": when, "nodeid": nodeid, "location": location}
        self._connection.send(("warning", warning, said))


def write_report(config: pytest.Config, report: pytest.TestReport) -> Any:
    """A report for another process; of most tests there is nothing to say but times."""
    if (
        type(report) is pytest.TestReport
        and report.outcome == "passed"
        and not (report.longrepr or report.sections or report.user_properties)
        and report.__dict__.keys() == _PLAIN
    ):
        return (report.when, report.duration, report.start, report.stop)
    return config.hook.pytest_report_to_serializable(config=config, report=report)


def read_report(session: pytest.Session, position: int, report: Any) -> pytest.TestReport:
    if isinstance(report, tuple):
        when, duration, start, stop = report
        item = session.items[position]
        keywords: Any = {}
        return pytest.TestReport(
            item.nodeid, item.location, keywords, "passed", None, when,
            duration=duration, start=start, stop=stop,
        )  # fmt: skip
    config = session.config
    read: pytest.TestReport = config.hook.pytest_report_from_serializable(
        config=config, data=report
    )
    return read
