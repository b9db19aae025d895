"""Whatever is done to watched files wakes the watcher; what does not concern them does not."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.sources import Sources
from doorward.pdp import file_events, reload
from doorward.pdp.file_events import FileEvents, watched_names
from doorward.pdp.pdp import PDP
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Snapshot, read
from doorward.telemetry.health import Health

POLICY = "package a\n\nallow := {}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of policies, below one of its own, and a link that leads to it."""
    folder = tmp_path / "all/policies"
    folder.mkdir(parents=True)
    (folder / "policy.rego").write_text(POLICY.format(1))
    (folder / "empty").mkdir()
    (tmp_path / "link").symlink_to("all/policies")
    return folder


@pytest.fixture
def events() -> Iterator[FileEvents]:
    events = FileEvents()
    yield events
    events.close()


def watch(events: FileEvents, root: Path) -> None:
    assert events.watch(watched_names([str(root)], Sources([str(root)]).files()))
    assert not events.drain()


def write(folder: Path) -> None:
    (folder / "policy.rego").write_text(POLICY.format(2))


def append(folder: Path) -> None:
    with (folder / "policy.rego").open("a") as file:
        file.write("# more\n")


def rename_over(folder: Path) -> None:
    (folder / "policy.new").write_text(POLICY.format(2))
    os.replace(folder / "policy.new", folder / "policy.rego")


def remove(folder: Path) -> None:
    (folder / "policy.rego").unlink()


def forbid(folder: Path) -> None:
    (folder / "policy.rego").chmod(0)


def add_a_folder(folder: Path) -> None:
    (folder / "more").mkdir()


def add_below(folder: Path) -> None:
    (folder / "empty/data.json").write_text("{}")


def move_away(folder: Path) -> None:
    folder.rename(folder.with_name("old"))


def move_away_above(folder: Path) -> None:
    folder.parent.rename(folder.parent.with_name("old"))


CHANGES = [
    write,
    append,
    rename_over,
    remove,
    forbid,
    add_a_folder,
    add_below,
    move_away,
    move_away_above,
]


@pytest.mark.parametrize("root", ["all/policies", "link", "link/../policies/"])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_an_event(
    events: FileEvents, folder: Path, tmp_path: Path, root: str, change: Callable[[Path], None]
) -> None:
    watch(events, tmp_path / root)
    change(folder)
    assert events.wait(PATIENCE)


def test_a_single_file_is_watched_by_its_name(events: FileEvents, folder: Path) -> None:
    watch(events, folder / "policy.rego")
    rename_over(folder)
    assert events.wait(PATIENCE)


def test_a_link_that_is_swapped_is_an_event(events: FileEvents, tmp_path: Path) -> None:
    for name in ("..1", "..2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.rego").write_text(POLICY.format(1))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "policy.rego").symlink_to("..data/policy.rego")
    watch(events, tmp_path / "policy.rego")
    (tmp_path / "..data_tmp").symlink_to("..2")
    os.replace(tmp_path / "..data_tmp", tmp_path / "..data")
    assert events.wait(PATIENCE)


def test_a_link_in_the_middle_of_the_way_is_watched(events: FileEvents, folder: Path) -> None:
    away = folder.parents[1] / "away"
    (away / "real").mkdir(parents=True)
    (away / "policy.rego").write_text(POLICY.format(1))
    (folder / "more").symlink_to(away / "real/..")
    watch(events, folder)
    (away / "real").rename(away / "gone")
    assert events.wait(PATIENCE)


def test_what_happens_beside_is_not_an_event(events: FileEvents, folder: Path) -> None:
    watch(events, folder)
    (folder.parent / "other").write_text("x")
    (folder.parents[1] / "other").mkdir()
    assert not events.drain()


def test_what_is_not_watched_any_more_is_not_an_event(events: FileEvents, folder: Path) -> None:
    watch(events, folder)
    watch(events, folder / "empty")
    append(folder)
    assert not events.drain()


def test_a_wait_ends_when_it_is_told_to(events: FileEvents, folder: Path) -> None:
    watch(events, folder)
    waiter = threading.Thread(target=events.wait, args=(2 * PATIENCE,))
    waiter.start()
    events.wake()
    waiter.join(PATIENCE)
    assert not waiter.is_alive()


