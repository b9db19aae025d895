"""Custom built-ins by the name of their registry: `MODULE:NAME` becomes a `Registry`.

A module is searched in Python's path for installed packages (`PYTHONPATH` included), then in
`folders`, but never in the working directory by accident. `FILE.py:NAME` names a file, which may
import modules of its folder.

`project_extensions` reads the names from `[tool.doorward]` in a pyproject.toml. Loading them runs
the project's code, as pytest does, so a file of another user is refused.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any, Final

from doorward.base.records import record
from doorward.bundles.loader import LoadError
from doorward.rego import REGISTRY, Registry
from doorward.rego.shared import ForeignError, foreign_code

__all__ = ["ExtensionError", "Extensions", "project_extensions"]

MAX_PROJECT: Final = 1 << 20
"""Bytes of a pyproject.toml."""

_KEYS: Final = ("builtins", "pythonpath")


class ExtensionError(LoadError):
    """Custom built-ins that cannot be loaded; the message names the module or file and the
    reason.
    """

    def __init__(self, message: str) -> None:
        super().__init__([message])

    def __str__(self) -> str:
        return self.messages[0]


@record
class Extensions:
    """The names of custom registries, and folders in which their modules are searched after
    Python's own path.
    """

    names: Sequence[str] = ()
    folders: Sequence[str] = ()

    def registry(self) -> Registry:
        """Import the registries and return them together with OPA's built-ins.

        Raise `ExtensionError` if a registry cannot be loaded, or two of them define the same name.
        """
        if not self.names:
            return REGISTRY
        _write_at_exit()  # before an import registers exit handlers, which run first then
        registries = [self._import_registry(name) for name in self.names]
        try:
            return Registry(REGISTRY, *registries)
        except ValueError as error:
            raise ExtensionError(
                f"built-ins of {', '.join(self.names)} cannot be used together: {error}"
            ) from None

    def _import_registry(self, name: str) -> Registry:
        """Import the registry named `MODULE:NAME` or `FILE.py:NAME`; NAME may have dots.

        Raise `ExtensionError` if the name has another form, the import fails, or the target is
        missing or not a Registry.
        """
        module_name, colon, path = name.rpartition(":")
        if not (module_name and colon and path):
            raise ExtensionError(
                f"`{name}` is not the name of a registry: use MODULE:NAME or FILE.py:NAME"
            )
        is_file = module_name.endswith(".py")
        module = _run_file(module_name) if is_file else self._import(module_name)
        target: Any = module
        for part in path.split("."):
            if not hasattr(target, part):
                raise ExtensionError(f"`{module_name}` has no `{path}`{_near(path, module)}")
            target = getattr(target, part)
        if not isinstance(target, Registry):
            raise ExtensionError(f"`{name}` is not a Registry{_near(path, module)}")
        return target

    def _import(self, name: str) -> ModuleType:
        """Import a module of the user; its code runs, and `folders` are appended to `sys.path`.
        Raise `ExtensionError` if it is missing or fails.
        """
        _append_to_path(self.folders)
        try:
            with foreign_code():
                return importlib.import_module(name)
        except ForeignError as error:
            cause = error.__cause__
            if isinstance(cause, ModuleNotFoundError) and f"{name}.".startswith(f"{cause.name}."):
                places = " and ".join(["the installed packages", *self.folders])
                text = f"no module `{cause.name}` in {places}: for a file, use FILE.py:NAME"
                raise ExtensionError(text) from None
            raise ExtensionError(f"importing `{name}` failed: {error}") from cause


@cache
def _write_at_exit() -> None:
    """Have all buffers of files written when Python's exit handlers run. A command then ends at
    once, without the last steps of Python that write what a user's module has left in a buffer.
    """
    atexit.register(_write_buffers)


def _write_buffers() -> None:
    """Write what open files have in their buffers; failures are ignored, as Python does."""
    gc.unfreeze()
    for each in gc.get_objects():
        # By its type: `isinstance` asks a proxy for its class, which may run code and fail.
        if issubclass(type(each), (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            with suppress(OSError, ValueError):
                each.flush()


def project_extensions(paths: Sequence[str]) -> Extensions:
    """Return the extensions that the nearest pyproject.toml with a `[tool.doorward]` table names;
    empty `Extensions` if there is none.

    The folders from the common folder of `paths` upwards are searched first, then those from the
    working folder upwards. Raise ExtensionError if the table is not valid, or names built-ins in a
    file of another user.
    """
    for file in _projects(paths):
        table = _table(file)
        if table is not None:
            return _extensions(file, table)
    return Extensions()


def _projects(paths: Sequence[str]) -> Iterator[str]:
    """Yield the `pyproject.toml` files of the common folder of the existing `paths` and the folders
    above it, nearest first; then the same from the working folder.
    """
    local = [os.path.realpath(path.removeprefix("file://")) for path in paths]
    local = [path for path in local if os.path.exists(path)]
    starts = [os.path.commonpath(local)] if local else []
    for folder in (*starts, os.getcwd()):
        above = ""
        while folder != above:
            file = os.path.join(folder, "pyproject.toml")
            if os.path.isfile(file):
                yield file
            folder, above = os.path.dirname(folder), folder


def _table(file: str) -> dict[str, Any] | None:
    """Return the `[tool.doorward]` table of a file; None if it has none, cannot be opened, or does
    not contain the word `doorward`. Raise ExtensionError if the file is longer than `MAX_PROJECT`
    bytes or, with that word, is not valid TOML, or if `tool` or `tool.doorward` is not a table.
    """
    try:
        with open(file, "rb") as opened:
            content = opened.read(MAX_PROJECT + 1)
    except OSError:
        return None
    if len(content) > MAX_PROJECT:
        raise ExtensionError(f"{file}: the file is larger than {MAX_PROJECT} bytes")
    # Most projects have no such table, and need no parser for it.
    if b"doorward" not in content:
        return None
    import tomllib  # 20 ms that only projects with such a table pay

    try:
        document = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ExtensionError(f"{file}: {error}") from None
    tool = document.get("tool", {})
    if not isinstance(tool, dict):
        raise ExtensionError(f"{file}: `tool` must be a table")
    table = tool.get("doorward")
    if table is None or isinstance(table, dict):
        return table
    raise ExtensionError(f"{file}: `tool.doorward` must be a table")


def _extensions(file: str, table: dict[str, Any]) -> Extensions:
    """Convert a `[tool.doorward]` table; empty `Extensions` if it names no built-ins. Raise
    `ExtensionError` for an unknown key, a value of the wrong type, or built-ins in a file that
    belongs neither to this user nor to root.
    """
    for key in table:
        if key not in _KEYS:
            known = " and ".join(_KEYS)
            raise ExtensionError(f"{file}: [tool.doorward] has no key `{key}`, only {known}")
    names, folders = _strings(file, table, "builtins"), _strings(file, table, "pythonpath")
    if not names:
        return Extensions()
    # Loading runs the code: a file that another user left above the policies must not.
    if os.stat(file).st_uid not in (os.geteuid(), 0):
        raise ExtensionError(
            f"{file} belongs to another user and is not loaded by default: "
            f"use --builtins {names[0]} to load it"
        )
    return Extensions(
        [_beside(file, name) for name in names],
        [_below(file, folder) for folder in folders or (".",)],
    )


def _strings(file: str, table: dict[str, Any], key: str) -> list[str]:
    """Return the strings at a key of the table, [] if it is missing; a single string counts as a
    list. Raise ExtensionError for any other value.
    """
    value = table.get(key, [])
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ExtensionError(f"{file}: `{key}` must be a list of strings")
    return value


def _beside(file: str, name: str) -> str:
    """Resolve a file name relative to the project's file; a module name is returned unchanged."""
    module, _, path = name.rpartition(":")
    return f"{_below(file, module)}:{path}" if module.endswith(".py") else name


