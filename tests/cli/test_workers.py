"""`doorward run --workers`: several processes that look like one."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from envoy.service.auth.v3 import external_auth_pb2, external_auth_pb2_grpc
from tests.cli.test_run import CONFIG, POLICY, Process, replace
from tests.waiting import PATIENCE, wait_until

from doorward.cli.envoy import command as envoy_command
from doorward.envoy.addresses import AddressError, worker_addresses
from doorward.envoy.options import Options
from doorward.envoy.server import StartError, bind_workers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "doorward.yaml").write_text(CONFIG.format(folder=tmp_path))
    return tmp_path


@pytest.fixture
def group(folder: Path) -> Iterator[Process]:
    server = Process(
        folder, "--config-file=doorward.yaml", "--workers=2", "policy.rego", "--set=labels.a=b"
    )
    assert server.ready(), server.log.read_text()
    yield server
    server.process.kill()
    server.process.wait(PATIENCE)


def metrics(server: Process) -> dict[str, float]:
    url = f"http://127.0.0.1:{server.diagnostic}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def children(server: Process) -> list[int]:
    pid = server.process.pid
    return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def revisions(server: Process) -> list[str]:
    answer = server.ask("/health?plugins", port=server.diagnostic)[1]
    return [each["revision"] for each in answer["workers"]] if isinstance(answer, dict) else []


COUNT = 'http_request_duration_seconds_count{code="200",handler="v1/data",method="post"}'


def decide(server: Process, times: int) -> None:
    for _ in range(times):
        status, answer = server.ask("/v1/data/envoy/authz/allow", {"input": {"user": "ann"}})
        assert (status, answer["result"]) == (200, True)


def check(address: str) -> Any:
    with grpc.insecure_channel(address) as channel:
        stub = external_auth_pb2_grpc.AuthorizationStub(channel)
        return stub.Check(external_auth_pb2.CheckRequest(), timeout=PATIENCE)


def test_workers_decide_and_count_as_one(group: Process, folder: Path) -> None:
    assert len(children(group)) == 2
    decide(group, 20)
    for name in ("check.sock", "check.sock.0", "check.sock.1"):
        assert check(f"unix:{folder}/{name}").status.code != 0
    wait_until(lambda: metrics(group).get(COUNT) == 20)
    wait_until(lambda: another_revision(group, ""))
    assert group.end() == 0
    events = group.messages("Decision Log")
    assert len(events) == len({event["decision_id"] for event in events}) == 23
    assert len({event["labels"]["id"] for event in events}) == 1
    assert not list(folder.glob("check.sock*"))


def test_idle_workers_sleep(group: Process) -> None:
    def wakes() -> int:
        pids = [group.process.pid, *children(group)]
        texts = [
            status.read_text()
            for pid in pids
            for status in Path("/proc").glob(f"{pid}/task/*/status")
        ]
        return sum(
            int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for text in texts
        )

    def is_asleep() -> bool:
        before, since = wakes(), time.monotonic()
        time.sleep(2.0)
        # Each worker looks once a second; with rounds of 0.1 s there were forty a second.
        return (wakes() - before) / (time.monotonic() - since) <= 20

    wait_until(is_asleep, "idle workers do not sleep")


def test_a_worker_that_died_is_replaced_and_what_it_counted_stays(group: Process) -> None:
    decide(group, 10)
    wait_until(lambda: metrics(group).get(COUNT) == 10)
    before = children(group)
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: before[0] not in children(group) and len(children(group)) == 2)
    wait_until(lambda: metrics(group)["worker_restarts_total"] == 1)
    wait_until(lambda: len(revisions(group)) == 2 and all(revisions(group)))
    decide(group, 10)
    wait_until(lambda: metrics(group).get(COUNT) == 20)
    assert group.end() == 0
    (line,) = group.messages("A worker process ended unexpectedly; it is started again.")
    assert line["exit"] == -signal.SIGKILL


def test_policies_change_in_every_worker_or_in_none(group: Process, folder: Path) -> None:
    before = wait_until(lambda: another_revision(group, ""))
    replace(folder / "policy.rego", "package envoy.authz\nallow if {")
    wait_until(lambda: metrics(group)['policy_reloads_total{result="failure"}'] == 1)
    wait_until(lambda: group.ask("/health?policies", port=group.diagnostic)[0] == 500)
    assert wait_until(lambda: another_revision(group, "")) == before
    decide(group, 5)
    old = set(children(group))
    replace(folder / "policy.rego", POLICY.replace('"ann"', '"bob"'))
    wait_until(lambda: another_revision(group, before))
    # The workers before them answer what has reached them, and end.
    wait_until(lambda: old.isdisjoint(children(group)))
    for _ in range(10):
        body = {"input": {"user": "bob"}}
        assert group.ask("/v1/data/envoy/authz/allow", body)[1]["result"] is True


def another_revision(group: Process, revision: str) -> str:
    """By what every worker decides now; "" while that is `revision`, or not the same."""
    shown = set(revisions(group))
    return shown.pop() if len(shown) == 1 and revision not in shown else ""


def test_no_decision_is_lost_while_policies_change(group: Process, folder: Path) -> None:
    failed: list[str] = []
    done = threading.Event()
    answered = [0]

    def call() -> None:
        # A call that meets GOAWAY before it is sent goes to another connection, as in any client.
        with grpc.insecure_channel(f"unix:{folder}/check.sock.1") as channel:
            stub = external_auth_pb2_grpc.AuthorizationStub(channel)
            while not done.is_set():
                try:
                    stub.Check(external_auth_pb2.CheckRequest(), timeout=PATIENCE)
                    answered[0] += 1
                except grpc.RpcError as error:
                    failed.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    known = wait_until(lambda: another_revision(group, ""))
    for number in range(3):
        replace(folder / "policy.rego", POLICY + f"\n# {number}\n")
        known = wait_until(partial(another_revision, group, known))
    wait_until(lambda: answered[0] or failed)
    done.set()
    caller.join(PATIENCE)
    assert failed == []


def test_clients_of_several_workers_write_nothing(group: Process) -> None:
    for method, path in (
        ("PUT", "/v1/data/a"),
        ("PUT", "/v1/policies/a"),
        ("DELETE", "/v1/data/a"),
    ):
        url = f"http://127.0.0.1:{group.port}{path}"
        request = urllib.request.Request(url, b"{}", method=method)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=PATIENCE)


def test_a_group_that_cannot_start_says_why(folder: Path) -> None:
    (folder / "doorward.yaml").write_text(
        json.dumps(
            {
                "plugins": {
                    "envoy_ext_authz_grpc": {
                        "addr": "127.0.0.1:0",
                        "path": "a",
                        "transport": "http2",
                    }
                }
            }
        )
    )
    server = Process(folder, "--config-file=doorward.yaml", "--workers=2", "policy.rego")
    assert server.process.wait(PATIENCE) == 1
    assert "2 workers need as many consecutive ports" in server.log.read_text()


# Addresses


def test_a_signal_to_reload_is_only_for_the_parent(group: Process) -> None:
    for pid in children(group):
        status = Path(f"/proc/{pid}/status").read_text()
        (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")]
        # Bit 0 is that of signal 1.
        assert int(mask, 16) >> (signal.SIGHUP - 1) & 1


def test_workers_that_cannot_log_say_why(folder: Path) -> None:
    server = Process(folder, "--workers=2", f"--set=decision_logs.file.path={folder}/none/log")
    assert server.process.wait(PATIENCE) == 1
    log = server.log.read_text()
    assert f"decision_logs: {folder}/none/log: " in log
    assert "fault" not in log


def test_each_worker_has_an_address_of_its_own() -> None:
    assert worker_addresses("unix:///run/a.sock", 2) == [
        ["unix:///run/a.sock", "unix:///run/a.sock.0"],
        ["unix:///run/a.sock.1"],
    ]
    assert worker_addresses("unix://@a", 2) == [["unix://@a", "unix://@a.0"], ["unix://@a.1"]]
    assert worker_addresses(":9191", 3) == [[":9191"], [":9192"], [":9193"]]
    assert worker_addresses("grpc://[::1]:9191", 2) == [
        ["grpc://[::1]:9191"],
        ["grpc://[::1]:9192"],
    ]
    for bad in ("127.0.0.1:65535", ":0", "unix:///" + "a" * 106):
        with pytest.raises(AddressError):
            worker_addresses(bad, 2)


def test_addresses_that_cannot_be_had_leave_nothing_bound(tmp_path: Path) -> None:
    (tmp_path / "a.sock.1").write_text("precious")
    with pytest.raises(StartError, match="not a socket"):
        bind_workers(Options(addr=f"unix://{tmp_path}/a.sock"), 2)
    with pytest.raises(StartError, match="transport: http2"):
        bind_workers(Options(addr=":9191", transport="grpcio"), 2)
    assert (tmp_path / "a.sock.1").read_text() == "precious"


def test_the_bootstrap_lists_every_worker() -> None:
    done = CliRunner().invoke(
        envoy_command, ["bootstrap", "--pdp", "unix:///run/a.sock", "--workers", "2"]
    )
    assert done.exit_code == 0, done.output
    assert "/run/a.sock.0" in done.output
    assert "/run/a.sock.1" in done.output
    assert "grpc_health_check" in done.output
    assert "ROUND_ROBIN" in done.output
    alone = CliRunner().invoke(envoy_command, ["bootstrap", "--pdp", "unix:///run/a.sock"])
    assert "grpc_health_check" not in alone.output
