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

Made by `make docs` from the lists that the tests read; do not edit. OPA's recorded answer wins. A
difference is allowed only for one of these reasons. A test fails for a difference that is not
listed, and for one that is listed and no longer there.

| kind | |
|---|---|
"""
COLUMNS: Final = "| what differs, and why | kind | recorded rows |\n|---|---|---|\n"
TITLES: Final = {
    "language": "Programs",
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
    "pdp/control": "Bundles, discovery and status",
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
    for name in ("cli", "rest", "pdp/control", "envoy"):
        yield TITLES[name], of_file(ROOT / "tests" / name / "differences.toml")


def page() -> str:
    """The whole page."""
    parts = [HEAD, *(f"| {kind} | {text} |\n" for kind, text in KINDS.items())]
    for title, rows in sections():
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
