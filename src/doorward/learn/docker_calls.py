"""Docker's audit log becomes `Calls`: counts by user, setting of the shipped data, and value.

    audit lines ─Calls─▶ counts by user, setting and value

A value is a text, whatever the setting: a limit is a number, "0" for a container without one; host
ports are "first-last". Counts of parts of a log merge into those of the log, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeGuard

from doorward.base.records import mutable
from doorward.learn.observations import Cell, LearnError
from doorward.learn.segments import LONGEST
from doorward.rego import to_json

__all__ = ["ENTERING", "LIMITS", "STARTING", "Calls", "Setting", "is_call"]

MAX_CELLS: Final = 300_000
LIMITS: Final = ("memory", "cpus", "pids")
_CREATES: Final = ("container.create", "service.create")
_SERVICES: Final = ("service.create", "service.update")
_DIGESTED: Final = ("container.create", *_SERVICES, "image.pull")
_CONTACTING: Final = ("image.pull", "image.push", *_SERVICES)
"""Actions for which the Docker daemon contacts the registry of an image."""
_OF_IMAGES: Final = frozenset(
    {"container.create", "container.commit", "image.pull", "image.import", "image.push"}
    | {"image.tag", *_SERVICES}
)
"""Actions that the policy judges by their image."""
STARTING: Final = frozenset({"container.restart", "container.start", "container.unpause"})
"""Actions that start an existing container again: its settings count as if it were created."""
ENTERING: Final = STARTING | {
    *("container.archive.get", "container.archive.put", "container.attach", "container.commit"),
    *("container.exec", "container.export", "container.rename", "container.update", "exec.start"),
    "network.connect",
}
"""Actions inside of a container, which the policy judges by that container."""
_PROFILES: Final = ("seccomp", "apparmor", "masked_paths", "readonly_paths")
_CHANGES: Final[Mapping[str, frozenset[str]]] = {
    "memory": frozenset({"memory", "memory_swap"}),
    "cpus": frozenset({"cpu_period", "cpu_quota", "nano_cpus"}),
    "pids": frozenset({"pids"}),
}
"""The fields of a container's update that limits are about."""

Setting: TypeAlias = tuple[str, str]
"""A section of the data, and the name of a setting in it."""
Use: TypeAlias = tuple[str, str, str, str]
"""A user, and the section, name and value of a setting; actions have the section `roles`."""


def is_call(document: Any) -> TypeGuard[dict[Any, Any]]:
    """Return True if a JSON value is a line of the plugin's audit log: an object whose action,
    phase, decision, URI and user are texts.
    """
    return isinstance(document, dict) and all(
        type(document.get(name)) is str for name in ("action", "phase", "decision", "uri", "user")
    )


def _is_nobody(user: str, input: Any) -> bool:
    """Return True for a client certificate without a name: the policies have no roles for it."""
    return not user and isinstance(input, dict) and input.get("AuthMethod") not in (None, "")


