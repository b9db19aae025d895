"""One private daemon for all tests of the folder; its chain is what each test makes it. The shipped
policies are compiled once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.docker.private_daemon import PrivateDaemon, missing
from tests.docker.pack import compiled_once


@pytest.fixture(scope="module", autouse=True)
def _policies_compiled_once() -> Iterator[None]:
    """Before all else of a module, and over with it: other tests compile what they load."""
    with compiled_once():
        yield


@pytest.fixture(scope="session")
def daemon_started() -> Iterator[PrivateDaemon]:
    reason = missing()
    if reason:
        pytest.skip(f"no daemon of our own: {reason}")
    # Short, since the path of a socket has at most 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="dwd-"))
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    daemon = PrivateDaemon(folder)
    daemon.prepare()
    try:
        daemon.start()
        daemon.import_image("img:1")
        yield daemon
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def daemon(daemon_started: PrivateDaemon) -> Iterator[PrivateDaemon]:
    """The daemon with no plugin in force, before and after."""
    yield daemon_started
    if daemon_started.config.read_text().strip() != "{}":
        daemon_started.chain()


@pytest.fixture(scope="session")
def unique() -> str:
    """A name for plugins that nobody else on this machine has."""
    return f"dwt{os.getpid()}"
