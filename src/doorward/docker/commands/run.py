"""The words behind `docker run` or `docker create` become the body of a container to create.

The body is that of the command line's own call, with its defaults, so that a policy reads here what
it reads from the daemon; the recorded calls of a real command line are the test. An option that
reads a file of the client is refused: its content is not in the text.
"""

from __future__ import annotations

import csv
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from doorward.base.digits import parse_digits
from doorward.base.records import mutable
from doorward.docker.commands.options import CommandError, Options, Setter, read_options
from doorward.docker.commands.values import (
    read_cpus,
    read_duration,
    read_host,
    read_integer,
    read_size,
    read_ulimit,
)

__all__ = ["Container", "read_run"]

_UNSHARED: Final = ("host", "none")
_MOST_PORTS: Final = 1_000


@mutable
class Container:
    """The container that `docker run` or `docker create` makes: name, platform and request body,
    which the setters of the options fill in.
    """

    name: str = ""
    platform: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    networks: list[str] = field(default_factory=list)
    endpoint: dict[str, Any] = field(default_factory=dict)
    is_detached: bool = False
    is_interactive: bool = False
    streams: set[str] = field(default_factory=set)
    """The streams of `-a`, in small letters; empty for those that are attached by default."""

    @property
    def host(self) -> dict[str, Any]:
        """The `HostConfig` of the body, not a copy."""
        host: dict[str, Any] = self.body["HostConfig"]
        return host


def read_run(words: Sequence[str], command: str) -> Container:
    """Return the container that `docker run` or `docker create` makes with these arguments.
    `command` is its name in errors; only if it ends with `run` does `-d` detach.

    Raise CommandError for unknown options, for invalid values, and if no image is named.
    """
    container = Container(body=_defaults())
    image, *arguments = read_options(words, VALUES, SWITCHES, container, command) or [""]
    if not image:
        raise CommandError(f"`{command}` names no image: give one, such as alpine")
    body, is_run = container.body, command.endswith("run")
    body |= {"Image": image, "Cmd": arguments or None}
    # Only `docker run` has `-d`: the body of `create` attaches in any case.
    is_attached = not (container.is_detached and is_run)
    if container.streams and not is_attached:
        raise CommandError("`-a` and `-d` exclude each other: leave one out")
    streams = container.streams or {"stdout", "stderr"}
    if container.is_interactive:
        streams = {*streams, "stdin"}
    for name in ("Stdin", "Stdout", "Stderr"):
        body[f"Attach{name}"] = is_attached and name.lower() in streams
    body["StdinOnce"] = container.is_interactive and is_attached
    _set_networks(container)
    _set_capabilities(container.host)
    return container


def _defaults() -> dict[str, Any]:
    """Return a new request body with the values that `docker run` sends if no option is used."""
    texts = ("Hostname", "Domainname", "User", "WorkingDir")
    nothing = ("Env", "Entrypoint", "OnBuild")
    return {
        **dict.fromkeys(texts, ""),
        **dict.fromkeys(nothing),
        "Tty": False,
        "OpenStdin": False,
        "Volumes": {},
        "Labels": {},
        "HostConfig": _host_defaults(),
    }


def _host_defaults() -> dict[str, Any]:
    """Return a new HostConfig with the values that the docker client sends if no option is used."""
    texts = "ContainerIDFile VolumeDriver CgroupnsMode IpcMode Cgroup PidMode UTSMode UsernsMode"
    texts += " Isolation CgroupParent CpusetCpus CpusetMems"
    numbers = "OomScoreAdj ShmSize CpuShares Memory NanoCpus BlkioWeight CpuPeriod CpuQuota"
    numbers += " CpuRealtimePeriod CpuRealtimeRuntime MemoryReservation MemorySwap PidsLimit"
    numbers += " CpuCount CpuPercent IOMaximumIOps IOMaximumBandwidth"
    lists = "Dns DnsOptions DnsSearch BlkioWeightDevice BlkioDeviceReadBps BlkioDeviceWriteBps"
    lists += " BlkioDeviceReadIOps BlkioDeviceWriteIOps Devices Ulimits"
    nothing = "Binds VolumesFrom CapAdd CapDrop ExtraHosts GroupAdd Links SecurityOpt"
    nothing += " DeviceCgroupRules DeviceRequests MaskedPaths ReadonlyPaths"
    switches = "AutoRemove Privileged PublishAllPorts ReadonlyRootfs OomKillDisable"
    return {
        **dict.fromkeys(texts.split(), ""),
        **dict.fromkeys(numbers.split(), 0),
        **{name: [] for name in lists.split()},
        **dict.fromkeys(nothing.split()),
        **dict.fromkeys(switches.split(), False),
        "LogConfig": {"Type": "", "Config": {}},
        "NetworkMode": "default",
        "PortBindings": {},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "ConsoleSize": [0, 0],
        "MemorySwappiness": -1,
    }


