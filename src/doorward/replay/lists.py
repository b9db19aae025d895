"""The lists of logged responses are filtered again, by the rules that the log names.

    custom.response.lists + the logged body ─filter_lists─▶ how many items stay, and which

A log without bodies has only the recorded counts, and nothing can be filtered again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from doorward.enforcement.lists import NOTHING_HIDDEN, ListError, ListOptions, find_hidden
from doorward.pdp.snapshot import Snapshot
from doorward.rego import EvalError, Undefined, Value
from doorward.rego.shared import from_key
from doorward.replay.compare import ListCount
from doorward.replay.events import Event

__all__ = ["filter_lists", "logged_lists"]

Lists: TypeAlias = Mapping[str, tuple[ListOptions, ListCount]]
_BODY: Final = "/input/response/parsed_body"


def logged_lists(recorded: Mapping[Any, Any]) -> Lists:
    """Return the lists that a decision on a response filtered, by name: their options and recorded
    counts. Invalid entries are left out; {} if there are none.
    """
    lists = recorded.get("lists")
    read = {
        str(name): _read(each)
        for name, each in (lists.items() if isinstance(lists, dict) else ())
        if isinstance(each, dict)
    }
    return {name: each for name, each in read.items() if each is not None}


def _read(each: Mapping[Any, Any]) -> tuple[ListOptions, ListCount] | None:
    """Return one list of the log with its counts; None if it is invalid."""
    texts = [each.get(name) for name in ("rule", "name", "hidden")]
    numbers = [each.get(name) for name in ("items", "shown")]
    path = each.get("path")
    if any(type(text) is not str for text in texts) or type(path) is not list:
        return None
    if any(type(number) is not int for number in numbers):
        return None
    if any(type(key) not in (str, int) for key in path):
        return None
    rule, name, hidden = map(str, texts)
    items, displayed = (number for number in numbers if type(number) is int)
    return ListOptions(tuple(path), rule, name), ListCount(items, displayed, hidden)


def filter_lists(
    snapshot: Snapshot,
    event: Event,
    lists: Lists,
    value: Value | Undefined,
    *,
    now_ns: int | None,
) -> Mapping[str, ListCount] | str | None:
    """Return the counts of each list in `lists` (those of the log) as these policies filter it:
    items, shown items, and a digest of the positions of the hidden ones. A list that they do not
    filter shows all its items.

    None if the response has no body, or it is masked completely. A text names what the log lacks.
    Raise EvalError if a list cannot be filtered, RegoError if its rule fails.
    """
    input: Any = event.input
    response = input.get("response") if isinstance(input, dict) else None
    if not isinstance(response, dict) or "parsed_body" not in response:
        return None
    masked = next((each for each in event.hidden if each.startswith(_BODY)), "")
    if masked:
        return None if masked == _BODY else f"the body, of which {masked} is masked"
    named = _names_of_lists(value)
    unknown = sorted((named or set()) - lists.keys())
    if unknown:
        return f"the rule of the list {unknown[0]}"
    options = {name: each for name, (each, _) in lists.items() if named is None or name in named}
    try:
        hidden = find_hidden(snapshot, options, input, response["parsed_body"], now_ns=now_ns)
    except ListError as error:
        raise EvalError("response_list", str(error)) from None
    return {
        # A list that is filtered no more shows all of its items.
        name: ListCount(*hidden.counts[name], hidden.digests[name])
        if name in hidden.counts
        else ListCount(count.items, count.items, NOTHING_HIDDEN)
        for name, (_, count) in lists.items()
    }


def _names_of_lists(value: Value | Undefined) -> set[str] | None:
    """Return the names in `lists` of the decision's value.

    None, which means all lists of the log, if the value is undefined, is not an object or has no
    `lists`; an empty set, which means none, if `lists` is neither an array nor a set.
    """
    if not isinstance(value, dict) or "lists" not in value:
        return None
    names: Any = value["lists"]
    if isinstance(names, frozenset):
        return {str(from_key(each)) for each in names}
    return {str(each) for each in names} if isinstance(names, list) else set()
