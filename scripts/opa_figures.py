"""What OPA was measured to cost -> benchmarks/data/opa.json, which benchmarks/against_opa.py reads.

    python scripts/opa_figures.py FIGURES.json.gz FIGURES.md

The first file holds cases in process: modules, documents, and what the engine took. The second one
holds tables of servers and commands, which are kept as they are.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).resolve().parent.parent / "benchmarks/data/opa.json"


def tables(text: str) -> list[dict[str, Any]]:
    """The tables of a Markdown page, each with the heading above it."""
    figures: list[dict[str, Any]] = []
    heading = ""
    is_inside = False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            is_inside = False
        elif not is_inside:
            figures.append({"heading": heading, "columns": cells, "rows": []})
            is_inside = True
        elif set("".join(cells)) > {"-"} or "".join(cells).strip("-"):
            figures[-1]["rows"].append(cells)
    return figures


def main(figures: str, page: str) -> None:
    with gzip.open(figures, "rt") as file:
        content = json.load(file)
    content["tables"] = tables(Path(page).read_text())
    # A line for each document and row, so that a change can be read.
    parts = [
        f'"documents": {{\n{lines(content["documents"].items())}\n}}',
        '"rows": [\n' + ",\n".join(map(compact, content["rows"])) + "\n]",
        '"tables": [\n' + ",\n".join(map(compact, content["tables"])) + "\n]",
    ]
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("{" + ",\n".join(parts) + "}\n")


def lines(items: Any) -> str:
    return ",\n".join(f"{json.dumps(key)}: {compact(value)}" for key, value in items)


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