def _endpoint_defaults() -> dict[str, Any]:
    """Return a new endpoint, the connection of a container with a network, with the values that the
    docker client sends if no option is used.
    """
    nothing = ("IPAMConfig", "Links", "Aliases", "DriverOpts", "DNSNames")
    texts = ("MacAddress", "NetworkID", "EndpointID", "Gateway", "IPAddress", "IPv6Gateway")
    numbers = ("GwPriority", "IPPrefixLen", "GlobalIPv6PrefixLen")
    addresses = dict.fromkeys((*texts, "GlobalIPv6Address"), "")
    return {**dict.fromkeys(nothing), **addresses, **dict.fromkeys(numbers, 0)}


def _set_networks(container: Container) -> None:
    """Set NetworkMode to the first network of the options, or to `default`, and EndpointsConfig to
    an endpoint for each network except `host`, `none` and `container:NAME`.

    Addresses and aliases from options are those of the first network.
    """
    names = container.networks or ["default"]
    container.host["NetworkMode"] = names[0]
    shared = [name for name in names if name not in _UNSHARED and not name.startswith("container:")]
    chosen = {names[0]: container.endpoint}
    endpoints = {name: {**_endpoint_defaults(), **chosen.get(name, {})} for name in shared}
    container.body["NetworkingConfig"] = {"EndpointsConfig": endpoints}


def _set_capabilities(host: dict[str, Any]) -> None:
    """Rewrite `CapAdd` and `CapDrop` of a HostConfig as docker's client does: full names, sorted,
    None instead of an empty list, and dropped capabilities only if they are not also added.
    """
    added = {_capability(each) for each in host["CapAdd"] or ()}
    # As docker/cli: what is added and dropped is added.
    dropped = {_capability(each) for each in host["CapDrop"] or ()} - added
    host["CapAdd"], host["CapDrop"] = sorted(added) or None, sorted(dropped) or None


def _capability(name: str) -> str:
    """Return the full name of a capability: in capitals and with `CAP_`, except `ALL`."""
    name = name.upper()
    return name if name == "ALL" or name.startswith("CAP_") else f"CAP_{name}"


def _at(container: Container, path: str) -> tuple[dict[str, Any], str]:
    """Return the object that contains a field, and the field's name. A path with a leading `/` is a
    field of HostConfig, another one of the body itself.
    """
    host, name = path.startswith("/"), path.removeprefix("/")
    return (container.host if host else container.body), name


def _put(path: str, read: Callable[[str], Any] = str) -> Setter:
    """Return a setter that stores an option's value, read by `read`, in the body's field at
    `path`.
    """

    def put(container: Container, value: str) -> None:
        part, name = _at(container, path)
        part[name] = read(value)

    return put


def _append(path: str, read: Callable[[str], Any] = str) -> Setter:
    """Return the setter of an option that may be repeated: it appends the value, read by `read`, to
    the array at `path`.
    """

    def append(container: Container, value: str) -> None:
        part, name = _at(container, path)
        part[name] = [*(part.get(name) or ()), read(value)]

    return append


def _pair(path: str) -> Setter:
    """Return the setter of a repeated option `NAME=VALUE`: it adds the pair to the object at
    `path`; without `=` the value is `""`.
    """

    def put(container: Container, value: str) -> None:
        """Add `KEY=VALUE` to the object at the path; without `=` the value is ""."""
        part, name = _at(container, path)
        key, _, text = value.partition("=")
        part[name] = {**part.get(name, {}), key: text}

    return put


def _switch(path: str) -> Setter:
    """Return a setter that sets the body's field at `path` to True."""

    def put(container: Container, _value: str) -> None:
        part, name = _at(container, path)
        part[name] = True

    return put


def _ignore(_container: Container, _value: str) -> None:
    """Do nothing: the option has its effect in the client, and the request does not change."""


def _refuse_file(_container: Container, _value: str) -> None:
    """Refuse an option that reads a file, with a CommandError."""
    raise CommandError("a file of the client is not read here: write its content into the command")


