"""Python's own tools on Rego: coverage.py, pdb, the profiler and tracebacks show policies."""

from __future__ import annotations

import cProfile
import io
import json
import os
import pdb
import pstats
import subprocess
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

import doorward
from doorward.rego import Engine, EvalError

POLICY = """package authz

default allow := false

allow if {
    input.method == "GET"
    some role in input.roles
    level := levels[role]
    level > 2
}

levels := {"guest": 1, "admin": 3}

never if {
    input.x
}

twice := 1 if input.method

twice := 2 if input.roles
"""
TESTS = """package authz_test

test_admin if data.authz.allow with input as {"method": "GET", "roles": ["admin"]}

test_post if not data.authz.allow with input as {"method": "POST"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "policy_test.rego").write_text(TESTS)
    return tmp_path


def engine(*, traced: bool = False) -> Engine:
    return Engine({"policy.rego": Path("policy.rego").read_text()}, traced=traced)


def coverage(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "coverage", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return done.stdout


def test_coverage_shows_the_rows_of_policies_that_were_reached(folder: Path) -> None:
    (folder / ".coveragerc").write_text(
        "[run]\nplugins = doorward.testing.coverage_plugin\nsource = .\n"
    )
    (folder / "unused.rego").write_text("package unused\n\np := 1\n")
    (folder / "start.py").write_text(
        "from doorward.cli.main import run\n\nassert run(['test', '.']) == 0\n"
    )
    coverage(folder, "run", "start.py")
    coverage(folder, "json")
    files = json.loads((folder / "coverage.json").read_text())["files"]
    policy = files["policy.rego"]
    assert policy["executed_lines"] == [3, 5, 6, 7, 8, 9, 12]
    assert policy["missing_lines"] == [14, 15, 18, 20]
    assert files["policy_test.rego"]["missing_lines"] == []
    assert files["unused.rego"]["missing_lines"] == [3]
    coverage(folder, "html")
    pages = [page.read_text() for page in (folder / "htmlcov").glob("*policy_rego.html")]
    assert len(pages) == 1
    assert "level &gt; 2" in pages[0]


def test_coverage_of_tests_in_rego_under_pytest_warns_of_nothing(folder: Path) -> None:
    # pytest looks at the files of what is installed, which an editable installation has none of.
    installed = folder / "site"
    (installed / "doorward-9.dist-info").mkdir(parents=True)
    (installed / "doorward").symlink_to(Path(doorward.__file__).parent)
    for name, text in {
        "METADATA": "Metadata-Version: 2.1\nName: doorward\nVersion: 9\n",
        "RECORD": "doorward/__init__.py,,\n",
        "entry_points.txt": "[pytest11]\ndoorward = doorward.testing.pytest_plugin\n",
    }.items():
        (installed / "doorward-9.dist-info" / name).write_text(text)
    (folder / ".coveragerc").write_text(
        "[run]\nplugins = doorward.testing.coverage_plugin\nsource = .\nomit = site/*\n"
    )
    # The plugins of other packages take three seconds to load under coverage.
    others = {each.name for each in entry_points(group="pytest11")} - {"doorward"}
    options = [f"-pno:{name}" for name in sorted(others)]
    command = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-W", "error"]
    done = subprocess.run(
        [*command, *options, "policy_test.rego"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "PytestAssertRewriteWarning" not in done.stdout + done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_a_debugger_stops_on_a_row_and_shows_variables_by_their_names(folder: Path) -> None:
    shown = io.StringIO()
    commands = io.StringIO("b 9\nc\np role, level\nlist 9, 9\nc\np role, level\nc\n")
    debugger = pdb.Pdb(
        stdin=commands, stdout=shown, nosigint=True, readrc=False, skip=["doorward.*"]
    )
    query = engine().prepare("data.authz.allow")
    assert debugger.runcall(query.value, {"method": "GET", "roles": ["guest", "admin"]}) is True
    text = shown.getvalue()
    first, *_ = [line for line in text.splitlines() if line.startswith("> ")]
    assert first.endswith("policy.rego(3)data.authz.allow()")
    assert "policy.rego(9)data.authz.allow()" in text
    assert "-> level > 2" in text
    assert "('guest', 1)" in text
    assert "('admin', 3)" in text


def test_a_profiler_names_rules_by_their_paths(folder: Path) -> None:
    query = engine().prepare("data.authz.allow")
    profile = cProfile.Profile()
    profile.runcall(query.value, {"method": "GET", "roles": ["admin"]})
    shown = io.StringIO()
    pstats.Stats(profile, stream=shown).print_stats()
    assert "policy.rego:3(data.authz.allow)" in shown.getvalue()


def test_a_traceback_shows_the_row_of_the_policy(folder: Path) -> None:
    query = engine().prepare("data.authz.twice")
    with pytest.raises(EvalError) as raised:
        query.value({"method": "GET", "roles": []})
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert ("policy.rego", "data.authz.twice") in {(f.filename, f.name) for f in frames}
    assert "twice := 2 if input.roles" in {f.line for f in frames}
