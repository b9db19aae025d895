"""Names of a package that are loaded when they are first used, and errors about missing extras.

A program that needs one name of a package does not import the others.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from importlib import import_module

__all__ = ["exporter", "missing", "renamed"]


def exporter(
    package: str,
    homes: Mapping[str, str],
    *,
    below: str,
    modules: Collection[str] = (),
    moved: str = "",
) -> Callable[[str], object]:
    """Return a `__getattr__` for the module `package` that imports each public name at its first
    use.

    `homes` says where names are defined: a mapping from modules, relative to the package `below`,
    to the names that they define, separated by spaces. `modules` are the submodules of `package`
    that are public themselves. `moved` is a submodule of `package` whose names were once names of
    `package` itself: they still work, with a DeprecationWarning.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        """Return the attribute or submodule `name` of the package, importing the module that
        defines it. An attribute is stored in the package, so that its next use is direct. A name
        that is now in the submodule `moved` is returned with a DeprecationWarning. AttributeError
        for an unknown name.
        """
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            new = import_module(f"{package}.{moved}") if moved else None
            if new is None or name not in new.__all__:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            text = f"{package}.{name} is not public: import it from {package}.{moved}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(new, name)
        value = getattr(import_module(f"{below}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    return load


def renamed(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return a `__getattr__` for a module with renamed names, given as old name to new one. An old
    name still works, with a DeprecationWarning.
    """

    def load(name: str) -> object:
        """Return the attribute that replaced `name`, with a DeprecationWarning. AttributeError if
        `name` is not an old name.
        """
        new = names.get(name)
        if new is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        text = f"{package}.{name} is deprecated: use {new}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[package], new)

    return load


def missing(package: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that replaces `error` and says how to install `package`: `pip install
    '…'`.
    """
    text = f"{error.name} is not installed: pip install '{package}'"
    return ModuleNotFoundError(text, name=error.name)
