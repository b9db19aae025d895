"""The lists of deliberate differences -> docs/differences.md; `--check` compares.

The lists are those that the tests read, so that the page names every difference and nothing else.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.differences import FOLDER, KINDS  # noqa: E402  # found from the root

PAGE: Final = ROOT / "docs/differences.md"
HEAD: Final = """# Differences from OPA

The ten that a migration from OPA can meet; all others follow.

"""
FIRST: Final = (
    (
        "`--explain` and `explain=` are not compatible with what reads OPA's log:",
        "an explanation is a tree of what was tried, with values, and not a log of events",
    ),
    (
        "A filter that OPA makes too wide is an error here:",
        "a reference that is not a column is an error; OPA lets every row through",
    ),
    (
        "A rule of a filter must be true or false:",
        "a rule whose value is not a boolean is an error; OPA lets rows through that a decision"
        " refuses",
    ),
    (
        "A mask that fails is an error:",
        "a mask rule that does not exist, or that fails, is an error; OPA masks nothing",
    ),
    (
        "Rules of a filter must not disagree:",
        "rules that may contradict each other are an error, as they are to a decision; OPA lets"
        " their rows through",
    ),
    (
        "Data must not stand where rules do:",
        "data beside a rule of the same path is refused by the loader (doorward.pdp), not by the"
        " engine",
    ),
    (
        "`with` over a part of what is read as a whole:",
        "the parent of what `with` replaces is replaced as well; OPA joins old and new where the"
        " whole parent is read",
    ),
    (
        "Deep bodies:",
        "JSON bodies nested deeper than 256 are refused; OPA allows 10,000, and then loses the"
        " event"
        " of such a decision. Policies are evaluated by Python, whose stack is not that deep.",
    ),
    (
        "Schemas are files:",
        "no schema is fetched from the network, and the error says so",
    ),
    (
        "The server's version is not part of the data:",
        "OPA keeps its version in the data that clients may read and change; ours is at"
        " /v1/data?provenance",
    ),
)
"""Reasons of the lists that stand first, each with what it means to a user."""
KINDS_HEAD: Final = """
## All

Made by `make docs` from the lists that the tests read; do not edit. OPA's recorded answer wins. A
difference is allowed only for one of these reasons. A test fails for a difference that is not
listed, and for one that is listed and no longer there.

| kind | |
|---|---|
"""
COLUMNS: Final = "| what differs, and why | kind | recorded rows |\n|---|---|---|\n"
TITLES: Final = {
    "language": "Programs",
    "newest": "Programs of the newest OPA",
    "compiler": "Errors of the compiler",
    "parser": "Errors of the parser",
    "function_answers": "Answers of functions that are kept",
    "builtins": "Built-ins",
    "builtin_queries": "Built-ins in queries",
    "format": "Formatting",
    "partial": "Partial evaluation",
    "cli_partial": "Partial evaluation on the command line",
    "filters": "Data filters",
    "cli": "Commands",
    "rest": "HTTP API",
    "control": "Bundles, discovery and status",
    "envoy": "Envoy's external authorization",
}


class Row(NamedTuple):
    """One difference; `where` says which recorded rows it concerns."""

    reason: str
    kind: str
    where: str


def of_file(path: Path) -> list[Row]:
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["difference"]
    return [Row(entry["reason"], entry["kind"], where(entry)) for entry in entries]


def where(entry: dict[str, Any]) -> str:
    if entry.get("ids"):
        return f"{len(entry['ids'])} rows, such as `{entry['ids'][0]}`"
    parts = [f"`{entry[key]}`" for key in ("rule", "groups", "text", "code") if entry.get(key)]
    return ", ".join(parts) or "all"


def sections() -> Iterable[tuple[str, list[Row]]]:
    for name in (
        "language",
        "newest",
        "compiler",
        "parser",
        "function_answers",
        "builtins",
        "builtin_queries",
        "format",
        "partial",
        "cli_partial",
        "filters",
    ):
        yield TITLES[name], of_file(FOLDER / f"{name}.toml")
    for name in ("cli", "rest", "control", "envoy"):
        yield TITLES[name], of_file(ROOT / "tests" / name / "differences.toml")


def page() -> str:
    """The whole page."""
    listed = list(sections())
    reasons = {" ".join(row.reason.split()) for _, rows in listed for row in rows}
    missing = [reason for _, reason in FIRST if reason not in reasons]
    if missing:
        raise SystemExit(f"not a listed difference: {missing}")
    parts = [
        HEAD,
        *(f"{n}. {means} {reason.rstrip('.')}.\n" for n, (means, reason) in enumerate(FIRST, 1)),
    ]
    parts += [KINDS_HEAD, *(f"| {kind} | {text} |\n" for kind, text in KINDS.items())]
    for title, rows in listed:
        parts.append(f"\n## {title}\n\n{COLUMNS}")
        for row in rows:
            cells = (" ".join(row.reason.split()), row.kind, row.where)
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(parts)


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write("docs/differences.md is not current: run `make docs`\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