@mutable
class Calls:
    """Counts of Docker calls by user, setting and value."""

    used: dict[Use, Cell] = field(default_factory=dict)
    """The count of allowed calls by use."""
    denied: dict[tuple[str, str], int] = field(default_factory=dict)
    """The count of denied calls by user and action."""
    digests: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By user, the number of images named with a digest, and without one."""
    events: int = 0
    without_input: int = 0
    unreadable: int = 0

    def add(self, line: Mapping[Any, Any]) -> None:
        """Count a line of the audit log: its action and values if it was allowed, only the action
        if it has no input (then also in `without_input`), a denial if it was not allowed. Values
        that are too long are left out.

        Lines are counted as unreadable if they are not requests, if the user has a client
        certificate without a name, or if the user's or action's name is too long. Raise LearnError
        if there are too many combinations.
        """
        self.events += 1
        user, action, input = line["user"], line["action"], line.get("input")
        too_long = len(user) > LONGEST or len(action) > LONGEST
        if line["phase"] != "request" or too_long or _is_nobody(user, input):
            self.unreadable += 1
            return
        if line["decision"] != "allow":
            key = user, action
            self.denied[key] = self.denied.get(key, 0) + 1
            self._check()
            return
        seconds = _seconds(line.get("time"))
        identifier = line.get("decision_id")
        example = identifier[:LONGEST] if type(identifier) is str else ""
        self._use((user, "roles", "actions", action)).add(seconds, example)
        if not isinstance(input, dict):
            self.without_input += 1
            return
        values = {
            (user, section, name, value)
            for (section, name), value in _values(input)
            if type(value) is str and value and len(value) <= LONGEST
        }
        values |= {(user, "roles", "actions", f"{action} ({each})") for each in _of_admins(input)}
        for value in values:
            self._use(value).add(seconds, example)
        if action in _DIGESTED and isinstance(image := input.get("image"), dict):
            before = self.digests.get(user, (0, 0))
            has_digest = bool(image.get("digest"))
            self.digests[user] = before[0] + has_digest, before[1] + (not has_digest)

    def _use(self, key: Use) -> Cell:
        """Return the counts of a use, new if necessary; LearnError above the limit."""
        cell = self.used.get(key)
        if cell is None:
            cell = self.used[key] = Cell()
            self._check()
        return cell

    def _check(self) -> None:
        """Raise LearnError if the log has more than `MAX_CELLS` combinations of user and value."""
        if len(self.used) + len(self.denied) > MAX_CELLS:
            raise LearnError(
                f"the log has more than {MAX_CELLS:,} combinations of a user and a value: learn "
                "from a shorter log, or from one user with --only"
            )

    def merge(self, other: Calls) -> None:
        """Add the counts of another part of the log, which is not changed. Raise LearnError if
        there are then more than `MAX_CELLS` combinations of user and value.
        """
        self.events += other.events
        self.without_input += other.without_input
        self.unreadable += other.unreadable
        for key, cell in other.used.items():
            self._use(key).merge(cell)
        for denial, number in other.denied.items():
            self.denied[denial] = self.denied.get(denial, 0) + number
        self._check()
        for user, (first, second) in other.digests.items():
            before = self.digests.get(user, (0, 0))
            self.digests[user] = before[0] + first, before[1] + second


def _values(input: Mapping[Any, Any]) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings that the shipped data have for a request, each with a value that the
    request needs. The values are as they stand in the input: None or of any type if it is not a
    usual one.
    """
    action = input.get("action")
    for image in _images(input, action):
        if image.get("name") and image.get("unresolved") is not True:
            yield ("images", "allow"), image["name"]
    yield from _of_subject(input)
    container = _object(input, "container")
    if action in ENTERING and container.get("known") is True:
        # Of a container that exists, the ports count where it is started again, as in the policies.
        yield from _of_subject(container, has_ports=action in STARTING)
    yield from ((("registries", "allow"), each) for each in _registries(input, action))
    yield from _of_limits(input)
    yield from _of_networks(input, action)
    logging = _object(input, "logging")
    yield ("logging", "drivers"), logging.get("driver")
    yield from ((("logging", "options"), each) for each in _list(logging, "options"))
    build = _object(input, "build")
    yield from ((("builds", "outputs"), each) for each in _list(build, "outputs"))
    if action == "image.build" and _is_buildkit(input):
        yield ("builds", "unlimited"), "true"
    yield ("remotes", "allow"), input.get("remote")
    if input.get("query_trusted") is False:
        yield ("queries", "unverified"), action
    for ulimit in _list(_object(input, "resources"), "ulimits"):
        if isinstance(ulimit, dict):
            yield ("ulimits", "allow"), ulimit.get("name")


def _images(input: Mapping[Any, Any], action: Any) -> Iterator[Mapping[Any, Any]]:
    """Yield the images that the shipped policies check for a request with this action, as objects
    of the input: its own (`image`, `images`), the caches of a build, and the image of a known
    container that is started.
    """
    images: list[Any] = [input.get("image")] if action in _OF_IMAGES else []
    if action in ("container.create", "image.build"):
        images += _list(input, "images")
    if action == "image.build":
        images += _list(_object(input, "build"), "cache_from")
    if action in STARTING and _object(input, "container").get("known") is True:
        images.append(_object(input, "container").get("image"))
    return (each for each in images if isinstance(each, dict))


def _registries(input: Mapping[Any, Any], action: Any) -> Iterator[Any]:
    """Yield the registries that the daemon contacts for a request, None where none is named."""
    yield input.get("registry")
    if action in _CONTACTING:
        yield _object(input, "image").get("registry")
    if action == "image.build":
        for image in _list(_object(input, "build"), "cache_from"):
            if isinstance(image, dict):
                yield image.get("registry")


