"""Limits of what a container may use: one set of names for containers, services and builds.

Zero means "no limit" for `memory`, `cpus` and `pids`, as it does to the daemon; -1 stays -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from doorward.rego.shared import from_fraction

__all__ = [
    "NO_LOGGING",
    "NO_RESOURCES",
    "Resources",
    "after_update",
    "build_resources",
    "create_resources",
    "logging_view",
    "service_resources",
    "ulimits_view",
    "update_resources",
]

Resources: TypeAlias = dict[str, Any]

_FIELDS: Final = {
    "memory": "Memory",
    "memory_swap": "MemorySwap",
    "memory_reservation": "MemoryReservation",
    "cpu_shares": "CpuShares",
    "cpu_quota": "CpuQuota",
    "cpu_period": "CpuPeriod",
    "nano_cpus": "NanoCpus",
    "pids": "PidsLimit",
    "shm_size": "ShmSize",
    "oom_score_adj": "OomScoreAdj",
    "blkio_weight": "BlkioWeight",
    "cpu_realtime_runtime": "CpuRealtimeRuntime",
}
NO_RESOURCES: Final[Resources] = {
    **dict.fromkeys(_FIELDS, 0),
    "cpus": 0,
    "cpuset_cpus": "",
    "cpuset_mems": "",
    "oom_kill_disable": False,
    "ulimits": [],
    "storage": {},
    "restart": "",
    "log_driver": "",
    "changed": [],
}
NO_LOGGING: Final[dict[str, Any]] = {"driver": "", "options": []}
_PROCESSORS: Final = frozenset(("NanoCpus", "CpuQuota"))
# Microseconds, the kernel's default of `cpu.cfs_period_us`.
_DEFAULT_PERIOD: Final = 100_000
_BILLION: Final = 1_000_000_000


def create_resources(host: Mapping[str, Any]) -> Resources:
    """Return the `resources` view of a HostConfig or of an update's body; absent limits are 0 or
    empty.

    `cpus` is computed from the limit in billionths or from quota and period.
    """
    if _VIEW_NAMES.isdisjoint(host):
        return NO_RESOURCES
    resources = dict(NO_RESOURCES)
    for field, value in host.items():
        if value and (view := _VIEWS.get(field)) is not None:
            name, make = view
            resources[name] = value if make is None else make(value)
    if not _PROCESSORS.isdisjoint(host):
        resources["cpus"] = _cpus(
            resources["nano_cpus"], resources["cpu_quota"], resources["cpu_period"]
        )
    return resources


def update_resources(body: Mapping[str, Any]) -> Resources:
    """Return the `resources` view of an update; `changed` lists the limits that it sets, sorted.

    To the daemon 0 means "unchanged", except for PidsLimit, where 0 and -1 lift the limit.
    """
    resources = create_resources(body)
    changed = {name for name in _FIELDS if resources[name]}
    # A pointer in Go: 0 is said, not left out.
    if body.get("PidsLimit") is not None:
        changed.add("pids")
    changed |= {name for name in ("cpuset_cpus", "cpuset_mems", "restart") if resources[name]}
    return {**resources, "changed": sorted(changed)}


def after_update(before: Resources, update: Resources) -> Resources:
    """Return the `resources` view that a container with the view `before` will have after an
    update.
    """
    names = [name for name in (*_FIELDS, "cpuset_cpus", "cpuset_mems", "restart")]
    values = {name: (update if name in update["changed"] else before)[name] for name in names}
    cpus = _cpus(values["nano_cpus"], values["cpu_quota"], values["cpu_period"])
    return {**before, **values, "cpus": cpus, "changed": update["changed"]}


def logging_view(config: Mapping[str, Any] | None, *, driver: str, options: str) -> dict[str, Any]:
    """Return the `logging` view: the log driver and the sorted names of its options. `driver` and
    `options` are the names of these two fields in `config`.
    """
    if not config:
        return NO_LOGGING
    return {"driver": config.get(driver) or "", "options": sorted(config.get(options) or ())}


def _cpus(nano: int, quota: int, period: int) -> Any:
    """Return a limit in processors: `nano` billionths, or if that is 0 `quota` / `period` (the
    kernel's default period for 0); 0 if unlimited.
    """
    # The daemon refuses this limit beside a quota or a period.
    if nano:
        return from_fraction(Fraction(nano, _BILLION))
    if quota > 0:
        return from_fraction(Fraction(quota, period or _DEFAULT_PERIOD))
    return 0


def ulimits_view(ulimits: Iterable[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return a row with name, soft and hard limit for each ulimit of a process; an absent limit is
    0.
    """
    return [
        {
            "name": item.get("Name") or "",
            "soft": item.get("Soft") or 0,
            "hard": item.get("Hard") or 0,
        }
        for item in ulimits
        if item is not None
    ]


def service_resources(task: Mapping[str, Any]) -> Resources:
    """Return the `resources` view of a swarm service's task template."""
    resources = task.get("Resources") or {}
    limits = resources.get("Limits") or {}
    spec = task.get("ContainerSpec") or {}
    nano = limits.get("NanoCPUs") or 0
    return {
        **NO_RESOURCES,
        "memory": limits.get("MemoryBytes") or 0,
        "memory_swap": resources.get("SwapBytes") or 0,
        "nano_cpus": nano,
        "cpus": _cpus(nano, 0, 0),
        "pids": limits.get("Pids") or 0,
        "oom_score_adj": spec.get("OomScoreAdj") or 0,
        "memory_reservation": (resources.get("Reservations") or {}).get("MemoryBytes") or 0,
        "ulimits": ulimits_view(spec.get("Ulimits") or ()),
        "log_driver": (task.get("LogDriver") or {}).get("Name") or "",
    }


def build_resources(query: Mapping[str, list[str]]) -> Resources:
    """Return the `resources` view of a classic build, whose limits are in the query.

    Values that are not decimal numbers of at most 18 digits count as 0.
    """

    def number(name: str) -> int:
        text = query.get(name, ["0"])[0]
        # Eighteen digits fit into the daemon's 64 bits, whatever they are.
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0

    quota, period = number("cpuquota"), number("cpuperiod")
    return {
        **NO_RESOURCES,
        "memory": number("memory"),
        "memory_swap": number("memswap"),
        "cpu_shares": number("cpushares"),
        "cpu_quota": quota,
        "cpu_period": period,
        "cpus": _cpus(0, quota, period),
        "shm_size": number("shmsize"),
        "cpuset_cpus": query.get("cpusetcpus", [""])[0],
    }


_VIEWS: Final[dict[str, tuple[str, Callable[[Any], Any] | None]]] = {
    **{field: (name, None) for name, field in _FIELDS.items()},
    "CpusetCpus": ("cpuset_cpus", None),
    "CpusetMems": ("cpuset_mems", None),
    "OomKillDisable": ("oom_kill_disable", None),
    "Ulimits": ("ulimits", ulimits_view),
    "StorageOpt": ("storage", None),
    "RestartPolicy": ("restart", lambda policy: policy.get("Name") or ""),
    "LogConfig": ("log_driver", lambda config: config.get("Type") or ""),
}
"""The view's name for each field of a HostConfig, and the function that converts its value, or
None."""
_VIEW_NAMES: Final = frozenset(_VIEWS)