def _fields(text: str) -> list[tuple[str, str]]:
    """Split a value into pairs: `Type=bind,src=/etc` -> `[("type", "bind"), ("src", "/etc")]`.

    Names are lower-cased and stripped; a name without `=` has the value `""`. Raise CommandError if
    the text is not one line of CSV.
    """
    return [(name.strip().lower(), value) for name, value in _pairs(text)]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Split a line of CSV into pairs of name and value, with names as they are written; a name
    without `=` has the value `""`. Raise CommandError if the text is not one line of CSV.
    """
    columns = (each.partition("=") for each in _columns(text))
    return [(name, value) for name, _, value in columns]


def _columns(text: str) -> list[str]:
    """Return the columns of one line of CSV; CommandError for other texts."""
    try:
        (row,) = csv.reader([text])
    except (csv.Error, ValueError):
        raise CommandError(f"`{text}` is not one line of comma-separated fields") from None
    return row


def _put_volume(container: Container, value: str) -> None:
    """Add the value of `-v` to Binds, or to Volumes if it has no colon.

    Raise CommandError if it has one and begins with `.` or `~`: the source is relative to a folder
    of the client.
    """
    if ":" not in value:
        container.body["Volumes"] = {**container.body["Volumes"], value: {}}
        return
    # The client makes it absolute by its own folder, which nobody knows here.
    if value[:1] in (".", "~"):
        raise CommandError(f"`{value}` is relative to a folder of the client: use an absolute path")
    container.host["Binds"] = [*(container.host["Binds"] or ()), value]


def _mount(text: str) -> dict[str, Any]:
    """Return the entry of Mounts for a value of `--mount`, a volume by default.

    Raise CommandError for unknown fields, invalid values, and a text that is not one line of CSV.
    """
    mount: dict[str, Any] = {"Type": "volume"}
    for name, value in _fields(text):
        if name not in _MOUNT_FIELDS:
            raise CommandError(f"the field `{name}` is not supported: leave it out")
        _MOUNT_FIELDS[name](mount, value)
    return mount


def _mount_field(*path: str, read: Callable[[str], Any] = str) -> Setter:
    """Return a setter that stores a field of `--mount` at `path` in the entry, creating the objects
    on the way.
    """

    def put(mount: dict[str, Any], value: str) -> None:
        """Set the field of a mount at the path to the value that `read` returns."""
        part = mount
        for name in path[:-1]:
            part = part.setdefault(name, {})
        part[path[-1]] = read(value)

    return put


def _mount_option(*path: str) -> Setter:
    """Return the setter of a repeated field of `--mount`, itself `NAME=VALUE`: it adds the pair to
    the object at `path` in the entry.
    """

    def put(mount: dict[str, Any], value: str) -> None:
        """Add `KEY=VALUE` to the options of a mount at the path; without `=` the value is ""."""
        part = mount
        for name in path:
            part = part.setdefault(name, {})
        key, _, text = value.partition("=")
        part[key] = text

    return put


def _read_boolean(text: str) -> bool:
    """Return the boolean of an option: True for no text, `1` and `true`, False for `0` and `false`,
    in any case. CommandError for other texts.
    """
    if text.lower() not in ("", "1", "true", "0", "false"):
        raise CommandError(f"`{text}` is neither true nor false")
    return text.lower() in ("", "1", "true")


_DRIVER: Final = ("VolumeOptions", "DriverConfig")
_MOUNT_FIELDS: Final[Options] = {
    "type": _mount_field("Type", read=str.lower),
    **dict.fromkeys(("source", "src"), _mount_field("Source")),
    **dict.fromkeys(("target", "dst", "destination"), _mount_field("Target")),
    **dict.fromkeys(("readonly", "ro"), _mount_field("ReadOnly", read=_read_boolean)),
    "consistency": _mount_field("Consistency", read=str.lower),
    "bind-propagation": _mount_field("BindOptions", "Propagation", read=str.lower),
    "bind-nonrecursive": _mount_field("BindOptions", "NonRecursive", read=_read_boolean),
    "volume-subpath": _mount_field("VolumeOptions", "Subpath"),
    "volume-nocopy": _mount_field("VolumeOptions", "NoCopy", read=_read_boolean),
    "volume-label": _mount_option("VolumeOptions", "Labels"),
    "volume-driver": _mount_field(*_DRIVER, "Name"),
    "volume-opt": _mount_option(*_DRIVER, "Options"),
    "image-subpath": _mount_field("ImageOptions", "Subpath"),
    "tmpfs-size": _mount_field("TmpfsOptions", "SizeBytes", read=read_size),
    "tmpfs-mode": _mount_field("TmpfsOptions", "Mode", read=lambda text: _read_octal(text)),
}


def _read_octal(text: str) -> int:
    """Return the number of an octal text, as for a file's mode. CommandError if it is not one."""
    try:
        return int(text, 8)
    except ValueError:
        raise CommandError(f"`{text}` is not an octal mode, such as 1777") from None