def _of_subject(
    subject: Mapping[Any, Any], *, has_ports: bool = True
) -> Iterator[tuple[Setting, Any]]:
    """Yield setting and value for each mount, capability and sysctl of a created or existing
    container, for joined containers, for the runtime of a created one, and with `has_ports` for its
    published ports and their addresses outside the loopback interface. Mounts that need no setting,
    such as tmpfs, are left out.

    Values may have any type: they come from the log unchecked.
    """
    for mount in _list(subject, "mounts"):
        if not isinstance(mount, dict):
            continue
        kind = mount.get("type")
        if kind == "bind":
            folder = mount.get("clean") if mount.get("unresolved") is False else "unresolved"
            yield ("mounts", "allow"), folder
            if mount.get("resolved") != mount.get("clean"):
                yield ("mounts", "allow"), mount.get("resolved")
        elif kind == "nfs":
            yield ("mounts", "nfs"), mount.get("source")
        elif mount.get("origin") == "VolumesFrom":
            yield ("mounts", "volumes_from"), "true"
        elif kind == "volume":
            yield ("mounts", "volume_drivers"), mount.get("driver")
    security = _object(subject, "security")
    yield from ((("capabilities", "allow"), each) for each in _list(security, "cap_add"))
    yield from ((("sysctls", "allow"), each) for each in _object(security, "sysctls"))
    if "action" in subject:  # the runtime of a container that exists is the daemon's
        yield ("runtimes", "allow"), security.get("runtime")
    if _list(security, "joined_containers"):
        yield ("networks", "join_containers"), "true"
    for port in _list(_object(subject, "ports"), "published") if has_ports else ():
        if isinstance(port, dict):
            address = port.get("host_ip")
            if address not in ("", "127.0.0.1", "::1"):
                yield ("ports", "addresses"), address
            first, last = port.get("first"), port.get("last")
            if type(first) is type(last) is int and 0 < first <= last <= 65535:
                yield ("ports", "ranges"), f"{first}-{last}"


def _of_limits(input: Mapping[Any, Any]) -> Iterator[tuple[Setting, Any]]:
    """Yield the limits that a request needs, of those that the shipped policies enforce, as pairs
    of setting and value; `"0"` means unlimited.
    """
    action, resources = input.get("action"), _object(input, "resources")
    changed = {each for each in _list(resources, "changed") if type(each) is str}
    for limit in LIMITS:
        is_limited = (
            action in _CREATES
            or (action == "container.update" and changed & _CHANGES[limit])
            or (action == "image.build" and limit != "pids" and not _is_buildkit(input))
        )
        if is_limited:
            value = resources.get(limit)
            is_set = isinstance(value, (int, float)) and type(value) is not bool and value > 0
            yield ("limits", limit), to_json(value) if is_set else "0"


def _is_buildkit(input: Mapping[Any, Any]) -> bool:
    return _object(input, "build").get("buildkit") is True


def _of_networks(input: Mapping[Any, Any], action: Any) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings and values for a request's networks."""
    network = _object(input, "network")
    if action == "network.create":
        yield ("networks", "drivers"), network.get("driver")
        yield from ((("networks", "options"), each) for each in _list(network, "options"))
    yield from ((("networks", "subnets"), each) for each in _list(network, "subnets"))
    if action in _SERVICES:
        yield from ((("networks", "services"), each) for each in _list(network, "identifiers"))


def _of_admins(input: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the parts of a request that the shipped policies allow only to an admin, whatever the
    data.
    """
    security = _object(input, "security")
    if security.get("privileged") is True:
        yield "privileged"
    if _list(security, "host_namespaces"):
        yield "a namespace of the host"
    if any(security.get(each, "default") != "default" for each in _PROFILES):
        yield "another security profile"
    if _object(input, "devices").get("any") is True:
        yield "devices"


def _object(document: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _list(document: Mapping[Any, Any], name: str) -> list[Any]:
    value = document.get(name)
    return value if isinstance(value, list) else []


def _seconds(text: Any) -> int:
    """Return the seconds since the epoch of an ISO time, in local time if it has no zone; 0 if it
    is not one.
    """
    try:
        return int(datetime.fromisoformat(text).timestamp()) if type(text) is str else 0
    except (ValueError, OverflowError):
        return 0
