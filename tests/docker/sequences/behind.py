"""The same two users, each on a socket of its own before the proxy, whose pins hold folders."""

from __future__ import annotations

import json
from typing import Any

from examples.docker.private_daemon import Answer
from tests.docker.proxied import Proxied, proxied
from tests.docker.sequences.machine import Machine

from doorward.docker.plugin import Plugin

__all__ = ["ProxiedMachine"]

_NAMES = {"alice": "developer", "olga": "operator"}


class ProxiedMachine(Machine):
    """Sends each call to the proxy, which decides and carries it out."""

    def _plugin(self) -> Plugin:
        self.users = tuple(f"socket:{name}" for name in _NAMES)
        users = {f"socket:{name}": [role] for name, role in _NAMES.items()}
        mounts = {
            "allow": [str(self.world.allowed)],
            "nfs": [],
            "volume_drivers": ["local"],
            "volumes_from": False,
        }
        folder = self.daemon.folder
        options = {"pins": str(folder / "pins"), "pins_state": str(folder / "pins.json")}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._context = proxied(
            self.daemon,
            self.folder,
            consumers=_NAMES,
            options=options,
            users=users,
            owners=True,
            local_roles=[],
            mounts=mounts,
        )
        self._proxy: Proxied = self._context.__enter__()
        assert self._proxy.service is not None
        self.pdp = self._proxy.service._decider  # type: ignore[assignment]
        return self._proxy.service._plugin

    def _send(
        self, method: str, target: str, document: Any = None, headers: tuple[Any, ...] = ()
    ) -> Answer | None:
        """The answer of the proxy; None for a call that it refuses."""
        self.written[self.kind] += 1
        body = b"" if document is None else json.dumps(document).encode()
        fields = [*headers, ("Content-Length", str(len(body)))]
        if body:
            fields.append(("Content-Type", "application/json"))
        contacts = self.world.server.contacts
        behind = self._proxy.at(self.user.removeprefix("socket:"))
        answer = behind.raw(method, target, body, fields)
        is_refused = answer.status in (400, 403) and b"Doorward's proxy" in answer.body
        if is_refused:
            return None
        self.allowed[self.kind] += 1
        self.sequence.append(f"{self.user}: {method} {target} {body.decode()}".rstrip())
        self._judge_answer(answer, contacts)
        return answer

    def close(self) -> None:
        self.world.close()
        self._context.__exit__(None, None, None)
