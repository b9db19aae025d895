"""What a test uses decides in which tier it runs.

A test is marked `system` where its module, a module of tests that this one imports from, or a
fixture uses processes, sockets, ports or a browser, and where a parameter names a database server.
Nothing is listed here by the names of tests; `tests.guard` notices what does not show in this way.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final, cast

import pytest

__all__ = ["QUICK", "Tiers", "has_no_quick_test"]

QUICK: Final = "not system and not long"
"""The tests of `make test-fast`, for `-m`."""
SYSTEM: Final = frozenset(
    {"subprocess", "socket", "socketserver", "multiprocessing", "http.server", "tests.ports"}
    | {"tests.browser", "tests.integrations.servers", "fuzz.opa_engine"}
)
"""The modules by which a test reaches beyond its own process."""
SERVERS: Final = frozenset({"mariadb", "mysql", "postgresql"})
_OWN: Final = ("tests", "examples", "benchmarks")


_OUTSIDE: Final = re.compile(
    r"^(?:import (?:subprocess|socket|socketserver|multiprocessing|http\.server)$"
    r"|from tests\.(?:ports|browser|console\.pages\.served|integrations\.servers) import "
    r"|pytestmark = pytest\.mark\.(?:system|long)$)",
    re.MULTILINE,
)


def has_no_quick_test(path: Path) -> bool:
    """True where a line of a file says that none of its tests is in the quick tier: a run of
    that tier need not import the file. So it is with the `conftest.py` of a folder of such files.
    """
    if path.is_dir():
        files = path.rglob("test_*.py")
        return (path / "conftest.py").is_file() and all(map(has_no_quick_test, files))
    return bool(_OUTSIDE.search(path.read_text(encoding="utf-8")))


class Tiers:
    """The uses of the modules of a test run, each read once."""

    def __init__(self) -> None:
        self._modules: dict[str, bool] = {}
        self._functions: dict[FunctionType, bool] = {}

    def uses_system(self, item: pytest.Function) -> bool:
        """Whether a test, or a fixture that it asks for, reaches beyond its process."""
        if self._module_does(item.module):
            return True
        if hasattr(item, "callspec") and SERVERS.intersection(
            value for value in item.callspec.params.values() if isinstance(value, str)
        ):
            return True
        fixtures = item._fixtureinfo.name2fixturedefs
        return any(
            self._function_does(definition.func)
            for name in item.fixturenames
            for definition in fixtures.get(name, ())
            if isinstance(definition.func, FunctionType)
            and definition.func.__module__.startswith("tests.")
        )

    def _module_does(self, module: ModuleType) -> bool:
        name = module.__name__
        if name not in self._modules:
            self._modules[name] = False  # for modules that import each other
            self._modules[name] = any(map(self._value_does, vars(module).values()))
        return self._modules[name]

    def _function_does(self, function: FunctionType) -> bool:
        """By the globals that it names: a `conftest.py` holds fixtures of both kinds."""
        if function not in self._functions:
            self._functions[function] = False
            named = (function.__globals__.get(name) for name in function.__code__.co_names)
            self._functions[function] = any(map(self._value_does, named))
        return self._functions[function]

    def _value_does(self, value: object) -> bool:
        # By the type itself: a lazy object, such as Django's settings, loads what it is to say it.
        if issubclass(type(value), ModuleType):
            module: ModuleType | None = cast(ModuleType, value)
        else:
            module = sys.modules.get(getattr(value, "__module__", None) or "")
        if module is None:
            return False
        if module.__name__ in SYSTEM:
            return True
        if module.__name__.partition(".")[0] not in _OWN or module.__name__ == "tests.conftest":
            return False
        if type(value) is FunctionType and module.__name__.endswith("conftest"):
            return self._function_does(value)
        return self._module_does(module)