def _put_tmpfs(container: Container, value: str) -> None:
    path, _, options = value.partition(":")
    container.host["Tmpfs"] = {**container.host.get("Tmpfs", {}), path: options}


def _port_range(text: str) -> range:
    """Return the ports of `8000` or `8000-8005`, both ends included.

    Raise CommandError for other forms and for more than `_MOST_PORTS` ports.
    """
    first, dash, last = text.partition("-")
    low, high = parse_digits(first), parse_digits(last if dash else first)
    if low is None or high is None:
        raise CommandError(f"`{text}` is not a port: write it as 8000 or 8000-8005")
    ports = range(low, high + 1)
    if not 0 < len(ports) <= _MOST_PORTS:
        raise CommandError(f"`{text}` is not a range of 1 to {_MOST_PORTS} ports")
    return ports


def _put_port(container: Container, value: str) -> None:
    """Publish the ports of `[ADDRESS:][HOST:]CONTAINER[/PROTOCOL]`; an IPv6 address is in brackets,
    and the protocol is tcp by default.

    Host and container may be ranges of the same length; one container port may have a range of host
    ports, of which the daemon takes a free one. Raise CommandError for ranges of different lengths,
    and for other forms.
    """
    if "=" in value:
        raise CommandError(
            f"`{value}` has fields with names, which is not supported: write it as 8080:80"
        )
    numbers, _, protocol = value.partition("/")
    left, _, inner = numbers.rpartition(":")
    address, _, outer = left.rpartition(":")
    ports, outers = _port_range(inner), _port_range(outer) if outer else None
    if outers is not None and len(outers) != len(ports) and len(ports) > 1:
        raise CommandError(
            f"`{value}` has host ports and container ports in ranges of different lengths"
        )
    bindings = container.host["PortBindings"]
    for index, port in enumerate(ports):
        name = f"{port}/{protocol or 'tcp'}"
        if outers is None:
            host_port = ""
        elif len(outers) == len(ports):
            host_port = str(outers[index])
        else:
            host_port = outer
        binding = {"HostIp": address.strip("[]"), "HostPort": host_port}
        container.body.setdefault("ExposedPorts", {})[name] = {}
        bindings[name] = [*bindings.get(name, ()), binding]


def _expose(container: Container, value: str) -> None:
    """Add the exposed ports `80`, `80-90` or `80/udp`; the protocol is tcp by default. CommandError
    for other forms.
    """
    ports, _, protocol = value.partition("/")
    for port in _port_range(ports):
        container.body.setdefault("ExposedPorts", {})[f"{port}/{protocol or 'tcp'}"] = {}


def _put_security(container: Container, value: str) -> None:
    """Add a value of `--security-opt`; `systempaths=unconfined` empties the masked and read-only
    paths instead. CommandError for a seccomp profile in a file.
    """
    host = container.host
    if value == "systempaths=unconfined":
        host["MaskedPaths"], host["ReadonlyPaths"] = [], []
        return
    name, _, option = value.partition("=")
    if name == "seccomp" and option not in ("unconfined", "builtin"):
        _refuse_file(container, value)
    host["SecurityOpt"] = [*(host["SecurityOpt"] or ()), value]


def _attach(container: Container, value: str) -> None:
    """Add a stream of `--attach`, in any case. CommandError for another than the three."""
    stream = value.lower()
    if stream not in ("stdin", "stdout", "stderr"):
        raise CommandError(f"`{value}` is not a stream: write stdin, stdout or stderr")
    container.streams.add(stream)


