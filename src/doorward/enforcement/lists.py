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
"""The digest of a list without hidden items."""
_LOOK: Final = 16
"""The deadline of the whole list is checked once in so many items; each item has its own as
well."""


class ListError(Exception):
    """A list of a response body cannot be filtered: its rule does not exist, or it is not an
    array.
    """


@record
class ListOptions:
    """A list in bodies, and the rule that decides about each of its items."""

    path: Path
    """The path of the list in the body; `*` is any key or index."""
    rule: str
    """The document that must be allowed for an item, such as `documents/include`."""
    name: str = "item"
    """The rule reads the item as `input.NAME`."""


class Hidden(NamedTuple):
    """The items of lists that their rules hide, with counts for the decision log."""

    items: dict[Path, set[int]]
    """The indexes of hidden items, by the path of their list."""
    counts: dict[str, tuple[int, int]]
    """The numbers of all items and of those that stay, by the name of the list."""
    digests: dict[str, str]
    """A digest of the positions of hidden items, by the name of the list."""

    def record(self, lists: Mapping[str, ListOptions]) -> dict[str, Any]:
        """Return the record for the decision log by list name: the numbers of items and of items
        shown, the digest of the hidden positions, and the list's options; no item itself.
        """
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
    """Return the items that the rules of `lists` do not allow, or for which they are undefined;
    each item is decided on alone. A list that is null or missing in the body is passed over.

    `now_ns` replaces the policy's clock. Raise ListError if a rule does not exist, or a path does
    not fit the body or leads to a value that is not an array; RegoError if a rule fails; EvalError
    past the snapshot's deadline and once the caller's work is cancelled.
    """
    ends_at = None if snapshot.deadline is None else monotonic() + snapshot.deadline
    hidden = Hidden({}, {}, {})
    for name, options in lists.items():
        if snapshot.is_nowhere(options.rule):
            # It would hide each item, and an empty list does not look like a mistake.
            raise ListError(
                f"the rule {options.rule}, which filters the list {name}, does not exist"
            )
        document = snapshot.document(options.rule)
        answer, item_name = document.answer, options.name
        if now_ns is not None and isinstance(document, Query):
            answer = partial(document.answer, now_ns=now_ns)
        digest = hashlib.blake2b(digest_size=_DIGEST)
        count = hidden_count = 0
        try:
            places = list(values_at(body, options.path))
        except PathError:
            raise ListError(
                f"the response body has no list {name} at its configured path"
            ) from None
        for path, items in places:
            if items is None:
                continue
            if not isinstance(items, list):
                raise ListError(f"the list {name} in the response body is not an array")
            count += len(items)
            indexes = hidden.items.setdefault(path, set())
            for index, item in enumerate(items):
                result = answer({**input, item_name: item})
                # Undefined hides too: an item stays only where the rule says so.
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
