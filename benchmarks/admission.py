"""Measured admissions: a container that Docker is to create, and a pod of thirty kilobytes."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import baselines
from benchmarks.case import Case, policy

__all__ = ["docker", "kubernetes"]

DIGEST = "0123456789abcdef" * 4
POD_SIZE = 30_000


def docker() -> Case:
    host = {
        "Binds": ["/srv/data:/data", "/srv/logs:/logs:ro", "cache:/cache"],
        "Mounts": [
            {"Type": "bind", "Source": "/srv/app", "Target": "/app"},
            {"Type": "volume", "Source": "state", "Target": "/state"},
        ],
        "Memory": 512 << 20,
        "MemorySwap": 512 << 20,
        "NanoCpus": 2_000_000_000,
        "PidsLimit": 200,
        "CapAdd": ["NET_BIND_SERVICE", "CHOWN"],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Devices": [],
        "Sysctls": {"net.core.somaxconn": "1024"},
        "PortBindings": {
            "8080/tcp": [{"HostIp": "", "HostPort": "18080"}],
            "9090/tcp": [{"HostIp": "", "HostPort": "19090"}],
        },
        "NetworkMode": "backend",
        "PidMode": "",
        "IpcMode": "private",
        "UTSMode": "",
        "UsernsMode": "",
        "CgroupnsMode": "private",
        "CgroupParent": "",
        "Privileged": False,
        "PublishAllPorts": False,
        "OomKillDisable": False,
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3},
    }
    body = {
        "Hostname": "app",
        "User": "1000:1000",
        "Image": f"registry.internal/team/app@sha256:{DIGEST}",
        "Env": ["PATH=/usr/bin:/bin", "MODE=production", "REGION=eu", "LEVEL=info"],
        "Cmd": ["serve", "--port", "8080"],
        "Labels": {"owner": "team", "tier": "backend"},
        "HostConfig": host,
    }
    return Case(
        name="docker",
        source=policy("docker"),
        query="data.docker.allow",
        data={
            "users": ["alice", "bob", "carol"],
            "limits": {"memory": 2 << 30, "cpus": 4, "pids": 1000},
            "capabilities": ["CHOWN", "NET_BIND_SERVICE", "SETGID", "SETUID"],
            "forbidden": ["/etc", "/proc", "/root", "/sys", "/var/lib/docker"],
            "registries": ["registry.internal/", "mirror.internal/"],
        },
        input={"user": "bob", "method": "POST", "path": "/containers/create", "body": body},
        expected=True,
        baselines={"by hand": baselines.docker},
    )


def container(number: int) -> dict[str, Any]:
    return {
        "name": f"container-{number}",
        "image": f"registry.internal/team/app-{number}:1.{number}.0",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/app", "--config", f"/etc/app-{number}/config.yaml"],
        "env": [
            {"name": f"SETTING_{number}_{n}", "value": f"value {n} of container {number}"}
            for n in range(12)
        ]
        + [
            {
                "name": "DATABASE_PASSWORD",
                "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}},
            }
        ],
        "ports": [{"name": "http", "containerPort": 8000 + number, "protocol": "TCP"}],
        "resources": {
            "limits": {"cpu": "500m", "memory": "256Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "securityContext": {
            "privileged": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
        "volumeMounts": [
            {"name": f"volume-{n}", "mountPath": f"/data/{n}", "readOnly": True} for n in range(4)
        ],
    }


def kubernetes() -> Case:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "app",
            "namespace": "team",
            "labels": {"app": "app", "owner": "team", "tier": "backend"},
        },
        "spec": {
            "containers": [],
            "initContainers": [container(900), container(901)],
            "volumes": [{"name": f"volume-{n}", "emptyDir": {}} for n in range(6)],
            "serviceAccountName": "app",
        },
    }
    while len(json.dumps(pod)) < POD_SIZE:
        pod["spec"]["containers"].append(container(len(pod["spec"]["containers"])))
    return Case(
        name="kubernetes",
        source=policy("kubernetes"),
        query="data.kubernetes.allow",
        data={},
        input={"request": {"uid": "1", "operation": "CREATE", "object": pod}},
        expected=True,
    )
