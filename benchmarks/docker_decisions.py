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
from collections.abc import Callable, Sequence
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
_LISTS = (
    "Dns", "DnsOptions", "DnsSearch", "BlkioWeightDevice", "BlkioDeviceReadBps",
    "BlkioDeviceWriteBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteIOps", "Devices", "Ulimits",
)  # fmt: skip
_NULLS = (
    "Binds", "VolumesFrom", "CapAdd", "CapDrop", "ExtraHosts", "GroupAdd", "Links", "SecurityOpt",
    "DeviceCgroupRules", "DeviceRequests", "MaskedPaths", "ReadonlyPaths",
)  # fmt: skip
_TEXTS = (
    "ContainerIDFile", "VolumeDriver", "CgroupnsMode", "IpcMode", "Cgroup", "PidMode", "UTSMode",
    "UsernsMode", "Isolation", "CgroupParent", "CpusetCpus", "CpusetMems",
)  # fmt: skip
_NUMBERS = (
    "OomScoreAdj", "ShmSize", "CpuShares", "Memory", "NanoCpus", "BlkioWeight", "CpuPeriod",
    "CpuQuota", "CpuRealtimePeriod", "CpuRealtimeRuntime", "MemoryReservation", "MemorySwap",
    "PidsLimit", "CpuCount", "CpuPercent", "IOMaximumIOps", "IOMaximumBandwidth",
)  # fmt: skip
_FLAGS = ("Privileged", "PublishAllPorts", "ReadonlyRootfs", "OomKillDisable")
T = TypeVar("T")


class Silent(ContainerFacts):
    """Asks nothing: what a question takes is the daemon's."""

    def join(self, view: dict[str, Any], *, may_wait: bool = True) -> None:
        pass


def write_call(number: int, *, bind: bool) -> bytes:
    """What the daemon asks about the `number`th container."""
    host: dict[str, Any] = {
        **dict.fromkeys(_NULLS),
        **{name: [] for name in _LISTS},
        **dict.fromkeys(_TEXTS, ""),
        **dict.fromkeys(_NUMBERS, 0),
        **dict.fromkeys(_FLAGS, False),
        "LogConfig": {"Type": "", "Config": {}},
        "NetworkMode": "default",
        "PortBindings": {},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": True,
        "ConsoleSize": [0, 0],
        "MemorySwappiness": -1,
    }
    if bind:
        host["Binds"] = [f"{FOLDER}/p{number}/data:/data:ro"]
    body = {
        **dict.fromkeys(("Hostname", "Domainname", "User", "WorkingDir"), ""),
        **dict.fromkeys(("AttachStdin", "Tty", "OpenStdin", "StdinOnce"), False),
        **dict.fromkeys(("Env", "Entrypoint", "OnBuild")),
        "AttachStdout": True,
        "AttachStderr": True,
        "Cmd": ["serve", str(number)],
        "Image": f"team{number % 7}/app-{number}:1.{number % 10}",
        "Volumes": {},
        "Labels": {},
        "HostConfig": host,
        "NetworkingConfig": {"EndpointsConfig": {"default": {"IPAMConfig": None, "Links": None}}},
    }
    text = json.dumps(body, separators=(",", ":")).encode()
    call = {
        "User": "alice",
        "UserAuthNMethod": "TLS",
        "RequestMethod": "POST",
        "RequestUri": f"/v1.41/containers/create?name=app-{number}",
        "RequestBody": base64.b64encode(text).decode(),
        "RequestHeaders": {"Content-Length": str(len(text)), "Content-Type": "application/json"},
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
