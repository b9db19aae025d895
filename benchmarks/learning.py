"""What a learner finds of hidden policies: recall, precision, what leaks, and its cost.

    python -m benchmarks.learning [EVENTS ...] [--worlds NAME ...] [--markdown docs/learn.md]

Each log is generated (`benchmarks.traffic`, `benchmarks.docker_traffic`) with 1 % attacks;
`doorward learn` learns from it in one process. Recall is of 10,000 legitimate requests that are not
in the log; precision of 40,000 requests of the whole space, decided by the engine with the files
that were written. Rules by which a slow attacker's request is allowed are counted apart.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.docker_traffic import decider, docker_world
from benchmarks.page import machine, marked, put
from benchmarks.traffic import KINDS, WORLDS, User, World, traffic, write
from doorward.learn.documents import POLICY
from doorward.rego import Engine

__all__ = ["Row", "learned_from_docker", "learned_from_http", "main", "page"]

SIZES: Final = (1_000, 10_000, 1_000_000)
SEEDS: Final = 3
"""Logs of each size but the largest."""
HELD_OUT: Final = 10_000
SPACE: Final = 40_000
FIRST: Final = 20
GOALS: Final = {1_000: (0.0, 0.97), 10_000: (0.97, 0.97), 1_000_000: (0.99, 0.98)}
"""Recall and precision by the number of events."""
SECONDS: Final = 60.0
MEGABYTES: Final = 500.0


@dataclass(frozen=True, slots=True)
class Row:
    """One log."""

    world: str
    events: int
    seed: int
    recall: float
    precision: float
    """Without what a slow attacker's rules allow."""
    rules: int
    true_rules: int
    leaks: dict[str, int]
    """Attacks of the log that the policy allows, by kind."""
    ranks: tuple[int, ...]
    """The rows of the review of the rules that a slow attacker's requests are allowed by."""
    seconds: float
    peak: float


