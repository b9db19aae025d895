"""Counts of Docker's audit log become values of the shipped policies' data, for each user.

    Calls ─learn_docker─▶ values with their support ─settle─▶ those of decisions ─docker_data─▶

The data of all users are as closed as they can be. What a user needs stands in a role of their own
(`user alice`), and what is spread over the users of a shipped role as chance would spread it stands
in that role. Nothing that the shipped data keep closed is opened: that is a question, whatever a
log says (`docker_closed`), and no user becomes an admin.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from doorward.base.records import mutable
from doorward.learn.docker_calls import Calls, Setting
from doorward.learn.docker_closed import ports_of, why_closed
from doorward.learn.docker_roles import Enough, needed_roles, roles
from doorward.learn.grants import ALLOW, ASK
from doorward.learn.observations import Cell
from doorward.learn.review import DENY
from doorward.learn.templates import Limits

__all__ = [
    "LOCAL",
    "ROLES",
    "LearnedCalls",
    "Value",
    "learn_docker",
    "members_of",
    "role_of",
    "settle",
]

LOCAL: Final = ""
"""The name that stands for the user of requests on the Unix socket."""
Cells: TypeAlias = dict[str, Cell]
"""The calls of each user, by the name of the user."""
ROLES: Final[Setting] = ("users", "roles")
SEVERAL: Final = 5
"""A role gets a value that at least this many of its users have. Neither is one user asked about a
value that they used seldom if this many others have it.
"""
DRAWS: Final = 1.5
"""From this many calls for each user of a role on, it can be judged whether all of them use a
value.
"""
MOST: Final = 0.8
"""A role gets a value only if it has at least this share of the users of the value that the role
with the most of them has.
"""
VARYING: Final = 8
"""From this many different folders of one parent, or ports near each other, on, others are expected
to follow.
"""
WIDTH: Final = 32
"""A range of ports may be at most this many times as wide as the number of ports published in
it.
"""
ODD: Final = 0.1
"""A value used in less than this share of a user's calls is marked to be reviewed first."""
_FOLDERS: Final[Setting] = ("mounts", "allow")
_IMAGES: Final[Setting] = ("images", "allow")
_PORTS: Final[Setting] = ("ports", "ranges")


@mutable
class Value:
    """A value of a setting, for one user or for all users of a role, with the evidence for it."""

    setting: Setting
    value: str
    holder: str
    """The name of the role in the data that gets the value; for a single user, the name of their
    own role.
    """
    users: tuple[str, ...]
    """The users who used the value."""
    cell: Cell
    proposal: str
    reason: str = ""
    decision: str = ""
    note: str = ""
    share: float = 1.0
    """The share of its users' calls with this setting that use the value."""
    members: int = 0
    """The users of the role, if the value is for a role."""
    within: str = ""
    """The identifier of a more general value that replaces this and similar ones."""
    is_covered: bool = False
    """True if another value grants the same: this one is neither granted nor asked about."""
    is_new: bool = False
    """True if the last run did not have this value."""

    @property
    def is_shared(self) -> bool:
        """True for a value of a shipped role; False for a value of one user, and for the assignment
        of a role to a user.
        """
        return self.setting != ROLES and self.holder in roles()

    @property
    def is_limit(self) -> bool:
        """True for a limit of memory, processors or processes."""
        return self.setting[0] == "limits"

    @property
    def is_odd(self) -> bool:
        """True for a granted role, image or folder that less than `ODD` of its users' calls need:
        it is to be reviewed first.
        """
        return self.is_granted and self.share < ODD and self.setting in (ROLES, _IMAGES, _FOLDERS)

    @property
    def identifier(self) -> str:
        """The key by which a review names the value: its setting, holder and value as JSON."""
        return json.dumps([*self.setting, self.holder, self.value])

    @property
    def is_granted(self) -> bool:
        """True if the person's decision, or without one the proposal, is to allow, and no other
        value covers this one.
        """
        return (self.decision or self.proposal) == ALLOW and not self.is_covered

    @property
    def width(self) -> float:
        """The number of a limit, infinite for "0", which means no limit; 0.0 for a value that is
        not a limit.
        """
        return (float(self.value) or math.inf) if self.is_limit else 0.0


@mutable
class LearnedCalls:
    """The result of learning from calls: values to propose and to ask about, and which users name
    images by digest.
    """

    values: list[Value] = field(default_factory=list)
    digests: Mapping[str, bool] = field(default_factory=dict)
    """Users who named images by digest only (True), and users who did not (False)."""


def role_of(user: str) -> str:
    """Return the name of a user's own role: `user NAME`, or `local users` for `LOCAL`; no shipped
    role has such a name.
    """
    return f"user {user}" if user != LOCAL else "local users"


