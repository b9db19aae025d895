"""Objects that generated code names: values, call sites, tree nodes."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from doorward.base.records import mutable
from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.errors import COMPILE_ERROR, Diagnostic, InternalError
from doorward.rego.values import operand_text

__all__ = ["Constants", "bind"]


@mutable
class Constants:
    """The constant objects of generated code by their names. `shared` are the names of the program
    that a query is added to: they are used, not copied.
    """

    names: dict[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)

    def add(self, value: Any, prefix: str = "k") -> ast.expr:
        # INVARIANT: names are never removed, so that a number is used once in a program and its
        # queries.
        return self.named(f"{prefix}.{len(self.shared) + len(self.names)}", value)

    def path(self, names: Sequence[str]) -> ast.Name:
        """Return code that reads the tuple of `names`, the keys of a path, as a constant; equal
        tuples share one object.
        """
        path = tuple(names)
        name = f"path{''.join(map(operand_text, names))}"
        known = self.shared[name] if name in self.shared else self.names.get(name)
        return self.named(name, known if known == path else path)

    def named(self, name: str, value: Any) -> ast.Name:
        """Return code that reads `value` under a fixed name, such as that of a built-in.
        InternalError if the name already stands for another object.
        """
        if name not in self.shared:
            bind(self.names, name, value)
        elif self.shared[name] is not value:
            raise _name_conflict(name)
        return load(name)


def bind(names: dict[str, Any], name: str, value: Any) -> None:
    """Make `name` stand for `value` in generated code. InternalError if it already stands for
    another object.
    """
    if names.setdefault(name, value) is not value:
        raise _name_conflict(name)


def _name_conflict(name: str) -> InternalError:
    message = f"`{name}` stands for two things in generated code: this is a fault of Doorward"
    return InternalError([Diagnostic(COMPILE_ERROR, message)])