def _device(text: str) -> dict[str, str]:
    """Return the device of `HOST[:CONTAINER][:PERMISSIONS]`; by default the same path and `rwm`. A
    last part of the letters r, w and m alone, each at most once, is the permissions.

    Raise CommandError if the path in the container is not absolute, and for other forms.
    """
    outer, *others = text.split(":")
    rights = others.pop() if others and _is_permissions(others[-1]) else "rwm"
    if not outer or len(others) > 1:
        raise CommandError(
            f"`{text}` is not HOST:CONTAINER:PERMISSIONS, with permissions of the letters r, w and "
            "m, each at most once"
        )
    inner = others[0] if others else outer
    if not inner.startswith("/"):
        raise CommandError(f"the path `{inner}` of the device is not absolute: write it from `/`")
    # docker/cli cleans the last path, unless all three parts are there.
    if text.count(":") < 2:
        inner = "/" + posixpath.normpath(inner).lstrip("/")
        outer = outer if others else inner
    return {"PathOnHost": outer, "PathInContainer": inner, "CgroupPermissions": rights}


def _is_permissions(text: str) -> bool:
    """Return True for a text of the letters r, w and m, each at most once and at least one."""
    return 0 < len(text) == len(set(text)) and set(text) <= set("rwm")


def _rate(read: Callable[[str], int]) -> Callable[[str], dict[str, Any]]:
    """Return a reader of `PATH:RATE`, the limit of one device, as `{"Path": …, "Rate": …}`. `read`
    reads the rate, and its errors pass through. The reader raises CommandError without a path.
    """

    def rate(text: str) -> dict[str, Any]:
        path, number = _split_device(text)
        return {"Path": path, "Rate": read(number)}

    return rate


def _read_weight(text: str) -> dict[str, Any]:
    """Read `PATH:WEIGHT`, the weight of one device. CommandError for another form, and if the
    weight is not an integer.
    """
    path, number = _split_device(text)
    return {"Path": path, "Weight": read_integer(number)}


def _split_device(text: str) -> tuple[str, str]:
    """Return the two parts of `PATH:VALUE`; CommandError if the path or the colon is missing."""
    path, _, value = text.rpartition(":")
    if not path:
        raise CommandError(f"`{text}` is not DEVICE:VALUE, such as /dev/sda:100")
    return path, value


def _gpus(text: str) -> dict[str, Any]:
    """Return the device request of `--gpus`, a line of CSV with a count alone (also `all`) or the
    fields `count=N`, `driver=x`, `capabilities=x`, `options=NAME=VALUE` and `"device=ID,ID"`, those
    with commas in quotes. The count -1 means all; it is 1 if neither a count nor devices are given.

    Raise CommandError for a count that is not an integer, for a name that is unknown or is there
    twice, and for a text that is not one line of CSV.
    """
    request: dict[str, Any] = {"Driver": "", "Count": 0, "DeviceIDs": None, "Options": {}}
    request["Capabilities"] = [["gpu"]]
    names: set[str] = set()
    for column in _columns(text) or [""]:
        name, equals, value = column.partition("=")
        if not equals:
            name, value = "count", column
        if name not in _GPU_FIELDS:
            raise CommandError(
                f"the field `{name}` is unknown: use one of {', '.join(sorted(_GPU_FIELDS))}"
            )
        if name in names:
            raise CommandError(f"the field `{name}` is repeated: write it once")
        names.add(name)
        member, read = _GPU_FIELDS[name]
        request[member] = read(value)
    # As in docker/cli, which asks for one device where neither a count nor devices are named.
    return request if names & {"count", "device"} else request | {"Count": 1}


_GPU_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "capabilities": ("Capabilities", lambda text: [[*text.split(","), "gpu"]]),
    "count": ("Count", lambda text: -1 if text == "all" else read_integer(text)),
    "device": ("DeviceIDs", lambda text: text.split(",")),
    "driver": ("Driver", str),
    "options": ("Options", lambda text: dict(_pairs(text))),
}
"""The member of a device request that each field of `--gpus` sets, and how its value is read."""


def _read_restart(text: str) -> dict[str, Any]:
    """Read `NAME` or `NAME:RETRIES`, a restart policy. CommandError if the retries are not an
    integer.
    """
    name, _, count = text.partition(":")
    return {"Name": name, "MaximumRetryCount": read_integer(count) if count else 0}


def _health(text: str) -> dict[str, Any]:
    """Return the health check that runs a text in a shell."""
    return {"Test": ["CMD-SHELL", text]}


def _put_health(name: str, read: Callable[[str], Any]) -> Setter:
    """Return the setter of an option of the health check: it sets the field `name` to what `read`
    returns.
    """

    def put(container: Container, value: str) -> None:
        container.body["Healthcheck"] = {**container.body.get("Healthcheck", {}), name: read(value)}

    return put