def learned_from_http(world: World, events: int, seed: int) -> Row:
    """What is learned of a log of a service."""
    requests = traffic(world, events, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        with log.open("w") as file:
            write(requests, file)
        hostile = [each for each in requests if each.kind]
        del requests
        seconds, peak = run(log, Path(folder, "out"))
        data = json.loads(Path(folder, "out", "data.json").read_text())
        rows = yaml.load(Path(folder, "out", "review.yaml").read_text(), Loader=_LOADER)["rules"]
    data["learned"]["subject"] |= {"from": "input", "claims": ["claims"], "user": []}
    query = Engine({"policy.rego": POLICY}, {**data, "token": {}}).prepare(
        "data.learned.authz.rules"
    )

    def rules_for(user: User, method: str, path: str) -> frozenset[str]:
        http = {"method": method, "path": path, "host": "app.example"}
        rules: Any = query.value(
            {
                "attributes": {"request": {"http": http}},
                "parsed_path": path[1:].split("/"),
                "parsed_query": {},
                "claims": {"sub": user.name, "roles": list(user.roles), **user.claims},
            }
        )
        return frozenset(rules)

    leaks, slow = _leaks((each.kind, rules_for(*each[:3])) for each in hostile)
    rng = random.Random(f"{world.name} held out")
    held_out = [world.legitimate(rng) for _ in range(HELD_OUT)]
    recall = sum([bool(rules_for(*each[:3])) for each in held_out]) / HELD_OUT
    space = [world.anything(rng) for _ in range(SPACE)]
    answers = [(rules_for(*each[:3]), world.allows(*each[:3])) for each in space]
    order = [each["id"] for each in rows]
    ranks = tuple(sorted(order.index(each) + 1 for each in slow))
    number = sum(
        [
            len(rules)
            for by_host in data["learned"]["routes"].values()
            for by_method in by_host.values()
            for rules in by_method.values()
        ]
    )
    return Row(
        world.name,
        events,
        seed,
        recall,
        _precision(answers, slow),
        number,
        world.rules,
        leaks,
        ranks,
        seconds,
        peak,
    )


def learned_from_docker(events: int, seed: int) -> Row:
    """What is learned of an audit log of Docker."""
    world = docker_world()
    calls = world.calls(events, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "audit.log")
        with log.open("w") as file:
            world.write(calls, file)
        hostile = [each for each in calls if each.kind]
        del calls
        seconds, peak = run(log, Path(folder, "out"))
        data = json.loads(Path(folder, "out", "data.json").read_text())
        rows = yaml.load(Path(folder, "out", "review.yaml").read_text(), Loader=_LOADER)["values"]
    query = decider(data)
    known: dict[tuple[str, int], bool] = {}

    def rules_for(user: str, template: int) -> frozenset[str]:
        # A user's role is what a call is allowed by.
        key = user, template
        if key not in known:
            known[key] = query.value(world.input(user, template)) is True
        return frozenset({user}) if known[key] else frozenset()

    leaks, slow = _leaks((each.kind, rules_for(each.user, each.template)) for each in hostile)
    rng = random.Random("docker held out")
    held_out = [world.legitimate(rng) for _ in range(HELD_OUT)]
    recall = sum([bool(rules_for(each.user, each.template)) for each in held_out]) / HELD_OUT
    space = [world.anything(rng) for _ in range(SPACE)]
    answers = [(rules_for(*each[:2]), world.allows(*each[:2])) for each in space]
    order = [each["user"] if each["setting"] == "users.roles" else None for each in rows]
    ranks = tuple(sorted(order.index(user) + 1 for user in slow))
    number = sum([each["proposal"] == "allow" for each in rows])
    return Row(
        "docker",
        events,
        seed,
        recall,
        _precision(answers, slow),
        number,
        world.rules,
        leaks,
        ranks,
        seconds,
        peak,
    )


def _leaks(hostile: Iterable[tuple[str, frozenset[str]]]) -> tuple[dict[str, int], frozenset[str]]:
    """Allowed attacks by kind, and the rules that slow ones are allowed by."""
    leaks: Counter[str] = Counter()
    slow: set[str] = set()
    for kind, rules in hostile:
        leaks[kind] += bool(rules)
        slow |= rules if kind == "slow" else set()
    return {kind: leaks[kind] for kind in KINDS if leaks[kind]}, frozenset(slow)


def _precision(answers: Iterable[tuple[frozenset[str], bool]], apart: frozenset[str]) -> float:
    """Of what is allowed by other rules than those apart, the share that is right."""
    counted = [truth for rules, truth in answers if rules and (truth or not rules <= apart)]
    return sum(counted) / len(counted) if counted else 1.0


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def run(log: Path, out: Path) -> tuple[float, float]:
    """Learn in one process: its CPU seconds, and its peak memory in MB."""
    command = [sys.executable, "-m", "doorward", "learn", str(log), "-o", str(out), "-p", "1"]
    code = (
        "import json, resource, subprocess, sys; "
        "subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL, check=True); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], stdout=subprocess.PIPE, check=True
    )
    seconds, peak = json.loads(done.stdout)
    return seconds, peak / 1024


def page(rows: Sequence[Row]) -> str:
    """The figures as Markdown; a number that misses its goal is bold."""
    lines = [
        "Written by `python -m benchmarks.learning --markdown docs/learn.md`, which says what it "
        "does. Five hidden policies,\n1 % attacks of five kinds in each log (a scan, a stolen "
        "account, a crawl, reads of what others own, and three\naccounts that do one forbidden "
        "thing a day); of 1,000 and 10,000 events the worst of three logs. Precision leaves\nout "
        "what the rules of a slow attacker allow; *slow rules* are the rows of the review that "
        "those have, which should\nbe among the first 20. Goals: precision 0.97 from 1,000 and "
        "10,000 events, 0.98 from a million; recall 0.97 from\n10,000, 0.99 from a million; 60 s "
        "and 500 MB.\n",
        "| policy | events | recall | precision | rules | true rules | attacks allowed "
        "| slow rules | CPU, s | MB |",
        "|---|---:|---:|---:|---:|---:|---|---|---:|---:|",
    ]
    for key in dict.fromkeys((row.world, row.events) for row in rows):
        lines.append(_line([row for row in rows if (row.world, row.events) == key]))
    return "\n".join([*lines, "", _NOTE, "", machine(), ""])


_NOTE: Final = (
    "The generator and the learner are of one project: take the figures as upper bounds, and as a "
    "check that nothing got\nworse. From 1,000 events little is learned where there are many "
    "groups; what is missing is denied."
)


def _line(rows: Sequence[Row]) -> str:
    row = rows[0]
    recall, precision = min([r.recall for r in rows]), min([r.precision for r in rows])
    goals = GOALS.get(row.events, (0.0, 0.0))
    leaks: Counter[str] = Counter()
    for each in rows:
        leaks.update(each.leaks)
    ranks = sorted({rank for each in rows for rank in each.ranks})
    seconds, peak = max([r.seconds for r in rows]), max([r.peak for r in rows])
    numbers = sorted({r.rules for r in rows})
    span = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    shown = ", ".join([marked(str(rank), missed=rank > FIRST) for rank in ranks])
    cells = [
        row.world,
        f"{row.events:,}",
        marked(f"{recall:.3f}", missed=recall < goals[0]),
        marked(f"{precision:.3f}", missed=precision < goals[1]),
        span,
        str(row.true_rules),
        ", ".join([f"{kind} {number}" for kind, number in leaks.items()]),
        shown,
        marked(f"{seconds:.1f}", missed=seconds > SECONDS),
        marked(f"{peak:.0f}", missed=peak > MEGABYTES),
    ]
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description="What a learner finds of hidden policies")
    parser.add_argument("sizes", nargs="*", type=int, metavar="EVENTS")
    parser.add_argument("--worlds", nargs="*", default=[*WORLDS, "docker"])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--markdown", type=Path, help="write the figures")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.worlds:
        for size in options.sizes or SIZES:
            for seed in range(1, 1 + (1 if size >= SIZES[-1] else options.seeds)):
                if name == "docker":
                    rows.append(learned_from_docker(size, seed))
                else:
                    rows.append(learned_from_http(WORLDS[name](), size, seed))
                print(rows[-1], flush=True)
    if options.markdown:
        put(options.markdown, page(rows), "learned")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
