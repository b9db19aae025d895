"""Fixtures for every test, and one line at the end about the data that is not here."""

from __future__ import annotations

import gc
import logging
import os
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from tests.corpora import DATA, MISSING
from tests.guard import Guard
from tests.parsing import trees_frozen
from tests.tiers import QUICK, Tiers, has_no_quick_test

pytest_plugins = ["tests.processes"]
ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """A shell starts what it puts into the background with Ctrl-C ignored, and whatever that starts
    ignores it too: what tests start must not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes, and how long it takes to make one, is the machine's business. A
    # test run has the same examples each time; other ones are for those who look for more.
    settings.register_profile(
        "doorward",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize="property" not in config.option.markexpr,
    )
    settings.load_profile("doorward")
    # No test finds what another one, or the user, has left.
    os.environ["DOORWARD_CACHE_DIR"] = ""
    # Hypothesis puts constants of the modules that are loaded into its examples: which these are
    # depends on the tests that ran before in a process.
    providers._get_local_constants = Constants


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """A command of a server sends every log of the process elsewhere, to a stream of its test."""
    log = logging.getLogger()
    handlers, level = log.handlers[:], log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)


@pytest.fixture(scope="module")
def trees() -> Iterator[None]:
    """For modules with rules about all sources."""
    with trees_frozen():
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def docker_captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of recorded calls of a Docker daemon."""
    folder = tmp_path_factory.mktemp("docker-captures")
    with tarfile.open(DATA / "docker-captures.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Archives hold the time at which they were made, and processes that share the tests must
    collect the same names: bytes are not a name."""
    return argname if isinstance(val, bytes) and not val.isascii() else None


LONG: Final = ("soak", "property")
"""The marks of tests that run only where `-m` names their mark: `make soak`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers = Tiers()
    for item in items:
        if isinstance(item, pytest.Function) and tiers.uses_system(item):
            item.add_marker("system")
    off = [mark for mark in LONG if mark not in config.option.markexpr]
    excluded = [item for item in items if any(item.get_closest_marker(mark) for mark in off)]
    if excluded:
        config.hook.pytest_deselected(items=excluded)
        items[:] = [item for item in items if item not in set(excluded)]


GUARD: Final = Guard()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A quick test stays in its process."""
    GUARD.watch()
    try:
        return (yield)
    finally:
        GUARD.release()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Last, so that what fixtures did counts as well; but not those of the session, which end
    behind the last test of a process, whichever that is."""
    reached = GUARD.release() if nextitem is None else []
    result = yield
    reached += GUARD.release()
    if not any(item.get_closest_marker(mark) for mark in ("system", "long", *LONG)):
        reached += GUARD.left()
        if not reached:
            return result
        text = "\n".join(reached)
        pytest.fail(f"a test that is not marked `system` left its process:\n{text}", pytrace=False)
    return result


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `-m` would leave out as a whole is not imported, which takes half of the time."""
    if config.option.markexpr != QUICK:
        return None
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if (is_test or collection_path.is_dir()) and has_no_quick_test(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What the tests are made of stays: looking for garbage in it takes a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """No collection of garbage visits the tests again, which takes seconds."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for all tests that wait for OPA's programs, in place of one for each."""
    skipped = terminalreporter.stats.get("skipped", [])
    missing = [each for each in skipped if MISSING in str(each.longrepr)]
    if missing:
        terminalreporter.stats["skipped"] = [each for each in skipped if each not in missing]
        terminalreporter.write_line(
            f"{len(missing)} tests skipped: {MISSING}; `scripts/get-corpora` fetches its suite"
        )
