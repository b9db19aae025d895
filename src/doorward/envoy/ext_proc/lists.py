"""Which items of the lists in a body stay: the rule of a filter, asked with each item known.

The rule is the one that filters rows in a database, and it is read in the same way: an item stays
where the document is true, or an object that allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Final, NamedTuple

from doorward.cancellation import is_stopped
from doorward.enforcement.http_input import Input
from doorward.envoy.ext_proc.changes import Path, PathError, values_at
from doorward.envoy.ext_proc.options import ListOptions
from doorward.pdp.snapshot import Snapshot
from doorward.rego import CANCEL_ERROR, EvalError, Value
from doorward.verdicts import is_allowed

__all__ = ["Hidden", "ListError", "find_hidden"]


_LOOK: Final = 16
"""Items between two looks at the clock; each of them ends at its own deadline."""


class ListError(Exception):
    """A list that cannot be filtered."""


class Hidden(NamedTuple):
    """The items that do not stay, and how many there were."""

    items: dict[Path, set[int]]
    """Indexes, by the path of their list."""
    counts: dict[str, tuple[int, int]]
    """By the name of the list: items, and those that stay."""


def find_hidden(
    snapshot: Snapshot, lists: Mapping[str, ListOptions], input: Input, body: Value
) -> Hidden:
    """The items that their rules do not allow.

    ListError where a rule does not exist, or what is there is not a list; RegoError where a rule
    fails.
    """
    ends_at = None if snapshot.deadline is None else monotonic() + snapshot.deadline
    hidden = Hidden({}, {})
    for name, options in lists.items():
        if snapshot.is_nowhere(options.rule):
            raise ListError(f"the rule {options.rule} of the list {name} does not exist")
        document = snapshot.document(options.rule)
        answer, item_name = document.answer, options.name
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
                is_due = index % _LOOK == 0
                if is_due and ((ends_at is not None and monotonic() > ends_at) or is_stopped()):
                    raise EvalError(CANCEL_ERROR, "caller cancelled query execution")
        hidden.counts[name] = count, count - hidden_count
    return hidden
