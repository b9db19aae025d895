"""The support modules of a residual, as a reader of its text would see them."""

from __future__ import annotations

from collections.abc import Sequence

from doorward.rego import Engine
from doorward.rego.shared import Source
from doorward.rego.tools import Module, format_tree, parse_module

__all__ = ["add_support", "reparse"]


def reparse(modules: Sequence[Module], namespace: str) -> dict[str, Module]:
    """Return support modules by file name, parsed again from their texts; the names begin with
    `namespace`.

    A search, a refutation and its check must see the same trees, and trees of partial evaluation
    can have nodes that no text has.
    """
    names = [f"{namespace}_{number}.rego" for number in range(len(modules))]
    texts = map(format_tree, modules)
    return {
        name: parse_module(Source(name, text), v0=False)
        for name, text in zip(names, texts, strict=True)
    }


def add_support(engine: Engine, support: dict[str, Module]) -> Engine:
    """Return the engine with support modules added; the same engine if there are none. CompileError
    if they do not compile.
    """
    return engine.with_modules({**engine.trees, **support}) if support else engine
