"""Every block of every page is run or checked, or is counted as one that cannot be run here."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
from tests.forking import command_folder
from tests.parsing import parsed
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.config.configuration import read_config
from doorward.rego import CompileError, Engine, EvalError
from doorward.rego.shared import Source
from doorward.rego.tools import parse_query

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "pages.toml").read_text())
NOT_RUN: int = PAGES.pop("not_run")
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "deploy/README.md"]
WRITTEN += [*sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/people/README.md"]
SERVERS = ("doorward run --server", "doorward playground")
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


class Block(NamedTuple):
    """A block of a page, and how it is tested."""

    page: str
    language: str
    text: str
    how: str


def fences(page: str) -> list[tuple[str, str]]:
    """The language and the text of each block."""
    text = (ROOT / page).read_text()
    shown = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [(language, dedent(block)) for _, language, block in shown]


def kinds(page: str, count: int) -> list[str]:
    """How each of the `count` blocks is tested: `x*3` is three times `x`, `x*` all of them."""
    result: list[str] = []
    for entry in PAGES[page]["blocks"]:
        how, _, times = entry.partition("*") if not entry.endswith("::*") else (entry, "", "1")
        result += [how] * int(times or (count if entry.endswith("*") else 1))
    return result


def blocks_of(page: str) -> list[Block]:
    shown = fences(page)
    known = kinds(page, len(shown))
    assert len(shown) == len(known), f"{page} has {len(shown)} blocks; pages.toml says {len(known)}"
    return [Block(page, *pair, how) for pair, how in zip(shown, known, strict=True)]


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def those(how: str) -> list[Block]:
    return [block for block in all_blocks() if block.how == how]


def test_every_page_with_blocks_is_listed() -> None:
    pages = [str(path.relative_to(ROOT)) for path in WRITTEN]
    assert [page for page in pages if fences(page)] == [page for page in pages if page in PAGES]
    assert set(PAGES) <= set(pages)


def test_every_test_that_is_named_exists() -> None:
    for block in all_blocks():
        file, mark, name = block.how.partition("::")
        if mark:
            text = (ROOT / file).read_text()
            assert name == "*" or f"def {name}(" in text, block.how
            # What is about a page reads it, or is what the page is made from.
            page = Path(block.page).name
            assert page in text or "README" in text or file in TESTS_OF_ALL, block.how


TESTS_OF_ALL = {
    "tests/acceptance/test_demo.py",
    "tests/cli/test_admission.py",
    "tests/docker/test_service.py",
    "tests/snippets/test_snippets.py",
    "tests/test_docs.py",
    "tests/test_site.py",
}
"""They read files that a page shows, or name pages by variables."""


def test_what_is_not_run_is_marked_and_counted() -> None:
    marked = [block for block in all_blocks() if block.language == "console"]
    here = [block for block in marked if "::" not in block.how]
    assert {block.how for block in here} == {"console"}
    commands = [
        line for block in here for line in block.text.splitlines() if line[:2] in ("$ ", "# ")
    ]
    assert len(commands) == NOT_RUN
    assert those("console") == here


@pytest.mark.parametrize("page", [page for page in PAGES if "run" in kinds(page, 99)])
def test_the_commands_of_a_page_run_in_a_clean_folder(page: str, tmp_path: Path) -> None:
    for name, source in PAGES[page].get("copies", {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            # Other processes write compiled modules there meanwhile.
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(ROOT / source, tmp_path / name)
    for name, content in PAGES[page].get("files", {}).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = content.removeprefix("\n").encode()
        file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    said = ""
    for block in blocks_of(page):
        if block.how == "output":
            assert block.text in said, said
        elif block.how == "run":
            for command in commands(block):
                said += (
                    served(command, tmp_path)
                    if command.startswith(SERVERS)
                    else ran(command, tmp_path)
                )


def commands(block: Block) -> Iterator[str]:
    text = block.text.replace("\\\n", " ")
    for old, new in PAGES[block.page].get("instead", {}).items():
        text = text.replace(old, new)
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield line


def environment(*, forks: bool = False) -> dict[str, str]:
    """That of commands; `doorward` is forked if `forks`, which saves its imports."""
    folders = [*([command_folder()] if forks else []), BIN, os.environ["PATH"]]
    return os.environ | {"PATH": os.pathsep.join(map(str, folders))}


def ran(command: str, folder: Path) -> str:
    """What a command prints, which ends with 0."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(forks=True),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def served(command: str, folder: Path) -> str:
    """Nothing; a server answers on an address of its own, and ends when it is told to."""
    addresses: list[str] = []

    def other(_address: re.Match[str]) -> str:
        addresses.append(f"127.0.0.1:{free_port()}")
        return addresses[-1]

    command = ADDRESS.sub(other, command)
    if not addresses:
        addresses.append(f"127.0.0.1:{free_port()}")
        command += f" --addr {addresses[-1]}"
    path = "/console/playground" if "playground" in command else "/health"
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=folder, env=environment(), stdout=log, stderr=log
        )
    try:
        wait_until(lambda: all(answers(f"http://{address}{path}") for address in addresses))
        server.send_signal(signal.SIGTERM)
        code = server.wait(PATIENCE)
    finally:
        server.kill()
        server.wait()
    assert code == 0, (folder / "server.log").read_text()
    return ""


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def name_of(block: Block) -> str:
    return f"{block.page}:{block.text[:20]!r}"


