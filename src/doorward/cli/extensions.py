"""The option `--builtins`: policies may call built-ins written in Python besides OPA's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from doorward.base.collector import gc_paused
from doorward.bundles.sources import Sources
from doorward.cli.errors import warn
from doorward.pdp.extensions import Extensions, project_extensions
from doorward.rego import Registry

if TYPE_CHECKING:
    from doorward.rego import Engine

__all__ = ["engine_of", "option", "registry_for"]

option: Final = click.option(
    "--builtins",
    multiple=True,
    metavar="MODULE:NAME",
    help="Add the built-ins in a Python `Registry`, MODULE:NAME or FILE.py:NAME; repeatable.",
)
"""The option of every command that compiles policies."""


def registry_for(names: Sequence[str], paths: Sequence[str]) -> Registry:
    """Return a registry of OPA's built-ins and those that Python modules define: the modules
    `names` or, if there are none, those that the project around `paths` declares. `("",)` means
    OPA's built-ins alone. Raise ExtensionError if an import fails.
    """
    if names:
        return Extensions([name for name in names if name]).registry()
    return project_extensions(paths).registry()


def engine_of(sources: Sources, builtins: Sequence[str]) -> Engine:
    """Return the engine of files and bundles, with the built-ins that the option names; print
    warnings.

    Raise LoadError or CompileError.
    """
    from doorward.rego import Engine  # `check` evaluates nothing

    loaded = sources.load()
    warn(loaded.notes)
    with gc_paused():
        return Engine(
            modules=loaded.modules,
            data=loaded.data,
            v0=sources.v0,
            rego_versions=loaded.rego_versions,
            registry=registry_for(builtins, sources.all_paths),
        )
