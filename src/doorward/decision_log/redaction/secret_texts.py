"""Values below the configuration's `secrets` paths are searched in the operands and answers of
built-ins.

A policy may pass a secret of its data to a built-in, such as a key to `http.send`, and OPA's
`nd_builtin_cache` would log it. All answers of a built-in that contain a secret are removed from
the event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from doorward.pdp.snapshot import Snapshot
from doorward.rego import Value, to_json
from doorward.rego.shared import Key

__all__ = ["SecretTexts"]

_SHORTEST: Final = 4
"""The shortest text that counts as secret, in characters; shorter ones occur everywhere."""
_MOST: Final = 1_000
"""The largest number of texts to search for; with more, all built-ins are removed."""


class SecretTexts:
    """Removes the answers of built-ins that contain a secret from events; secrets are the texts at
    some paths of the data. Safe in any number of threads.
    """

    def __init__(self, paths: Sequence[tuple[str, ...]]) -> None:
        self._paths = tuple(paths)
        self._known: tuple[Snapshot, frozenset[str]] | None = None

    def hide(self, event: dict[str, Any], snapshot: Snapshot) -> dict[str, Any]:
        """Return the event without the built-ins whose operands or answers contain a secret of the
        snapshot, or without all of them if there are more than `_MOST` texts to search for; their
        paths are listed under `erased`. The same object if none is removed.
        """
        notes = event.get("nd_builtin_cache")
        if not self._paths or not notes:
            return event
        texts = self._texts(snapshot)
        gone = [name for name, answers in notes.items() if _holds(answers, texts)]
        if not gone:
            return event
        remaining = {name: answers for name, answers in notes.items() if name not in gone}
        erased = [*event.get("erased", ()), *[f"/nd_builtin_cache/{name}" for name in gone]]
        return {**event, "nd_builtin_cache": remaining, "erased": erased}

    def _texts(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the texts below the `secrets` paths of the snapshot's data; those of the last
        snapshot are cached.
        """
        known = self._known
        if known is None or known[0] is not snapshot:
            values = [snapshot.base_document(path) for path in self._paths]
            texts = frozenset([text for value in values for text in _leaves(value)])
            # INVARIANT: one tuple, so that no thread searches the texts of another snapshot.
            known = self._known = snapshot, texts
        return known[1]


def _holds(answers: dict[Key, Value], texts: frozenset[str]) -> bool:
    """Return True if an answer contains a secret text, or there are too many texts to search."""
    # Fail closed: with too many texts to search, all answers count as secret.
    if len(texts) > _MOST:
        return True
    # Operands are JSON texts already; inside of one, texts are escaped once more.
    answer_texts = [each for key, value in answers.items() for each in (str(key), to_json(value))]
    return any(text in each for each in answer_texts for text in texts)


def _leaves(value: Any) -> Iterator[str]:
    """Yield every text in a value in its JSON form without quotes, escaped once and twice. Keys and
    texts below `_SHORTEST` characters are left out.
    """
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str) and len(each) >= _SHORTEST:
            once = to_json(each)[1:-1]
            yield once
            # Operands are JSON within JSON: a quote in a secret is escaped twice there.
            yield to_json(once)[1:-1]
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
