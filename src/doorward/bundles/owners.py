"""The owners of parts of `data`: bundles own their roots, and nobody else may write there.

The configuration owns the data of the server itself, such as the keys of issuers. A write above a
root is refused like one below it, since it would replace the root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from doorward.bundles.edit import path_text

__all__ = ["OwnedError", "Owners"]


class OwnedError(Exception):
    """A write to data that a bundle or the configuration owns; the message is OPA's."""


class Owners:
    """The owners of paths, by path: a check takes as long as the path, however many roots there
    are.
    """

    def __init__(self, roots: Mapping[str, Sequence[str]], *, kind: str = "bundle") -> None:
        """Index `roots`: the paths of each owner, by its name; `a/b`, or "" for everything. `kind`
        names the owners in messages.
        """
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
        """Raise OwnedError if `path` is at, below or above a root, so that only its owner may write
        there; () is above all roots.
        """
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
