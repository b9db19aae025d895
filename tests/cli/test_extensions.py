"""`--builtins` and `[tool.doorward]`: the example of docs/extending.md, with every command."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.imports import forgetting
from tests.waiting import PATIENCE, wait_until

from doorward.cli.main import run

DOORWARD = str(Path(sys.executable).parent / "doorward")
PAGE = (Path(__file__).resolve().parents[2] / "docs/extending.md").read_text()
REGISTRY = "acme/policy_functions.py:registry"
QUERY = "data.shop.allow"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme/policy_functions.py").write_text(blocks("python")[0])
    policy, test = blocks("rego")
    (tmp_path / "shop.rego").write_text(policy)
    (tmp_path / "shop_test.rego").write_text(f"package shop_test\n\n{test}")
    (tmp_path / "input.json").write_text('{"article": "tea"}')
    with forgetting(tmp_path):
        yield tmp_path


def configure(shop: Path) -> None:
    (table,) = blocks("toml")
    (shop / "src").mkdir()
    (shop / "acme").rename(shop / "src/acme")
    (shop / "pyproject.toml").write_text(table)


CALLS = {
    "eval": ["eval", "-d", "shop.rego", "-i", "input.json", "--format", "raw", QUERY],
    "why": ["eval", "--why", "-d", "shop.rego", "-i", "input.json", QUERY],
    "check": ["check", "shop.rego"],
    "test": ["test", "shop.rego", "shop_test.rego"],
    "deps": ["deps", "-d", "shop.rego", QUERY],
    "emit": ["emit", "shop.rego"],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_command_knows_the_builtins_that_it_is_told(
    call: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(call) > 0
    said = capsys.readouterr()
    assert "acme.price" in said.out + said.err
    assert run([*call, "--builtins", REGISTRY]) == 0


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_command_knows_the_builtins_of_its_project(call: list[str], shop: Path) -> None:
    configure(shop)
    assert run(call) == 0
    assert run([*call, "--builtins", ""]) > 0


def test_the_shell_knows_them_too(shop: Path) -> None:
    configure(shop)
    done = subprocess.run(
        [DOORWARD, "run", "shop.rego"],
        input='acme.price("tea")\n',
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "3\n"


def test_the_command_of_the_page_runs(shop: Path) -> None:
    command, write = blocks("sh")[0].split(), re.search(r"`(doorward capab.*) > (.*)`", PAGE)
    assert write is not None
    installed = {"PYTHONPATH": str(shop)}
    done = subprocess.run(
        [DOORWARD, *command[1:]], env=installed, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["result"][0]["expressions"][0]["value"] is True
    done = subprocess.run(
        [DOORWARD, *write[1].split()[1:]],
        env=installed,
        capture_output=True,
        text=True,
        check=True,
    )
    (shop / write[2]).write_text(done.stdout)
    assert run(["check", "shop.rego", "--capabilities", write[2]]) == 0
    assert run(["test", "shop.rego", "shop_test.rego", "--capabilities", write[2]]) == 0


def test_without_being_installed_a_module_is_not_found_where_we_stand() -> None:
    command = blocks("sh")[0].split()
    done = subprocess.run(
        [DOORWARD, *command[1:], "--format", "raw"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no module `acme" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_exception_is_shown_as_on_the_page(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = shop / "acme/policy_functions.py"
    text = functions.read_text().replace("    if article", "    _PRICES[article]\n    if article")
    functions.write_text(text)
    (shop / "input.json").write_text('{"article": "coffee"}')
    assert run([*CALLS["eval"], "--builtins", REGISTRY]) == 2
    *shown, hint = capsys.readouterr().err.splitlines()[1:]
    assert "\n".join(shown) in PAGE
    assert hint.startswith("hint: KeyError: 'coffee' (")
    assert hint.endswith("in acme_price)")


def test_a_registry_that_cannot_be_imported_is_one_clear_line(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "acme/policy_functions.py").write_text("import nowhere_at_all")
    for call in CALLS.values():
        assert run([*call, "--builtins", REGISTRY]) > 0
        said = capsys.readouterr()
        line = "importing `acme/policy_functions.py` failed: ModuleNotFoundError: No module named"
        assert line in said.out + said.err
    assert run(["capabilities", "--builtins", REGISTRY]) == 1
    assert capsys.readouterr().err.startswith("Error: importing `acme/policy_functions.py` failed")


def test_a_server_imports_what_its_command_line_names_and_nothing_else(shop: Path) -> None:
    configure(shop)
    start = [DOORWARD, "run", "--server", "--addr", f"unix://{shop}/socket", "shop.rego"]
    refused = subprocess.run(start, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "undefined function acme.price" in refused.stderr
    registry = "src/" + REGISTRY
    with (
        (shop / "log").open("w") as log,
        subprocess.Popen([*start, "--builtins", registry], stderr=log) as process,
    ):
        try:
            wait_until(lambda: answers(shop / "socket"), (shop / "log").read_text)
            assert ask(shop / "socket", '{"input": {"article": "tea"}}') == {"result": True}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def answers(path: Path) -> bool:
    """Whether a server on a socket answers yet."""
    try:
        return bool(ask(path, "{}"))
    except OSError:
        return False


def ask(path: Path, body: str) -> Any:
    """What a server on a socket answers."""
    connection = HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    with closing(connection):
        connection.sock.connect(str(path))
        connection.request("POST", "/v1/data/shop/allow", body)
        answer = json.load(connection.getresponse())
        answer.pop("decision_id", None)
        return answer


@pytest.mark.parametrize(
    "command",
    [
        ["prove"],
        ["who-can", "data.p.allow", "--unknown", "input.user"],
        ["check"],
        ["test"],
        ["eval", "1", "-d"],
        ["bench", "1", "-d"],
        ["deps", "data.p", "-d"],
        ["run"],
    ],
)
def test_a_registry_that_does_not_exist_is_named_by_every_command(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package p\n\nallow if input.user\n")
    name, *rest = command
    assert run([name, "--builtins", "absent:registry", *rest, str(tmp_path / "p.rego")]) in (1, 2)
    shown = capsys.readouterr()
    assert "no module `absent`" in shown.err + shown.out
