"""The key of what policies compile to: everything that it depends on, as one text."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from doorward import __version__
from doorward.rego.builtins import REGISTRY
from doorward.rego.modules import Policy, Preparation
from doorward.rego.options import Options
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Module

__all__ = ["LEAST_TEXT", "key_of", "name_of"]

LEAST_TEXT: Final = 8_192
"""The least number of characters of policies for which a program is saved; fewer compile as fast as
they are read.
"""


def name_of(key: str, kind: str) -> str:
    """Return the name of a folder entry: 64 hexadecimal digits for `key` and the `kind` of saved
    result.
    """
    return hashlib.sha256(f"{kind} {key}".encode()).hexdigest()


def key_of(
    policies: Mapping[str, Policy], options: Options, prepare: Preparation | None = None
) -> str | None:
    """Return the cache key of the program that `policies` compile to. `prepare`: the function that
    changes them before, whose file is part of the key. None if the program must not be saved: it
    depends on more than texts and flags (own built-ins, capabilities, schemas, parsed modules,
    tracing), the policies are short, or the files of this package or of `prepare` cannot be read.
    """
    if options.registry is not REGISTRY or options.capabilities is not None:
        return None
    if options.schemas is not None or options.traced:
        return None
    digest = hashlib.sha256()
    length = 0
    for name, policy in sorted(policies.items()):
        if isinstance(policy, Module):
            return None
        source = Source(name, policy) if isinstance(policy, str) else policy
        length += len(source.text)
        for part in (name, source.name, source.text, f"{options.is_v0(name):d}"):
            # With its length, so that no two lists of parts give the same bytes.
            content = part.encode("utf-8", errors="surrogatepass")
            digest.update(b"%d:" % len(content) + content)
    if length < LEAST_TEXT:
        return None
    # Every option that changes the checked program or its code.
    flags = (
        options.strict,
        options.max_errors,
        options.metadata,
        options.marked,
        options.max_items,
        options.environment.on_print is not None,
    )
    try:
        code = "" if prepare is None else _file(Path(prepare.__code__.co_filename))
        return f"{_release()} {flags} {code} {digest.hexdigest()}"
    except OSError:
        return None  # an archive holds the code: nothing tells whether it changed


@cache
def _release() -> str:
    """Return a digest that changes with the version of Python and with any file of `doorward.rego`
    and of the packages in `_BESIDE`, so that a program saved by other code is not loaded. Computed
    once.
    """
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(f"{sys.version} {root} {__version__}".encode())
    beside = [path for name in _BESIDE for path in sorted((root.parent / name).glob("*.py"))]
    for path in (*sorted(root.rglob("*.py")), *beside):
        digest.update(_file(path).encode())
    return digest.hexdigest()


_BESIDE: Final = ("base", "http_client")
"""The packages beside this one whose code takes part in compiling policies."""


def _file(path: Path) -> str:
    """Return a text that changes when a file changes: its path, times and size. The time of its
    status counts too, since images and packages set that of its content.
    """
    status = path.stat()
    return f"{path} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size}\n"
