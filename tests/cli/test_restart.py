"""Workers are restarted under load, and every request of every client is answered."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2, external_auth_pb2_grpc
from tests.cli.test_run import CONFIG, POLICY, Process, replace
from tests.waiting import PATIENCE, wait_until

PAUSE = 0.01
"""Seconds between two requests of a client: two for each interface make 200 a second."""
RESTARTS = 4
ANSWERS = 20
"""What each client is answered by each generation of workers, at least."""
BODY = json.dumps({"input": {"user": "ann"}})
HEADERS = {"content-type": "application/json"}
Client = Callable[[], str]


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Process]:
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "doorward.yaml").write_text(CONFIG.format(folder=tmp_path))
    server = Process(tmp_path, "--config-file=doorward.yaml", "--workers=2", "policy.rego")
    assert server.ready(), server.log.read_text()
    yield server
    server.process.kill()
    server.process.wait(PATIENCE)


def of_new_connections(server: Process) -> Client:
    """A client that connects for each request."""

    def ask() -> str:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        try:
            connection.request("POST", "/v1/data/envoy/authz/allow", BODY, HEADERS)
            answer = connection.getresponse()
            return f"{answer.status} {json.loads(answer.read())['result']}"
        finally:
            connection.close()

    return ask


def of_one_connection(connection: http.client.HTTPConnection) -> Client:
    """A client that keeps its connection as long as the server does.

    Where a connection ended between two requests nothing is lost: as every client of HTTP must, it
    connects again.
    """

    def ask() -> str:
        for _ in range(2):
            try:
                connection.request("POST", "/v1/data/envoy/authz/allow", BODY, HEADERS)
                answer = connection.getresponse()
                return f"{answer.status} {json.loads(answer.read())['result']}"
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                connection.close()
        return "lost"

    return ask


def of_checks(channel: grpc.Channel) -> Client:
    """A client as Envoy is one, on a channel to one worker that stays."""
    stub = external_auth_pb2_grpc.AuthorizationStub(channel)
    request = external_auth_pb2.CheckRequest()
    request.attributes.request.http.method = "GET"
    request.attributes.request.http.path = "/"

    def ask() -> str:
        return str(stub.Check(request, timeout=PATIENCE, wait_for_ready=True).status.code)

    return ask


def test_no_request_is_lost_while_workers_restart(group: Process, tmp_path: Path) -> None:
    with (
        closing(http.client.HTTPConnection("127.0.0.1", group.port, timeout=PATIENCE)) as kept,
        grpc.insecure_channel(f"unix:{tmp_path}/check.sock.0") as first,
        grpc.insecure_channel(f"unix:{tmp_path}/check.sock.1") as second,
    ):
        clients = [
            of_new_connections(group),
            of_one_connection(kept),
            of_checks(first),
            of_checks(second),
        ]
        answers = under_load(clients, group, tmp_path)
    assert [list(counted) for counted in answers] == [["200 True"], ["200 True"], ["7"], ["7"]]


def under_load(clients: Sequence[Client], group: Process, folder: Path) -> list[Counter[str]]:
    """What each client was answered, and how often, while the workers restarted."""
    answers: list[Counter[str]] = [Counter() for _ in clients]
    done = threading.Event()

    def run(client: Client, counted: Counter[str]) -> None:
        due = time.monotonic()
        while not done.is_set():
            try:
                counted[client()] += 1
            except (OSError, http.client.HTTPException, grpc.RpcError, ValueError) as error:
                counted[f"{type(error).__name__}: {error}"] += 1
            due += PAUSE
            time.sleep(max(due - time.monotonic(), 0.0))

    threads = [
        threading.Thread(target=run, args=pair) for pair in zip(clients, answers, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, RESTARTS + 1):
            replace(folder / "policy.rego", f"{POLICY}\nn := {number}\n")
            wait_until(partial(has_restarted, group, number))
            # The new workers have answered each of them.
            before = [sum(counted.values()) for counted in answers]
            wait_until(partial(have_grown, answers, before))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    return answers


def has_restarted(group: Process, times: int) -> bool:
    return len(group.messages("Policies and data reloaded.")) >= times


def have_grown(answers: Sequence[Counter[str]], before: Sequence[int]) -> bool:
    pairs = zip(answers, before, strict=True)
    return all(sum(counted.values()) >= count + ANSWERS for counted, count in pairs)
