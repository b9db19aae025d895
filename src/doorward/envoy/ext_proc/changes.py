"""Changes of a body: paths that are kept, removed or set, applied to a copy of it.

    ["items", "*", "ssn"]        `*` is any key or index

All paths refer to the body as it came. What one of them hides no other one shows: a removed value
is gone whatever is kept or set, and a value that is set where a part is kept shows that part.
A path to remove or set that goes on below a text or a number, by a key into an array or by an index
into an object does not fit: the body is not what the policy takes it for, and that is an error.
What is missing, or null, has nothing to hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from doorward.enforcement.body_paths import ANY, Name, Path, PathError
from doorward.rego import Value, to_json

__all__ = ["HIDDEN", "change", "read_path"]

MAX_LENGTH: Final = 64
"""The largest number of steps in a path."""
MOST_KNOWN: Final = 64
"""The largest number of paths in a plan that is cached for later responses."""
_NO_ITEMS: Final[Mapping[Path, AbstractSet[int]]] = {}
HIDDEN: Final[Any] = object()
"""Marks a value, or a whole body, of which nothing is left."""


def read_path(value: Any) -> Path:
    """Return a list of keys and indexes as a path: `["items", "*", 0]` -> `("items", "*", 0)`.

    Raise PathError if it is not a list, has more than `MAX_LENGTH` steps, or has a step that is
    neither a text nor an index from 0.
    """
    if not isinstance(value, (list, tuple)):
        raise PathError("a path in a body must be a list of keys and indexes")
    if len(value) > MAX_LENGTH:
        raise PathError(f"a path in a body must have at most {MAX_LENGTH} steps")
    for name in value:
        # `true` is an int in Python. A negative index would count from the end, and
        # hide another item.
        is_index = isinstance(name, int) and not isinstance(name, bool) and name >= 0
        if not is_index and not isinstance(name, str):
            raise PathError("a step of a path in a body must be a string or an index from 0")
    return tuple(value)


_NOTHING: Final[frozenset[int]] = frozenset()


class _Node:
    """A node in a tree of paths: `below` has its children by key or index, `ends` is True if a path
    ends here, `value` is the value to set here.
    """

    __slots__ = ("below", "drops", "ends", "has_index", "has_key", "value")

    def __init__(self) -> None:
        self.below: dict[Name, _Node] = {}
        self.drops: frozenset[int] | set[int] = _NOTHING
        """Indexes of the items of this list to leave out."""
        self.ends = False
        self.has_index = self.has_key = False
        self.value: Value = None

    def add(self, path: Path) -> _Node:
        """Add a path to the tree, and return the node at which it ends."""
        node = self.reach(path)
        node.ends = True
        return node

    def reach(self, path: Path) -> _Node:
        """Return the node at a path, making the nodes that are missing. Unlike `add` it does not
        record that a path ends there.
        """
        node = self
        for name in path:
            if isinstance(name, int):
                node.has_index = True
            elif name != ANY:
                node.has_key = True
            node = node.below.setdefault(name, _Node())
        return node

    def at(self, path: Path) -> _Node | None:
        """Return the node at which an added path ends; None if this path was not added."""
        node: _Node | None = self
        for name in path:
            node = node.below.get(name) if node is not None else None
        return node if node is not None and node.ends else None


_Nodes: TypeAlias = "list[_Node]"


def change(
    body: Value,
    *,
    keep: Iterable[Path] | None,
    remove: Iterable[Path],
    set: Iterable[tuple[Path, Value]],
    drop: Mapping[Path, AbstractSet[int]] = _NO_ITEMS,
) -> Any:
    """Return the body with only the paths in `keep` (None: all), without those in `remove`, and
    with the values of `set` in place of existing ones.

    `HIDDEN` if the body itself is removed, or is a text, number, boolean or null that `keep` does
    not contain; an object or list of which nothing is left becomes empty. A path to a member that
    the body does not have changes nothing, and removal wins over keeping and setting. `drop` has,
    for the path of a list, the indexes of the items to leave out.

    `body` itself is not changed, and unchanged parts are shared with the result. Raise PathError if
    a path to remove or set does not fit the body (a key for a list, an index for an object, or a
    path that goes on below a value without members other than null), or two different values are
    set at one path.
    """
    values, removed = tuple(set), tuple(remove)
    names = None if keep is None else tuple(keep)
    # Values may not be hashable, and dropped indexes are those of one body: no key for a cache.
    if values or any(drop.values()) or len(removed) + len(names or ()) > MOST_KNOWN:
        outcome = _plan(names, removed, values, drop)
    else:
        # Most responses of a policy are changed in one of a few ways.
        outcome = _cached_plan(names, removed)
    return _apply(outcome, body)


@lru_cache(maxsize=256)
def _cached_plan(keep: tuple[Path, ...] | None, remove: tuple[Path, ...]) -> Any:
    """Return the plan for paths without values or dropped items; the last 256 plans are
    remembered.
    """
    return _plan(keep, remove, (), _NO_ITEMS)


def _plan(
    keep: Iterable[Path] | None,
    remove: Iterable[Path],
    values: Iterable[tuple[Path, Value]],
    drop: Mapping[Path, AbstractSet[int]],
) -> Any:
    """Return the plan of changes for a body: `_ALL`, `HIDDEN`, `_Replaced` or `_Parts`.

    A plan may be used again for other bodies. `keep` None keeps everything; `drop` has the indexes
    of items to remove by the path of their list. Raise PathError if two different values are set at
    one path.
    """
    keeps, removes, sets = _Node(), _Node(), _Node()
    for path in keep or ():
        keeps.add(path)
    for path in remove:
        removes.add(path)
    for path, indexes in drop.items():
        node = removes.reach(path)
        node.drops, node.has_index = frozenset(indexes), True
    for path, value in values:
        if (known := sets.at(path)) is not None and _differ(known.value, value):
            raise PathError("`set` gives two different values for one path: give only one")
        sets.add(path).value = value
    names = None if keep is None else [keeps]
    return _outcome(names, [removes], [sets], is_set=False)


def _differ(one: Value, other: Value) -> bool:
    """Return True if two values differ as JSON; `1 == True` in Python, not in JSON."""
    return to_json(one) != to_json(other)  # to Python, true is 1


_ALL: Final[Any] = object()
"""The plan that leaves a value as it is."""


class _Replaced(NamedTuple):
    """A plan that puts `value` in place of a value and then applies the plan `outcome` to it."""

    value: Value
    outcome: Any


class _Parts:
    """A plan that changes the members of a value; the plan of a member is made when it is first
    met.
    """

    __slots__ = (
        *("_known", "_nodes", "drops", "has_index", "has_key", "hidden", "is_set"),
        *("mentioned", "others"),
    )

    def __init__(
        self, keeps: _Nodes | None, removes: _Nodes, sets: _Nodes, *, is_set: bool
    ) -> None:
        """Combine the nodes of the three trees that stand for one value; `keeps` None keeps
        everything. `is_set`: the value is inside one that was set.

        Raise PathError if two different values are set at one path for all members.
        """
        self._nodes = keeps, removes, sets
        self._known: dict[Name, Any] = {}
        self.is_set = is_set
        self.drops = _NOTHING.union(*[node.drops for node in removes])
        self.has_index = any([node.has_index for node in (*removes, *sets)])
        self.has_key = any([node.has_key for node in (*removes, *sets)])
        self.mentioned = {
            name for node in (*(keeps or ()), *removes, *sets) for name in node.below if name != ANY
        }
        self.others = self._work_out(ANY)
        """The plan of members that no path mentions."""
        self.hidden = self._find_hidden()
        """The keys to delete if deletion is all that happens to an object; () otherwise."""

    def _find_hidden(self) -> tuple[Name, ...]:
        """Return the keys to delete if this plan does nothing to an object but delete keys, else
        `()`. An object can then be changed without the plans of its members.
        """
        if self.others is not _ALL or self.has_index or self.drops:
            return ()
        names = tuple(self.mentioned)
        return names if all(self.at(name) is HIDDEN for name in names) else ()

    @property
    def is_for_members_only(self) -> bool:
        """True if a value without members (a text, a number, null) is hidden."""
        return self._nodes[0] is not None

    def at(self, name: Name) -> Any:
        """Return the plan of the member `name`, and remember it."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._work_out(name)
        return known

    def _work_out(self, name: Name) -> Any:
        """Return the plan of a member; raise PathError if two different values are set there."""
        keeps, removes, sets = self._nodes
        if keeps is not None and not (keeps := _next(keeps, name)):
            return HIDDEN
        return _outcome(keeps, _next(removes, name), _next(sets, name), is_set=self.is_set)


