"""The data file of the shipped policies, from what was learned of Docker's users.

The data of all users are the strictest; a shipped role, or the role of one user, adds to them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from doorward.learn.docker import LOCAL, ROLES, LearnedCalls, Value, members_of, role_of
from doorward.learn.docker_calls import LIMITS
from doorward.learn.docker_closed import CLOSED, LISTS, ports_of, shipped_data
from doorward.learn.docker_roles import roles

__all__ = ["docker_data"]

Settings: TypeAlias = dict[str, dict[str, Any]]
"""Learned values by section and name of the setting."""
_FLAGS: Final = (
    ("builds", "unlimited"),
    ("networks", "join_containers"),
    ("mounts", "volumes_from"),
)


def docker_data(learned: LearnedCalls) -> dict[str, Any]:
    """Return the content of data.json, `{"docker": {…}}`: the users, their roles and the ceilings
    that follow from all granted values; everything else is closed.
    """
    granted = [each for each in learned.values if each.is_granted]
    roles_by_user: defaultdict[str, set[str]] = defaultdict(set)
    for each in granted:
        if each.setting == ROLES:
            roles_by_user[each.users[0]].add(each.value)
    data = _data_without_grants()
    added = _additions(granted, {role for names in roles_by_user.values() for role in names})
    _put_ceilings(data, added, granted, roles_by_user)
    _put_digests(data, added, learned.digests)
    names = {
        user: [*sorted(mine), *([role_of(user)] if role_of(user) in added else [])]
        for user, mine in sorted(roles_by_user.items())
    }
    used = {role for mine in names.values() for role in mine}
    data["local_roles"] = names.pop(LOCAL, [])
    data["users"] = names
    data["roles"] = {role: each for role, each in sorted(added.items()) if role in used}
    return {"docker": data}


def _data_without_grants() -> dict[str, Any]:
    """Return the shipped data without everything that grants can add."""
    data: dict[str, Any] = json.loads(json.dumps(shipped_data()))
    for section, name in (*LISTS, *CLOSED, ("images", "allow"), ("mounts", "allow")):
        data[section][name] = []
    for section, name in _FLAGS:
        data[section][name] = False
    data["networks"]["subnets"] = []
    # A range that ends before it begins holds no port.
    data["ports"]["first"], data["ports"]["last"] = 1024, 1023
    return data


def _additions(granted: Iterable[Value], used: set[str]) -> defaultdict[str, Settings]:
    """Return the granted settings by the role that they are added to. A shared value is added to
    its role and to all roles in `used` that include it. Limits and roles are left out.
    """
    known = roles()
    added: defaultdict[str, Settings] = defaultdict(dict)
    for each in granted:
        if each.setting == ROLES or each.is_limit:
            continue
        section, name = each.setting
        value: Any = each.value
        if each.setting == ("ports", "ranges"):
            value = [*ports_of(value)]
        for holder in _holders(each, used, known):
            settings = added[holder].setdefault(section, {})
            if each.setting in _FLAGS:
                settings[name] = True
            elif value not in (values := settings.setdefault(name, [])):
                values.append(value)
    for sections in added.values():
        for names in sections.values():
            names |= {name: sorted(each) for name, each in names.items() if type(each) is list}
    return added


def _holders(value: Value, used: set[str], known: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the roles that get a value: only the user's own role, or for a shared value its role
    and all used roles that include it. `known`: the actions of each role, by its name.
    """
    if not value.is_shared:
        return [value.holder]
    above = {role for role in used & known.keys() if known[role] >= known[value.holder]}
    return sorted({value.holder, *above})


def _put_ceilings(
    data: dict[str, Any],
    added: defaultdict[str, Settings],
    granted: Iterable[Value],
    roles_by_user: Mapping[str, set[str]],
) -> None:
    """Write each limit: into `data` the lowest of all holders, which applies to everybody, and into
    `added` the higher one of a role or user, unless the user's roles allow as much. 0 means no
    limit.
    """
    known = roles()
    members = members_of(roles_by_user)
    for limit in LIMITS:
        values = [each for each in granted if each.setting == ("limits", limit)]
        widths: dict[str, float] = {}
        for each in values:
            for holder in _holders(
                each, {r for names in roles_by_user.values() for r in names}, known
            ):
                widths[holder] = max(widths.get(holder, 0.0), each.width)
        lowest = min(widths.values(), default=math.inf)
        data["limits"][limit] = _ceiling(lowest)
        for holder, width in widths.items():
            above = [
                other
                for role, other in widths.items()
                if role in known and holder not in known and _is_member(holder, members[role])
            ]
            if width > max(above, default=lowest):
                added[holder].setdefault("limits", {})[limit] = _ceiling(width)


def _is_member(holder: str, users: Iterable[str]) -> bool:
    return any(role_of(user) == holder for user in users)


def _ceiling(limit: float) -> int | float:
    """Return a limit as data.json has it: 0, which means no limit, for infinity."""
    if math.isinf(limit):
        return 0
    return int(limit) if limit.is_integer() else limit


def _put_digests(
    data: dict[str, Any], added: defaultdict[str, Settings], digests: Mapping[str, bool]
) -> None:
    """Require digests of images in `data` if some users (True in `digests`) only use such, and
    exempt the users who do not: in `added`, the settings of their roles.
    """
    data["images"]["require_digest"] = True in digests.values()
    if True in digests.values():
        for user, is_strict in digests.items():
            if not is_strict:
                added[role_of(user)].setdefault("images", {})["require_digest"] = False
