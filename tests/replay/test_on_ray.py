"""A cluster decides what one process does, even if an actor is killed half-way."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from doorward.bundles.loader import Loaded
from doorward.cli.main import run
from doorward.replay import ReplayError, Tally, as_json, replay

# Ray reads settings that it calls deprecated itself.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
POLICY = 'package app\n\nallow if input.user == "ann"\n'
EVENTS = 4_000
SIZE = 16 << 10
"""Bytes of a unit: there are some dozens."""


@pytest.fixture(scope="module")
def cluster(clusters: Any) -> Iterator[None]:
    """Two workers, on this machine."""
    # Below the folders of pytest the path of a socket of Ray's has more than the 107 bytes it may.
    with (
        clusters.settings(),
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
    ):
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        clusters.ray.init(
            "local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=100 << 20,
            _temp_dir=folder,
            **quiet,
        )
        yield
        clusters.ray.shutdown()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    events = [
        {
            "decision_id": f"id-{number}",
            "path": "app/allow",
            "input": {"user": "ann" if number % 3 else f"user-{number}"},
            "result": number % 2 == 0,
            "timestamp": f"2026-11-22T18:{number // 60 % 60:02}:{number % 60:02}Z",
        }
        for number in range(EVENTS)
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.mark.usefixtures("cluster")
def test_the_report_is_the_same_though_an_actor_is_killed_half_way(
    clusters: Any, log: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    recipe = clusters.WaitingRecipe(Loaded({"p.rego": POLICY}), gate=str(gate), half=EVENTS // 2)
    killed: list[int] = []

    def kill(_tally: Tally) -> None:
        if not killed:
            (actor, *_others) = wait_until(clusters.living_actors)
            killed.append(actor["Pid"])
            os.kill(killed[0], signal.SIGKILL)
            gate.touch()

    tally = clusters.on_ray.replay_on_ray(
        [str(log)], recipe, address="local", actors=2, on_progress=kill, size=SIZE
    )
    assert killed
    assert as_json(tally) == as_json(replay([str(log)], recipe.job(), processes=1))
    assert tally.changes > 0


@pytest.mark.usefixtures("cluster")
def test_the_command_decides_on_a_cluster(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "p.rego"
    policy.write_text(POLICY)
    given = ["replay", "--log", str(log), "--policy", str(policy), "--format", "json"]
    reports = []
    for more in ([], ["--ray", "local", "--parallel", "1"]):
        assert run([*given, *more]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0] == reports[1]


@pytest.mark.usefixtures("cluster")
def test_a_file_that_an_actor_cannot_read_is_an_error(clusters: Any, tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(b"\x1f\x8b and no more")
    recipe = clusters.on_ray.Recipe(Loaded({"p.rego": POLICY}))
    with pytest.raises(ReplayError, match=r"log\.gz: "):
        clusters.on_ray.replay_on_ray([str(tmp_path / "log.gz")], recipe, address="local", actors=1)


def test_built_ins_of_ones_own_are_for_one_machine(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builtins = tmp_path / "b.py"
    builtins.write_text("")
    given = ["replay", "--log", str(log), "--policy", str(tmp_path), "--ray", "local"]
    assert run([*given, "--builtins", str(builtins)]) == 1
    assert "--ray cannot be combined with --builtins" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Exception("Retried.\nThe node timed out during startup.\n"), "The node timed out"),
        (TimeoutError(), "TimeoutError$"),
    ],
)
def test_a_node_that_does_not_start_is_told(
    error: Exception, message: str, clusters: Any, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(*_address: str, **_known: Any) -> None:
        raise error

    monkeypatch.setattr(clusters.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(clusters.ray, "init", init)
    with pytest.raises(ReplayError, match=f"^ray: {message}"):
        clusters.on_ray.replay_on_ray(
            [str(log)],
            clusters.on_ray.Recipe(Loaded({"p.rego": POLICY})),
            address="local",
            actors=1,
        )