def learn_docker(calls: Calls, limits: Limits) -> LearnedCalls:
    """Learn from the calls in audit logs which roles, values and limits users of the Docker plugin
    need. The result has proposals and no decisions yet.

    A user's `digests` is True if all of their images had a digest, else False; users with fewer
    than `limits.floor` images, all with a digest, are left out.
    """
    days = 0
    for cell in calls.used.values():
        days |= cell.days
    # A log of one day cannot show two.
    learner = _Learner(limits, Enough(limits.events, min(2, days.bit_count())))
    learner.read(calls)
    values = [*learner.roles(calls), *learner.values()]
    digests = {
        user: first >= limits.floor and not second
        for user, (first, second) in sorted(calls.digests.items())
        if second or first >= limits.floor
    }
    return LearnedCalls(values, digests)


class _Learner:
    """Learns values from the counts of each value by user, and the users of each role."""

    def __init__(self, limits: Limits, enough: Enough) -> None:
        self._limits = limits
        self._enough = enough
        self._actions: defaultdict[str, Cells] = defaultdict(dict)
        """The calls of each user, by action."""
        self._used: defaultdict[Setting, defaultdict[str, Cells]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._totals: Counter[tuple[str, Setting]] = Counter()
        """The calls of each user in which a setting has any value."""
        self._members: Mapping[str, frozenset[str]] = {}

    def read(self, calls: Calls) -> None:
        """Store the calls by setting, value and user, and their numbers by user and setting; the
        calls that show a user's roles by user and action instead.
        """
        for (user, section, name, value), cell in sorted(calls.used.items()):
            if section == "roles":
                self._actions[user][value] = cell
            else:
                self._used[section, name][value][user] = cell
                self._totals[user, (section, name)] += cell.count

    def roles(self, calls: Calls) -> Iterator[Value]:
        """Yield the roles that each user needs, and remember the members of those that are proposed
        to be allowed.
        """
        roles_by_user: defaultdict[str, set[str]] = defaultdict(set)
        for user, used in self._actions.items():
            for need in needed_roles(user, used, calls, self._enough):
                yield Value(
                    ROLES,
                    need.role,
                    role_of(user),
                    (user,),
                    need.cell,
                    need.proposal,
                    need.reason,
                    share=need.share,
                )
                if need.proposal == ALLOW:
                    roles_by_user[user].add(need.role)
        self._members = members_of(roles_by_user)

    def values(self) -> Iterator[Value]:
        """Yield the values of all settings but roles, with proposals: one for each user who used a
        value, one for a role whose users use it evenly, and one for a folder or port range of many
        rare values, which these name in `within`. Reads what `read` and `roles` stored.
        """
        for setting, by_value in self._used.items():
            if setting[0] == "limits":
                yield from self._limits_of(setting, by_value)
                continue
            within: dict[tuple[str, str], str] = {}
            for varying, inside in self._generalise_rare(setting, by_value):
                within |= {(varying.users[0], each): varying.identifier for each in inside}
                yield varying
            for value, cells in by_value.items():
                for each in self._judge(setting, value, cells):
                    each.within = within.get((each.users[0], value), "")
                    yield each

    def _judge(self, setting: Setting, value: str, cells: Cells) -> Iterator[Value]:
        """Yield a value for the role whose users use it evenly, if there is one, and a value for
        each user who used it. A user's value is a question if the shipped data keep it closed, or
        if the evidence is not enough and fewer than `SEVERAL` users have enough; otherwise it is
        proposed.
        """
        closed = why_closed(setting, value)
        role = "" if closed else self._role_for(setting, cells)
        if role:
            yield self._for_role(setting, value, role, cells)
        usual = sum([not self._enough.missing(cell) for cell in cells.values()])
        for user, cell in cells.items():
            # What is usual for several others is not asked of one who did it seldom.
            missing = self._enough.missing(cell) if usual < SEVERAL else ""
            yield self._for_user(setting, value, user, cell, closed or missing)

    def _for_user(self, setting: Setting, value: str, user: str, cell: Cell, reason: str) -> Value:
        """Return a value for one user: proposed as allowed if `reason` is `""`, else as a question
        with that reason.
        """
        share = cell.count / max(1, self._totals[user, setting])
        proposal = ASK if reason else ALLOW
        return Value(
            setting, value, role_of(user), (user,), cell, proposal, reason, share=min(1.0, share)
        )

    def _for_role(self, setting: Setting, value: str, role: str, cells: Cells) -> Value:
        """Return a value for all users of a role, proposed as allowed, with the calls of those who
        used it as evidence.
        """
        members = self._members[role]
        users = tuple(sorted(cells.keys() & members))
        total = Cell()
        for user in users:
            total.merge(cells[user])
        of = sum([self._totals[user, setting] for user in users])
        reason = f"spread evenly over the users of {role}"
        return Value(
            setting,
            value,
            role,
            users,
            total,
            ALLOW,
            reason,
            share=min(1.0, total.count / max(1, of)),
            members=len(members),
        )

    def _role_for(self, setting: Setting, cells: Cells) -> str:
        """Return the role whose users use a value about as widely as chance would have it
        (`_is_spread`); `""` if there is none.

        Of several roles, the smallest that has most of the value's users.
        """
        spread: dict[str, int] = {}
        for role, members in self._members.items():
            inside = {user: cell for user, cell in cells.items() if user in members}
            if len(inside) >= SEVERAL and self._is_spread(setting, inside, members):
                spread[role] = len(inside)
        # Of the roles of most of them the one of fewest: strays of another role do not widen it.
        most = max(spread.values(), default=0)
        return min(
            [each for each, number in spread.items() if number >= MOST * most],
            key=lambda each: (len(self._members[each]), each),
            default="",
        )

    def _is_spread(self, setting: Setting, cells: Cells, members: frozenset[str]) -> bool:
        """Return True if the members of a role use a value alike: about as many of them used it as
        would have by chance, if each call came from a member in proportion to their activity. False
        if there are too few calls to tell, or only one member used the setting.
        """
        weights = [self._totals[user, setting] for user in sorted(members)]
        weights = [each for each in weights if each]
        total = Cell()
        for cell in cells.values():
            total.merge(cell)
        draws = total.count
        if draws < max(self._limits.floor, DRAWS * len(weights)) or self._enough.missing(total):
            return False
        everything = sum(weights)
        # One user alone: nothing is spread over one, and `log1p(-1)` below has no value.
        if everything == weights[0]:
            return False
        # For each member 1 - (1 - p)^draws, the probability of at least one call by chance; written
        # so that small p keep their digits.
        chances = [-math.expm1(draws * math.log1p(-each / everything)) for each in weights]
        deviation = math.sqrt(sum([each * (1 - each) for each in chances]))
        # The members count as independent, so the variances add up: two deviations fewer are still
        # chance.
        return len(cells) >= sum(chances) - 2 * deviation

    def _limits_of(self, setting: Setting, by_value: Mapping[str, Cells]) -> Iterator[Value]:
        """Yield the limits that calls needed, highest first, for each user and once for a role. The
        evidence for a limit are the calls that needed it or a higher one.
        """
        reached: dict[str, Cell] = {}
        role = ""
        for value in sorted(by_value, key=lambda each: -(float(each) or math.inf)):
            for user, cell in by_value[value].items():
                reached.setdefault(user, Cell()).merge(cell)
            if not role:
                role = self._role_for(setting, reached)
                if role:
                    yield self._for_role(setting, value, role, reached)
            for user in by_value[value]:
                total = Cell()
                total.merge(reached[user])
                yield self._for_user(setting, value, user, total, self._enough.missing(total))

    def _generalise_rare(
        self, setting: Setting, by_value: Mapping[str, Cells]
    ) -> Iterator[tuple[Value, list[str]]]:
        """Yield, for each user, the folders or the port range that contain at least `VARYING`
        values which alone were used too rarely, each with these values. Nothing for other settings.
        Values that the shipped data keep closed are left out, and so are results with fewer than
        `floor` calls.
        """
        if setting not in (_FOLDERS, _PORTS):
            return
        rare: defaultdict[str, Cells] = defaultdict(dict)
        for value, cells in by_value.items():
            if not why_closed(setting, value):
                for user, cell in cells.items():
                    if self._enough.missing(cell):
                        rare[user][value] = cell
        for user, used in rare.items():
            for value, inside in _near_ports(used) if setting == _PORTS else _parents(used):
                total = Cell()
                for each in inside:
                    total.merge(used[each])
                if total.count < self._limits.floor or why_closed(setting, value):
                    continue
                missing = self._enough.missing(total)
                varying = self._for_user(setting, value, user, total, missing)
                varying.reason = missing or f"{len(inside)} values that vary"
                yield varying, inside


def _parents(folders: Mapping[str, Cell]) -> Iterator[tuple[str, list[str]]]:
    """Yield each parent folder of at least `VARYING` folders, with these folders."""
    by_parent: defaultdict[str, list[str]] = defaultdict(list)
    for folder in folders:
        by_parent[folder.rpartition("/")[0]].append(folder)
    return ((parent, each) for parent, each in by_parent.items() if len(each) >= VARYING)


def _near_ports(ranges: Mapping[str, Cell]) -> Iterator[tuple[str, list[str]]]:
    """Yield the range from the first to the last published port, with the ranges in it; nothing if
    too few were used or they lie too far apart.
    """
    inside = sorted(ranges, key=ports_of)
    if len(inside) >= VARYING:
        first, last = ports_of(inside[0])[0], max([ports_of(each)[1] for each in inside])
        if last - first < WIDTH * len(inside):
            yield f"{first}-{last}", inside


def settle(learned: LearnedCalls) -> None:
    """Apply decisions about one value to the others; changes the values in place.

    A value that was denied to the user's role, or to a user of the role, becomes a question, and so
    does a folder or port range with a denied part; a value that the user's role or a wider value
    already grants is marked as covered.
    """
    members = _members_of(learned.values)
    by_key: defaultdict[tuple[Setting, str], list[Value]] = defaultdict(list)
    for each in learned.values:
        if each.setting != ROLES:
            by_key[each.setting, "" if each.is_limit else each.value].append(each)
    for values in by_key.values():
        _settle_one(values, members)
    by_identifier = {each.identifier: each for each in learned.values}
    # Denials before coverage: a wider value that has become a question covers nothing.
    denied: defaultdict[tuple[str, Setting], list[str]] = defaultdict(list)
    for each in learned.values:
        if each.decision == DENY and each.setting in (_FOLDERS, _PORTS):
            denied[each.holder, each.setting].append(each.value)
    for each in learned.values:
        varying = by_identifier.get(each.within)
        if varying is not None and not varying.decision and varying.proposal == ALLOW:
            others = denied[varying.holder, varying.setting]
            if any(_overlap(varying.setting, varying.value, other) for other in others):
                varying.proposal, varying.reason = ASK, "a part of it was denied"
    for each in learned.values:
        varying = by_identifier.get(each.within)
        if varying is not None and varying.is_granted and not each.decision:
            each.is_covered = True


def _settle_one(values: Iterable[Value], members: Mapping[str, frozenset[str]]) -> None:
    """Apply decisions about one value of a setting, or about one limit, to all roles and users:
    turn proposals into questions after a denial elsewhere, and mark what a role or a higher limit
    already grants as covered.
    """
    shared: list[Value] = []
    personal: defaultdict[str, list[Value]] = defaultdict(list)
    for each in values:
        if each.is_shared:
            shared.append(each)
        else:
            personal[each.users[0]].append(each)
    for user, personal_grants in personal.items():
        above = [each for each in shared if user in members[each.holder]]
        least = sorted(
            [each for each in personal_grants if each.decision == DENY], key=lambda each: each.width
        )
        for each in personal_grants:
            _ask_after_denial(each, [*above, *least[:1]])
        for each in above:
            _ask_after_denial(each, least[:1])
    for user, personal_grants in personal.items():
        above = [each for each in shared if user in members[each.holder] and each.is_granted]
        most = max([each.width for each in personal_grants if each.is_granted], default=0.0)
        for each in personal_grants:
            by_role = any(role.width >= each.width for role in above)
            each.is_covered = not each.decision and (by_role or each.width < most)


def _members_of(values: Iterable[Value]) -> Mapping[str, frozenset[str]]:
    """Return the users of each role, by the granted values that assign roles. The users of a role
    that can do everything another can are among the users of that one, too.
    """
    roles_by_user: defaultdict[str, set[str]] = defaultdict(set)
    for each in values:
        if each.setting == ROLES and each.is_granted:
            roles_by_user[each.users[0]].add(each.value)
    return members_of(roles_by_user)


def members_of(roles_by_user: Mapping[str, Iterable[str]]) -> Mapping[str, frozenset[str]]:
    """Return, by shipped role, the users who have it or a role that includes all of its actions."""
    known = roles()
    return {
        role: frozenset(
            user
            for user, names in roles_by_user.items()
            if any(name in known and known[name] >= known[role] for name in names)
        )
        for role in known
    }


def _ask_after_denial(one: Value, others: Iterable[Value]) -> None:
    """Turn the proposal to allow `one` into a question if a person denied the same value, or the
    same or a lower limit, among `others`.
    """
    if one.decision or one.proposal != ALLOW:
        return
    for each in others:
        if each.decision == DENY and each is not one and each.width <= one.width:
            one.proposal = ASK
            whose = f"the role {each.holder}" if each.is_shared else f"user {each.users[0]}"
            one.reason = f"denied to {whose}"


def _overlap(setting: Setting, value: str, denied: str) -> bool:
    """Return True if a folder is or contains the denied one, or a port range overlaps the denied
    one.
    """
    if setting == _FOLDERS:
        return f"{denied}/".startswith(f"{value}/")
    first, last = ports_of(value)
    denied_first, denied_last = ports_of(denied)
    return first <= denied_last and denied_first <= last
