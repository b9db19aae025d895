"""Clients that others wrote, without gRPC: nghttp and h2load of nghttp2."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.transport.test_server import serving
from tests.waiting import PATIENCE

from doorward.transport.grpc.messages import frame_message

FIELDS = ("-H", "content-type: application/grpc", "-H", "te: trailers")


def run(program: str, *arguments: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is missing: scripts/system-packages installs it")
    done = subprocess.run(
        [path, *arguments], capture_output=True, check=True, timeout=PATIENCE, text=True
    )
    return done.stdout


@pytest.fixture
def message(tmp_path: Path) -> str:
    (tmp_path / "message").write_bytes(frame_message(b"abc" * 10))
    return str(tmp_path / "message")


def test_nghttp_gets_an_answer_with_trailers(message: str) -> None:
    with serving() as served:
        url = f"http://127.0.0.1:{served.port}/a.A/Echo"
        said = run("nghttp", "--verbose", "--no-dep", "-d", message, *FIELDS, url)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert re.search(r"recv .*grpc-status: 0", plain)
    assert "abc" * 10 in plain


@pytest.mark.parametrize("window", ["16", "8"], ids=["64-KiB", "256-bytes"])
def test_h2load_loses_no_request(message: str, window: str) -> None:
    """`-w` is the exponent of the client's windows: with small ones responses arrive in pieces."""
    with serving() as served:
        url = f"http://127.0.0.1:{served.port}/a.A/Echo"
        load = ("-n", "2000", "-c", "5", "-m", "20", "-w", window, "-W", "16")
        said = run("h2load", *load, "-d", message, *FIELDS, url)
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in said
