"""Filters of lists in a body: the rule of a filter, asked with each item known.

The rule is the one that filters rows in a database, and it is read in the same way: an item stays
where the document is true, or an object that allows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple

from doorward.base.cancellation import is_stopped
from doorward.base.records import record
from doorward.enforcement.body_paths import Path, PathError, values_at
from doorward.enforcement.http_input import Input
from doorward.pdp.snapshot import Snapshot
from doorward.rego import EvalError, Query, Value
from doorward.rego.shared import CANCEL_ERROR
from doorward.verdicts import is_allowed

__all__ = ["NOTHING_HIDDEN", "Hidden", "ListError", "ListOptions", "find_hidden"]


_DIGEST: Final = 8
NOTHING_HIDDEN: Final = hashlib.blake2b(digest_size=_DIGEST).hexdigest()
"""The digest of a list of which all items stay."""
_LOOK: Final = 16
"""Items between two looks at the clock; each of them ends at its own deadline."""


class ListError(Exception):
    """A list that cannot be filtered."""


@record
class ListOptions:
    """A list in bodies, and the rule that decides about each of its items."""

    path: Path
    """Where the list is in the body; `*` is any key or index."""
    rule: str
    """The document that must be allowed for an item, such as `documents/include`."""
    name: str = "item"
    """The rule reads the item as `input.NAME`."""


class Hidden(NamedTuple):
    """The items that do not stay, and how many there were."""

    items: dict[Path, set[int]]
    """Indexes, by the path of their list."""
    counts: dict[str, tuple[int, int]]
    """By the name of the list: items, and those that stay."""
    digests: dict[str, str]
    """By the name of the list: a digest of the places of the items that do not stay."""

    def record(self, lists: Mapping[str, ListOptions]) -> dict[str, Any]:
        """The record for the decision log: enough to filter again, and nothing of the items."""
        return {
            name: {
                "items": count,
                "shown": left,
                "hidden": self.digests[name],
                "path": [*lists[name].path],
                "rule": lists[name].rule,
                "name": lists[name].name,
            }
            for name, (count, left) in self.counts.items()
        }


def find_hidden(
    snapshot: Snapshot,
    lists: Mapping[str, ListOptions],
    input: Input,
    body: Value,
    *,
    now_ns: int | None = None,
) -> Hidden:
    """The items that their rules do not allow. `now_ns`: the time, where it is another one.

    ListError where a rule does not exist, or what is there is not a list; RegoError where a rule
    fails.
    """
    ends_at = None if snapshot.deadline is None else monotonic() + snapshot.deadline
    hidden = Hidden({}, {}, {})
    for name, options in lists.items():
        if snapshot.is_nowhere(options.rule):
            raise ListError(f"the rule {options.rule} of the list {name} does not exist")
        document = snapshot.document(options.rule)
        answer, item_name = document.answer, options.name
        if now_ns is not None and isinstance(document, Query):
            answer = partial(document.answer, now_ns=now_ns)
        digest = hashlib.blake2b(digest_size=_DIGEST)
        count = hidden_count = 0
        try:
            places = list(values_at(body, options.path))
        except PathError:
            raise ListError(f"the body does not have the list {name} where it should be") from None
        for path, items in places:
            if items is None:
                continue
            if not isinstance(items, list):
                raise ListError(f"what is at the list {name} is not an array")
            count += len(items)
            indexes = hidden.items.setdefault(path, set())
            for index, item in enumerate(items):
                result = answer({**input, item_name: item})
                if result is not True and not is_allowed(result):
                    indexes.add(index)
                    hidden_count += 1
                    digest.update(f"{path}{index},".encode())
                is_due = index % _LOOK == 0
                if is_due and ((ends_at is not None and monotonic() > ends_at) or is_stopped()):
                    raise EvalError(CANCEL_ERROR, "caller cancelled query execution")
        hidden.counts[name] = count, count - hidden_count
        hidden.digests[name] = digest.hexdigest()
    return hidden
