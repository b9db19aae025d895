"""JSON pointers to the names that they are made of: the one place that undoes their escapes.

`~1` stands for a slash and `~0` for a tilde. The paths of changes (PATCH, delta bundles) have
escapes of URLs as well, which are undone first.
"""

from __future__ import annotations

from doorward.rego.errors import BuiltinError

__all__ = ["read_name", "read_patch_path", "read_pointer"]


def read_name(part: str) -> str:
    """Return the name that one part of a JSON pointer stands for: `a~1b` is `a/b`."""
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def read_pointer(pointer: str) -> list[str]:
    """Return the names in a JSON pointer: `/a/b~1c` is `["a", "b/c"]`. Leading slashes do not
    count, as in OPA; [] for "", but [""] for `/`. A slash at the end gives a last name "", and a
    `~` before anything but 0 or 1 stays. Never raises.
    """
    return [read_name(part) for part in pointer.lstrip("/").split("/")] if pointer else []


def read_patch_path(path: str) -> tuple[str, ...]:
    """Return the names in the path of a change to data: `/a/b%20c` is `("a", "b c")`. Slashes at
    both ends do not count; () for the root.
    """
    stripped = path.strip("/")
    return tuple([read_name(_unescape(part)) for part in stripped.split("/")]) if stripped else ()


def _unescape(part: str) -> str:
    """Decode %XX in a path part; an invalid escape is left as it is, as in OPA."""
    # Few programs have a pointer with an escape, and all load this module.
    from doorward.rego.golang.urls import path_unescape

    try:
        return path_unescape(part)
    except BuiltinError:
        return part  # as OPA takes it
