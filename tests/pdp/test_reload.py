"""Changed files come into force however they were changed; broken ones never do."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.clock import VirtualClock
from tests.waiting import wait_until

from doorward.base.clock import SYSTEM_CLOCK, Clock
from doorward.bundles.loader import LoadError
from doorward.bundles.sources import Sources
from doorward.edge import LONGEST_PAUSE
from doorward.pdp import reload
from doorward.pdp.pdp import PDP
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Snapshot, read
from doorward.pdp.store import NotReplacedError
from doorward.telemetry.health import Health

FIRST = "package a\n\nallow := 1\n"
SECOND = "package a\n\nallow := 2\n"
BROKEN = "package a\n\nallow := nope(\n"


class Watched:
    """A decision point whose files are watched, quickly."""

    def __init__(self, *paths: str, interval: float = 0.02, clock: Clock = SYSTEM_CLOCK) -> None:
        self.paths = paths
        self.health = Health()
        self.failures: list[bool] = []
        self.pdp = PDP(self.read())
        self.watcher = Watcher(
            Sources(paths).files,
            self.read,
            self.pdp.replace,
            health=self.health,
            on_reload=self.failures.append,
            roots=Sources(paths).roots,
            interval=interval,
            clock=clock,
        )

    def read(self) -> Snapshot:
        return read(self.paths)

    @property
    def allow(self) -> object:
        return self.pdp.decide("a/allow").result

    def state(self) -> tuple[object, bool, object]:
        """The active policy, whether the last reload failed, and what is wrong with the thread."""
        return self.allow, self.health.reload_error is not None, self.health.stopped


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.rego"
    path.write_text(FIRST)
    return path


@pytest.fixture
def watched(policy: Path) -> Iterator[Watched]:
    watched_ = Watched(str(policy))
    watched_.watcher.start()
    yield watched_
    watched_.watcher.close()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(threads=1)


@pytest.fixture
def polled(policy: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Files that are polled each second of the clock, as on a system without inotify."""
    monkeypatch.setattr(reload, "open_events", lambda: None)
    watched_ = Watched(str(policy), interval=1.0, clock=clock)
    watched_.watcher.start()
    yield watched_
    watched_.watcher.close()


def write_over(path: Path, text: str) -> None:
    path.write_text(text)


