"""Put faults into the code that keeps people out, and count those that the tests notice.

    python scripts/mutants.py [ROOM ...] [--faults 40] [--seconds 300]

Rooms, their modules and their tests stand in mutants.toml. For each room one process collects the
tests, a child of it runs them once and records which functions each test calls, and then each fault
gets a child of its own: it exchanges the code of the changed function and runs the tests that call
it, the quickest first, until one fails. No file is changed and nothing is imported twice. Faults
are drawn with a fixed seed, so that the same commit gives the same ones.

A fault that survives is a test that is missing or a fault that changes nothing; its location and
the change are printed, for a person to judge. The exit code is 0 whatever survives.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, TypeAlias

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = Path(__file__).with_suffix(".toml")
SEED: Final = 25
KILLED, SURVIVED, TIMED_OUT, NOT_RUN = "killed", "survived", "timed out", "not run"
FunctionKey: TypeAlias = tuple[str, str, int]
"""A function: its file, its qualified name, its first line."""


@dataclass(frozen=True)
class Fault:
    """One change of one function."""

    file: str
    line: int
    before: str
    after: str
    codes: dict[FunctionKey, CodeType]
    """The functions whose code changes."""


# The faults of a function


def draw_faults(modules: Sequence[str], number: int) -> list[Fault]:
    """Up to `number` faults of the modules, each function as likely as its number of faults."""
    changes = [
        (file, tree, change)
        for module in modules
        for file, tree in [parse_module(module)]
        for change in find_changes(tree)
    ]
    draw = Random(SEED)
    draw.shuffle(changes)
    faults: list[Fault] = []
    for file, tree, change in changes:
        if len(faults) == number:
            break
        if fault := make_fault(file, tree, *change):
            faults.append(fault)
    return faults


def parse_module(name: str) -> tuple[str, ast.Module]:
    file = importlib.import_module(name).__file__
    assert file is not None
    return file, ast.parse(Path(file).read_text())


Change: TypeAlias = tuple[tuple[tuple[str, int | None], ...], ast.AST]
"""The path of a node from its module (field and position), and what replaces it."""


def find_changes(tree: ast.Module) -> Iterator[Change]:
    """Every fault that is known for the bodies of the functions of a module."""
    for path, node, inside in walk(tree, (), inside=False):
        if inside:
            for other in replacements(node):
                yield path, other


def walk(
    node: ast.AST, path: tuple[tuple[str, int | None], ...], *, inside: bool
) -> Iterator[tuple[tuple[tuple[str, int | None], ...], ast.AST, bool]]:
    yield path, node, inside
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args", "type_comment") and not (
            isinstance(node, ast.Call) and name == "args"
        ):
            continue
        if isinstance(node, ast.Raise) or is_log_call(node):
            continue  # The text of an error or of a log line is not what keeps people out.
        is_body = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name == "body"
        if isinstance(value, ast.AST):
            yield from walk(value, (*path, (name, None)), inside=inside)
        elif isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from walk(item, (*path, (name, position)), inside=inside or is_body)


def is_log_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("debug", "info", "warning", "error", "exception")
    )


_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr
}  # fmt: skip


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that somebody might write by mistake."""
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(operator)]()], right)
        case ast.BoolOp(operator, values):
            other = ast.And() if isinstance(operator, ast.Or) else ast.Or()
            yield ast.BoolOp(other, values)
            for position in range(len(values)):
                rest = values[:position] + values[position + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.If(_, body, orelse):
            yield ast.If(ast.Constant(False), body, orelse)
            yield ast.If(ast.Constant(True), body, orelse)
        case ast.IfExp(_, body, orelse):
            yield body
            yield orelse
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            yield ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.Expr(ast.Call()) if not is_log_call(node.value):
            yield ast.Pass()
        case ast.Raise():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Slice(lower, upper, stride) if lower is not None and upper is not None:
            yield ast.Slice(lower, None, stride)
            yield ast.Slice(None, upper, stride)


def make_fault(
    file: str, tree: ast.Module, path: tuple[tuple[str, int | None], ...], other: ast.AST
) -> Fault | None:
    """The fault, or nothing where the changed code cannot replace the original one."""
    changed = copy.deepcopy(tree)
    parent: Any = changed
    for name, position in path[:-1]:
        parent = getattr(parent, name) if position is None else getattr(parent, name)[position]
    name, position = path[-1]
    node = getattr(parent, name) if position is None else getattr(parent, name)[position]
    other = ast.fix_missing_locations(ast.copy_location(copy.deepcopy(other), node))
    if position is None:
        setattr(parent, name, other)
    else:
        getattr(parent, name)[position] = other
    before = dict(code_objects(compile(tree, file, "exec")))
    after = dict(code_objects(compile(changed, file, "exec")))
    codes = {key: code for key, code in after.items() if before.get(key, code) != code}
    if any(before[key].co_freevars != code.co_freevars for key, code in codes.items()):
        return None
    return Fault(file, node.lineno, shorten(node), shorten(other), codes) if codes else None


def code_objects(code: CodeType) -> Iterator[tuple[FunctionKey, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_filename, constant.co_qualname, constant.co_firstlineno), constant
            yield from code_objects(constant)


def shorten(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split("\n")[0].split())[:90]


def exchange_code(fault: Fault) -> bool:
    """Put a fault into the functions that it concerns; False if there are none."""
    exchanged = False
    gc.unfreeze()  # `gc.get_objects` leaves out what a conftest.py has frozen.
    for function in gc.get_objects():
        if isinstance(function, FunctionType):
            code = function.__code__
            key = (code.co_filename, code.co_qualname, code.co_firstlineno)
            if (changed := fault.codes.get(key)) is not None:
                function.__code__ = changed
                exchanged = True
    return exchanged


# The tests of a room


class Rounds:
    """A plugin of pytest: instead of one round of tests a round for each fault."""

    def __init__(self, modules: Sequence[str], faults: int, seconds: float) -> None:
        self._modules = modules
        self._number = faults
        self._deadline = time.monotonic() + seconds
        self.results: list[dict[str, Any]] = []
        self.excluded: list[str] = []
        self.problem = ""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        faults = draw_faults(self._modules, self._number)
        files = {fault.file for fault in faults}
        recorded = in_child(lambda: record_calls(session, files), 3600)
        if recorded is None:
            self.problem = "the tests do not end without a fault"
            return True
        # A test that fails without a fault, such as one that needs its own group of processes,
        # says nothing about faults.
        self.excluded = recorded["failed"]
        seconds: dict[str, float] = recorded["seconds"]
        callers: dict[FunctionKey, list[str]] = defaultdict(list)
        for test, keys in recorded["calls"].items():
            for key in keys:
                callers[tuple(key)].append(test)
        tests = {test.nodeid: test for test in session.items if test.nodeid not in self.excluded}
        for fault in faults:
            names = {name for key in fault.codes for name in callers[key]}
            selected = [
                tests[name] for name in sorted(names & tests.keys(), key=seconds.__getitem__)
            ]
            patience = 30 + 10 * sum(seconds[test.nodeid] for test in selected)
            if time.monotonic() > self._deadline:
                outcome = NOT_RUN
            elif not selected:
                outcome = SURVIVED
            else:
                run = functools.partial(run_with_fault, session, fault, selected)
                answer = in_child(run, patience)
                outcome = TIMED_OUT if answer is None else answer["outcome"]
            self.results.append(
                {
                    "file": os.path.relpath(fault.file, ROOT), "line": fault.line,
                    "before": fault.before, "after": fault.after, "tests": len(selected),
                    "outcome": outcome,
                }
            )  # fmt: skip
        return True


def record_calls(session: pytest.Session, files: set[str]) -> dict[str, Any]:
    """Run every test once: its seconds, and the functions of the files that it calls.

    What is called while a test is set up counts for every test of its file, since they may share a
    fixture.
    """
    calls: dict[str, set[FunctionKey]] = {}
    prepared: dict[str, set[FunctionKey]] = defaultdict(set)
    seconds: dict[str, float] = {}
    failed: list[str] = []
    current: set[FunctionKey] = set()

    class EndOfSetup:
        def pytest_runtest_call(self, item: pytest.Item) -> None:
            prepared[file_of(item.nodeid)] |= current

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename in files:
            current.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    session.config.pluginmanager.register(EndOfSetup())
    threading.setprofile(note)
    for test, next_test in zip(session.items, [*session.items[1:], None], strict=True):
        current = calls[test.nodeid] = set()
        started = time.monotonic()
        sys.setprofile(note)
        try:
            passed = run_test(test, next_test)
        finally:
            sys.setprofile(None)
        seconds[test.nodeid] = time.monotonic() - started
        if not passed:
            failed.append(test.nodeid)
    return {
        "seconds": seconds, "failed": failed,
        "calls": {name: sorted(each | prepared[file_of(name)]) for name, each in calls.items()},
    }  # fmt: skip


def file_of(test: str) -> str:
    return test.split("::")[0]


def run_with_fault(
    session: pytest.Session, fault: Fault, selected: list[pytest.Item]
) -> dict[str, Any]:
    if not exchange_code(fault):
        return {"outcome": NOT_RUN}
    for test, next_test in zip(selected, [*selected[1:], None], strict=True):
        if not run_test(test, next_test):
            return {"outcome": KILLED}
    return {"outcome": SURVIVED}


def run_test(test: pytest.Item, next_test: pytest.Item | None) -> bool:
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(test, log=False, nextitem=next_test))


def in_child(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    """What a forked process answers; None if it does not end in time, or ends without an answer."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.setsid()
        os.close(reading)
        answer: dict[str, Any] = {"outcome": KILLED, "failed": ["the process ended"]}
        with contextlib.suppress(BaseException):
            answer = work()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    content = bytearray()
    deadline = time.monotonic() + seconds
    try:
        while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                break
            content += part
    finally:
        os.close(reading)
        # With it goes what its tests started and did not end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
    return json.loads(content) if content else None


def run_room(name: str, faults: int, seconds: float) -> dict[str, Any]:
    """Run the faults of a room in this process, whose modules they change in its children."""
    room = tomllib.loads(TABLE.read_text())[name]
    rounds = Rounds(room["modules"], faults, seconds)
    os.chdir(ROOT)
    arguments = ["-q", "-p", "no:cacheprovider", "--no-header"]
    arguments += [*room["tests"], *room.get("options", ())]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        pytest.main(arguments, plugins=[rounds])
    return {
        "room": name,
        "problem": rounds.problem,
        "excluded": rounds.excluded,
        "results": rounds.results,
    }


# The command


def main() -> int:
    rooms = list(tomllib.loads(TABLE.read_text()))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(rooms)}")
    parser.add_argument("--faults", type=int, default=40, help="at most so many a room")
    parser.add_argument("--seconds", type=float, default=300, help="at most so long a room")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.rooms) - set(rooms):
        parser.error(f"unknown room {', '.join(sorted(unknown))}; known: {', '.join(rooms)}")
    if options.json:
        print(json.dumps(run_room(options.rooms[0], options.faults, options.seconds)))
        return 0
    print(f"{'room':<20} {'noticed':>8} {'of':>5} {'not run':>8}")
    survivors: list[dict[str, Any]] = []
    for room in options.rooms or rooms:
        done = subprocess.run(
            [sys.executable, __file__, room, "--json", "--faults", str(options.faults),
             "--seconds", str(options.seconds)],
            stdout=subprocess.PIPE, check=True, cwd=ROOT,
        )  # fmt: skip
        answer = json.loads(done.stdout.splitlines()[-1])
        if answer["problem"]:
            print(f"{room:<20} {answer['problem']}", flush=True)
            continue
        for test in answer["excluded"]:
            print(f"{room}: fails without a fault, left out: {test}", file=sys.stderr)
        outcomes = [each["outcome"] for each in answer["results"]]
        left = outcomes.count(NOT_RUN)
        noticed = outcomes.count(KILLED) + outcomes.count(TIMED_OUT)
        print(f"{room:<20} {noticed:>8} {len(outcomes) - left:>5} {left:>8}", flush=True)
        survivors += [each for each in answer["results"] if each["outcome"] == SURVIVED]
    for each in survivors:
        print(f"{each['file']}:{each['line']}: {each['before']}  ->  {each['after']}"
              f"  ({each['tests']} tests call it)")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
