"""Kinds of policies and built-ins that no recorded case of OPA has: what `newest_engine.py` asks.

`data/kinds.toml` lists them; their inputs are made by `kind_inputs.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks import kind_inputs

__all__ = ["KINDS", "Kind"]

LIST: Final = Path(__file__).resolve().parent / "data/kinds.toml"


@dataclass(frozen=True, slots=True)
class Kind:
    """A rule `answer`, what else its package holds, and its input by a source of random numbers."""

    name: str
    policy: str
    input: Callable[[Random], Any] = lambda random: {}


def read_kinds(path: Path = LIST) -> list[Kind]:
    """The kinds of a list."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["kind"]
    return [Kind(row["name"], row["policy"], _input(row.get("input", ""))) for row in rows]


def _input(words: str) -> Callable[[Random], Any]:
    """`objects 500`: what the function of that name gives for its operands."""
    name, *operands = words.split() or ["nothing"]
    function = getattr(kind_inputs, name)
    return function(*map(int, operands)) if operands else function  # type: ignore[no-any-return] # of the one module of such functions


KINDS: Final = read_kinds()
