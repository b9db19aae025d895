"""The paths below `data` that rules read, as far as they are known before evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from doorward.rego.syntax.nodes import Ref, Scalar, Var
from doorward.rego.values import SYSTEM, Key, to_key

__all__ = ["ReadPaths"]


class ReadPaths:
    """The paths below `data` that references read, those of rules and those of base documents."""

    def __init__(self, parts: Iterable[object]) -> None:
        self._paths = {path for part in parts for path in _paths(part)}

    def above(self, path: Sequence[Key]) -> bool:
        """Return True if some reference reads a document above `path` as a whole; a key that is not
        constant counts as any key. Below `data.system` this is also True if all of `data` or any of
        its keys is read, since that leaves `system` out except under `with`.
        """
        if path[:1] == (SYSTEM,) and any(read[:1] in ((), (None,)) for read in self._paths):
            return True
        return any(
            len(read) < len(path)
            and all(key is None or key == own for key, own in zip(read, path, strict=False))
            for read in self._paths
        )


def _paths(part: object) -> Iterator[tuple[Key | None, ...]]:
    """Yield the path of `part` below `data`, with None for keys known only at run time; nothing if
    it is not a reference below `data`.
    """
    if isinstance(part, Ref) and isinstance(part.head, Var) and part.head.name == "data":
        yield tuple(to_key(a.value) if isinstance(a, Scalar) else None for a in part.args)
    elif isinstance(part, Var) and part.name == "data":
        yield ()
