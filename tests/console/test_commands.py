"""`doorward run --console` and `doorward playground`, as somebody starts them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.cli.main import run


def test_a_console_needs_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--server", "--console"]) == 1
    assert "--diagnostic-addr" in capsys.readouterr().err


def answer(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            text: str = response.read().decode()
            return text
    except OSError:
        return ""


def test_a_server_shows_what_it_decides(tmp_path: Path) -> None:
    (tmp_path / "p.rego").write_text("package app\n\nallow := true\n")
    main, diagnostic = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "doorward", "run", "--server", "--addr", main]
    command += ["--diagnostic-addr", diagnostic, "--console", str(tmp_path / "p.rego")]
    (tmp_path / "audit.log").write_text('{"decision_id": "d-1", "decision": "deny"}\n')
    command += ["--console-docker-log", str(tmp_path / "audit.log")]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answer(f"http://{diagnostic}/health") == "{}\n")
        decided = json.loads(answer(f"http://{main}/v1/data/app/allow"))
        assert decided["result"] is True
        with urllib.request.urlopen(f"http://{diagnostic}/console/api/decisions") as stream:
            lines = [stream.readline().decode() for _ in range(2)]
        (decision,) = json.loads(lines[1].removeprefix("data: "))["decisions"]
        assert decision["path"] == "app/allow"
        shown = json.loads(answer(f"http://{diagnostic}/console/api/decisions/{decision['id']}"))
        assert shown["tree"][0]["rule"] == "app.allow"
        (docker,) = json.loads(lines[1].removeprefix("data: "))["docker"]
        assert (docker["id"], docker["verdict"]) == ("d-1", "deny")
        reached = json.loads(answer(f"http://{diagnostic}/console/api/policies"))
        assert reached["decisions"] == 1
        state = json.loads(answer(f"http://{diagnostic}/console/api/state"))
        (own,) = state["workers"]
        assert (state["shadow"], list(own["status"])) == (False, ["labels", "plugins"])
        assert answer(f"http://{main}/console") == ""
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


AUTHZ = """package system.authz

default allow := false

allow if input.identity == "all"

allow if {
	input.identity == "state"
	input.method == "GET"
	input.path == ["console", "api", "state"]
}
"""
SCRIPT = "/console/static/console.js"
PAGES = ("", "decisions", "log", "playground", "policies", "revisions", "shadow")
DATA = ("decisions", "decisions/x", "log", "state", "revisions", "policies", "shadow", "files")
PATHS = [
    SCRIPT,
    *[f"/console/{each}".rstrip("/") for each in PAGES],
    *[f"/console/api/{each}" for each in DATA],
    "/console/api/playground/evaluate",
]
ODD = ("/console/", "//console", "/console//api/files", "/console/%61pi/files", "/console/./log")


def status(url: str, token: str = "", body: bytes | None = None) -> int:
    """The status of an answer, to which no redirect is followed."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
    address, _, path = url.removeprefix("http://").partition("/")
    with closing(HTTPConnection(address, timeout=PATIENCE)) as connection:
        connection.request("GET" if body is None else "POST", f"/{path}", body, headers)
        return connection.getresponse().status


def test_every_path_of_the_console_is_for_whom_system_authz_allows_it(tmp_path: Path) -> None:
    (tmp_path / "authz.rego").write_text(AUTHZ)
    (tmp_path / "p.rego").write_text("package app\n\nallow := true\n")
    main, diagnostic = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "doorward", "run", "--server", "--addr", main, "--console"]
    command += ["--diagnostic-addr", diagnostic, str(tmp_path)]
    command += ["--authentication=token", "--authorization=basic"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    play = json.dumps({"files": {}, "query": "1"}).encode()
    try:
        wait_until(lambda: answers(f"http://{diagnostic}/console"))
        for path in (*PATHS, *ODD):
            url, body = f"http://{diagnostic}{path}", play if "/playground/" in path else None
            if path == SCRIPT:
                assert status(url) == 200  # the page to log in needs it, and it holds nothing
                continue
            assert status(url, "none", body) in (401, 404), path
            # A browser is led to the page to log in.
            assert status(url, "", body) in ((401, 404) if "/api/" in path else (303, 401)), path
            own = path == "/console/api/state"
            assert (status(url, "state", body) == 200) is own, path
            if path in PATHS:
                assert status(url, "all", body) == 200 or path.endswith(("/x", "/shadow", "/log"))
        assert status(f"http://{diagnostic}/console/api/state", "state", b"{}") == 401
        assert status(f"http://{main}/console/api/state", "all") == 404
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


def answers(url: str) -> bool:
    try:
        return bool(status(url))
    except OSError:
        return False


def test_a_playground_begins_with_the_files_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "p.rego").write_text("package app\n\nallow := true\n")
    (tmp_path / "data.json").write_text('{"a": 1}')
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "doorward", "playground", "--addr", address, str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == f"http://{address}/console/playground\n"
        given = json.loads(answer(f"http://{address}/console/api/files"))
        assert list(given["files"].values()) == ["package app\n\nallow := true\n"]
        assert given["data"] == {"a": 1}
        assert answer(f"http://{address}/other") == ""
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        server.stdout.close()
