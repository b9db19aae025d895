"""Names in a filter that may have been meant: `input.fruit.a` where `input.fruits` is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from doorward.rego import Partial, Value
from doorward.rego.tools import Scalar, operand_text, parse_path

__all__ = ["hints"]

NEAR: Final = 3
"""The largest edit distance between an undefined name and a suggested one."""
MAX_LENGTH: Final = 100
MAX_NAMES: Final = 100


def hints(partial: Partial, unknowns: Iterable[str]) -> list[dict[str, Any]]:
    """Return hints about names that are probably misspelled, each as a message and a location: an
    undefined reference whose name below `input` is similar to that of a document in `unknowns`.

    A reference is reported once. Only the first `MAX_NAMES` unknown names, and names of at most
    `MAX_LENGTH` characters, are compared.
    """
    names = [name for path in unknowns for name in _second(path)][:MAX_NAMES]
    result: list[dict[str, Any]] = []
    seen: set[tuple[Value, ...]] = set()
    for ref, span in partial.failures:
        parts = tuple([part.value for part in ref.args if isinstance(part, Scalar)])
        if len(parts) < len(ref.args) or not parts or not isinstance(parts[0], str):
            continue
        # The distance costs the product of both lengths: each reference is compared once.
        near = [] if parts in seen else _nearest(parts[0], names)
        if not near:
            continue
        seen.add(parts)
        meant = [_text((name, *parts[1:])) for name in near]
        alternatives = meant[0] if len(meant) == 1 else f"any of [{' '.join(meant)}]"
        message = f"{_text(parts)} undefined, did you mean {alternatives}?"
        location = {"file": span.file, "row": span.row, "col": span.col}
        result.append({"message": message, "location": location})
    return result


def _second(path: str) -> list[str]:
    """Return the second name of a path in a list: `input.fruits` -> `["fruits"]`; [] if it has
    none.
    """
    ref = parse_path(path)
    key = getattr(ref[1], "value", None) if len(ref) > 1 else None
    return [key] if isinstance(key, str) else []


def _text(parts: tuple[Value, ...]) -> str:
    return "input" + "".join([operand_text(part) for part in parts])


def _nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names with the smallest edit distance to `name`, sorted; [] if it is above `NEAR`.
    Names of more than `MAX_LENGTH` characters are not compared.
    """
    distances = [(_distance(name, each), each) for each in names if len(each) <= MAX_LENGTH]
    if len(name) > MAX_LENGTH or not distances:
        return []
    least = min(distance for distance, _ in distances)
    return sorted([each for distance, each in distances if distance == least <= NEAR])


def _distance(one: str, other: str) -> int:
    """Return the Levenshtein distance: the letters to insert, delete or replace."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
