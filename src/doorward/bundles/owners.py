"""The owners of parts of `data`: bundles own their roots, and nobody else may write there.

The configuration owns what the server itself puts into `data`, such as keys of issuers.

Neither below a root nor above one: what is above holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from doorward.bundles.edit import path_text

__all__ = ["OwnedError", "Owners"]


class OwnedError(Exception):
    """A change of what a bundle or the configuration owns, in OPA's words."""


class Owners:
    """The bundles by what they own. A manifest may name many roots: none is looked for in turn."""

    def __init__(self, roots: Mapping[str, Sequence[str]], *, kind: str = "bundle") -> None:
        """`roots` of each bundle, by its name: paths like `a/b`; "" is everything. `kind`: what the
        owners are."""
        self._kind = kind
        self._roots: dict[tuple[str, ...], str] = {}
        self._above: dict[tuple[str, ...], str] = {}
        for bundle, paths in roots.items():
            for path in paths:
                root = tuple(path.split("/")) if path else ()
                self._roots.setdefault(root, bundle)
                for length in range(1, len(root)):
                    self._above.setdefault(root[:length], bundle)

    def check(self, path: Sequence[str]) -> None:
        """OwnedError where only a bundle may write at `path`."""
        if not self._roots:
            return
        if not path:
            raise OwnedError(f"can't write to document root with {self._kind} roots configured")
        if () in self._roots:
            raise OwnedError(f'all paths owned by {self._kind} "{self._roots[()]}"')
        full_path = tuple(path)
        bundle = self._above.get(full_path)
        for length in range(1, len(full_path) + 1):
            bundle = bundle or self._roots.get(full_path[:length])
        if bundle is not None:
            name = path_text(path).strip("/")
            raise OwnedError(f'path {name} is owned by {self._kind} "{bundle}"')
