"""Chains of rules become tables of nftables, and what nftables lists is compared with them.

Two tables of our own, one for each address family. They come before those of iptables, so nothing
that iptables holds can send a connection elsewhere; and a script is one transaction: the rules are
all there or all as before. A rule is written as `nft list` prints it, which is what makes the
comparison one of text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from doorward.envoy.redirect.programs import (
    MissingCapability,
    RedirectError,
    find_program,
    run_program,
)
from doorward.envoy.redirect.rules import Chains, Family, Redirect, Rule, to_rules

__all__ = ["Nft"]

TABLE: Final = "doorward"
# One less than the -100 of destination NAT: before iptables' own chains.
_HOOKS: Final = {
    "prerouting": "type nat hook prerouting priority -101; policy accept;",
    "output": "type nat hook output priority -101; policy accept;",
}
_HOPS: Final = ("inbound", "local", "outbound")


class Nft:
    """The back end for nftables.

    Every method that runs `nft` raises RedirectError if it is missing or fails.
    """

    name = "nft"

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def find_programs(self) -> tuple[str, ...]:
        """Return the real path of `nft`; () if it is not installed."""
        program = find_program("nft")
        return (os.path.realpath(program),) if program else ()

    def script(self, options: Redirect) -> str:
        """Return the input of `nft -f -` that replaces our tables in one transaction; runs
        nothing.
        """
        return (
            "\n".join(
                line
                for family in self._families
                for line in [*_removal(family), *_table(family, to_rules(options, family))]
            )
            + "\n"
        )

    def problems(self, options: Redirect) -> list[str]:
        """Return one text for each rule that is missing, foreign or out of place; [] if all is in
        force.
        """
        differences = []
        for family in self._families:
            listed = self._list(family)
            expected = _table(family, to_rules(options, family))
            if not listed:
                differences.append(f"nft: there is no table {family} {TABLE}")
            elif listed != expected:
                differences += _differences(family, expected, listed)
        return differences

    def install(self, options: Redirect) -> None:
        """Replace our tables by these rules, in one transaction."""
        self._run("-f", "-", script=self.script(options))

    def is_present(self) -> bool:
        """Return True if a table of ours exists."""
        return any(self._list(family) for family in self._families)

    def remove(self) -> None:
        """Delete our tables; it is not an error if there are none."""
        lines = [line for family in self._families for line in _removal(family)]
        self._run("-f", "-", script="\n".join(lines) + "\n")

    def _list(self, family: Family) -> list[str]:
        """Return our table of an address family as stripped lines of `nft list`; [] if it does not
        exist. Raise RedirectError if nft fails for another reason.
        """
        try:
            text = self._run("-s", "-u", "-y", "list", "table", family, TABLE)
        # A subclass of RedirectError, and never "there is no table".
        except MissingCapability:
            raise
        except RedirectError as error:
            if "No such file" in str(error):
                return []
            raise
        # Where there is no list of protocols, as in small images, nft lists them by number.
        text = text.replace("meta l4proto 6 ", "meta l4proto tcp ")
        return [line.strip() for line in text.splitlines() if line.strip()]

    def _run(self, *arguments: str, script: str = "") -> str:
        """Run `nft` with `script` as its input and return its output. RedirectError if it is not
        installed or fails.
        """
        program = find_program("nft")
        if program is None:
            raise RedirectError("the program `nft` is not installed: install it")
        return run_program([program, *arguments], script)


def _removal(family: Family) -> list[str]:
    """Return the lines that delete our table, even if it is not there."""
    # To name a table makes it when it is not there; so the deletion never fails.
    return [f"table {family} {TABLE}", f"delete table {family} {TABLE}"]


def _table(family: Family, chains: Chains) -> list[str]:
    """Return the lines of our table as `nft list` prints them, without indentation."""
    lines = [f"table {family} {TABLE} {{"]
    for name, rules in chains.items():
        lines.append(f"chain {name} {{")
        if name in _HOOKS:
            lines.append(_HOOKS[name])
        lines += [_to_line(family, rule) for rule in rules]
        lines.append("}")
    return [*lines, "}"]


def _to_line(family: Family, rule: Rule) -> str:
    """Return a rule as one line of `nft list`, without indentation and with its comment."""
    words = []
    if rule.loopback:
        words.append('oifname "lo"')
    if rule.destination is not None:
        words.append(f"{family} daddr {rule.destination}")
    if rule.elsewhere is not None:
        words.append(f"{family} daddr != {rule.elsewhere}")
    if rule.user is not None:
        words.append(f"meta skuid {rule.user}")
    words.append("meta l4proto tcp" if rule.port is None else f"tcp dport {rule.port}")
    if isinstance(rule.then, int):
        words.append(f"redirect to :{rule.then}")
    else:
        words.append(f"jump {rule.then}" if rule.then in _HOPS else rule.then)
    return " ".join([*words, f'comment "{rule.why}"'])


def _differences(family: Family, expected_lines: list[str], listed: list[str]) -> list[str]:
    """Return one text for each missing and each foreign line, else one for the first out of
    place.
    """
    missing = [line for line in expected_lines if line not in listed]
    foreign = [line for line in listed if line not in expected_lines]
    differences = [f"nft {family}: missing: {line}" for line in missing]
    differences += [f"nft {family}: not ours: {line}" for line in foreign]
    for expected, line in zip_longest(expected_lines, listed):
        if not differences and expected != line:
            differences.append(f"nft {family}: in the wrong place: {line or expected}")
    return differences
