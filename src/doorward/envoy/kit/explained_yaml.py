"""A document and reasons become lines of YAML with the reasons as comments.

Only what a configuration is made of: mappings with text keys, lists, text, numbers, booleans and
null. Nothing here knows what is configured.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["explain"]

WIDTH: Final = 98
# Text that YAML reads as the same text without quotes: words, paths, and durations such as 0.5s.
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*|[0-9.]+s")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def explain(document: Mapping[str, Any], why: Mapping[str, str]) -> Iterator[str]:
    """Yield the YAML lines of a document; `why` has comments by `key` or `parent.key`."""
    return _explain(document, why)


def _explain(value: Any, why: Mapping[str, str], depth: int = 0, parent: str = "") -> Iterator[str]:
    """Yield the YAML lines of a mapping or list, indented by `depth` levels; a key is preceded by
    its comment in `why`, by `parent.key` or else by `key`. `parent` is the key of `value`.
    """
    pad = "  " * depth
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _comment(why.get(f"{parent}.{key}") or why.get(key, ""), pad)
            head = f"{pad}{_scalar(key)}:"
            if _is_branch(item):
                yield head
                yield from _explain(item, why, depth + 1, key)
            else:
                yield f"{head} {_scalar(item)}"
        return
    for item in value:
        lines = (
            list(_explain(item, why, depth + 1, parent)) if _is_branch(item) else [_scalar(item)]
        )
        # A comment over the first key of an item is over its dash.
        while lines[0].lstrip().startswith("#"):
            yield f"{pad}{lines.pop(0).lstrip()}"
        yield f"{pad}- {lines[0].lstrip()}"
        yield from lines[1:]


def _is_branch(value: Any) -> bool:
    """Return True for a mapping or list with members; empty ones are written on one line."""
    return isinstance(value, dict | list) and bool(value)


def _scalar(value: Any) -> str:
    """Return a scalar as YAML: plain if it cannot be mistaken for another type, else as JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    # JSON is YAML, and its quotes leave no doubt about the type.
    return json.dumps(value)


def _comment(text: str, pad: str) -> Iterator[str]:
    """Yield a text as wrapped comment lines after `pad`; nothing for ""."""
    if text:
        yield from textwrap.wrap(
            text, WIDTH, initial_indent=f"{pad}# ", subsequent_indent=f"{pad}# "
        )
