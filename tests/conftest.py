"""Fixtures for every test, and one line at the end about the data that is not here."""

from __future__ import annotations

import signal
import tarfile
from pathlib import Path

import pytest
from hypothesis import settings
from tests.corpora import DATA, MISSING

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """A shell starts what it puts into the background with Ctrl-C ignored, and whatever that starts
    ignores it too: what tests start must not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes is the machine's business.
    settings.register_profile("doorward", deadline=None)
    settings.load_profile("doorward")


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


SYSTEM = {"acceptance", "docker", "drills", "people", "redirect"}
"""The folders whose tests start daemons, databases or namespaces."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Daemons and networks are for one process: they are not started twice."""
    for item in items:
        if item.path.relative_to(ROOT / "tests").parts[0] in SYSTEM:
            item.add_marker(pytest.mark.xdist_group("system"))


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
