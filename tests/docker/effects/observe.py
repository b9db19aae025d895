"""What a container really has, read from the outside: `/proc` of its first process, its cgroups.

Nothing here knows the request. `exposures` compares with a plain container of the same daemon, so
that what every container has on this machine counts for nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Observation", "beyond", "exposures", "observe"]

_NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_NODES: Final = ("loop0", "kmsg", "fuse", "mem", "net/tun", "loop-control")
_UNLIMITED: Final = 1 << 60


@dataclass(frozen=True)
class Observation:
    """The first process of a container."""

    namespaces: Mapping[str, str]
    mounts: frozenset[tuple[str, str, str]]
    """Type of the file system, its root that is mounted, and where."""
    shared_mounts: frozenset[str]
    """Mount points from which mounts propagate to the host."""
    capabilities: int
    seccomp: str
    devices: frozenset[str]
    opened: frozenset[str]
    """Devices of the host that a process in its control group can open, by trying."""
    oom_score_adj: int
    limits: Mapping[str, float]
    """Memory, swap with memory, processors and processes, by the control groups; 0: no limit."""


def observe(pid: int, data_root: str) -> Observation:
    """The process `pid`; OSError where it is gone.

    `data_root` is the name of the daemon's folder.
    """
    process = Path(f"/proc/{pid}")
    lines = (process / "status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    mounts, shared_mounts = _mounts(process, data_root)
    groups = _groups(process)
    return Observation(
        namespaces={name: os.readlink(process / "ns" / name) for name in _NAMESPACES},
        mounts=mounts,
        shared_mounts=shared_mounts,
        capabilities=int(status["CapEff"], 16) | int(status["CapBnd"], 16),
        seccomp=status["Seccomp"].strip(),
        devices=frozenset(_devices(process / "root" / "dev")),
        opened=_opened(groups),
        oom_score_adj=int((process / "oom_score_adj").read_text()),
        limits=_limits(groups),
    )


def _mounts(
    process: Path, data_root: str
) -> tuple[frozenset[tuple[str, str, str]], frozenset[str]]:
    mounts, shared = set(), set()
    for line in (process / "mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        fields = front.split()
        kind = back.split()[0]
        root, target = fields[3], fields[4]
        if any(field.startswith("shared:") for field in fields[6:]):
            shared.add(target)
        own = re.sub(r"[0-9a-f]{64}", "ID", root)
        own = own.partition(f"/{data_root}")[2] or own
        mounts.add((kind, own, target))
    return frozenset(mounts), frozenset(shared)


def _devices(folder: Path) -> list[str]:
    """Device nodes, but for the terminal that a container may have."""
    try:
        nodes = [each for each in folder.iterdir() if each.name != "console"]
        return [each.name for each in nodes if each.is_block_device() or each.is_char_device()]
    except OSError:
        return []


# control groups

_ROOT: Final = Path("/sys/fs/cgroup")


def _groups(process: Path) -> dict[str, Path]:
    """The folder of each controller; all are the same where there is one hierarchy."""
    groups: dict[str, Path] = {}
    for line in (process / "cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            folder = _ROOT / names if names else _ROOT
            groups[name] = Path(f"{folder}{path}")
    return groups


def _file(groups: Mapping[str, Path], controller: str, old: str, new: str) -> str:
    """A control group's file, by its name in the older and the newer layout; "" if none."""
    for folder, name in ((groups.get(controller), old), (groups.get(""), new)):
        if folder is not None and (folder / name).is_file():
            return (folder / name).read_text().strip()
    return ""


def _number(text: str) -> float:
    value = float(text) if text.lstrip("-").isdecimal() else 0
    return value if 0 < value < _UNLIMITED else 0


