"""The least roles of the shipped Docker policies for the actions of a user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from doorward.docker.decider.embedded import shipped_policies
from doorward.learn.docker_calls import Calls
from doorward.learn.grants import ALLOW, ASK
from doorward.learn.observations import Cell
from doorward.rego import Engine

__all__ = ["Enough", "Need", "needed_roles", "roles"]


class Enough(NamedTuple):
    """The evidence that a value needs before it is proposed."""

    events: int
    days: int

    def missing(self, cell: Cell) -> str:
        """Return what a value's evidence lacks, as text; "" if it is enough."""
        if cell.count < self.events:
            return f"fewer than {self.events} calls"
        return "on one day only" if cell.days.bit_count() < self.days else ""


class Need(NamedTuple):
    """A role to propose for a user, or to ask about, with the calls that need it as evidence.
    `share`: the share of the user's calls that need it.
    """

    role: str
    cell: Cell
    proposal: str
    reason: str
    share: float = 1.0


@cache
def roles() -> Mapping[str, frozenset[str]]:
    """Return the actions of each role in the shipped policies, by the name of the role."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in shipped_policies()}
    engine = Engine(sources, {})
    actions_by_role: Any = engine.prepare("data.policy.docker.roles.actions").value({})
    return {role: frozenset(actions) for role, actions in actions_by_role.items()}


def needed_roles(
    user: str, used: Mapping[str, Cell], calls: Calls, enough: Enough
) -> Iterator[Need]:
    """Yield the roles that a user needs. `used`: the user's allowed calls by action. An action is
    usual if its evidence is `enough` and no call of it was denied to the user (`calls.denied`).

    First, as proposals, the roles that together have all usual actions and the fewest others. Then,
    as questions, for each used action that no proposed role has: the smallest role with it, `admin`
    if there is none; one question for each role.
    """
    known = roles()
    usual = {
        action
        for action, cell in used.items()
        if not enough.missing(cell) and (user, action) not in calls.denied
    }
    within = {action for action in usual if any(action in each for each in known.values())}
    chosen = _least(within)
    covered = frozenset[str]().union(*[known[role] for role in chosen])
    for role in chosen:
        total = _total(used, sorted(within & known[role]))
        smaller = frozenset[str]().union(*[each for each in known.values() if each < known[role]])
        needing = sum([cell.count for action, cell in used.items() if action not in smaller])
        share = needing / sum([cell.count for cell in used.values()]) if smaller else 1.0
        unused = len(known[role] - used.keys())
        reason = f"{share:.1%} of the calls need it; {unused} of its actions were not used"
        yield Need(role, total, ALLOW, reason, share)
    questions: defaultdict[str, list[str]] = defaultdict(list)
    for action in sorted(used.keys() - covered):
        having = [role for role in sorted(known) if action in known[role]]
        role = min(having, key=lambda each: (len(known[each]), each), default="admin")
        questions[role].append(action)
    for role, actions in questions.items():
        refused = sum([calls.denied.get((user, action), 0) for action in actions])
        reason = enough.missing(used[actions[0]])
        if role == "admin":
            reason = "no other role has them"
        elif refused:
            reason = f"also denied {refused} times"
        reason = f"for {', '.join(actions)}: {reason}"
        yield Need(role, _total(used, actions), ASK, reason)


def _total(used: Mapping[str, Cell], actions: list[str]) -> Cell:
    """Return the counts of several actions together."""
    total = Cell()
    for action in actions:
        total.merge(used[action])
    return total


def _least(actions: set[str]) -> tuple[str, ...]:
    """Return the roles that cover the actions with the fewest surplus actions, then the fewest
    roles; at most three roles are combined, and if none cover the actions, it is `operator`.
    """
    known = roles()
    best: tuple[int, int, tuple[str, ...]] | None = None
    for number in range(4):
        for chosen in combinations(sorted(known), number):
            covered = frozenset[str]().union(*[known[role] for role in chosen])
            if actions <= covered:
                rank = len(covered), number, chosen
                best = rank if best is None or rank < best else best
    return best[2] if best else ("operator",)