def _next(nodes: _Nodes, name: Name) -> _Nodes:
    """Return the children of some nodes under `name` and, for other names than `*`, under `*`."""
    reached = [node.below[name] for node in nodes if name in node.below]
    # INVARIANT: a named member obeys the paths with `*`, too, or naming it would show it.
    if name != ANY:
        reached += [node.below[ANY] for node in nodes if ANY in node.below]
    return reached


def _outcome(keeps: _Nodes | None, removes: _Nodes, sets: _Nodes, *, is_set: bool) -> Any:
    """Return the plan for the value that these nodes of the three trees stand for.

    `keeps` None means that the value is kept already. `is_set` is True inside a value that was set,
    where paths need not fit. Removal wins over keeping and setting. Raise PathError if two
    different values are set here.
    """
    # INVARIANT: removal is tested first, so that a removed value is gone whatever is kept or set.
    if any([node.ends for node in removes]):
        return HIDDEN
    # What lies below a kept path is kept as well.
    if keeps is not None and any([node.ends for node in keeps]):
        keeps = None
    ends = [node for node in sets if node.ends]
    if any([_differ(node.value, ends[0].value) for node in ends[1:]]):
        raise PathError("`set` gives two different values for one path: give only one")
    if ends:
        # Removals reach into a value that was set, too: it could be a copy of what they hide.
        return _Replaced(ends[0].value, _outcome(keeps, removes, [], is_set=True))
    if keeps is None and not any([node.below or node.drops for node in (*removes, *sets)]):
        return _ALL
    return _Parts(keeps, removes, sets, is_set=is_set)


