"""Changed files come into force however they were changed; broken ones never do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from doorward.pdp.health import Health
from doorward.pdp.pdp import PDP
from doorward.pdp.reload import Watcher
from doorward.pdp.snapshot import Snapshot, read
from doorward.pdp.sources import Sources

FIRST = "package a\n\nallow := 1\n"
SECOND = "package a\n\nallow := 2\n"
BROKEN = "package a\n\nallow := nope(\n"


class Watched:
    """A decision point whose files are watched, quickly."""

    def __init__(self, *paths: str) -> None:
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
            interval=0.02,
        )

    def read(self) -> Snapshot:
        return read(self.paths)

    @property
    def allow(self) -> object:
        return self.pdp.decide("a/allow").result


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.rego"
    path.write_text(FIRST)
    return path


@pytest.fixture
def watched(policy: Path) -> Iterator[Watched]:
    found = Watched(str(policy))
    found.watcher.start()
    yield found
    found.watcher.close()


def write_over(path: Path, text: str) -> None:
    path.write_text(text)


def rename_over(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def remove_and_write(path: Path, text: str) -> None:
    path.unlink()
    time.sleep(0.1)
    path.write_text(text)


@pytest.mark.parametrize("change", [write_over, rename_over, remove_and_write])
def test_a_changed_file_comes_into_force(
    watched: Watched, policy: Path, change: Callable[[Path, str], None]
) -> None:
    assert watched.allow == 1
    change(policy, SECOND)
    assert until(lambda: watched.allow == 2)
    assert until(lambda: watched.health.reload_error is None)


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
        assert until(lambda: watched.allow == 2)
    finally:
        watched.watcher.close()


def test_a_broken_file_leaves_the_old_policies_in_force_and_says_so(
    watched: Watched, policy: Path
) -> None:
    rename_over(policy, BROKEN)
    assert until(lambda: watched.health.reload_error is not None)
    assert watched.allow == 1
    assert "policy.rego:" in (watched.health.reload_error or "")
    assert watched.failures == [True]
    rename_over(policy, SECOND)
    assert until(lambda: watched.allow == 2)
    assert watched.health.reload_error is None
    assert watched.failures == [True, False]


def test_a_file_that_is_gone_is_a_failed_reload(watched: Watched, policy: Path) -> None:
    policy.unlink()
    assert until(lambda: watched.health.reload_error is not None)
    assert watched.allow == 1


def test_a_new_file_in_a_folder_comes_into_force(tmp_path: Path, policy: Path) -> None:
    watched = Watched(str(tmp_path))
    watched.watcher.start()
    try:
        (tmp_path / "data.json").write_text('{"roles": 1}')
        assert until(lambda: watched.pdp.decide("roles").result == 1)
    finally:
        watched.watcher.close()


def test_data_in_the_place_of_a_rule_leaves_the_old_snapshot(tmp_path: Path, policy: Path) -> None:
    watched = Watched(str(tmp_path))
    watched.watcher.start()
    try:
        (tmp_path / "data.json").write_text('{"a": {"allow": 3}}')
        assert until(lambda: watched.health.reload_error is not None)
        assert "conflicting rule for data path a/allow found" in (watched.health.reload_error or "")
        assert watched.allow == 1
    finally:
        watched.watcher.close()
