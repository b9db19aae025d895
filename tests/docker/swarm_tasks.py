"""The tasks of services on a private daemon that is a swarm of its own."""

from __future__ import annotations

import json
import time

from examples.docker.private_daemon import PrivateDaemon

__all__ = ["wait_for_task"]


def wait_for_task(daemon: PrivateDaemon, service: str, seconds: float) -> int:
    """Return the process of a service's task; 0 where none runs in time."""
    until = time.monotonic() + seconds
    target = "/tasks?filters=" + json.dumps({"service": {service: True}}).replace(" ", "")
    while time.monotonic() < until:
        answer = daemon.raw("GET", target)
        for task in json.loads(answer.body) or () if answer.status == 200 else ():
            status = task["Status"]
            if status["State"] == "running":
                return int((status.get("ContainerStatus") or {}).get("PID") or 0)
            if status["State"] in ("failed", "rejected", "complete"):
                return 0
        time.sleep(0.1)
    return 0