def test_file_systems_of_others_and_too_many_folders_are_not_watched(
    events: FileEvents, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = watched_names([str(folder)], [])
    monkeypatch.setattr(file_events, "LOCAL", frozenset({"nfs"}))
    assert not events.watch(names)
    monkeypatch.undo()
    assert events.watch(names)
    monkeypatch.setattr(file_events, "FOLDERS", len(names) - 1)
    assert not events.watch(names)


def test_a_folder_that_is_gone_meanwhile_is_not_watched(events: FileEvents, folder: Path) -> None:
    names = watched_names([str(folder)], [])
    (folder / "empty").rmdir()
    assert not events.watch(names)


def test_more_events_than_the_kernel_keeps_are_one(events: FileEvents, folder: Path) -> None:
    watch(events, folder)
    events._names = {}  # as if each of them did not matter
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(limit):  # two events each, no two alike in a row
        os.rename(
            (folder / f"{number % 2}") if number else (folder / "policy.rego"),
            folder / f"{(number + 1) % 2}",
        )
    assert events.drain()


MOUNTS = """\
27 1 254:0 / / rw - ext4 /dev/vda rw
30 27 0:27 / /mnt/a\\040b rw master:1 - nfs4 host:/x rw
31 30 0:28 / /mnt/a\\040b/c rw - tmpfs x rw
garbage
"""


@pytest.mark.parametrize(
    ("folder", "is_local"),
    [("/x", True), ("/", True), ("/mnt/a b/x", False), ("/mnt/a b/c/d", True), ("/mnt/a", True)],
)
def test_the_file_system_of_a_folder_is_the_innermost_mount(folder: str, is_local: bool) -> None:
    mounts = dict(file_events._mounts(MOUNTS.splitlines()))
    assert file_events._is_local(folder, mounts, {}) is is_local


@pytest.mark.parametrize("with_stop", [False, True])
def test_a_watcher_reads_what_it_is_told_of_and_else_sleeps(
    folder: Path, monkeypatch: pytest.MonkeyPatch, with_stop: bool
) -> None:
    monkeypatch.setattr(reload, "SELDOM", 3600.0)
    polls = 0
    signature = reload.read_signature

    def count(files: reload.Files) -> reload.Signature:
        nonlocal polls
        polls += 1
        return signature(files)

    monkeypatch.setattr(reload, "read_signature", count)

    def build() -> Snapshot:
        return read([str(folder)])

    pdp, sources, stop = PDP(build()), Sources([str(folder)]), Waking()
    watcher = Watcher(
        sources.files,
        build,
        pdp.replace,
        health=Health(),
        roots=sources.roots,
        interval=0.01,
        stop=stop if with_stop else None,
    )
    watcher.start()
    try:
        for number in (2, 3):
            wait_until(lambda: not watcher._is_stale and watcher._polls.are_at_rest)
            wait_until(lambda: is_quiet(lambda: polls))
            (folder / "policy.rego").write_text(POLICY.format(number))
            wait_until(lambda number=number: pdp.decide("a/allow").result == number)  # type: ignore[misc]  # the stubs' lambda has no default
        (folder / "empty/inner").mkdir()
        wait_until(lambda: not watcher._is_stale and is_quiet(lambda: polls))
        (folder / "empty/inner/data.json").write_text('{"roles": 1}')
        wait_until(
            lambda: pdp.decide("empty/inner/roles").result == 1 or pdp.decide("roles").result == 1
        )
    finally:
        watcher.close()
    assert not watcher._thread.is_alive()


class Waking(reload.Stop):
    """As the parent of workers waits, which has more to wait for than files."""

    def wait(self, timeout: float | None = None) -> bool:
        until = time.monotonic() + (timeout or 0.0)
        while not super().wait(0.002) and time.monotonic() < until:
            if self.descriptor is not None and select.select([self.descriptor], [], [], 0)[0]:
                break
        return self.is_set()


def is_quiet(count: Callable[[], int]) -> bool:
    """Whether nothing is counted in twenty times the interval."""
    before = count()
    threading.Event().wait(0.2)
    return count() == before
