"""The processor time of a decision on `docker run`, each with another name and image.

Bodies are as the client of docker 28 sends them. Host paths are not followed and the daemon is not
asked: both depend on the host. Prints microseconds of processor time, the 10th percentile of
hundreds of calls, for the parts and the whole: `python -m benchmarks.docker_decisions [CALLS]`.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from doorward.docker.audit import AuditLog
from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.plugin import Plugin
from doorward.docker.request.call import parse_request
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.input import to_input

CALLS = 3000
PIECE = 100
PATH = "/AuthZPlugin.AuthZReq"
FOLDER = "/srv/projects"
_HOST = {
    "Binds": None,
    "ContainerIDFile": "",
    "LogConfig": {"Type": "", "Config": {}},
    "NetworkMode": "default",
    "PortBindings": {},
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "AutoRemove": True,
    "VolumeDriver": "",
    "VolumesFrom": None,
    "ConsoleSize": [0, 0],
    **dict.fromkeys(("CapAdd", "CapDrop")),
    "CgroupnsMode": "",
    **{name: [] for name in ("Dns", "DnsOptions", "DnsSearch")},
    **dict.fromkeys(("ExtraHosts", "GroupAdd")),
    **dict.fromkeys(("IpcMode", "Cgroup"), ""),
    "Links": None,
    "OomScoreAdj": 0,
    "PidMode": "",
    **dict.fromkeys(("Privileged", "PublishAllPorts", "ReadonlyRootfs"), False),
    "SecurityOpt": None,
    **dict.fromkeys(("UTSMode", "UsernsMode"), ""),
    "ShmSize": 0,
    "Isolation": "",
    **dict.fromkeys(("CpuShares", "Memory", "NanoCpus"), 0),
    "CgroupParent": "",
    "BlkioWeight": 0,
    **{
        f"Blkio{name}": []
        for name in (
            "WeightDevice", "DeviceReadBps", "DeviceWriteBps", "DeviceReadIOps", "DeviceWriteIOps",
        )
    },
    **dict.fromkeys(("CpuPeriod", "CpuQuota", "CpuRealtimePeriod", "CpuRealtimeRuntime"), 0),
    **dict.fromkeys(("CpusetCpus", "CpusetMems"), ""),
    "Devices": [],
    **dict.fromkeys(("DeviceCgroupRules", "DeviceRequests")),
    **dict.fromkeys(("MemoryReservation", "MemorySwap"), 0),
    "MemorySwappiness": -1,
    "OomKillDisable": False,
    "PidsLimit": 0,
    "Ulimits": [],
    **dict.fromkeys(("CpuCount", "CpuPercent", "IOMaximumIOps", "IOMaximumBandwidth"), 0),
    **dict.fromkeys(("MaskedPaths", "ReadonlyPaths")),
}  # fmt: skip
_ENDPOINT = {
    **dict.fromkeys(("IPAMConfig", "Links", "Aliases")),
    "MacAddress": "",
    "DriverOpts": None,
    "GwPriority": 0,
    **dict.fromkeys(("NetworkID", "EndpointID", "Gateway", "IPAddress"), ""),
    "IPPrefixLen": 0,
    **dict.fromkeys(("IPv6Gateway", "GlobalIPv6Address"), ""),
    "GlobalIPv6PrefixLen": 0,
    "DNSNames": None,
}
T = TypeVar("T")


class Silent(ContainerFacts):
    """Asks nothing: what a question takes is the daemon's."""

    def join(self, view: dict[str, Any], *, may_wait: bool = True) -> None:
        pass


def write_body(
    number: int, *, binds: Any, config: Mapping[str, Any], host: Mapping[str, Any]
) -> bytes:
    """The body for the `number`th container, with these fields in place of the client's."""
    body = {
        **dict.fromkeys(("Hostname", "Domainname", "User"), ""),
        "AttachStdin": False,
        **dict.fromkeys(("AttachStdout", "AttachStderr"), True),
        **dict.fromkeys(("Tty", "OpenStdin", "StdinOnce"), False),
        "Env": None,
        "Cmd": ["serve", str(number)],
        "Image": f"team{number % 7}/app-{number}:1.{number % 10}",
        "Volumes": {},
        "WorkingDir": "",
        **dict.fromkeys(("Entrypoint", "OnBuild")),
        "Labels": {},
        **config,
        "HostConfig": {**_HOST, "Binds": binds, **host},
        "NetworkingConfig": {"EndpointsConfig": {"default": _ENDPOINT}},
    }
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def write_call(number: int, *, bind: bool) -> bytes:
    """What the daemon asks about the `number`th container."""
    binds = [f"{FOLDER}/p{number}/data:/data:ro"] if bind else None
    text = write_body(number, binds=binds, config={}, host={})
    call = {
        "User": "alice",
        "UserAuthNMethod": "TLS",
        "RequestMethod": "POST",
        "RequestUri": f"/v1.41/containers/create?name=app-{number}",
        "RequestBody": base64.b64encode(text).decode(),
        "RequestHeaders": {
            "Content-Length": str(len(text)),
            "Content-Type": "application/json",
            "User-Agent": "Docker-Client/28.2.2 (linux)",
        },
    }
    return json.dumps(call, separators=(",", ":")).encode()


def measure(name: str, work: Callable[[Any], T], values: Sequence[Any]) -> list[T]:
    """Print what `work` takes for one of the values, and give its results."""
    times, results = [], []
    for start in range(0, len(values), PIECE):
        piece = values[start : start + PIECE]
        begun = time.process_time()
        results += [work(each) for each in piece]
        times.append((time.process_time() - begun) / len(piece) * 1e6)
    print(f"  {name:28} {sorted(times)[len(times) // 10]:6.1f}")
    return results


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    folder = Path(tempfile.mkdtemp(prefix="dw-bench-")) / "docker"
    shutil.copytree(PACK, folder)
    data = json.loads((folder / "data.json").read_text())
    data["docker"]["users"] = {"alice": ["developer"]}
    data["docker"]["mounts"]["allow"] = [FOLDER]
    (folder / "data.json").write_text(json.dumps(data))
    pdp = EmbeddedPdp([str(folder)], watch=False)
    plugin = Plugin(pdp, audit=AuditLog(os.devnull), resolve=str, facts=Silent("", str))
    for bind in (False, True):
        print("with a bind mount" if bind else "without a mount")
        calls = [write_call(number, bind=bind) for number in range(count)]
        gc.collect()
        requests = measure("read the call", parse_request, calls)
        inputs = measure("make the input", lambda each: to_input(each, resolve=str), requests)
        measure("decide", pdp.decide, [{**each, "inspects": True} for each in inputs])
        measure("the whole, with its line", lambda each: plugin.answer(PATH, each), calls)
    pdp.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
