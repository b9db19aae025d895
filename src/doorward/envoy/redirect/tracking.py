"""Rules that take connections out of connection tracking, and so past every redirection.

NAT sees tracked connections only: a rule in the table `raw` (NOTRACK, `CT --notrack`, nftables'
`notrack`) lets what it matches reach the application directly, while all of our rules stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from doorward.envoy.redirect.programs import (
    MissingCapability,
    RedirectError,
    find_program,
    has_legacy_table,
    run_program,
)
from doorward.envoy.redirect.rules import Family

__all__ = ["find_untracked", "untracked_by_iptables", "untracked_by_nft"]

_WHY: Final = "takes connections out of tracking, so that they pass the redirection: remove it"


def find_untracked(families: Sequence[Family]) -> list[str]:
    """Return one text for each rule that takes connections out of connection tracking; [] if none
    does.

    Asks every installed program that can list such rules; raise RedirectError if one fails.
    """
    problems: list[str] = []
    if nft := find_program("nft"):
        problems += untracked_by_nft(run_program([nft, "list", "ruleset"]))
    for family in families:
        for variant in ("-nft", "-legacy"):
            name = f"{'iptables' if family == 'ip' else 'ip6tables'}{variant}"
            program = find_program(name)
            if program is None or (variant == "-legacy" and not has_legacy_table("raw", family)):
                continue  # to ask legacy iptables would make the table
            problems += [f"{name}: {text}" for text in untracked_by_iptables(_list(program))]
    return problems


def _list(program: str) -> str:
    """Return the rules of the table `raw`; "" if it does not exist or this process may not read it.
    Raise RedirectError if the program fails for another reason.
    """
    try:
        return run_program([program, "-w", "5", "-t", "raw", "-S"])
    except MissingCapability:
        return ""  # legacy iptables wants more than NET_ADMIN, with which all else can be verified
    except RedirectError as error:
        if "does not exist" in str(error) or "incompatible" in str(error):
            return ""  # no such table, or one that nft has listed already
        raise


def untracked_by_iptables(listed: str) -> Iterator[str]:
    """Yield a text for each NOTRACK rule in the output of `iptables -t raw -S`."""
    for line in listed.splitlines():
        words = line.split()
        if "NOTRACK" in words or "--notrack" in words:
            yield f"table raw: `{line}` {_WHY}"


def untracked_by_nft(listed: str) -> Iterator[str]:
    """Yield a text with table and chain for each `notrack` rule in the output of `nft list
    ruleset`.
    """
    table = chain = ""
    for line in map(str.strip, listed.splitlines()):
        if line.startswith("table "):
            table = line.removesuffix(" {")
        elif line.startswith("chain "):
            chain = line.removesuffix(" {")
        elif "notrack" in line.partition("comment ")[0].split():
            yield f"nft: {table}: {chain}: `{line}` {_WHY}"
