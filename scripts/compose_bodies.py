"""The services of docker/awesome-compose as the bodies that compose sends to create them.

    scripts/compose_bodies.py GIT_DIRECTORY > tests/docker/data/compose.json

Each row has the project, the service, whether it is built first, and the body: folders of the
project are below `/home/dev/PROJECT`, its volumes and networks have the project's name before
theirs. What is not needed to decide (labels with hashes, descriptions) is left out. The repository
is in the public domain (CC0).
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml

_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}]*))?\}?")
_HOME: Final = "/home/dev"


def _git(repository: str, *words: str) -> str:
    command = ["git", f"--git-dir={repository}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def read_projects(repository: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each project with its compose file."""
    for path in _git(repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines():
        if posixpath.basename(path) in ("compose.yaml", "compose.yml", "docker-compose.yaml"):
            document = yaml.safe_load(_git(repository, "show", f"HEAD:{path}"))
            if isinstance(document, dict) and document.get("services"):
                yield posixpath.dirname(path).replace("/", "-"), document


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return _VARIABLE.sub(lambda match: match[2] or match[1].lower(), text).replace("$$", "$")


def _pairs(value: Any) -> list[str]:
    """An environment or labels as `key=value`."""
    if isinstance(value, dict):
        return [f"{key}={_text(item)}" if item is not None else key for key, item in value.items()]
    return [_text(item) for item in value or ()]


def _words(value: Any) -> list[str] | None:
    if value is None:
        return None
    return _text(value).split() if isinstance(value, str) else [_text(item) for item in value]


def _source(project: str, source: str) -> str:
    if source.startswith("~"):
        return f"{_HOME}{source[1:]}"
    return posixpath.normpath(posixpath.join(f"{_HOME}/{project}", source))


def _volumes(project: str, given: list[Any], host: dict[str, Any], config: dict[str, Any]) -> None:
    for each in given:
        if isinstance(each, dict):
            kind = each.get("type", "volume")
            source = _text(each.get("source", ""))
            source = (
                f"{project}_{source}" if kind == "volume" and source else _source(project, source)
            )
            mount = {"Type": kind, "Source": source, "Target": each["target"]}
            host.setdefault("Mounts", []).append(mount)
            continue
        parts = _text(each).split(":")
        if len(parts) == 1:
            config.setdefault("Volumes", {})[parts[0]] = {}
            continue
        source, target, mode = parts[0], parts[1], (parts[2] if len(parts) > 2 else "rw")
        if source[:1] in "./~":
            source = _source(project, source)
        else:
            source = f"{project}_{source}"
        host.setdefault("Binds", []).append(f"{source}:{target}:{mode}")


def _ports(given: list[Any], host: dict[str, Any], config: dict[str, Any]) -> None:
    for each in given:
        if isinstance(each, dict):
            target, published = str(each["target"]), str(each.get("published", ""))
            key, address = f"{target}/{each.get('protocol', 'tcp')}", each.get("host_ip", "")
        else:
            text, _, protocol = _text(each).partition("/")
            *rest, target = text.split(":")
            published = rest[-1] if rest else ""
            address = rest[0] if len(rest) > 1 else ""
            key = f"{target}/{protocol or 'tcp'}"
        config.setdefault("ExposedPorts", {})[key] = {}
        binding = {"HostIp": address, "HostPort": published}
        host.setdefault("PortBindings", {}).setdefault(key, []).append(binding)


def to_body(project: str, document: dict[str, Any], name: str) -> dict[str, Any]:
    """The body with which compose creates the first container of a service."""
    service = document["services"][name]
    image = _text(service.get("image") or f"{project}-{name}")
    config: dict[str, Any] = {
        "Hostname": service.get("hostname", ""),
        "Domainname": "",
        "User": _text(service.get("user", "")),
        "AttachStdin": False,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": bool(service.get("tty")),
        "OpenStdin": bool(service.get("stdin_open")),
        "StdinOnce": False,
        "Env": _pairs(service.get("environment")) or None,
        "Cmd": _words(service.get("command")),
        "Image": image,
        "Volumes": {},
        "WorkingDir": service.get("working_dir", ""),
        "Entrypoint": _words(service.get("entrypoint")),
        "OnBuild": None,
        "Labels": {
            "com.docker.compose.project": project,
            "com.docker.compose.service": name,
            "com.docker.compose.project.working_dir": f"{_HOME}/{project}",
            **dict(each.partition("=")[::2] for each in _pairs(service.get("labels"))),
        },
    }
    if service.get("stop_signal"):
        config["StopSignal"] = service["stop_signal"]
    if service.get("healthcheck"):
        test = service["healthcheck"].get("test")
        words = ["CMD-SHELL", test] if isinstance(test, str) else test
        config["Healthcheck"] = {"Test": [_text(each) for each in words or ()], "Interval": 10**10}
    networks = service.get("networks") or ["default"]
    attached = [f"{project}_{each}" for each in networks]
    mode = service.get("network_mode") or attached[0]
    restart = _text(service.get("restart", "no"))
    host: dict[str, Any] = {
        "Binds": None,
        "ContainerIDFile": "",
        "LogConfig": {"Type": "", "Config": None},
        "NetworkMode": mode,
        "PortBindings": {},
        "RestartPolicy": {"Name": restart, "MaximumRetryCount": 0},
        "AutoRemove": False,
        "VolumeDriver": "",
        "VolumesFrom": None,
        "ConsoleSize": [0, 0],
        "CapAdd": service.get("cap_add"),
        "CapDrop": service.get("cap_drop"),
        "CgroupnsMode": "",
        "Dns": None,
        "DnsOptions": None,
        "DnsSearch": None,
        "ExtraHosts": service.get("extra_hosts") or [],
        "GroupAdd": None,
        "IpcMode": service.get("ipc", ""),
        "Cgroup": "",
        "Links": None,
        "OomScoreAdj": 0,
        "PidMode": "",
        "Privileged": bool(service.get("privileged")),
        "PublishAllPorts": False,
        "ReadonlyRootfs": False,
        "SecurityOpt": None,
        "UTSMode": "",
        "UsernsMode": "",
        "ShmSize": 0,
        "Runtime": service.get("runtime", ""),
        "Isolation": "",
        "CpuShares": 0,
        "Memory": 0,
        "NanoCpus": 0,
        "CgroupParent": "",
        "BlkioWeight": 0,
        "BlkioWeightDevice": None,
        "Devices": None,
        "DeviceRequests": None,
        "MemorySwap": 0,
        "OomKillDisable": False,
        "PidsLimit": None,
        "Ulimits": None,
        "MaskedPaths": None,
        "ReadonlyPaths": None,
    }
    sysctls = service.get("sysctls")
    if sysctls:
        pairs = [each.partition("=") for each in _pairs(sysctls)]
        host["Sysctls"] = {key: value for key, _, value in pairs}
    limits = ((service.get("deploy") or {}).get("resources") or {}).get("limits") or {}
    if limits.get("pids"):
        host["PidsLimit"] = limits["pids"]
    volumes = service.get("volumes") or []
    host["Binds"] = []
    _volumes(project, volumes, host, config)
    for secret in service.get("secrets") or ():
        source = secret if isinstance(secret, str) else secret["source"]
        file = (document.get("secrets") or {}).get(source, {}).get("file", f"./{source}")
        mount = {
            "Type": "bind",
            "Source": _source(project, _text(file)),
            "Target": f"/run/secrets/{source}",
            "ReadOnly": True,
        }
        host.setdefault("Mounts", []).append(mount)
    _ports(service.get("ports") or [], host, config)
    for port in service.get("expose") or ():
        config.setdefault("ExposedPorts", {})[f"{port}/tcp"] = {}
    container = service.get("container_name") or f"{project}-{name}-1"
    endpoints = {} if service.get("network_mode") else {attached[0]: {"Aliases": [container, name]}}
    return {**config, "HostConfig": host, "NetworkingConfig": {"EndpointsConfig": endpoints}}


def main() -> None:
    rows = [
        {
            "project": project,
            "service": name,
            "built": "build" in document["services"][name],
            "name": document["services"][name].get("container_name", f"{project}-{name}-1"),
            "body": to_body(project, document, name),
        }
        for project, document in read_projects(sys.argv[1])
        for name in document["services"]
    ]
    json.dump(rows, sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