def _below(file: str, path: str) -> str:
    """Resolve a path relative to the folder of `file`; an absolute path stays."""
    return os.path.normpath(os.path.join(os.path.dirname(file), path))


def _run_file(name: str) -> ModuleType:
    """Run a Python file as a module and return it; its folder is appended to `sys.path`, and the
    module is in `sys.modules` under a name made of the file's. Raise ExtensionError if the file is
    missing or its code fails.
    """
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.abspath(name)
    if not os.path.isfile(path):
        raise ExtensionError(f"the file `{name}` with built-ins does not exist")
    _append_to_path([os.path.dirname(path)])
    stem = os.path.basename(path).removesuffix(".py")
    spec = spec_from_file_location(f"doorward_builtins_{stem}", path)
    assert spec is not None  # the name ends with .py
    assert spec.loader is not None
    # In `sys.modules` before its code runs: dataclasses and pickle look their module up there.
    module = sys.modules[spec.name] = module_from_spec(spec)
    try:
        with foreign_code():
            spec.loader.exec_module(module)
    except ForeignError as error:
        raise ExtensionError(f"importing `{name}` failed: {error}") from error.__cause__
    return module


def _append_to_path(folders: Sequence[str]) -> None:
    """Append the folders to `sys.path` unless they are in it. They come last, so that they cannot
    replace installed modules.
    """
    for folder in folders:
        path = os.path.abspath(folder)
        if path not in sys.path:
            sys.path.append(path)
    # A folder that was just added, or written to, may be cached as one without the module.
    importlib.invalidate_caches()


def _near(name: str, module: ModuleType) -> str:
    """Return a hint such as `: did you mean …?` with the most similar registry of a module; "" if
    the module has no registry.
    """
    from difflib import get_close_matches  # only who mistypes pays for it

    registries = [key for key, each in vars(module).items() if isinstance(each, Registry)]
    near = get_close_matches(name, registries, 1, 0) if registries else []
    return f": did you mean `{near[0]}`?" if near else ""