@pytest.mark.parametrize("block", those("config"), ids=name_of)
def test_a_part_of_a_configuration_is_read(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_KEY", "-----BEGIN PUBLIC KEY-----")
    file = tmp_path / "doorward.yaml"
    file.write_text(block.text)
    assert read_config(str(file)).warnings == ()


@pytest.mark.parametrize("block", those("rego"), ids=name_of)
def test_a_policy_compiles(block: Block) -> None:
    Engine({"policy.rego": block.text})


@pytest.mark.parametrize("block", those("body"), ids=name_of)
def test_the_body_of_a_rule_is_one(block: Block) -> None:
    assert len(parse_query(Source("query", block.text))) > 0


@pytest.mark.parametrize("block", those("json"), ids=name_of)
def test_json_is_read(block: Block) -> None:
    assert json.loads(block.text)


@pytest.mark.parametrize("block", those("toml"), ids=name_of)
def test_toml_is_read(block: Block) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("block", those("code"), ids=name_of)
def test_a_part_of_a_program_is_python(block: Block) -> None:
    assert parsed(block.text).body


@pytest.mark.parametrize("block", those("python"), ids=name_of)
def test_code_runs_after_what_it_needs(block: Block, tmp_path: Path) -> None:
    for name, content in PAGES[block.page].get("files", {}).items():
        if "/" not in name:
            (tmp_path / name).write_text(content.removeprefix("\n"))
    program = PAGES[block.page]["before"] + block.text
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", [*those("console"), *those("make")], ids=name_of)
def test_targets_and_extras_exist(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^(?:\$ )?make ([\w-]+)", block.text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for extra in re.findall(r"doorward\[(\w+)\]", block.text):
        assert extra in extras
    for script in re.findall(r"(?<=^\$ )scripts/[\w-]+", block.text, re.MULTILINE):
        assert os.access(ROOT / script, os.X_OK)


@pytest.mark.parametrize(("language", "text"), fences("docs/errors.md"))
def test_an_example_of_an_error_has_this_error(language: str, text: str) -> None:
    page = (ROOT / "docs/errors.md").read_text()
    code = re.findall(r"^## `(\w+)`$", page[: page.index(text)], re.MULTILINE)[-1]
    with pytest.raises((CompileError, EvalError)) as caught:
        Engine({"a.rego": text}).prepare("data.a").value({"x": 1, "y": 1})
    assert caught.value.diagnostics[0].code == code


def test_the_request_of_the_page_of_filters_is_answered(tmp_path: Path) -> None:
    policy, request = (fences("docs/filters.md")[number][1] for number in (1, 2))
    head, _, body = request.partition("\n\n")
    line, *headers = head.splitlines()
    method, path = line.split()
    (tmp_path / "policy.rego").write_text(policy)
    (tmp_path / "data.json").write_text('{"levels": {"ann": 2}}')
    address = f"127.0.0.1:{free_port()}"
    with (tmp_path / "log").open("w") as log:
        command = [str(BIN / "doorward"), "run", "--server", "--addr", address, "."]
        server = subprocess.Popen(command, cwd=tmp_path, stderr=log)
    try:
        wait_until(lambda: answers(f"http://{address}/health"))
        question = urllib.request.Request(f"http://{address}{path}", body.encode(), method=method)
        for header in headers:
            question.add_header(*header.split(": "))
        with urllib.request.urlopen(question, timeout=PATIENCE) as response:
            result = json.loads(response.read())["result"]
    finally:
        server.kill()
        server.wait()
    assert result["query"].startswith("WHERE ")
    assert "docs.owner = E'ann'" in result["query"]