def _limits(groups: Mapping[str, Path]) -> dict[str, float]:
    memory = _number(_file(groups, "memory", "memory.limit_in_bytes", "memory.max"))
    swap = _file(groups, "memory", "memory.memsw.limit_in_bytes", "memory.swap.max")
    both = _number(swap) if "memory" in groups else _number(swap) + memory
    quota, _, period = _file(groups, "cpu", "cpu.cfs_quota_us", "cpu.max").partition(" ")
    period = period or _file(groups, "cpu", "cpu.cfs_period_us", "cpu.none")
    return {
        "memory": memory,
        # Where the kernel does not account for swap there is none to limit.
        "swap": both if swap else memory,
        "cpus": _number(quota) / (_number(period) or 100_000),
        "pids": _number(_file(groups, "pids", "pids.max", "pids.max")),
    }


def _opened(groups: Mapping[str, Path]) -> frozenset[str]:
    """The devices that can be opened from a control group: a shell joins it and tries."""
    folder = groups.get("devices") or groups.get("")
    if folder is None or not (folder / "cgroup.procs").exists():
        return frozenset()
    script = 'echo 0 > "$0/cgroup.procs" && for n; do (: < "/dev/$n") && echo "$n"; done'
    done = subprocess.run(
        ["sh", "-c", script, str(folder), *_NODES], check=False, capture_output=True, text=True
    )
    return frozenset(done.stdout.split())


# what is more than a plain container has


def exposures(seen: Observation, plain: Observation, allowed: str) -> set[str]:
    """What `seen` has of the host, or of the plain container, and should not have.

    Mounts from the folder `allowed` are as they should be.
    """
    effects = set(_shared_namespaces(seen, plain))
    plain_mounts = {(kind, root) for kind, root, _ in plain.mounts}
    for kind, root, target in seen.mounts:
        volume = "/volumes/" in root and root.endswith("/_data")
        # A terminal is a mount of the container's own devices.
        fresh = (kind in ("tmpfs", "mqueue") and root == "/") or kind == "devpts"
        # Its own control groups, wherever they are; what it may set there it cannot write.
        own_group = root.endswith("/ID") or "/buildkit/" in root
        fresh = fresh or (kind.startswith("cgroup") and own_group)
        own = root.startswith(("/data/containers/ID/", "/data/buildkit/executor/"))
        own = own or target == "/sbin/docker-init"  # the daemon's own, where `Init` is asked for
        layers = kind == "overlay" and root == "/" and target == "/"
        permitted = root == allowed or root.startswith(f"{allowed}/")
        if (kind, root) not in plain_mounts and not (volume or fresh or own or layers or permitted):
            effects.add(f"mount {kind} {root} at {target}")
    effects |= {f"propagates {target}" for target in seen.shared_mounts - plain.shared_mounts}
    masked = {target for kind, _, target in plain.mounts if target.startswith(("/proc/", "/sys/"))}
    effects |= {f"unmasked {t}" for t in masked - {target for _, _, target in seen.mounts}}
    extra = seen.capabilities & ~plain.capabilities
    if extra:
        effects.add(f"capabilities {extra:x}")
    if seen.seccomp != plain.seccomp:
        effects.add(f"seccomp {seen.seccomp}")
    effects |= {f"device {name}" for name in seen.devices - plain.devices}
    effects |= {f"opens {name}" for name in seen.opened - plain.opened}
    if seen.oom_score_adj < plain.oom_score_adj:
        effects.add(f"oom_score_adj {seen.oom_score_adj}")
    return effects


def _shared_namespaces(seen: Observation, plain: Observation) -> list[str]:
    effects = []
    for name, link in seen.namespaces.items():
        host = os.readlink(f"/proc/self/ns/{name}")
        if plain.namespaces[name] == host:
            continue
        if link == host:
            effects.append(f"namespace {name}")
        elif link == plain.namespaces[name]:
            effects.append(f"namespace {name} of another container")
    return effects


def beyond(seen: Observation, ceilings: Mapping[str, float]) -> set[str]:
    """The limits that are above their ceilings, or not there."""
    return {
        f"limit {name} {seen.limits[name]:g}"
        for name, ceiling in ceilings.items()
        if not 0 < seen.limits[name] <= ceiling
    }
