"""The outcome of a response: its kind, the reason, its size, and how many items of lists were left
in it.

Decisions and log events have it in `custom.response`; bodies are never in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

__all__ = ["response_of"]

MOST: Final = 50
"""The most lists that are included."""
LONGEST: Final = 200
_BODY: Final = "/input/response/parsed_body"
_TEXTS: Final = ("outcome", "reason", "body_state")


def response_of(custom: Any, erased: Iterable[str]) -> dict[str, Any]:
    """Return `{"response": …}` for a decision on a response, with the first `MOST` lists and texts
    cut to `LONGEST` characters; {} for any other decision. `custom`: that field of the event.
    `left_out` is True if the parsed body of the response is among `erased`, the paths that were
    removed from the event.
    """
    recorded = custom.get("response") if isinstance(custom, dict) else None
    if not isinstance(recorded, dict):
        return {}
    lists = recorded.get("lists")
    counts = [
        {"name": str(name)[:LONGEST], "items": each.get("items"), "shown": each.get("shown")}
        for name, each in (lists.items() if isinstance(lists, dict) else ())
        if isinstance(each, dict) and type(each.get("items")) is type(each.get("shown")) is int
    ]
    size = recorded.get("size")
    return {
        "response": {
            **{name: str(recorded.get(name, ""))[:LONGEST] for name in _TEXTS},
            "size": size if type(size) is int else None,
            "lists": counts[:MOST],
            "left_out": _BODY in erased,
        }
    }
