"""Starting costs little: the command line brings in what its command needs and nothing else."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SERVERS = {"grpc", "starlette", "uvicorn", "prometheus_client", "google.protobuf"}
LIBRARIES = {"cryptography", "graphql", "httpx", "jsonschema", "yaml"}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.rego"
    path.write_text("package a\n\nallow if input.x == 1\n")
    return path


def python(code: str, folder: Path) -> str:
    """What a fresh interpreter prints; its bytecode is kept, as that of installed code is."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_decision_on_the_command_line_takes_less_than_a_quarter_second(policy: Path) -> None:
    code = (
        f"from doorward.cli.main import run; run(['eval', '-d', {str(policy)!r}, 'data.a.allow'])"
    )
    python(code, policy.parent)
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python(code, policy.parent)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Time of the processor, so that a busy machine does not fail this.
    assert min(spent) < 0.25, spent


@pytest.mark.parametrize(
    ("arguments", "kept_out"),
    [
        (["eval", "1"], SERVERS | LIBRARIES),
        (["version"], SERVERS | LIBRARIES | {"doorward.rego"}),
        (["token", "--secret", "s"], SERVERS | LIBRARIES | {"doorward.rego"}),
        (["check", "--help"], SERVERS | LIBRARIES),
        (["--help"], SERVERS | LIBRARIES | {"doorward.rego"}),
    ],
)
def test_a_command_brings_in_only_what_it_needs(
    arguments: list[str], kept_out: set[str], tmp_path: Path
) -> None:
    code = (
        f"from doorward.cli.main import run; import sys; run({arguments!r}); "
        "print('loaded:', *sys.modules)"
    )
    loaded = python(code, tmp_path).rpartition("loaded:")[2].split()
    assert not kept_out & set(loaded)
