"""What is proved of properties, and how long proofs, comparisons and lists of subjects take.

    python -m benchmarks.proofs [--markdown docs/prove.md]

The properties are those of the packs and of `policies/properties` and `policies/docker_properties`,
which were written before the prover was tuned. All times are those of the processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.page import machine, put
from doorward.bundles.loader import Loaded, load
from doorward.rego import REGISTRY, Engine
from doorward.replay.deciding import Version
from doorward.search import entry_points, search
from doorward.search.proofs import COUNTEREXAMPLE, NONE_EXISTS, Verdict, prove
from doorward.search.proofs.access import Question, answer

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parent.parent
POLICIES: Final = ROOT / "benchmarks/policies"
GROUPS: Final[Mapping[str, Sequence[Path]]] = {
    "People API": [
        ROOT / "examples/people/policy.rego",
        ROOT / "examples/people/properties_test.rego",
    ],
    "Docker policies": [ROOT / "src/doorward/docker/policies", POLICIES / "docker_properties"],
    "RBAC with data": [POLICIES / "properties/rbac.rego", POLICIES / "properties/data.json"],
    "ABAC": [POLICIES / "properties/abac.rego"],
    "rows of tenants": [POLICIES / "properties/filters.rego"],
    "admission": [POLICIES / "properties/admission.rego"],
}
SECONDS: Final = 2.0
"""To search for a counterexample to one property that is not proved."""
SUBJECTS: Final = 1_000
GRANTS: Final = 10_000
RULES: Final = 200
NOW_NS: Final = 1_790_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """The verdict on a property, and the seconds of the processor that it took."""

    group: str
    name: str
    outcome: str
    seconds: float


def rows(groups: Mapping[str, Sequence[Path]] = GROUPS) -> Iterator[Row]:
    """The verdicts on all properties of some groups of files."""
    for group, paths in groups.items():
        for each in _verdicts(paths):
            yield Row(group, each.subject.path[-1], each.outcome, each.seconds)


def _verdicts(paths: Sequence[Path]) -> Iterator[Verdict]:
    loaded = load([str(path) for path in paths])
    if any("examples/people" in str(path) for path in paths):
        loaded.data["secrets"] = {"jwt": "a secret that is not known"}
    version = Version.compile(loaded, deadline=0.5)
    return prove(
        loaded, version, seconds=SECONDS, v0=False, registry=REGISTRY, clock=time.process_time
    )


def table(rows: Sequence[Row]) -> str:
    """A line for each group, then one for each property."""
    lines = [
        "| policies | properties | proved | counterexample | not known | seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for group in [*dict.fromkeys(row.group for row in rows), ""]:
        ours = [row for row in rows if row.group == group or not group]
        proved = sum(row.outcome == NONE_EXISTS for row in ours)
        refuted = sum(row.outcome == COUNTEREXAMPLE for row in ours)
        seconds = sum(row.seconds for row in ours)
        cells = [len(ours), proved, refuted, len(ours) - proved - refuted, f"{seconds:.2f}"]
        lines.append(f"| {group or '**all**'} | {' | '.join(map(str, cells))} |")
    lines += ["", "| policies | property | answer | seconds |", "|---|---|---|---:|"]
    for row in rows:
        lines.append(f"| {row.group} | `{row.name}` | {row.outcome} | {row.seconds:.2f} |")
    return "\n".join(lines) + "\n"


def timed(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


ACCESS: Final = """package app

allow if {
	some grant in data.grants
	grant.user == input.user
	grant.action == input.action
	grant.doc == input.doc
}
"""


def access_seconds() -> float:
    """The seconds of one list of who is allowed, among 1,000 subjects with 10,000 grants."""
    grants = [
        {"user": f"user{n % SUBJECTS}", "action": ("read", "write")[n % 2], "doc": f"doc{n % 97}"}
        for n in range(GRANTS)
    ]
    engine = Engine({"app.rego": ACCESS}, {"grants": grants})
    question = Question(
        "data.app.allow", {"action": "read", "doc": "doc4"}, [("user",)], (), NOW_NS
    )
    return timed(lambda: answer(engine, question))


def many_rules() -> tuple[Loaded, Loaded]:
    """Two versions of a policy of 200 rules with a property; one path is compared without case."""
    rules = [
        f'allow if {{\n\tinput.method == "M{n % 7}"\n'
        f'\tinput.path == "/p{n}"\n\tinput.role == "r{n % 9}"\n}}\n'
        for n in range(RULES)
    ]
    never = "never_other if {\n\tallow\n\tnot input.role in {%s}\n}\n"
    roles = ", ".join(f'"r{n}"' for n in range(9))
    old = "\n".join(["package app\n", "default allow := false\n", *rules, never % roles])
    changed = old.replace('input.path == "/p150"', 'lower(input.path) == "/p150"')
    return Loaded({"app.rego": old}, {}), Loaded({"app.rego": changed}, {})


def measures() -> Iterator[tuple[str, str]]:
    """A name and a text for each time."""
    yield (
        f"`who-can` among {SUBJECTS:,} subjects and {GRANTS:,} grants",
        f"{access_seconds():.2f} s",
    )
    old, new = many_rules()
    outcomes: list[str] = []

    def prove_all() -> None:
        version = Version.compile(new, deadline=0.5)
        for each in prove(new, version, seconds=SECONDS, v0=False, registry=REGISTRY):
            outcomes.append(each.outcome)

    yield f"`prove` of {RULES} rules", f"{timed(prove_all):.2f} s ({outcomes[0]})"
    kinds: list[str] = []

    def compare() -> None:
        before, after = (Version.compile(each, deadline=0.5) for each in (old, new))
        result = search(
            before,
            after,
            entry_points([before, after]),
            seconds=2 * SECONDS,
            is_enough=lambda each: bool(each.findings),
            clock=time.process_time,
        )
        kinds.extend(each.kind for each in result.findings)

    seconds = timed(compare)
    yield f"`diff` of {RULES} rules, one of which changed", f"{seconds:.2f} s ({', '.join(kinds)})"


def page(rows: Sequence[Row], measures: Sequence[tuple[str, str]]) -> str:
    lines = ["| measure | seconds of a processor |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, text in measures]
    return (
        "Written by `python -m benchmarks.proofs --markdown docs/prove.md`, which says what it\n"
        "does.\n\n"
        f"{table(rows)}\n" + "\n".join(lines) + f"\n\n{machine()}\n"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What is proved of properties, and how soon")
    parser.add_argument("--markdown", type=Path, help="write the figures into this page")
    options = parser.parse_args(arguments)
    verdicts = list(rows())
    text = page(verdicts, list(measures()))
    print(text)
    if options.markdown:
        put(options.markdown, text, "proved")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
