"""The rules of the house that no linter knows, each as one short test.

A rule about a part that is not built yet comes alive by itself when the part appears: it looks at
what is there, and never at a list of what should be.
"""

from __future__ import annotations

import ast
import gzip
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN, SUITE, needs
from tests.differences import KINDS
from tests.parsing import nodes_of, parsed_file
from tests.patterns import longest_literal

pytestmark = pytest.mark.usefixtures("trees")

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
MODULES = sorted(SOURCE.rglob("*.py"))
DOORS = ("tools.py", "types.py", "golang/__init__.py")
PUBLIC = sorted(
    [SOURCE / "doorward/__init__.py", *SOURCE.glob("doorward/*/__init__.py")]
    + [SOURCE / "doorward/rego" / door for door in DOORS]
)
HEAVY = {
    "cryptography",
    "google.protobuf",
    "grpc",
    "httpx",
    "starlette",
    "uvicorn",
    "yaml",
}
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "handler", "misc"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def for_each(paths: list[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """One test of a rule for all files, which names every file that breaks it."""

    def decorate(rule: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            broken = []
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    broken.append(f"{named(path)}: {error}")
            assert not broken, "\n".join(broken)

        test.__doc__ = rule.__doc__
        return test

    return decorate


@cache
def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints for `code`."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    return done.stdout


def bound_names(statements: list[ast.stmt]) -> Iterator[str]:
    for node in statements:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from bound_names(node.body)
        elif isinstance(node, ast.ImportFrom) and node.module not in {"__future__", "typing"}:
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def typed_exports(path: Path) -> Iterator[tuple[str, str]]:
    """The names under `if TYPE_CHECKING`, each with the module that it is imported from."""
    for node in nodes_of(path):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in ast.walk(node):
                if isinstance(each, ast.ImportFrom) and each.module:
                    yield from ((alias.name, each.module) for alias in each.names)


@for_each(PUBLIC)
def test_all_names_everything_public_in_order(path: Path) -> None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    package = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    exported = list(getattr(package, "__all__", []))
    public = {name for name in bound_names(parsed_file(path).body) if name[0] != "_"}
    assert public == {name for name in exported if not name.startswith("_")}

    def rank(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name

    assert exported == sorted(exported, key=rank)
    # A name that is loaded when it is first used is what the type checker takes it for.
    for name, home in typed_exports(path):
        assert getattr(package, name) is getattr(importlib.import_module(home), name)


@for_each(MODULES)
def test_a_module_says_what_it_is(path: Path) -> None:
    tree = parsed_file(path)
    assert ast.get_docstring(tree), "no module docstring"
    if path.name != "__init__.py":
        assert "from __future__ import annotations" in path.read_text()


@for_each(MODULES)
def test_a_module_has_a_telling_name(path: Path) -> None:
    assert VAGUE.isdisjoint(path.relative_to(SOURCE).with_suffix("").parts)


ROOT_FILES = {
    ".dockerignore",
    ".gitignore",
    ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "hatch_build.py",
    "mkdocs.yml",
    "pyproject.toml",
}
"""What a reader or a tool looks for at the root; everything else has a room."""


def test_nothing_else_is_at_the_root() -> None:
    assert {path.name for path in tracked() if path.parent == ROOT} == ROOT_FILES


def test_every_package_has_its_tests() -> None:
    packages = {
        path.parent for path in tracked() if path.suffix == ".py" and SOURCE in path.parents
    }
    mirrored = {
        folder: ROOT / "tests" / folder.relative_to(SOURCE / "doorward") for folder in packages
    }
    untested = [
        named(folder) for folder, tests in mirrored.items() if not list(tests.glob("test_*"))
    ]
    assert not untested


@pytest.mark.parametrize("folder", ["rego/codegen", "rego/syntax/parser"])
def test_every_module_that_is_composed_is_tested_by_itself(folder: str) -> None:
    """Each part of the code generator and of the parser has a test that builds what it needs."""
    tests = "\n".join([path.read_text() for path in (ROOT / "tests" / folder).rglob("*.py")])
    modules = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in (SOURCE / "doorward" / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    names = {name: name.rpartition(".") for name in modules}
    assert not {
        name
        for name, (package, _, module) in names.items()
        if f"from {name} import" not in tests and f"from {package} import {module}\n" not in tests
    }


EDGES = {
    "server/asking.py": {"_answer"},
    "enforcement/flow.py": {"_deny", "check"},
    "cli/playground.py": {"__call__"},
    "docker/plugin.py": {"_decide"},
    "docker/proxy/connection.py": {"_run"},
    "docker/proxy/decisions.py": {"_judge", "_run_guarded"},
    "docker/proxy/server.py": {"look_up"},
    "docker/server.py": {"_run_guarded"},
    "control/bundles.py": {"_take_bundle"},
    "control/discovery.py": {"_apply_bundle"},
    "control/rounds.py": {"go_on"},
    "forward/app.py": {"__call__"},
    "decision_log/log.py": {"_line_of"},
    "pdp/pdp.py": {"decide", "_decide_query"},
    "pdp/reload.py": {"reload"},
    "rest/app.py": {"_answer"},
    "rest/short_path.py": {"_decide"},
    "transport/direct.py": {"_accept"},
    "envoy/ext_proc/exchange.py": {"_answer_guarded"},
    "transport/grpc/methods.py": {"call_method", "open", "receive"},
    "transport/http1/asgi.py": {"_run"},
    "transport/http1/connection.py": {"_answer_queued", "data_received"},
    "transport/loop.py": {"_run", "run"},
    "transport/server.py": {"_feed", "connection_lost", "expire"},
    "transport/workers.py": {"run_child"},
}
"""The functions that catch what nobody expected, by file: the edges of the house."""

GUARDED = {
    **EDGES,
    "edge.py": {"_log_fault", "repeat"},
    "rego/builtins/registry/foreign.py": {"call", "foreign_code"},
    "replay/on_ray.py": {"_connect"},
}
"""The functions that may catch every exception: the edges, and calls of code that is not ours."""

LOOPS = {
    "cli/waiting.py": {"waiting"},
    "server/sidecar.py": {"run"},
    "server/workers.py": {"run"},
    "docker/proxy/service.py": {"run"},
    "docker/service.py": {"run"},
    "envoy/grpcio_server.py": {"__init__"},
    "control/rounds.py": {"__init__"},
    "control/uploads.py": {"_send_within", "start"},
    "decision_log/log.py": {"__init__"},
    "pdp/identity.py": {"__init__"},
    "pdp/reload.py": {"__init__"},
    "telemetry/tracing.py": {"close"},
    "replay/shadow.py": {"__init__"},
    "rest/request_log.py": {"__init__"},
    "transport/peers.py": {"serve"},
}
"""The functions that hand a loop to `edge.repeat`, by file."""


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def catching_everything(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.ExceptHandler]]:
    """The handlers of every exception, each with the function that it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ExceptHandler):
            classes = set(re.findall(r"\w+", ast.unparse(child.type))) if child.type else {"FAULTS"}
            if classes & {"FAULTS", "Exception", "BaseException"}:
                yield inside, child
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        within = child.name if isinstance(child, functions) else inside
        yield from catching_everything(child, within)


def naming(path: Path, name: str) -> set[str]:
    """The functions of a file that name `name` of the edge."""
    if "from doorward.edge import" not in path.read_text():
        return set()
    return {
        function.name
        for function in functions(path)
        if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(function))
    }


@for_each(MODULES)
def test_only_listed_functions_catch_everything(path: Path) -> None:
    inside = str(path.relative_to(SOURCE / "doorward"))
    guards = list(catching_everything(parsed_file(path)))
    assert {function for function, _ in guards} == GUARDED.get(inside, set())
    loops = naming(path, "repeat") | naming(path, "loop_thread")
    assert loops == LOOPS.get(inside, set())
    # What an edge catches is counted and logged, and nothing is lost in silence.
    of_edges = [guard for _, guard in guards if guard.type and ast.unparse(guard.type) == "FAULTS"]
    assert inside == "edge.py" or all(".report(" in ast.unparse(guard) for guard in of_edges)


def test_every_listed_function_is_in_a_file_that_exists() -> None:
    for name in {*GUARDED, *LOOPS}:
        assert (SOURCE / "doorward" / name).is_file(), name


UNGUARDED = {
    "rego/analysis/body_order.py",
    "rego/analysis/existence.py",
    "rego/analysis/resolve.py",
    "rego/analysis/safe_order.py",
    "rego/codegen/operand.py",
    "rego/partial/core.py",
    "rego/source.py",
    "rego/syntax/lexer.py",
}
"""Modules whose records a build creates by the hundred thousand (`base/records.py`)."""
NO_RECORDS = {"base/records.py", "rego/code.py", "envoy/lint/finding.py"}
"""Modules with a class that cannot be a record, which has equality, no weak references and no
order."""


@for_each(MODULES)
def test_classes_of_fields_are_records_that_refuse_assignments_or_mutable(path: Path) -> None:
    name = str(path.relative_to(SOURCE / "doorward"))
    decorators = [
        ast.unparse(decorator)
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
    ]
    unguarded = any("guarded=False" in each for each in decorators)
    assert unguarded == (name in UNGUARDED), "record(guarded=False)"
    if name not in NO_RECORDS:
        dataclasses = [each for each in decorators if re.match(r"dataclass\b", each)]
        assert not dataclasses, "records and mutable classes are declared faster"
    if name != "base/records.py":
        methods = [n.name for n in nodes_of(path) if isinstance(n, ast.FunctionDef)]
        assert "__setattr__" not in methods, "a record refuses assignments"


@for_each(MODULES)
def test_every_thread_runs_a_guarded_loop(path: Path) -> None:
    """A thread that dies of an exception takes its work with it, and nobody knows."""
    guarded = {"repeat", *GUARDED.get(str(path.relative_to(SOURCE / "doorward")), ())}
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "threading.Thread":
            target = next(ast.unparse(each.value) for each in node.keywords if each.arg == "target")
            assert target.removeprefix("self.") in guarded, f"line {node.lineno}"


OF_KERNEL = {"self._events.wait"}
"""Waits for a descriptor, in modules that take a clock."""


@for_each(MODULES)
def test_a_module_that_takes_a_clock_reads_and_waits_with_no_other(path: Path) -> None:
    """A test that sets the clock would wait for the machine where it does not expect that."""
    imported = {node.module for node in nodes_of(path) if isinstance(node, ast.ImportFrom)}
    operands = {node.arg for node in nodes_of(path) if isinstance(node, ast.arg)}
    if "doorward.base.clock" in imported or "clock" in operands:
        for _, call in calls(parsed_file(path)):
            name = ast.unparse(call.func)
            has_limit = name.endswith(".wait") and (call.args or call.keywords)
            bypasses = called(call) in {"monotonic", "sleep"} or has_limit
            assert not bypasses or is_of_clock(call) or name in OF_KERNEL, f"line {call.lineno}"


SLEEPING = {
    "acceptance/test_attacks.py": {"_exchange_once"},
    "cli/test_restart.py": {"run"},
    "cli/test_workers.py": {"is_asleep"},
    "conformance/suite.py": {"test_sleep"},
    "docker/swarm_tasks.py": {"wait_for_task"},
    "docker/test_endurance.py": {"Slow", "test_a_thousand_calls_with_pauses_are_never_repeated"},
    "docker/test_server.py": {"test_server_without_descriptors_says_so_once_and_works_again"},
    "drills/load.py": {"_work"},
    "drills/test_drills.py": {"starve"},
    "lags.py": {"_stop"},
    "redirect/connection.py": {"converse"},
    "rego/builtins/http_client/test_sender.py": {"do_GET"},
    "transport/test_direct.py": {"wait"},
    "waiting.py": {"wait_until"},
}
"""The functions of tests that sleep, by file: they play a part that is slow or keeps a pace, or
look whether something happens that must not. None of them waits for what is to come."""

IMPATIENT = {
    "acceptance/test_attacks.py": {"test_a_body_that_never_ends_gets_no_further"},
    "console/test_workers.py": {"_is_silent"},
    "telemetry/test_otlp_sender.py": {"test_grpc_speaks_tls_with_a_certificate_of_its_own"},
}
"""The functions of tests that give up after seconds: what they wait for must never come."""

OWN_CLOCKS = {"Part"}
"""Calls whose limit is what is tested, by a clock of the test."""
LIMITED = {"acquire", "join", "result", "settimeout", "wait"}
"""Calls whose last operand is a limit."""
LIMITS = {"timeout", "within"}
HASTY = {"httpx.Client", "httpx.get", "httpx.post", "httpx.request"}
"""Calls that give up after five seconds where they are given no limit."""
HASTY_NAMES = {name.rpartition(".")[2] for name in HASTY}


def is_impatient(call: ast.Call) -> bool:
    """Whether a call gives up after some seconds: parts of one are for what is to be late."""
    if called(call) in HASTY_NAMES and ast.unparse(call.func) in HASTY:
        return all(each.arg != "timeout" for each in call.keywords)
    return any(limit >= 1 for limit in limits(call))


@cache
def files_of_tests() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py" and ROOT / "tests" in path.parents]


def calls(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.Call]]:
    """The calls below a node, each with the function or class that it stands in."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    waiting = [(node, inside)]
    while waiting:
        parent, scope = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.Call):
                yield scope, child
            waiting.append((child, child.name if isinstance(child, scopes) else scope))


def called(call: ast.Call) -> str:
    """The last part of the text of what is called."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ast.unparse(call.func).rpartition(".")[2]


def is_of_clock(call: ast.Call) -> bool:
    """Whether a call is a method of a `Clock`: in tests its seconds are not the machine's."""
    receiver = ast.unparse(call.func).rpartition(".")[0]
    return receiver.rpartition(".")[2].lstrip("_") == "clock"


def seconds(node: ast.expr) -> float:
    """A number that is written there; 0 for anything else."""
    value = node.value if isinstance(node, ast.Constant) else 0
    return value if isinstance(value, int | float) else 0


def limits(call: ast.Call) -> Iterator[float]:
    """The seconds after which a call gives up."""
    name = called(call)
    if name not in OWN_CLOCKS:
        yield from (seconds(each.value) for each in call.keywords if each.arg in LIMITS)
    if name in LIMITED and call.args and not is_of_clock(call):
        yield seconds(call.args[-1])


ALL_SCRIPTS = {
    "rego/golang/layouts.py": "the text is ASCII",
    "rego/golang/strings.py": "digits of any script, as in Go",
    "rego/golang/yaml.py": "digits of any script, as in Go",
    "transport/grpc/methods.py": "bytes",
    "transport/http2/headers.py": "bytes",
}
"""Modules that ask for digits without asking for ASCII, with the reason."""


def test_digits_are_those_of_ascii() -> None:
    """`int` refuses some of the others: `parse_digits` takes what comes from outside."""
    asks = re.compile(r"\bis(?:digit|decimal|numeric)\b")
    modules = {
        path.relative_to(SOURCE / "doorward").as_posix()
        for path in MODULES
        for line in path.read_text(encoding="utf-8").splitlines()
        if asks.search(line) and "isascii" not in line
    }
    assert modules == set(ALL_SCRIPTS)


def test_tests_wait_for_conditions_and_never_for_a_time() -> None:
    """`wait_until` waits, and gives up after `PATIENCE`, far beyond what a busy machine takes.

    A test that sleeps, or is impatient, fails by chance where others compute.
    """
    for path in files_of_tests():
        inner = [*calls(parsed_file(path))]
        sleeping = {
            scope
            for scope, call in inner
            if called(call) == "sleep" and not (call.args and ast.unparse(call.args[0]) == "0")
        }
        impatient = {scope for scope, call in inner if is_impatient(call)}
        inside = str(path.relative_to(ROOT / "tests"))
        assert sleeping == SLEEPING.get(inside, set()), inside
        assert impatient == IMPATIENT.get(inside, set()), inside


STAYS = {
    "cli/test_identity.py": {"test_a_server_verifies_tokens_with_keys_that_rotate"},
    "cli/test_worker_bundles.py": {"test_a_configuration_that_is_wrong_is_followed_nowhere"},
    "docker/test_endurance.py": {"test_plugin_that_is_gone_denies_and_comes_back"},
}
"""The tests, by file, that assert after a line of a log what held before it, and has to stay."""
_OF_A_LOG = re.compile(r"\.messages\(|\.log\b(?!\.exists)")


def waits_for_log(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    return (
        isinstance(value, ast.Call)
        and called(value) == "wait_until"
        and bool(value.args and _OF_A_LOG.search(ast.unparse(value.args[0])))
    )


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def asserts_after_log(body: list[ast.stmt]) -> bool:
    """True where a wait for a line of a log comes before an assertion about something else."""
    if not any(map(waits_for_log, body)):
        return False
    waited = False
    read: set[str] = set()
    for statement in body:
        is_of_log = bool(_OF_A_LOG.search(ast.unparse(statement)) or read & names_in(statement))
        if waits_for_log(statement):
            waited = True
        elif any(called(call) == "wait_until" for _, call in calls(statement)):
            waited = False
        elif isinstance(statement, ast.Assign) and is_of_log:
            read |= {name for target in statement.targets for name in names_in(target)}
        elif waited and isinstance(statement, ast.Assert):
            return not is_of_log
    return False


def test_no_test_takes_a_line_of_a_log_for_a_state() -> None:
    """A program writes the line before or after what it says is so for others: tests wait for the
    state itself, and for a server by `/health?plugins&bundles` (`Process.ready`)."""
    ready = "Server " + "initialized"
    for path in files_of_tests():
        inside = str(path.relative_to(ROOT / "tests"))
        assert ready not in path.read_text(), f"{inside}: ask `/health`, as `Process.ready` does"
        functions = [n for n in nodes_of(path) if isinstance(n, ast.FunctionDef)]
        early = {
            function.name
            for function in functions
            for node in ast.walk(function)
            for body in (getattr(node, "body", None), getattr(node, "finalbody", None))
            if isinstance(body, list) and asserts_after_log(body)
        }
        assert early == STAYS.get(inside, set()), inside


@pytest.mark.parametrize(
    ("text", "is_early"),
    [
        ("wait_until(lambda: log.messages(1))\nx = 1\nassert server.ask('/a')", True),
        ("wait_until(lambda: 'up' in server.log.read_text())\nassert allows(server)", True),
        (
            "wait_until(lambda: log.messages(1))\nassert len(log.messages(1)) == 1",
            False,
        ),
        (
            "wait_until(lambda: log.messages(1))\nwait_until(ready)\nassert allows(server)",
            False,
        ),
        ("wait_until(lambda: a.log.read())\n(b,) = a.messages(1)\nassert b == 2", False),
        ("wait_until(lambda: server.ready())\nassert allows(server)", False),
    ],
)
def test_an_assertion_behind_a_line_of_a_log_is_noticed(text: str, is_early: bool) -> None:
    assert asserts_after_log(ast.parse(text).body) is is_early


def test_processes_are_stopped_by_pause() -> None:
    """Which returns when they are: after the signal alone their threads run on for a moment."""
    for path in files_of_tests():
        if named(path) != "tests/waiting.py":
            names = {n.attr for n in nodes_of(path) if isinstance(n, ast.Attribute)}
            assert "SIGSTOP" not in names, f"{named(path)}: use `pause` of tests.waiting"


def test_no_test_says_how_fast_something_was() -> None:
    """By the clock on the wall, that is: the processor's time is another matter."""
    for path in files_of_tests():
        for node in nodes_of(path):
            if isinstance(node, ast.Assert) and "PATIENCE" not in ast.unparse(node):
                clocks = {called(call) for _, call in calls(node)} & {"monotonic", "perf_counter"}
                assert not clocks or path.name == "waiting.py", f"{named(path)}:{node.lineno}"


def test_ports_are_taken_from_one_module() -> None:
    """Which keeps processes apart. The ports of the examples are tested themselves."""
    for path in files_of_tests():
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and node.module != "tests.ports":
                names = {alias.name for alias in node.names}
                if names & {"choose_ports", "free_port", "free_ports"}:
                    assert named(path) == "tests/acceptance/test_ports.py", node.module


def test_the_language_alone_brings_no_server_and_no_cryptography() -> None:
    if find_spec("doorward.rego") is None:
        pytest.skip("doorward.rego is not there yet")
    loaded = python(
        "import sys; from doorward.rego import Engine; print(*sys.modules, sep='\\n')"
    ).split()
    assert not HEAVY & set(loaded)


def test_every_exception_to_a_rule_has_its_reason() -> None:
    # mypy itself refuses a `type: ignore` without its code; these say nothing without a reason.
    bare = re.compile(r"#\s*(noqa(: ?[A-Z0-9, ]+)?|pragma: no (cover|branch))")
    for path in tracked():
        if path.suffix == ".py":
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                match = bare.search(line)
                reason = line[match.end() :].strip(" #-:") if match else "none needed"
                assert reason or path == Path(__file__), f"{named(path)}:{number}"


def test_no_tracked_file_names_a_registry_or_this_machine() -> None:
    # Put together here, so that this file passes its own test.
    hosts = "|".join([r"py" + r"pi\.org", r"python" + r"hosted\.org", r"npm" + r"js\.org"])
    index = r"https?://\S+/(simple|packages)/|https?://" + r"registry[.]"
    folders = r"(?<![\w.])/(" + "|".join(["work", "farm", "tmp/" + "brief"]) + ")/"
    wrong = re.compile(f"{hosts}|{index}|{folders}")
    for path in tracked():
        match = wrong.search(path.read_bytes().decode("utf-8", errors="replace"))
        assert not match, f"{named(path)}: {match}"


def test_locks_hold_hashes_and_nothing_that_says_where_from() -> None:
    line = re.compile(r"[\w.\[\]-]+==[\w.+!]+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    for lock in (ROOT / "requirements").glob("*.txt"):
        for number, text in enumerate(lock.read_text().splitlines(), start=1):
            assert line.fullmatch(text), f"{named(lock)}:{number}: {text}"


def declared_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = list(project["project"]["dependencies"]) + project["dependency-groups"]["dev"]
    for extra in project["project"]["optional-dependencies"].values():
        declared += extra
    return {re.split(r"[\[<>=!~ ]", each)[0].lower() for each in declared} - {"doorward"}


def test_the_locks_hold_every_declared_dependency() -> None:
    lock = (ROOT / "requirements/dev.txt").read_text()
    for name in declared_dependencies():
        assert re.search(rf"^{name}==", lock, re.MULTILINE), name


def test_every_dependency_has_its_reason() -> None:
    reasons = (ROOT / "docs/design.md").read_text().partition("## Dependencies")[2].lower()
    unexplained = [name for name in declared_dependencies() if name not in reasons]
    assert all(name.startswith("types-") for name in unexplained), unexplained


def test_the_first_screen_of_the_readme_holds_the_two_commands() -> None:
    screen = (ROOT / "README.md").read_text().splitlines()[:30]
    assert {"make demo", "make test"} <= {line.split("#")[0].strip() for line in screen}


def registered() -> list[str]:
    """The names of all built-ins; none while there is no registry."""
    if (
        find_spec("doorward") is None
        or not (SOURCE / "doorward/rego/builtins/registry/registry.py").is_file()
    ):
        return []
    importlib.import_module("doorward.rego.builtins")
    registry = importlib.import_module("doorward.rego.builtins.registry").REGISTRY
    return [builtin.name for builtin in registry]


def test_every_builtin_says_what_you_get() -> None:
    registry = importlib.import_module("doorward.rego.builtins.registry").REGISTRY
    mute = [name for name in registered() if not registry[name].doc]
    assert not mute


def test_the_page_of_builtins_is_what_the_registry_says() -> None:
    if (ROOT / "docs/builtins.md").is_file():
        script = [sys.executable, "scripts/builtin_table.py", "--check"]
        done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_page_of_differences_is_what_the_tests_read() -> None:
    script = [sys.executable, "scripts/differences_page.py", "--check"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_for_users_of_opa_is_what_the_api_and_its_tests_are() -> None:
    script = [sys.executable, "scripts/opa_page.py", "--check"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_difference_is_of_an_allowed_kind() -> None:
    lists = [
        *(ROOT / "tests/differences").glob("*.toml"),
        *(ROOT / "tests").glob("*/differences.toml"),
    ]
    assert len(lists) > 7
    for path in lists:
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["difference"]:
            assert entry["kind"] in KINDS, (path, entry["reason"])


@needs(SUITE)
def test_every_builtin_is_tested() -> None:
    golden = gzip.decompress((GOLDEN / "builtins.jsonl.gz").read_bytes())
    recorded = set(re.findall(rb'"group":"([^"]+)"', golden))
    ours = [path.read_bytes() for path in tracked() if ROOT / "tests" in path.parents]
    written = b"\n".join([gzip.decompress(SUITE.read_bytes()), *ours])
    untested = [
        name
        for name in registered()
        if not name.startswith("internal.")
        and name.encode() not in recorded
        and not re.search(rb"\b%s\b" % re.escape(name.encode()), written)
    ]
    assert not untested


def test_emitted_code_is_the_same_every_time() -> None:
    code = """
from pathlib import Path
from doorward.rego import Engine
for folder in ('benchmarks/policies', 'examples/people'):
    modules = {path.name: path.read_text() for path in sorted(Path(folder).glob('*.rego'))}
    print(Engine(modules=modules, data={}).emit())
"""
    once, again = (python(code, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert once == again
    assert "def " in once


WORDS = tomllib.loads((ROOT / "tests/words.toml").read_text())
"""Words that the field has another word for, and the folders where they are allowed."""


def area(path: Path) -> str:
    """The folder of a file, as the list of words names it."""
    parts = path.relative_to(ROOT).parts
    depth = 4 if parts[:3] == ("src", "doorward", "rego") else 3 if parts[0] == "src" else 2
    return "/".join(parts[:depth])


def allowed(path: Path, rule: dict[str, Any]) -> bool:
    """Whether a folder has a reason for the word (`fits`)."""
    return area(path) in rule.get("fits", {})


def identifiers(path: Path) -> set[str]:
    names = {path.stem}
    for node in nodes_of(path):
        for field in ("id", "attr", "arg", "name"):
            name = getattr(node, field, None)
            names |= {name} if isinstance(name, str) else set()
    return names


def test_code_uses_the_words_of_the_field() -> None:
    refused = WORDS["identifiers"]
    wrong = [
        f"{named(path)}: {word}: say {refused[word]['say']}"
        for path in tracked()
        if path.suffix == ".py"
        for word in sorted(identifiers(path) & refused.keys())
        if not allowed(path, refused[word])
    ]
    assert not wrong


def test_a_count_has_the_form_of_its_noun() -> None:
    """`{number:,} decisions` is wrong for one: `doorward.base.counting.counted` knows."""
    wrong = [
        f"{named(path)}:{node.lineno}: {ast.unparse(node)}"
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.JoinedStr)
        for number, after in pairwise(node.values)
        if isinstance(number, ast.FormattedValue) and isinstance(after, ast.Constant)
        if not (isinstance(number.value, ast.Name) and number.value.id.isupper())  # a limit
        and "," in ast.unparse(number.format_spec or ast.Constant(""))
        and re.match(r" [a-z ]*?[a-z]+s\b", str(after.value))
    ]
    assert wrong == []


def test_prose_is_plain() -> None:
    prose = {path: path.read_text() for path in tracked() if path.suffix in {".md", ".py", ".rego"}}
    wrong = [
        f"{named(path)}: {match[0]!r}: say {rule['say']}"
        for rule in WORDS["phrases"]
        for literal in [longest_literal(rule["pattern"])]  # a search takes 100 times as long
        for path, text in prose.items()
        if literal in text and path != Path(__file__) and not allowed(path, rule)
        if (match := re.search(rule["pattern"], text))
    ]
    assert not wrong
