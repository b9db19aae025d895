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
"""In the order in which they are tried; the last is whatever `iptables` stands for."""


class BackEnd(Protocol):
    """One way to read and change rules."""

    name: str

    def find_programs(self) -> tuple[str, ...]: ...
    def is_present(self) -> bool: ...
    def script(self, options: Redirect) -> str: ...
    def problems(self, options: Redirect) -> list[str]: ...
    def install(self, options: Redirect) -> None: ...
    def remove(self) -> None: ...


def find_families() -> tuple[Family, ...]:
    """The address families of this network namespace. IPv6 counts unless the kernel has none."""
    return ("ip", "ip6") if Path("/proc/net/if_inet6").exists() else ("ip",)


def dry_run(options: Redirect, name: str | None = None) -> str:
    """Return the input of the back end's program. Reads and changes nothing."""
    return (_find_installed(name) or [_make("nft", ("ip", "ip6"))])[0].script(options)


def install(options: Redirect, name: str | None = None) -> str:
    """Apply the rules, completing or replacing what is there; says what was done."""
    check_capability()
    chosen, problems = _choose(options, name)
    if problems:
        chosen.install(options)
        if left := chosen.problems(options):
            raise RedirectError("the rules are not in force:\n" + "\n".join(left))
    _clear_others(chosen)
    return f"{'in force' if problems else 'in force already'} ({chosen.name})"


def stay(
    options: Redirect, name: str | None, *, until: Event, every: float, say: Callable[[str], None]
) -> None:
    """Apply the rules, and again whenever something of them is missing, until told to end.

    They stay active after that. RedirectError when they cannot be applied.
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
    """Rules of an earlier call by other means would still be asked for what passes ours."""
    for other in _find_installed(None):
        if other.find_programs() == chosen.find_programs():
            continue
        # iptables-legacy wants more than NET_ADMIN; without that no earlier call can have used it.
        with suppress(MissingCapability):
            if other.is_present():
                other.remove()


def verify(options: Redirect, name: str | None = None) -> list[str]:
    """Return the rules that are missing, or that connections pass untracked, in words. None: all is
    active."""
    check_capability()
    return [*_choose(options, name)[1], *find_untracked(find_families())]


def remove(name: str | None = None) -> list[str]:
    """Take all rules away, by every back end that is there; the names of those that had some."""
    check_capability()
    removed, failures = [], []
    back_ends = _find_installed(name)
    if not back_ends:
        raise RedirectError("neither nft nor iptables is installed")
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
    """The back end by which the rules are active; else the first that works, and its faults."""
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
    raise RedirectError(f"{name or 'nft, or iptables and ip6tables,'} is needed and not installed")


def _find_installed(name: str | None) -> list[BackEnd]:
    """Those whose programs are there, each once: plain `iptables` is often one of the others."""
    families = find_families()
    installed: dict[tuple[str, ...], BackEnd] = {}
    for each in BACK_ENDS if name is None else (name,):
        back_end = _make(each, families)
        if programs := back_end.find_programs():
            installed.setdefault(programs, back_end)
    return list(installed.values())


def _make(name: str, families: Sequence[Family]) -> BackEnd:
    return Nft(families) if name == "nft" else Iptables(name.removeprefix("iptables"), families)
