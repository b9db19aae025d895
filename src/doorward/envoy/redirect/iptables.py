"""Chains of rules become scripts of iptables-restore, and are compared with what iptables lists.

Serves both back ends, `nft` and `legacy`, and both programs, iptables and ip6tables. Everything is
in chains of our own in the table `nat`, except one jump to each, which stands first where the
kernel calls in: a rule before it could send a connection elsewhere. A script is committed as one.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from doorward.envoy.redirect.programs import (
    RedirectError,
    find_program,
    has_legacy_table,
    run_program,
)
from doorward.envoy.redirect.rules import Chains, Family, Redirect, Rule, to_rules

__all__ = ["Iptables"]

_CHAINS: Final = {
    "inbound": "DOORWARD_IN",
    "local": "DOORWARD_LOCAL",
    "outbound": "DOORWARD_OUT",
    "prerouting": "PREROUTING",
    "output": "OUTPUT",
}
_OURS: Final = ("DOORWARD_IN", "DOORWARD_LOCAL", "DOORWARD_OUT")
_PATIENCE: Final = ("-w", "5")  # seconds to wait for the lock

Conditions = frozenset[tuple[str, ...]]


class Iptables:
    """The back end for one variant of iptables: `-nft`, `-legacy`, or "" for the system's default.

    Every method that runs a program raises RedirectError if it is missing or fails.
    """

    def __init__(self, variant: str, families: Sequence[Family]) -> None:
        self.name = f"iptables{variant}"
        self._variant = variant
        self._families = families

    def find_programs(self) -> tuple[str, ...]:
        """Return the real paths of its programs, one for each family; () if one is not
        installed.
        """
        programs = [find_program(self._program(family)) for family in self._families]
        return tuple(os.path.realpath(path) for path in programs if path) if all(programs) else ()

    def script(self, options: Redirect) -> str:
        """Return the inputs of `iptables-restore` and `ip6tables-restore` for a system without
        rules of ours: a part for each address family, below a comment with its command. Runs
        nothing.
        """
        return "".join(
            f"# {self._program(family, '-restore')} --noflush\n"
            + _installation(to_rules(options, family), [])
            for family in self._families
        )

    def problems(self, options: Redirect) -> list[str]:
        """Return one text for each rule that is missing or out of place; [] if all rules are in
        force.
        """
        return [
            f"{self._program(family)}: {problem}"
            for family in self._families
            for problem in _compare(to_rules(options, family), self._list(family))
        ]

    def install(self, options: Redirect) -> None:
        """Replace our rules by these; each address family changes in one step."""
        for family in self._families:
            self._restore(family, _installation(to_rules(options, family), self._list(family)))

    def is_present(self) -> bool:
        """Return True if a chain of ours or a jump into one exists."""
        return any(_removal(self._list(family)) for family in self._families)

    def remove(self) -> None:
        """Delete our chains and the jumps into them in each address family; other rules stay.
        Nothing is changed where there are none.
        """
        for family in self._families:
            if lines := _removal(self._list(family)):
                self._restore(family, _transaction(lines))

    def _program(self, family: Family, suffix: str = "") -> str:
        return f"{'iptables' if family == 'ip' else 'ip6tables'}{self._variant}{suffix}"

    def _list(self, family: Family) -> list[str]:
        """Return the rules of the table `nat` as `iptables -S` prints them.

        [] if legacy iptables has no such table, since listing it would create it.
        """
        if self._variant == "-legacy" and not has_legacy_table("nat", family):
            return []  # to ask would make the table
        return self._run(family, "", *_PATIENCE, "-t", "nat", "-S").splitlines()

    def _restore(self, family: Family, script: str) -> None:
        """Apply a script by `iptables-restore --noflush`: rules that it does not mention stay.
        Raise RedirectError if the program is missing or fails.
        """
        self._run(family, "-restore", "--noflush", *_PATIENCE, script=script)

    def _run(self, family: Family, suffix: str, *arguments: str, script: str = "") -> str:
        """Run the program of a family and return its output; raise RedirectError if it is missing
        or fails.
        """
        name = self._program(family, suffix)
        program = find_program(name)
        if program is None:
            raise RedirectError(f"the program `{name}` is not installed: install it")
        return run_program([program, *arguments], script)


def _transaction(lines: Iterable[str]) -> str:
    """Return a script for iptables-restore that changes the table `nat` by these lines, all or
    none.
    """
    return "\n".join(["*nat", *lines, "COMMIT", ""])


def _installation(chains: Chains, listed: list[str]) -> str:
    """Return a script that empties or creates our chains, fills them, and puts the jumps to them
    first.

    It also deletes old jumps and chains that are no longer used. `listed` are the current rules.
    """
    ours = [name for name in chains if _CHAINS[name] in _OURS]
    required = {_CHAINS[name] for name in ours}
    stale = [chain for chain in _existing(listed) if chain not in required]
    # With --noflush this line makes a chain that is missing and empties one that is there.
    lines = [f":{_CHAINS[name]} - [0:0]" for name in ours]
    lines += [_deletion(line) for line in _jumps(listed)]
    lines += [f"-F {chain}" for chain in stale]
    lines += [f"-X {chain}" for chain in stale]
    lines += [f"-A {_CHAINS[name]} {_to_arguments(rule)}" for name in ours for rule in chains[name]]
    for name in chains:
        if name not in ours:
            for number, rule in enumerate(chains[name], 1):
                # Inserted, not appended: a rule in front could accept a connection
                # before ours sees it.
                lines.append(f"-I {_CHAINS[name]} {number} {_to_arguments(rule)}")
    return _transaction(lines)


def _removal(listed: list[str]) -> list[str]:
    """Return the lines that delete our jumps and chains from `listed`; [] if there are none."""
    # iptables deletes a chain only if it is empty and no rule jumps to it: so the jumps first.
    existing = _existing(listed)
    return [
        *[_deletion(line) for line in _jumps(listed)],
        *[f"-F {chain}" for chain in existing],
        *[f"-X {chain}" for chain in existing],
    ]


def _existing(listed: list[str]) -> list[str]:
    """Return our chains that occur in the listed rules."""
    return [chain for chain in _OURS if f"-N {chain}" in listed]


def _jumps(listed: list[str]) -> list[str]:
    """Return the listed rules outside our chains that jump into one of them."""
    jumps = []
    for line in listed:
        words = line.split()
        if words[0] == "-A" and words[1] not in _OURS and not set(words[2:]).isdisjoint(_OURS):
            jumps.append(line)
    return jumps


def _deletion(line: str) -> str:
    """Return the line that deletes a rule from the line that appended it."""
    return "-D" + line.removeprefix("-A")


def _to_arguments(rule: Rule) -> str:
    """Return a rule as the arguments of iptables that follow the name of its chain."""
    words = []
    if rule.elsewhere is not None:
        words += ["!", "-d", rule.elsewhere]
    if rule.destination is not None:
        words += ["-d", rule.destination]
    if rule.loopback:
        words += ["-o", "lo"]
    words += ["-p", "tcp"]
    if rule.port is not None:
        words += ["-m", "tcp", "--dport", str(rule.port)]
    if rule.user is not None:
        words += ["-m", "owner", "--uid-owner", str(rule.user)]
    words += ["-m", "comment", "--comment", f'"{rule.why}"']
    match rule.then:
        case int(port):
            words += ["-j", "REDIRECT", "--to-ports", str(port)]
        case "return":
            words += ["-j", "RETURN"]
        case chain:
            words += ["-j", _CHAINS[chain]]
    return " ".join(words)


def _compare(chains: Chains, listed: list[str]) -> list[str]:
    """Return one text for each difference between the rules that should be there and those listed.

    In the kernel's own chains only the first rules must be ours. Too many jumps are a difference.
    """
    problems = []
    there = _existing(listed)
    for name, rules in chains.items():
        chain = _CHAINS[name]
        expected = [_to_conditions(_to_arguments(rule)) for rule in rules]
        prefix = f"-A {chain} "
        listed_rules = [
            _to_conditions(line.removeprefix(prefix)) for line in listed if line.startswith(prefix)
        ]
        if chain in _OURS and chain not in there:
            problems.append(f"there is no chain {chain}")
        # The order counts, too: the first rule that matches decides.
        elif (listed_rules if chain in _OURS else listed_rules[: len(expected)]) != expected:
            problems += _explain(chain, rules, expected, listed_rules)
    expected_jumps = sum(len(chains[name]) for name in chains if _CHAINS[name] not in _OURS)
    if not problems and len(_jumps(listed)) > expected_jumps:
        problems.append("other rules jump to the chains of the redirection, too")
    return problems


def _explain(
    chain: str, rules: Sequence[Rule], expected: list[Conditions], listed_rules: list[Conditions]
) -> list[str]:
    """Return one text for each missing rule of a chain, or one that says that foreign rules
    intervene.
    """
    missing = [
        f"{chain}: missing: {_to_arguments(rule)}"
        for rule, conditions in zip(rules, expected, strict=True)
        if conditions not in listed_rules
    ]
    return missing or [f"{chain}: other rules stand before or between ours"]


def _to_conditions(text: str) -> Conditions:
    """Return a rule as a set of its options with values, so that order and spelling do not matter.

    Match modules (`-m`) are left out, since variants list different ones.
    """
    conditions: list[tuple[str, ...]] = []
    negated = False
    for word in shlex.split(text):
        if word == "!":
            negated = True
        elif word.startswith("-"):
            conditions.append(("!", word) if negated else (word,))
            negated = False
        elif conditions:
            conditions[-1] += (_spell(conditions[-1][-1], word),)
    return frozenset(condition for condition in conditions if condition[0] != "-m")


def _spell(option: str, value: str) -> str:
    """Return an option's value in one spelling: protocol `6` -> `tcp`, a single address without its
    mask.
    """
    match option:
        case "-p":
            return {"6": "tcp"}.get(value, value)
        case "-d":
            return value.removesuffix("/128" if ":" in value else "/32")
        case _:
            return value
