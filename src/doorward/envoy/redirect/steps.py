"""The init step itself: chooses a back end, puts rules in force, verifies them, takes them away.

INVARIANT: `install` returns only after the rules were listed again and were all there; nothing that
went wrong on the way is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Final, Protocol

from doorward.envoy.redirect.iptables import Iptables
from doorward.envoy.redirect.nft import Nft
from doorward.envoy.redirect.programs import MissingCapability, RedirectError, check_capability
from doorward.envoy.redirect.rules import Family, Redirect
from doorward.envoy.redirect.tracking import find_untracked

__all__ = ["BACK_ENDS", "dry_run", "find_families", "install", "remove", "stay", "verify"]

BACK_ENDS: Final = ("nft", "iptables-nft", "iptables-legacy", "iptables")
"""The names of back ends, in the order in which they are tried; `iptables` is the system's default
variant."""


class BackEnd(Protocol):
    """A way to read and change rules: nftables or a variant of iptables. Every method that runs a
    program raises RedirectError if it is missing or fails.
    """

    name: str

    def find_programs(self) -> tuple[str, ...]:
        """Return the real paths of the programs that it runs; () if one is not installed."""

    def is_present(self) -> bool:
        """Return True if something of our rules is there."""

    def script(self, options: Redirect) -> str:
        """Return the input with which a program would set the rules; runs nothing."""

    def problems(self, options: Redirect) -> list[str]:
        """Return one text for each rule that is missing or out of place; [] if all are in force."""

    def install(self, options: Redirect) -> None:
        """Replace our rules by these."""

    def remove(self) -> None:
        """Delete our rules; it is not an error if there are none."""


def find_families() -> tuple[Family, ...]:
    """Return the address families to redirect: IPv4, and IPv6 unless the kernel has none."""
    return ("ip", "ip6") if Path("/proc/net/if_inet6").exists() else ("ip",)


def dry_run(options: Redirect, name: str | None = None) -> str:
    """Return the script that the back end's program would get; runs no program that changes rules.

    `name` selects a back end, by default the first that is installed. If that back end is not
    installed, or none is, the script is for nftables.
    """
    return (_find_installed(name) or [_make("nft", ("ip", "ip6"))])[0].script(options)


def install(options: Redirect, name: str | None = None) -> str:
    """Put the rules in force unless they are already, verify them, and return a text for the user.

    Also removes rules that another back end holds. Raise RedirectError if no back end works or a
    rule is missing afterwards, MissingCapability without NET_ADMIN. `name` is the back end, None
    for the one whose rules are all in force already or else the first that works.
    """
    check_capability()
    chosen, problems = _choose(options, name)
    if problems:
        chosen.install(options)
        # An exit code of 0 does not say that the kernel has the rules.
        if left := chosen.problems(options):
            raise RedirectError(
                "the rules of the redirection are not in force:\n" + "\n".join(left)
            )
    # After ours are in force, so that there is no moment without a redirect.
    _clear_others(chosen)
    return f"the redirection is in force{'' if problems else ' already'} ({chosen.name})"


def stay(
    options: Redirect, name: str | None, *, until: Event, every: float, say: Callable[[str], None]
) -> None:
    """Install the rules, and again every `every` seconds if something is missing; blocks until
    `until` is set. `name` is the back end; None chooses one each time.

    `say` gets the text of the first installation, and one whenever something changed. The rules
    stay in force afterwards. Raise RedirectError if they cannot be installed.
    """
    message = ""
    while True:
        done = install(options, name)
        if done != message:
            say(done)
        message = done.replace("in force (", "in force already (")
        if until.wait(every):
            return


def _clear_others(chosen: BackEnd) -> None:
    """Remove rules of ours that other back ends hold.

    Connections that pass the new rules would otherwise still meet the old ones.
    """
    for other in _find_installed(None):
        if other.find_programs() == chosen.find_programs():
            continue
        # iptables-legacy wants more than NET_ADMIN; without that no earlier call can have used it.
        with suppress(MissingCapability):
            if other.is_present():
                other.remove()


def verify(options: Redirect, name: str | None = None) -> list[str]:
    """Return one text for each missing rule, and for each rule that takes connections out of
    tracking; [] if everything is in force. `name` is the back end to check, None for the one whose
    rules are all in force or else the first that works.

    Raise MissingCapability without NET_ADMIN, RedirectError if no back end can list rules.
    """
    check_capability()
    return [*_choose(options, name)[1], *find_untracked(find_families())]


def remove(name: str | None = None) -> list[str]:
    """Remove our rules in every installed back end, or only in that of `name`, and return the names
    of the back ends that had some.

    Raise MissingCapability without NET_ADMIN, before anything is tried; RedirectError if no back
    end is installed or, after all were tried, the first error of one.
    """
    check_capability()
    removed, failures = [], []
    back_ends = _find_installed(name)
    if not back_ends:
        raise RedirectError("neither nft nor iptables is installed: install one of them")
    for back_end in back_ends:
        try:
            if back_end.is_present():
                back_end.remove()
                removed.append(back_end.name)
        except RedirectError as error:
            failures.append(error)  # the others are still to be taken away
    if failures:
        raise failures[0]
    return removed


def _choose(options: Redirect, name: str | None) -> tuple[BackEnd, list[str]]:
    """Return the back end whose rules are all in force and [], else the first that works and its
    problems. With `name` only that one is tried.

    Raise RedirectError if none is installed, or the first error if none works.
    """
    usable: list[tuple[BackEnd, list[str]]] = []
    failures: list[RedirectError] = []
    for back_end in _find_installed(name):
        try:
            problems = back_end.problems(options)
        except RedirectError as error:
            failures.append(error)
            continue
        if not problems:
            return back_end, []
        usable.append((back_end, problems))
    if usable:
        return usable[0]
    if failures:
        raise failures[0]
    raise RedirectError(f"{name or 'nft, or iptables and ip6tables,'} must be installed")


def _find_installed(name: str | None) -> list[BackEnd]:
    """Return the installed back ends (or only `name`) in order of preference; [] if none is.

    Plain `iptables` is often a link to another variant; the same programs count once.
    """
    families = find_families()
    installed: dict[tuple[str, ...], BackEnd] = {}
    for each in BACK_ENDS if name is None else (name,):
        back_end = _make(each, families)
        if programs := back_end.find_programs():
            installed.setdefault(programs, back_end)
    return list(installed.values())


def _make(name: str, families: Sequence[Family]) -> BackEnd:
    """Return the back end of a name of `BACK_ENDS`; its programs need not be installed."""
    return Nft(families) if name == "nft" else Iptables(name.removeprefix("iptables"), families)
