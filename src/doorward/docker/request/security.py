"""Privileges of a container: one spelling for each of the many on the wire.

Capabilities are in capitals without `CAP_`; security options are `key=value`; a namespace is
shared with the host, with another container (whose own reach is unresolved), or its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any, Final, TypeAlias

__all__ = [
    "NO_DEVICES",
    "NO_SECURITY",
    "Security",
    "cgroup_view",
    "create_security",
    "device_view",
    "exec_security",
    "nonempty_fields",
    "service_security",
]

Security: TypeAlias = dict[str, Any]

# What the daemon hides and protects by itself, in every version from 20.10 on.
_MASKED: Final = frozenset({
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
})  # fmt: skip
_READONLY: Final = frozenset(
    {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)
_LABEL: Final = ("User", "Role", "Type", "Level")
_PATHS: Final = ("MaskedPaths", "ReadonlyPaths")
"""Fields of a HostConfig that say something where they are empty: that no path is protected."""
_FIELDS: Final = frozenset({
    "Annotations", "CapAdd", "CapDrop", "Capabilities", "Cgroup", "CgroupnsMode", "GroupAdd",
    "IpcMode", "PidMode", "Privileged", "ReadonlyRootfs", "Runtime", "SecurityOpt", "Sysctls",
    "UTSMode", "UsernsMode", *_PATHS,
})  # fmt: skip
"""Fields of a HostConfig that a usual container does not have."""
_DEVICES: Final = frozenset({"Devices", "DeviceCgroupRules", "DeviceRequests"})
NO_DEVICES: Final[dict[str, Any]] = {
    "devices": [],
    "cgroup_rules": [],
    "requests": [],
    "any": False,
}
_NAMESPACES: Final = {
    "NetworkMode": "network",
    "PidMode": "pid",
    "IpcMode": "ipc",
    "UTSMode": "uts",
    "UsernsMode": "user",
    "CgroupnsMode": "cgroup",
}


def _security(**fields: Any) -> Security:
    """Return a security view with some fields; the others have their defaults."""
    return {
        "privileged": False,
        "cap_add": [],
        "cap_drop": [],
        "options": [],
        "seccomp": "default",
        "apparmor": "default",
        "no_new_privileges": False,
        "label_disabled": False,
        "masked_paths": "default",
        "readonly_paths": "default",
        "host_namespaces": [],
        "joined_containers": [],
        "user": "",
        "groups": [],
        "readonly_rootfs": False,
        "runtime": "",
        "sysctls": {},
        "annotations": {},
        "unresolved": False,
        **fields,
    }


NO_SECURITY: Final = _security()


def nonempty_fields(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a HostConfig that are not empty; docker's client sends some sixty, most
    of them empty.

    Views built from the result equal those of the whole HostConfig and are faster to build. An
    empty list of protected paths has a meaning and is kept.
    """
    fields = dict(compress(host.items(), host.values()))
    for name in _PATHS:
        if host.get(name) is not None:
            fields[name] = host[name]
    return fields


def create_security(host: Mapping[str, Any], config: Mapping[str, Any]) -> Security:
    """Return the `security` view of a container that is created or started with a HostConfig.

    `unresolved` is True if it joins a namespace of another container.
    """
    if _has_default_security(host):
        user = config.get("User")
        return {**NO_SECURITY, "user": user} if user else NO_SECURITY
    shared, joined = _namespaces(host)
    options = [_option(text) for text in host.get("SecurityOpt") or ()]
    added = [*(host.get("CapAdd") or ()), *(host.get("Capabilities") or ())]
    view = _security(
        privileged=bool(host.get("Privileged")),
        cap_add=_capabilities(added),
        cap_drop=_capabilities(host.get("CapDrop") or ()),
        options=[f"{key}={value}" if value else key for key, value in options],
        host_namespaces=shared,
        joined_containers=joined,
        user=config.get("User") or "",
        groups=host.get("GroupAdd") or [],
        readonly_rootfs=bool(host.get("ReadonlyRootfs")),
        runtime=host.get("Runtime") or "",
        sysctls=host.get("Sysctls") or {},
        annotations=host.get("Annotations") or {},
        masked_paths=_paths(host.get("MaskedPaths"), _MASKED),
        readonly_paths=_paths(host.get("ReadonlyPaths"), _READONLY),
        unresolved=bool(joined),
    )
    for key, value in options:
        _apply_option(view, key, value)
    return view


def _has_default_security(host: Mapping[str, Any]) -> bool:
    """Return True if a HostConfig has none of the fields that the `security` view reads and joins
    neither the host's network nor a container's: the view is then `NO_SECURITY`, except for the
    user. Mounts and devices are not looked at.
    """
    mode = host.get("NetworkMode") or ""
    return _FIELDS.isdisjoint(host) and mode != "host" and not mode.startswith("container:")


