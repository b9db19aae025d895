"""The daemon of the tests behind a proxy in this process, with data of a test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.docker.private_daemon import PrivateDaemon
from tests.docker.guarded import write_policies

from doorward.docker.proxy.service import Consumer, ProxyOptions, ProxyService

__all__ = ["Proxied", "proxied"]


@dataclass(slots=True)
class Proxied(PrivateDaemon):
    """A daemon whose clients come through the proxy; `at` names the socket for a consumer."""

    service: ProxyService | None = None
    path: str = ""
    audit: Path = Path()

    @property
    def socket(self) -> str:
        return self.path

    def at(self, consumer: str) -> Proxied:
        """The same daemon, through the socket of a consumer."""
        path = str(Path(self.path).with_name(f"{consumer}.sock"))
        return Proxied(self.folder, self.port, service=self.service, path=path, audit=self.audit)

    def decided(self) -> list[dict[str, Any]]:
        """The lines of the audit log, without one that is being written."""
        written, _, _ = self.audit.read_text().rpartition("\n")
        return [json.loads(line) for line in written.splitlines()]


@contextmanager
def proxied(
    daemon: PrivateDaemon,
    folder: Path,
    *roles: str,
    consumers: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Iterator[Proxied]:
    """The daemon behind a proxy, where root of this host has `roles`, and a consumer one role."""
    consumers = consumers or {}
    users: dict[str, list[str]] = {"root": list(roles)}
    users |= {f"socket:{name}": [role] for name, role in consumers.items()}
    policies = write_policies(folder / "policies", **{"users": users, **settings})
    sockets = daemon.folder / f"p{folder.name[-12:]}"
    sockets.mkdir(exist_ok=True)
    service = ProxyService(
        ProxyOptions(
            daemon=PrivateDaemon.socket.fget(daemon),  # type: ignore[attr-defined]
            socket=str(sockets / "s.sock"),
            consumers=[Consumer(name, str(sockets / f"{name}.sock")) for name in consumers],
            policies=[str(policies)],
            audit_log=str(folder / "audit.log"),
            audit_input=True,
            deadline=60.0,
            daemon_json=str(daemon.config),
            pidfile=str(daemon.pidfile),
            grace=1.0,
            **(options or {}),
        )
    )
    service.start()
    try:
        yield Proxied(
            daemon.folder,
            daemon.port,
            service=service,
            path=str(sockets / "s.sock"),
            audit=folder / "audit.log",
        )
    finally:
        service.close()
