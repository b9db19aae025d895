"""Names of generated variables, numbered as OPA numbers them.

The order of a residual's equations depends on them, and who compares residuals with OPA's sees the
same names in most places.
"""

from __future__ import annotations

from collections.abc import Container

from doorward.rego.partial.core import Var

__all__ = ["Locals"]


class Locals:
    """Makes the names `__local0__`, `__local1__`, … for modules and `__localq0__`, … for a query.
    `taken` are names that the text already contains.
    """

    def __init__(self, prefix: str = "", *, taken: Container[str] = ()) -> None:
        self._prefix = f"__local{prefix}"
        self._taken = taken
        self._count = 0
        self._names: dict[str, str] = {}

    def fresh(self) -> Var:
        """Return a new variable with the next generated name (`__local0__`, …) that the text does
        not contain; each call gives another one.
        """
        while True:
            name = f"{self._prefix}{self._count}__"
            self._count += 1
            if name not in self._taken:
                return Var(name)

    def named(self, unique: str) -> Var:
        """Return the generated variable for a resolved name such as `x@3`, the same for each use of
        the name. A name without `@` stays as it is.
        """
        if "@" not in unique:
            return Var(unique)
        name = self._names.get(unique)
        if name is None:
            name = self._names[unique] = self.fresh().name
        return Var(name)
