"""Starting costs little: the command line brings in what its command needs and nothing else."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE

SERVERS = {"grpc", "starlette", "uvicorn", "prometheus_client", "google.protobuf"}
LIBRARIES = {"cryptography", "httpx", "yaml"}


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
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def spent(code: str, folder: Path) -> float:
    """Processor time of a fresh interpreter, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(code, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_decision_on_the_command_line_costs_little(policy: Path) -> None:
    code = (
        f"from doorward.cli.main import run; run(['eval', '-d', {str(policy)!r}, 'data.a.allow'])"
    )
    # A busy machine makes everything slower, processor time too, so this is compared with what an
    # ordinary script imports: it costs about three times as much.
    script = "import asyncio, email.message, http.client, sqlite3, unittest, xml.dom.minidom"
    python(code, policy.parent)
    python(script, policy.parent)
    pairs = [(spent(code, policy.parent), spent(script, policy.parent)) for _ in range(5)]
    ours, theirs = map(min, zip(*pairs, strict=True))
    assert ours < 6 * theirs, pairs


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


LANGUAGE = {"doorward", "doorward.base", "doorward.base.exporting", "doorward.rego"}
"""All of Doorward that `import doorward.rego` loads: its names are loaded when they are used."""

ONE_SUM = (
    r"doorward(\.base(\.(cancellation|collector|digits|exporting|os_errors|records))?)?"
    r"|doorward\.cli(\.(arguments|capabilities|colors|durations|errors|eval|extensions|go_flags|input_document|main"
    r"|metrics|profiles|queries|results|saved_programs|schemas))?|doorward\.cli\.extras"
    r"|doorward\.bundles(\.(loader|sources))?|doorward\.pdp(\.(error_documents|extensions|solutions))?"
    r"|doorward\.rego(\.(caches|capabilities|clock|code|conversion|engine|errors|json_text|modules|numbers|options|pointers|policies"
    r"|queries|query_text|shared|source|time_limits|timers|tools|values))?"
    r"|doorward\.rego\.(analysis|codegen|runtime)(\..*)?|doorward\.rego\.partial(\.options)?"
    r"|doorward\.rego\.golang(\.(json|json_decoder|json_documents|octets|strings))?"
    r"|doorward\.rego\.syntax(\.(keywords|lexer|nodes|walk|v1)|\.parser(\..*)?)?"
    r"|doorward\.rego\.builtins(\.(inversion|numbers|registry(\..*)?|http_client(\.cache)?|jose(\..*)?))?"
)
"""The modules of Doorward that `eval 1+1` may load: of the built-ins, those of numbers."""

NOT_FOR_ONE_SUM = (
    SERVERS
    | LIBRARIES
    | {
        "asyncio",
        "decimal",
        "difflib",
        "doorward.rego.analysis.hints",
        "doorward.rego.codegen.exact",
        "fractions",
        "hashlib",
        "http.client",
        "ipaddress",
        "logging",
        "pathlib",
        "re2",
        "statistics",
        "tarfile",
        "tomllib",
        "traceback",
        "urllib.parse",
    }
)


def test_importing_the_language_loads_nothing_but_its_names(tmp_path: Path) -> None:
    loaded = python("import sys, doorward.rego; print(*sys.modules)", tmp_path).split()
    assert {name for name in loaded if name.startswith("doorward")} == LANGUAGE
    assert not {"click", "dataclasses", "json"} & set(loaded)


def test_a_sum_loads_no_other_built_ins_and_no_heavy_library(tmp_path: Path) -> None:
    code = (
        "from doorward.cli.main import run; import sys; run(['eval', '1+1']); "
        "print('loaded:', *sys.modules)"
    )
    loaded = set(python(code, tmp_path).rpartition("loaded:")[2].split())
    ours = {name for name in loaded if name.startswith("doorward")}
    assert {name for name in ours if not re.fullmatch(ONE_SUM, name)} == set()
    assert not NOT_FOR_ONE_SUM & loaded


def test_a_check_loads_nothing_that_generates_code_or_hashes(policy: Path) -> None:
    code = (
        f"from doorward.cli.main import run; import sys; run(['check', {str(policy)!r}]); "
        "print('loaded:', *sys.modules)"
    )
    code = f"import os; os.environ['DOORWARD_CACHE_DIR'] = ''; {code}"
    loaded = set(python(code, policy.parent).rpartition("loaded:")[2].split())
    assert "doorward.rego.analysis.passes" in loaded
    late = r"doorward\.rego\.(codegen|engine|partial|runtime|saved)(\..*)?|hashlib|pathlib"
    assert [name for name in loaded if re.fullmatch(late, name)] == []


def test_the_http_api_leaves_what_few_ask_for_until_they_do(tmp_path: Path) -> None:
    loaded = python("import sys, doorward.rest.app; print(*sys.modules)", tmp_path).split()
    late = (
        r"doorward\.(filters(\..*)?|rego\.partial\.(?!options).*"
        r"|rest\.(filters|compile|openapi|authzen_search))"
    )
    assert [name for name in loaded if re.fullmatch(late, name)] == []


def test_a_server_loads_nothing_for_saved_programs_and_trees(tmp_path: Path) -> None:
    loaded = python("import sys, doorward.server.sidecar; print(*sys.modules)", tmp_path).split()
    late = {"difflib", "fractions", "pickle", "doorward.rego.golang.yaml_nodes"}
    assert not late & set(loaded)


def test_a_server_loads_no_http_client_until_it_sends(tmp_path: Path) -> None:
    loaded = python("import sys, doorward.server.sidecar; print(*sys.modules)", tmp_path).split()
    assert "doorward.telemetry.traced_sender" in loaded
    assert not {"grpc", "httpx", "opentelemetry"} & set(loaded)


def test_formatting_imports_only_the_built_ins_that_are_called(tmp_path: Path) -> None:
    (tmp_path / "p.rego").write_text("package p\n\nq := count(input.x)\n")
    code = (
        "from doorward.cli.main import run; import sys; run(['fmt', 'p.rego']); "
        "print('loaded:', *sys.modules)"
    )
    loaded = set(python(code, tmp_path).rpartition("loaded:")[2].split())
    assert "doorward.rego.builtins.aggregates" in loaded
    assert not {"doorward.rego.builtins.x509", "doorward.rego.builtins.strings"} & loaded


@pytest.mark.parametrize("start", [[sys.executable, "-m", "doorward"], ["doorward"]])
def test_nothing_is_imported_from_the_working_directory(start: list[str], tmp_path: Path) -> None:
    for name in ("click", "json", "re2", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from here')\n")
    (tmp_path / "data.yaml").write_text("a: 1\n")
    if start == ["doorward"]:
        start = [str(Path(sys.executable).with_name("doorward"))]
        (tmp_path / "doorward").mkdir()
        (tmp_path / "doorward/__init__.py").write_text("raise SystemExit('imported from here')\n")
    done = subprocess.run(
        [
            *start,
            "eval",
            "-f",
            "raw",
            "-d",
            "data.yaml",
            'regex.match("^1$", sprintf("%d", [data.a]))',
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "true\n", "")
