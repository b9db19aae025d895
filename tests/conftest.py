"""What every test may ask for: where the shared data lies, and whether it is there.

OPA's conformance suite and the recorded answers belong to other projects: they are read by path,
never copied. Tests that need them skip with the reason where they are missing.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

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
def shared() -> Path:
    """The folder of shared data (`DOORWARD_SHARED`, default `../shared`)."""
    folder = ROOT / os.environ.get("DOORWARD_SHARED", "../shared")
    if not folder.is_dir():
        pytest.skip(f"no shared data at `{folder}`: set DOORWARD_SHARED")
    return folder


@pytest.fixture(scope="session")
def opa_cases() -> Path:
    """OPA's conformance suite (`OPA_CASES`, default `../shared/data/rego-v1.jsonl.gz`)."""
    file = ROOT / os.environ.get("OPA_CASES", "../shared/data/rego-v1.jsonl.gz")
    if not file.is_file():
        pytest.skip(f"no conformance suite at `{file}`: set OPA_CASES")
    return file
