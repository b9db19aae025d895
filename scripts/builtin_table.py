"""The registry of built-ins -> docs/builtins.md, or with `--check` whether the page is current.

The page is made from the declarations and docstrings alone: nobody writes it by hand.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

import doorward.rego.builtins  # noqa: F401  # registers every category
from doorward.rego.builtins.registry import REGISTRY, Builtin
from doorward.rego.builtins.registry.signature import signature_text

PAGE = Path(__file__).resolve().parent.parent / "docs/builtins.md"
HEAD = """# Built-ins

Made by `make docs` from the registry; do not edit. *deprecated*: refused in strict mode.
*impure*: the answer can differ between two decisions on the same input.
"""


def row(builtin: Builtin) -> str:
    flags = ["deprecated"] * bool(builtin.deprecated) + ["impure"] * (not builtin.pure)
    infix = f" `{builtin.infix}`" if builtin.infix else ""
    text = " ".join([*(f"*{flag}*" for flag in flags), builtin.doc.split("\n\n")[0]])
    cells = [f"`{builtin.name}`{infix}", signature_text(builtin.signature), " ".join(text.split())]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    ordered = sorted(REGISTRY, key=lambda builtin: (builtin.category, builtin.name))
    for category, builtins in groupby(ordered, key=lambda builtin: builtin.category):
        parts.append(
            f"\n## {category}\n\n| name | operands and result | what you get |\n|---|---|---|\n"
        )
        parts += [row(builtin) for builtin in builtins]
    return "".join(parts)


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
        return 0
    if PAGE.is_file() and PAGE.read_text() == page():
        return 0
    print(f"{PAGE.name} is not what the registry says: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