def _apply_option(view: Security, key: str, value: str) -> None:
    """Set the field of `view` that a security option (`--security-opt KEY=VALUE`) decides: seccomp,
    AppArmor, `no-new-privileges`, the label `disable` or `systempaths`. Other options change
    nothing.
    """
    if key in ("seccomp", "apparmor"):
        # A profile is a whole file; that it is not the default is what counts.
        view[key] = value if value in ("unconfined", "builtin", "docker-default") else "custom"
    elif key == "no-new-privileges":
        # The texts that strconv.ParseBool takes for true; the option alone means true as well.
        view["no_new_privileges"] = value in ("", "true", "1", "t", "T", "TRUE", "True")
    elif key == "label" and value == "disable":
        view["label_disabled"] = True
    elif key == "systempaths" and value == "unconfined":
        view["masked_paths"] = view["readonly_paths"] = "none"


def _option(text: str) -> tuple[str, str]:
    """Split a security option, `key=value` or the older `key:value` (`=` is looked for first); the
    value is empty if there is none.
    """
    # The equals sign first: a value may have colons of its own, as labels of SELinux do.
    equals = text.partition("=")
    colon = text.partition(":")
    key, _, value = equals if equals[1] else colon
    return key.strip(), value.strip()


def _capabilities(names: Iterable[str]) -> list[str]:
    """Return capabilities in capitals and without `CAP_`, sorted, each once."""
    return sorted({name.strip().upper().removeprefix("CAP_") for name in names})


def _paths(value: list[str] | None, usual: frozenset[str]) -> str:
    """Return `default` for None and for a list that has all of the `usual` paths, as an inspected
    container shows them; `none` for an empty list, else `custom`.
    """
    # More masked paths than usual protect more; the daemon lists its own where it is inspected.
    if value is None or usual <= set(value):
        return "default"
    return "custom" if value else "none"


def _namespaces(host: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the namespaces shared with the host, and the containers of which a
    namespace or the control group is joined.
    """
    shared, joined = [], []
    for field, name in _NAMESPACES.items():
        mode = host.get(field) or ""
        if mode == "host":
            shared.append(name)
        elif mode.startswith("container:"):
            joined.append(mode.removeprefix("container:"))
    # The volumes of another container are among the mounts; its cgroup is not.
    cgroup = host.get("Cgroup") or ""
    if cgroup.startswith("container:"):
        joined.append(cgroup.removeprefix("container:"))
    return shared, joined


def exec_security(body: Mapping[str, Any]) -> Security:
    """Return the `security` view of a program started in a container, whose own rights are not
    known here.
    """
    return _security(
        privileged=bool(body.get("Privileged")), user=body.get("User") or "", unresolved=True
    )


def service_security(spec: Mapping[str, Any], networks: Iterable[str]) -> Security:
    """Return the `security` view of a swarm service's container: capabilities, user and groups,
    sysctls, root filesystem, seccomp, AppArmor, SELinux, `no-new-privileges` and namespaces of the
    host. `spec` is its ContainerSpec. `networks` are the names of its networks; with `host` among
    them it shares the host's network namespace. Fields that a service cannot set have their
    defaults.
    """
    privileges = spec.get("Privileges") or {}
    label = privileges.get("SELinuxContext") or {}
    parts = [f"label={key.lower()}:{label[key]}" for key in _LABEL if label.get(key)]
    seccomp = (privileges.get("Seccomp") or {}).get("Mode") or "default"
    apparmor = (privileges.get("AppArmor") or {}).get("Mode") or "default"
    return _security(
        cap_add=_capabilities(spec.get("CapabilityAdd") or ()),
        cap_drop=_capabilities(spec.get("CapabilityDrop") or ()),
        user=spec.get("User") or "",
        groups=spec.get("Groups") or [],
        readonly_rootfs=bool(spec.get("ReadOnly")),
        sysctls=spec.get("Sysctls") or {},
        seccomp=seccomp,
        apparmor="unconfined" if apparmor == "disabled" else apparmor,
        no_new_privileges=bool(privileges.get("NoNewPrivileges")),
        options=parts,
        label_disabled=bool(label.get("Disable")),
        host_namespaces=["network"] if "host" in networks else [],
    )


def device_view(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `devices` view: devices by path, cgroup rules, and requests to device drivers.

    `any` is True if there is at least one of them.
    """
    if _DEVICES.isdisjoint(host):
        return NO_DEVICES
    devices = [
        {
            "host": item.get("PathOnHost") or "",
            "container": item.get("PathInContainer") or "",
            "permissions": item.get("CgroupPermissions") or "",
        }
        for item in host.get("Devices") or ()
        if item is not None
    ]
    rules = host.get("DeviceCgroupRules") or []
    requests = [
        {
            "driver": item.get("Driver") or "",
            "count": item.get("Count") or 0,
            "ids": item.get("DeviceIDs") or [],
            "capabilities": item.get("Capabilities") or [],
        }
        for item in host.get("DeviceRequests") or ()
        if item is not None
    ]
    return {
        "devices": devices,
        "cgroup_rules": rules,
        "requests": requests,
        "any": bool(devices or rules or requests),
    }


def cgroup_view(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `cgroup` view: the parent of the container's control group (`parent`), the mode of
    its cgroup namespace (`namespace`), and the control group that it joins (`cgroup`); each is ""
    if unset.
    """
    return {
        "parent": host.get("CgroupParent") or "",
        "namespace": host.get("CgroupnsMode") or "",
        "cgroup": host.get("Cgroup") or "",
    }