def rename_over(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def remove_and_write(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize("change", [write_over, rename_over, remove_and_write])
def test_a_changed_file_comes_into_force(
    watched: Watched, policy: Path, change: Callable[[Path, str], None]
) -> None:
    assert watched.allow == 1
    change(policy, SECOND)
    wait_until(lambda: watched.allow == 2)
    wait_until(lambda: watched.health.reload_error is None)


def test_a_config_map_that_is_swapped_comes_into_force(tmp_path: Path) -> None:
    for name, text in (("..1", FIRST), ("..2", SECOND)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.rego").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "policy.rego").symlink_to("..data/policy.rego")
    watched = Watched(str(tmp_path))
    watched.watcher.start()
    try:
        assert watched.allow == 1
        (tmp_path / "..data_tmp").symlink_to("..2")
        os.replace(tmp_path / "..data_tmp", tmp_path / "..data")
        wait_until(lambda: watched.allow == 2)
    finally:
        watched.watcher.close()


def test_a_broken_file_leaves_the_old_policies_in_force_and_says_so(
    watched: Watched, policy: Path
) -> None:
    rename_over(policy, BROKEN)
    wait_until(lambda: watched.failures)
    assert watched.allow == 1
    assert "policy.rego:" in (watched.health.reload_error or "")
    rename_over(policy, SECOND)
    wait_until(lambda: len(watched.failures) > 1)
    wait_until(lambda: watched.allow == 2)
    assert watched.health.reload_error is None
    assert watched.failures == [True, False]


def test_a_file_that_is_gone_is_a_failed_reload(watched: Watched, policy: Path) -> None:
    policy.unlink()
    wait_until(lambda: watched.health.reload_error is not None)
    assert watched.allow == 1
    policy.write_text(SECOND)
    wait_until(lambda: watched.allow == 2)


def test_a_current_folder_that_is_gone_is_named_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write_over(home / "policy.rego", FIRST)
    monkeypatch.chdir(home)
    watched_ = Watched("policy.rego")
    watched_.watcher.start()
    try:
        shutil.rmtree(home)
        gone = f"{home}: the folder of the relative file names was deleted"
        wait_until(lambda: watched_.health.reload_error == gone)
        assert watched_.allow == 1
        home.mkdir()
        write_over(home / "policy.rego", SECOND)
        wait_until(lambda: watched_.allow == 2)
        wait_until(lambda: watched_.health.reload_error is None)
        write_over(home / "policy.rego", FIRST)
        wait_until(lambda: watched_.allow == 1)
    finally:
        watched_.watcher.close()


def test_a_new_file_in_a_folder_comes_into_force(tmp_path: Path, policy: Path) -> None:
    watched = Watched(str(tmp_path))
    watched.watcher.start()
    try:
        (tmp_path / "data.json").write_text('{"roles": 1}')
        wait_until(lambda: watched.pdp.decide("roles").result == 1)
    finally:
        watched.watcher.close()


def test_data_in_the_place_of_a_rule_leaves_the_old_snapshot(tmp_path: Path, policy: Path) -> None:
    watched = Watched(str(tmp_path))
    watched.watcher.start()
    try:
        (tmp_path / "data.json").write_text('{"a": {"allow": 3}}')
        wait_until(lambda: watched.health.reload_error is not None)
        assert "conflicting rule for data path a/allow found" in (watched.health.reload_error or "")
        assert watched.allow == 1
    finally:
        watched.watcher.close()


class UnknownError(Exception):
    """What a library raises that nobody thought of."""


FAULTS = [UnknownError("secret"), MemoryError(), RecursionError(), SystemExit(), LoadError(["no"])]


@pytest.mark.parametrize("error", FAULTS)
def test_a_reload_that_fails_in_any_way_keeps_the_old_and_is_tried_again(
    polled: Watched,
    policy: Path,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    failing = [True]

    def read() -> Snapshot:
        if failing:
            raise error
        return Watched.read(polled)

    monkeypatch.setattr(polled.watcher, "_read", read)
    rename_over(policy, SECOND)
    clock.advance(1.0 + reload.SETTLE)
    assert polled.failures == [True]
    assert polled.state() == (1, True, ())
    assert "secret" not in (polled.health.reload_error or "")
    failing.clear()  # and the files stay as they are
    clock.advance(0.5)
    assert polled.state() == (1, True, ())
    clock.advance(1.5)
    assert polled.state() == (2, False, ())


def test_retries_come_after_pauses_that_double_up_to_a_limit(
    polled: Watched, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    def read() -> Snapshot:
        times.append(clock.now())
        if clock.now() < 120.0:
            raise LoadError(["no"])
        return Watched.read(polled)

    monkeypatch.setattr(polled.watcher, "_read", read)
    assert not polled.watcher.reload()
    clock.advance(1000.0)
    assert times == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0, 91.0, 121.0]
    assert polled.failures == [True] * 8 + [False]
    times.clear()
    clock.advance(0.5)  # after a success they begin again
    monkeypatch.setattr(polled.watcher, "_read", lambda: fail(times, clock))
    polled.watcher.reload()
    clock.advance(8.0)
    assert times == [1000.5, 1002.0, 1004.0, 1008.0]


def fail(times: list[float], clock: VirtualClock) -> Snapshot:
    times.append(clock.now())
    raise LoadError(["no"])


def test_workers_that_cannot_be_replaced_say_why(
    watched: Watched, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(_snapshot: Snapshot) -> None:
        raise NotReplacedError("a worker ended before it served: srv.pem is not usable")

    monkeypatch.setattr(watched.watcher, "_replace", replace)
    rename_over(policy, SECOND)
    wait_until(lambda: watched.health.reload_error is not None)
    assert watched.health.reload_error == "a worker ended before it served: srv.pem is not usable"
    assert watched.allow == 1


@pytest.mark.parametrize("error", [UnknownError(), MemoryError(), OSError()])
def test_a_watcher_that_cannot_look_says_so_and_looks_again(
    polled: Watched,
    policy: Path,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    failing = [True]
    read = reload.read_signature

    def fail(files: reload.Files) -> reload.Signature:
        if failing:
            raise error
        return read(files)

    monkeypatch.setattr(reload, "read_signature", fail)
    clock.advance(10.0)
    assert polled.state() == (1, False, (("policy-watch", "failing"),))
    write_over(policy, SECOND)
    failing.clear()
    clock.advance(LONGEST_PAUSE + 2.0)
    assert polled.state() == (2, False, ())


def test_a_watcher_that_is_stuck_or_dead_is_known_to_be(
    polled: Watched, policy: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    during: list[object] = []

    def read() -> Snapshot:
        for _ in range(2):
            clock.advance(reload.STUCK_AFTER * 0.75)
            during.append(polled.state())
        return Watched.read(polled)

    monkeypatch.setattr(polled.watcher, "_read", read)
    write_over(policy, SECOND)
    clock.advance(2.0)
    assert during == [(1, False, ()), (1, False, (("policy-watch", "stuck"),))]
    clock.advance(1.0)  # the next round
    assert polled.state() == (2, False, ())
    polled.watcher._stop.set()  # not told to: it ends by itself
    wait_until(lambda: polled.health.stopped == (("policy-watch", "dead"),))
    polled.watcher.close()
    assert polled.health.stopped == ()


def test_a_failure_is_said_once_and_counted_each_time(
    polled: Watched,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read() -> Snapshot:
        raise LoadError(["no"])

    monkeypatch.setattr(polled.watcher, "_read", read)
    polled.watcher.reload()
    clock.advance(60.0)
    assert polled.failures == [True] * 6
    assert [record.getMessage() for record in caplog.records] == [
        "Reload failed; the previous policies stay active."
    ]


@contextmanager
def changing(folder: Path, change: Callable[[int], None]) -> Iterator[list[int]]:
    """`change(n)` for n = 1, 2, … without a rest; the numbers that were written."""
    written: list[int] = []
    end = threading.Event()

    def work() -> None:
        while not end.wait(0.001):
            change(len(written) + 1)
            written.append(len(written) + 1)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield written
    finally:
        end.set()
        worker.join()


@pytest.mark.long
@pytest.mark.parametrize("write", [write_over, rename_over])
def test_files_that_go_on_changing_come_into_force_meanwhile(
    watched: Watched, policy: Path, write: Callable[[Path, str], None]
) -> None:
    def change(number: int) -> None:
        write(policy, f"package a\n\nallow := {number}\n")

    with changing(policy.parent, change) as written:
        wait_until(lambda: len(written) > 3)
        for _ in range(3):
            seen, least = watched.allow, len(written)
            wait_until(lambda seen=seen, least=least: newer(watched.allow, seen, least))  # type: ignore[misc]  # the stubs' lambda has no default
    wait_until(lambda: watched.allow == len(written))
    wait_until(lambda: watched.health.reload_error is None)


def newer(allow: object, seen: object, least: int) -> bool:
    return isinstance(allow, int) and allow != seen and allow >= least


def test_a_policy_is_withdrawn_while_its_neighbours_change(tmp_path: Path, policy: Path) -> None:
    watched = Watched(str(tmp_path))
    watched.watcher.start()
    try:
        with changing(tmp_path, lambda n: write_over(tmp_path / "data.json", f'{{"n": {n}}}')):
            rename_over(policy, SECOND)
            wait_until(lambda: watched.allow == 2)
    finally:
        watched.watcher.close()


class Files:
    """What the files are like, and the time, as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interval: float = 0.25) -> None:
        self.number = 0
        self.clock = VirtualClock()
        self.spent = 0.0
        monkeypatch.setattr(reload, "read_signature", self.signature)
        self.polls = reload._Polls(
            list, self.signature(list), interval, clock=self.clock, used=lambda: self.spent
        )

    @property
    def now(self) -> float:
        return self.clock.now()

    def signature(self, _files: reload.Files) -> reload.Signature:
        return (("f", 1, 1, 1, 1, self.number),)

    def wait(self) -> bool:
        """until the next poll; whether the files are to be read then."""
        self.clock.advance(self.polls.pause)
        return self.polls.is_due()


def test_a_change_is_read_when_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(monkeypatch)
    assert not files.wait()
    files.number += 1
    assert [files.wait() for _ in range(4)] == [False, True, False, False]
    assert files.now <= 4 * 0.25 + reload.SETTLE


def test_a_change_among_changes_is_read_within_a_second_and_once_more_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = Files(monkeypatch)
    for _ in range(3):
        begin, due = files.now, False
        while not due:
            files.number += 1
            due = files.wait()
        assert files.now - begin <= 1.1
    # Back to what it was when it began, as a link may be: even that is read.
    files.number = 0
    assert [files.wait() for _ in range(3)] == [False, True, False]


def test_the_time_that_a_read_waits_for_the_processor_is_no_time_to_look_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = Files(monkeypatch)
    with files.polls.reading():
        files.clock.advance(0.75)
        files.spent += 0.05
    assert files.polls.pause == 0.25
    with files.polls.reading():
        files.spent += 5.0  # half of the processor's time, at most
    assert files.polls.pause == 5.0