def _put_network(container: Container, value: str) -> None:
    """Add the network of `--network NAME` or `name=NAME`. CommandError for any other field, and for
    a text that is not one line of CSV.
    """
    fields = dict(_fields(value)) if "=" in value else {"name": value}
    if set(fields) != {"name"}:
        raise CommandError("only the field `name` is supported: leave the other fields out")
    container.networks.append(fields["name"])


def _put_endpoint(name: str, *, is_list: bool = False) -> Setter:
    """Return a setter that stores an option's value in the first network's endpoint or, with
    `is_list`, appends it to a list there.
    """

    def put(container: Container, value: str) -> None:
        endpoint = container.endpoint
        endpoint[name] = [*endpoint.get(name, ()), value] if is_list else value

    return put


def _put_address(name: str) -> Setter:
    """Return a setter that stores an address of the first network's endpoint in its IPAMConfig, as
    the only item of a list for `LinkLocalIPs`.
    """

    def put(container: Container, value: str) -> None:
        addresses = container.endpoint.setdefault("IPAMConfig", {})
        addresses[name] = [value] if name == "LinkLocalIPs" else value

    return put


def _put_mac_address(container: Container, value: str) -> None:
    container.body["MacAddress"] = container.endpoint["MacAddress"] = value


def _put_log(name: str) -> Setter:
    """Return a setter for the log driver (`name` is `Type`) or for one `KEY=VALUE` of its
    options.
    """

    def put(container: Container, value: str) -> None:
        """Store the log driver (`name` is `Type`), or else one `KEY=VALUE` option; the value is
        empty without `=`.
        """
        config = container.host["LogConfig"]
        if name == "Type":
            config["Type"] = value
            return
        key, _, text = value.partition("=")
        config["Config"][key] = text

    return put


def _put_name(container: Container, value: str) -> None:
    container.name = value


def _put_platform(container: Container, value: str) -> None:
    container.platform = value


def _detach(container: Container, _value: str) -> None:
    container.is_detached = True


def _be_interactive(container: Container, _value: str) -> None:
    container.is_interactive = container.body["OpenStdin"] = True


def _disable_health_check(container: Container, _value: str) -> None:
    """Switch the image's health check off."""
    container.body["Healthcheck"] = {"Test": ["NONE"]}


def _entry_point(text: str) -> list[str]:
    """Return the entry point of one word: the client does not split it."""
    return [text]


