"""Built-ins once more, plain and independent: the oracle shares the registry with the engine.

A model takes operands as JSON and gives a value, or FAILED where the built-in is an error or
undefined.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = ["FAILED", "MODELS"]

FAILED: Final = object()
_REMOVED: Final = object()
"""What is left of a document whose root was removed: only `add` makes one of it again."""


class _Error(Exception):
    pass


def _same(a: Any, b: Any) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


# json.patch: RFC 6902


def _pointer(path: Any) -> list[Any]:
    if isinstance(path, list):
        return path
    if not isinstance(path, str):
        raise _Error
    parts = path.lstrip("/").split("/") if path else []
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _index(items: list[Any], key: Any, *, to_add: bool) -> int:
    if to_add and key == "-":
        return len(items)
    if not re.fullmatch(r"0|[1-9]\d*", str(key)):
        raise _Error
    number = int(key)
    if number >= len(items) + to_add:
        raise _Error
    return number


def _get(document: Any, path: Sequence[Any]) -> Any:
    if document is _REMOVED:
        raise _Error
    for key in path:
        if isinstance(document, list):
            document = document[_index(document, key, to_add=False)]
        elif isinstance(document, dict) and key in document:
            document = document[key]
        else:
            raise _Error
    return document


def _add(document: Any, path: Sequence[Any], value: Any) -> Any:
    if not path:
        return value
    parent, key = _get(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(_index(parent, key, to_add=True), value)
    elif isinstance(parent, dict):
        parent[key] = value
    else:
        raise _Error
    return document


def _remove(document: Any, path: Sequence[Any]) -> Any:
    if document is _REMOVED:
        raise _Error
    if not path:
        return _REMOVED
    _get(document, path)
    parent, key = _get(document, path[:-1]), path[-1]
    del parent[_index(parent, key, to_add=False) if isinstance(parent, list) else key]
    return document


def _replace(document: Any, path: Sequence[Any], value: Any) -> Any:
    if document is _REMOVED:
        raise _Error
    if not path:
        return value
    _get(document, path)
    parent, key = _get(document, path[:-1]), path[-1]
    parent[_index(parent, key, to_add=False) if isinstance(parent, list) else key] = value
    return document


def json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """The document after the operations."""
    # Not `deepcopy`, for which parts that are one object stay one.
    document = json.loads(json.dumps(document))
    for operation in operations:
        path = _pointer(operation["path"])
        match operation["op"]:
            case "add":
                document = _add(document, path, deepcopy(operation["value"]))
            case "remove":
                document = _remove(document, path)
            case "replace":
                document = _replace(document, path, deepcopy(operation["value"]))
            case "copy":
                document = _add(
                    document, path, deepcopy(_get(document, _pointer(operation["from"])))
                )
            case "move":
                source = _pointer(operation["from"])
                value = deepcopy(_get(document, source))
                if source != path:
                    document = _add(_remove(document, source), path, value)
            case "test":
                if not _same(_get(document, path), operation["value"]):
                    raise _Error
            case _:
                raise _Error
    return _get(document, [])


# glob.match


def glob_match(pattern: str, delimiters: list[str] | None, text: str) -> bool:
    """Whether the whole text matches; `*` and `?` stop at delimiters, `**` does not."""
    stops = "" if delimiters is None else "".join(delimiters) or "."
    one = f"[^{re.escape(stops)}]" if stops else "."
    if not text and re.fullmatch(r"\?|\[!.-.\]|\[![^]-]+\]", pattern):
        # OPA's library looks at no character of the empty text where the pattern is only this.
        return True
    return re.fullmatch(_glob(pattern, one), text, re.DOTALL) is not None


def _glob(pattern: str, one: str) -> str:
    out, depth, at = "", 0, 0
    while at < len(pattern):
        rest = pattern[at:]
        bracket = re.match(r"\[(!?)((?:\w-\w)|\w+)\]", rest, re.ASCII)
        if rest.startswith("**"):
            out, at = out + ".*", at + 2
        elif rest[0] == "*":
            out, at = out + one + "*", at + 1
        elif rest[0] == "?":
            out, at = out + one, at + 1
        elif bracket:
            out += f"[{'^' if bracket[1] else ''}{bracket[2]}]"
            at += bracket.end()
        elif rest[0] == "{":
            out, depth, at = out + "(?:", depth + 1, at + 1
        elif rest[0] == "}" and depth:
            out, depth, at = out + ")", depth - 1, at + 1
        elif rest[0] == "," and depth:
            out, at = out + "|", at + 1
        else:
            out, at = out + re.escape(rest[0]), at + 1
    return out


# Numbers and texts


def numbers_range(first: int, last: int) -> list[int]:
    """All integers from one to the other, in either direction."""
    return list(range(first, last + 1)) if first <= last else list(range(first, last - 1, -1))


def concat(delimiter: str, parts: list[Any]) -> str:
    """The texts with the delimiter between them."""
    if not all(isinstance(part, str) for part in parts):
        raise _Error
    return delimiter.join(parts)


def sum_(numbers: list[Any]) -> int:
    """The sum of integers."""
    if not all(type(number) is int for number in numbers):
        raise _Error
    return sum(numbers)


def _moment(ns: Any) -> datetime:
    if isinstance(ns, list):
        # A zone and a format may follow.
        if not 1 <= len(ns) <= 3 or ns[1:2] not in ([], ["UTC"], [""]):
            raise _Error
        if not all(isinstance(part, str) for part in ns[1:]):
            raise _Error
        ns = ns[0]
    if type(ns) is not int:
        raise _Error
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)


def time_date(ns: Any) -> list[int]:
    """Year, month and day."""
    moment = _moment(ns)
    return [moment.year, moment.month, moment.day]


def time_clock(ns: Any) -> list[int]:
    """Hour, minute and second."""
    moment = _moment(ns)
    return [moment.hour, moment.minute, moment.second]


def time_weekday(ns: Any) -> str:
    """The English name of the day."""
    return _moment(ns).strftime("%A")


def _guarded(model: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*operands: Any) -> Any:
        try:
            return model(*operands)
        except (_Error, KeyError):
            return FAILED

    return answer


_PLAIN: Final[Mapping[str, Callable[..., Any]]] = {
    "concat": concat,
    "glob.match": glob_match,
    "json.patch": json_patch,
    "numbers.range": numbers_range,
    "sum": sum_,
    "time.clock": time_clock,
    "time.date": time_date,
    "time.weekday": time_weekday,
}
MODELS: Final = {name: _guarded(model) for name, model in _PLAIN.items()}
"""By the name of the built-in."""
