"""Names of queries and forms: the one form in which every reader makes the same variable of them.

Readers take names apart: PHP makes `user_id` of `user.id`, `user id` and `user[id`; Rack makes `a`
of `[a`; `a[b]` is a member of `a` to PHP, Rack and Node's qs, and a name like others to Python. So
a name is a word, or a word and keys in brackets, and nothing else; and no two names of a request
may be one variable, or a variable and a part of it. tests/enforcement/test_names.py asks readers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NoReturn

from doorward.base.digits import parse_digits
from doorward.enforcement.errors import AmbiguousRequestError, shown

__all__ = ["MAX_FIELDS", "check_names", "check_pairs", "variable_of"]

MAX_FIELDS: Final = 1_000
"""The largest number of fields in a query or form: PHP and Node drop further ones."""
MAX_DEPTH: Final = 32
"""The largest number of keys in one name."""

_OF_OBJECTS: Final = frozenset(
    {
        "__definegetter__",
        "__definesetter__",
        "__lookupgetter__",
        "__lookupsetter__",
        "__proto__",
        "constructor",
        "hasownproperty",
        "isprototypeof",
        "propertyisenumerable",
        "tolocalestring",
        "tostring",
        "valueof",
    }
)
"""Names that every object of JavaScript has, in lower case: Node's qs drops them."""
_NAME: Final = re.compile(r"([^\[\]]*+)((?:\[[^\[\]]*+\])*+)")
_NUMBERED_TWICE: Final = re.compile(r"\[\]\[[0-9]*\]")
_TO_VARIABLE: Final = re.compile(r"[ .]")

Path = tuple[str, ...]


def _refuse(reason: str) -> NoReturn:
    """Raise AmbiguousRequestError with a reason; the request is answered with 400."""
    raise AmbiguousRequestError(reason)


def variable_of(name: str) -> str:
    """Return the variable of PHP that a name is or is a part of: `.a[b]` -> `_a`."""
    return _TO_VARIABLE.sub("_", name.partition("[")[0])


def check_pairs(text: str, what: str) -> None:
    """Raise AmbiguousRequestError for a raw query or form with too many pairs, or a name that ends
    elsewhere for Node's qs.

    `what` names the pairs in the error, such as `query parameter`.
    """
    if text.count("&") >= MAX_FIELDS:
        _refuse(f"more than {MAX_FIELDS} {what}s")
    if "]=" not in text and "%5d=" not in text.lower():
        return
    for pair in text.lower().replace("%5d", "]").split("&"):
        name, _, value = pair.partition("=")
        if "]=" in value and not name.endswith("]"):
            _refuse(f"{what} whose name can end in two places: {shown(name)}")


def check_names(names: Iterable[str], what: str) -> None:
    """Raise AmbiguousRequestError if a known reader, such as PHP or Node's qs, could take two names
    for one variable, divide a name in another way or leave it out.

    The names must already be in one case. `what` names them in the error, such as `query
    parameter`.
    """
    values: set[Path] = set()
    numbers: dict[Path, set[int]] = {}
    collections: dict[Path, str] = {}
    for name in names:
        path = _read_path(name, what)
        if path in values:
            _refuse(f"{what}s that are one variable to PHP: {shown(name)}")
        if path in collections:
            _refuse(f"{what} that is both a value and a collection: {shown(name)}")
        values.add(path)
        for end in range(1, len(path)):
            above = path[:end]
            if above in values:
                _refuse(f"{what} that is both a value and a collection: {shown(name)}")
            # PHP numbers what has no key, from 0 on.
            number = parse_digits(path[end])
            kind = "next" if not path[end] else "" if number is None else "number"
            if kind and collections.get(above, kind) not in ("", kind):
                _refuse(f"{what} with and without a number: {shown(name)}")
            collections[above] = kind or collections.get(above, "")
            # `01` is a key to readers, not a number; and so is what has more digits than any list
            # has items.
            if kind == "number" and str(int(path[end][:9])) == path[end]:
                numbers.setdefault(above, set()).add(int(path[end]))
    for path, indices in numbers.items():
        # Node's qs numbers the items of a list again; what is not a list to it keeps its numbers.
        if min(indices) <= MAX_FIELDS and indices != set(range(len(indices))):
            name = path[0] + "".join([f"[{key}]" for key in path[1:]])
            _refuse(f"{what}s whose numbers do not begin at 0 or leave some out: {shown(name)}")


def _read_path(name: str, what: str) -> Path:
    """Return a name as its variable and keys: `a.b[c][]` -> `("a_b", "c", "")`.

    Raise AmbiguousRequestError if readers divide the name in different ways or leave it out, or if
    it has more than `MAX_DEPTH` keys.
    """
    if "[" not in name and "]" not in name:
        if name in _OF_OBJECTS:
            _refuse(f"name of a {what} that is left out by some readers: {shown(name)}")
        return (_TO_VARIABLE.sub("_", name),)
    match = _NAME.fullmatch(name)
    if match is None or not match[1]:
        _refuse(f"name of a {what} with brackets that can be read in two ways: {shown(name)}")
    keys = match[2][1:-1].split("][")
    if len(keys) > MAX_DEPTH:
        _refuse(f"name of a {what} with more than {MAX_DEPTH} keys: {shown(name)}")
    if match[1] in _OF_OBJECTS or not _OF_OBJECTS.isdisjoint(keys):
        _refuse(f"name of a {what} that is left out by some readers: {shown(name)}")
    if _NUMBERED_TWICE.search(name) or any(key != key.strip() for key in keys):
        _refuse(f"name of a {what} with brackets that can be read in two ways: {shown(name)}")
    return (_TO_VARIABLE.sub("_", match[1]), *keys)