VALUES: Final[Options] = {
    "--add-host": _append("/ExtraHosts", read_host),
    "--annotation": _pair("/Annotations"),
    **dict.fromkeys(("-a", "--attach"), _attach),
    "--blkio-weight": _put("/BlkioWeight", read_integer),
    "--blkio-weight-device": _append("/BlkioWeightDevice", _read_weight),
    "--cap-add": _append("/CapAdd"),
    "--cap-drop": _append("/CapDrop"),
    "--cgroup-parent": _put("/CgroupParent"),
    "--cgroupns": _put("/CgroupnsMode"),
    "--cidfile": _put("/ContainerIDFile"),
    "--cpu-count": _put("/CpuCount", read_integer),
    "--cpu-percent": _put("/CpuPercent", read_integer),
    "--cpu-period": _put("/CpuPeriod", read_integer),
    "--cpu-quota": _put("/CpuQuota", read_integer),
    "--cpu-rt-period": _put("/CpuRealtimePeriod", read_integer),
    "--cpu-rt-runtime": _put("/CpuRealtimeRuntime", read_integer),
    **dict.fromkeys(("-c", "--cpu-shares"), _put("/CpuShares", read_integer)),
    "--cpus": _put("/NanoCpus", read_cpus),
    "--cpuset-cpus": _put("/CpusetCpus"),
    "--cpuset-mems": _put("/CpusetMems"),
    "--detach-keys": _ignore,
    "--device": _append("/Devices", _device),
    "--device-cgroup-rule": _append("/DeviceCgroupRules"),
    "--device-read-bps": _append("/BlkioDeviceReadBps", _rate(read_size)),
    "--device-read-iops": _append("/BlkioDeviceReadIOps", _rate(read_integer)),
    "--device-write-bps": _append("/BlkioDeviceWriteBps", _rate(read_size)),
    "--device-write-iops": _append("/BlkioDeviceWriteIOps", _rate(read_integer)),
    "--dns": _append("/Dns"),
    **dict.fromkeys(("--dns-opt", "--dns-option"), _append("/DnsOptions")),
    "--dns-search": _append("/DnsSearch"),
    "--domainname": _put("Domainname"),
    "--entrypoint": _put("Entrypoint", _entry_point),
    **dict.fromkeys(("-e", "--env"), _append("Env")),
    "--env-file": _refuse_file,
    "--expose": _expose,
    "--gpus": _append("/DeviceRequests", _gpus),
    "--group-add": _append("/GroupAdd"),
    "--health-cmd": _put_health("Test", lambda text: _health(text)["Test"]),
    "--health-interval": _put_health("Interval", read_duration),
    "--health-retries": _put_health("Retries", read_integer),
    "--health-start-interval": _put_health("StartInterval", read_duration),
    "--health-start-period": _put_health("StartPeriod", read_duration),
    "--health-timeout": _put_health("Timeout", read_duration),
    **dict.fromkeys(("-h", "--hostname"), _put("Hostname")),
    "--ip": _put_address("IPv4Address"),
    "--ip6": _put_address("IPv6Address"),
    "--ipc": _put("/IpcMode"),
    "--isolation": _put("/Isolation"),
    **dict.fromkeys(("-l", "--label"), _pair("Labels")),
    "--label-file": _refuse_file,
    "--link": _append("/Links"),
    "--link-local-ip": _put_address("LinkLocalIPs"),
    "--log-driver": _put_log("Type"),
    "--log-opt": _put_log("Config"),
    "--mac-address": _put_mac_address,
    **dict.fromkeys(("-m", "--memory"), _put("/Memory", read_size)),
    "--memory-reservation": _put("/MemoryReservation", read_size),
    "--memory-swap": _put("/MemorySwap", read_size),
    "--memory-swappiness": _put("/MemorySwappiness", read_integer),
    "--mount": _append("/Mounts", _mount),
    "--name": _put_name,
    **dict.fromkeys(("--net", "--network"), _put_network),
    **dict.fromkeys(("--net-alias", "--network-alias"), _put_endpoint("Aliases", is_list=True)),
    "--oom-score-adj": _put("/OomScoreAdj", read_integer),
    "--pid": _put("/PidMode"),
    "--pids-limit": _put("/PidsLimit", read_integer),
    "--platform": _put_platform,
    **dict.fromkeys(("-p", "--publish"), _put_port),
    "--pull": _ignore,
    "--restart": _put("/RestartPolicy", _read_restart),
    "--runtime": _put("/Runtime"),
    "--security-opt": _put_security,
    "--shm-size": _put("/ShmSize", read_size),
    "--stop-signal": _put("StopSignal"),
    "--stop-timeout": _put("StopTimeout", read_integer),
    "--storage-opt": _pair("/StorageOpt"),
    "--sysctl": _pair("/Sysctls"),
    "--tmpfs": _put_tmpfs,
    "--ulimit": _append("/Ulimits", read_ulimit),
    **dict.fromkeys(("-u", "--user"), _put("User")),
    "--userns": _put("/UsernsMode"),
    "--uts": _put("/UTSMode"),
    **dict.fromkeys(("-v", "--volume"), _put_volume),
    "--volume-driver": _put("/VolumeDriver"),
    "--volumes-from": _append("/VolumesFrom"),
    **dict.fromkeys(("-w", "--workdir"), _put("WorkingDir")),
}
"""The options of `docker run` with a value; `/` marks a field of the host's part of the body."""

SWITCHES: Final[Options] = {
    **dict.fromkeys(("-d", "--detach"), _detach),
    "--disable-content-trust": _ignore,
    **dict.fromkeys(("-i", "--interactive"), _be_interactive),
    "--init": _switch("/Init"),
    "--no-healthcheck": _disable_health_check,
    "--oom-kill-disable": _switch("/OomKillDisable"),
    "--privileged": _switch("/Privileged"),
    **dict.fromkeys(("-P", "--publish-all"), _switch("/PublishAllPorts")),
    **dict.fromkeys(("-q", "--quiet"), _ignore),
    "--read-only": _switch("/ReadonlyRootfs"),
    "--rm": _switch("/AutoRemove"),
    "--sig-proxy": _ignore,
    **dict.fromkeys(("-t", "--tty"), _switch("Tty")),
}
"""Its options without a value."""
