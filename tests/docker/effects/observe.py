"""What a container really has, read from the outside: `/proc` of its first process, its cgroup.

Nothing here knows the request. `exposures` compares with a plain container of the same daemon, so
that what every container has on this machine counts for nothing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["Observation", "exposures", "limits", "observe"]

_NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


@dataclass(frozen=True)
class Observation:
    """The first process of a container."""

    shared: frozenset[str]
    """Namespaces that are the host's."""
    mounts: frozenset[tuple[str, str, str]]
    """Type of the file system, its root that is mounted, and where."""
    shared_mounts: frozenset[str]
    """Mount points from which mounts propagate to the host."""
    capabilities: int
    seccomp: str
    devices: frozenset[str]
    oom_score_adj: int


def observe(pid: int, data_root: str) -> Observation:
    """The process `pid`. OSError where it is gone."""
    process = Path(f"/proc/{pid}")
    lines = (process / "status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    mounts, shared_mounts = _mounts(process, data_root)
    return Observation(
        shared=frozenset(n for n in _NAMESPACES if _same_namespace(process, n)),
        mounts=mounts,
        shared_mounts=shared_mounts,
        capabilities=int(status["CapEff"], 16) | int(status["CapBnd"], 16),
        seccomp=status["Seccomp"].strip(),
        devices=frozenset(_devices(process / "root" / "dev")),
        oom_score_adj=int((process / "oom_score_adj").read_text()),
    )


def _same_namespace(process: Path, name: str) -> bool:
    return os.readlink(process / "ns" / name) == os.readlink(f"/proc/self/ns/{name}")


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
        own = own.partition(data_root)[2] or own
        mounts.add((kind, own, target))
    return frozenset(mounts), frozenset(shared)


def _devices(folder: Path) -> list[str]:
    """Device nodes, but for the terminal that a container may have."""
    try:
        nodes = [each for each in folder.iterdir() if each.name != "console"]
        return [each.name for each in nodes if each.is_block_device() or each.is_char_device()]
    except OSError:
        return []


def exposures(seen: Observation, plain: Observation) -> set[str]:
    """What `seen` has of the host and a plain container has not."""
    found = {f"namespace {name}" for name in seen.shared - plain.shared}
    plain_mounts = {(kind, root) for kind, root, _ in plain.mounts}
    for kind, root, target in seen.mounts:
        volume = "/volumes/" in root and root.endswith("/_data")
        # A terminal is a mount of the container's own devices.
        fresh = (kind in ("tmpfs", "mqueue") and root == "/") or kind == "devpts"
        if (kind, root) not in plain_mounts and not volume and not fresh:
            found.add(f"mount {kind} {root} at {target}")
    found |= {f"propagates {target}" for target in seen.shared_mounts - plain.shared_mounts}
    masked = {target for kind, _, target in plain.mounts if target.startswith(("/proc/", "/sys/"))}
    found |= {f"unmasked {t}" for t in masked - {target for _, _, target in seen.mounts}}
    extra = seen.capabilities & ~plain.capabilities
    if extra:
        found.add(f"capabilities {extra:x}")
    if seen.seccomp != plain.seccomp:
        found.add(f"seccomp {seen.seccomp}")
    found |= {f"device {name}" for name in seen.devices - plain.devices}
    if seen.oom_score_adj < plain.oom_score_adj:
        found.add(f"oom_score_adj {seen.oom_score_adj}")
    return found


def limits(made: dict[str, Any]) -> dict[str, float]:
    """Memory, processors and processes of an inspected container; 0 is no limit."""
    host = made["HostConfig"]
    period = host.get("CpuPeriod") or 100_000
    quota = host.get("CpuQuota") or 0
    cpus = (host.get("NanoCpus") or 0) / 1e9 or (quota / period if quota > 0 else 0)
    memory, swap = host.get("Memory") or 0, host.get("MemorySwap") or 0
    return {
        "memory": max(memory, 0),
        "cpus": cpus,
        "pids": max(host.get("PidsLimit") or 0, 0),
        "swap": 0 if swap < 0 else (swap or 2 * memory),
    }