def _apply(outcome: Any, value: Value) -> Any:
    """Return a value after a plan, or `HIDDEN` if the plan hides it as a whole; raise PathError if
    a path to remove or set does not fit.

    The value is not changed: objects and lists on the way are copied.
    """
    if outcome is _ALL:
        return value
    if outcome is HIDDEN:
        return HIDDEN
    if type(outcome) is _Replaced:
        return _apply(outcome.outcome, outcome.value)
    parts: _Parts = outcome
    if isinstance(value, dict):
        if parts.has_index and not parts.is_set:
            raise PathError(
                "a path in `remove` or `set` has an index where the response body has an object: "
                "use a key"
            )
        return _change_object(parts, value)
    if isinstance(value, list):
        if parts.has_key and not parts.is_set:
            raise PathError(
                "a path in `remove` or `set` has a key where the response body has an array: "
                "use an index"
            )
        return _change_list(parts, value)
    # Kept paths lead below this value, and it has no members: nothing of it was kept.
    if parts.is_for_members_only:
        return HIDDEN
    # Fails closed: a secret may have moved from an object into a plain text.
    if value is not None and not parts.is_set:
        raise PathError(
            "a path in `remove` or `set` goes on below a value of the response body that "
            "has no members: end it there"
        )
    return value


def _change_object(parts: _Parts, value: dict[Any, Value]) -> dict[Any, Value]:
    """Return a copy of an object with the plans of its members applied; hidden members are left
    out. Raise PathError if a path to remove or set does not fit a member.
    """
    mentioned, others = parts.mentioned, parts.others
    if others is _ALL:
        left = dict(value)
        for name in mentioned:
            if name in left:
                outcome = parts.at(name)
                member = outcome if outcome is HIDDEN else _apply(outcome, left[name])
                if member is HIDDEN:
                    del left[name]
                else:
                    left[name] = member
        return left
    left = {}
    for name, each in value.items():
        outcome = parts.at(name) if name in mentioned else others
        if outcome is not HIDDEN and (member := _apply(outcome, each)) is not HIDDEN:
            left[name] = member
    return left


def _change_list(parts: _Parts, value: list[Value]) -> list[Value]:
    """Return a copy of a list with the plans of its items applied; dropped and hidden items are
    left out. Raise PathError if a path to remove or set does not fit an item.

    Indexes of paths count the original items.
    """
    mentioned, others = parts.mentioned, parts.others
    left: list[Value] = []
    if parts.drops:
        drops = parts.drops
        # Numbered before any is left out, since the indexes of other paths are those of
        # the original.
        pairs = [(name, each) for name, each in enumerate(value) if name not in drops]
        if not mentioned and others is _ALL:
            return [each for _, each in pairs]
    elif not mentioned and type(others) is _Parts and not others.has_index:
        # Objects in a list, as most are: one step less for each of them.
        hidden = others.hidden
        for each in value:
            if hidden and type(each) is dict:
                item = each.copy()
                for key in hidden:
                    item.pop(key, None)
                left.append(item)
                continue
            if type(each) is dict:
                left.append(_change_object(others, each))
            elif (item := _apply(others, each)) is not HIDDEN:
                left.append(item)
        return left
    else:
        pairs = list(enumerate(value))
    for name, each in pairs:
        outcome = parts.at(name) if name in mentioned else others
        if outcome is not HIDDEN and (item := _apply(outcome, each)) is not HIDDEN:
            left.append(item)
    return left
