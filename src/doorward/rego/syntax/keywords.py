"""The words that the grammar keeps for itself, by version of the language."""

from __future__ import annotations

from typing import Final

__all__ = ["FUTURE_KEYWORDS", "KEYWORDS", "LOGICAL", "ROOTS", "V1_KEYWORDS"]

KEYWORDS: Final = frozenset(
    {"as", "default", "else", "false", "import", "not", "null", "package", "some", "true", "with"}
)
V1_KEYWORDS: Final = frozenset({"contains", "every", "if", "in"})
FUTURE_KEYWORDS: Final = V1_KEYWORDS | {"and", "not", "or"}
"""The names that `import future.keywords.<name>` accepts."""
LOGICAL: Final = frozenset({"and", "or"})

ROOTS: Final = frozenset({"data", "input"})
"""The names of the documents `input` and `data`, which are not variables."""
