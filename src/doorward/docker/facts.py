"""What only the daemon knows about a container, asked while a request for it is decided.

Who may start a program in a container has the power that the container was given when it was
created, by whoever that was. With this, a policy sees it. The daemon asks the plugin about the
question too: it is known by a header that nobody else can guess, and allowed. The questions have a
deadline, and what cannot be found out is said to be unknown.
"""

from __future__ import annotations

import hmac
import http.client
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from doorward.docker.images import parse_image
from doorward.docker.mounts import Mount, Resolve, host_mount
from doorward.docker.requests import AuthzRequest
from doorward.docker.security import create_security, device_view
from doorward.docker.unix_http import UnixConnection
from doorward.rego.json_text import from_json

__all__ = ["ENTERING", "NO_CONTAINER", "ContainerFacts"]

ENTERING: Final = frozenset(
    {
        "container.archive.get",
        "container.archive.put",
        "container.attach",
        "container.commit",
        "container.exec",
        "container.export",
        "container.start",
        "container.update",
    }
)
"""Actions on a container that is there already, whose power matters."""

NO_CONTAINER: Final[dict[str, Any]] = {"asked": False, "known": False, "missing": False}
_HEADER: Final = "X-Doorward-Self"
_TIMEOUT: Final = 2.0
_MAX_ANSWER: Final = 4 << 20


class ContainerFacts:
    """Asks the daemon at a Unix socket. Safe in any number of threads."""

    def __init__(self, socket: str, resolve: Resolve) -> None:
        self._socket = socket
        self._resolve = resolve
        self._nonce = secrets.token_hex(32)

    def is_own(self, request: AuthzRequest) -> bool:
        """Whether the daemon asks about a question of ours."""
        given = request.headers.get(_HEADER, "")
        return request.method == "GET" and hmac.compare_digest(
            given.encode(errors="replace"), self._nonce.encode()
        )

    def view(self, name: str) -> dict[str, Any]:
        """The container `name` as a policy sees it."""
        asked = {**NO_CONTAINER, "asked": True}
        try:
            status, content = self._ask(f"/containers/{quote(name, safe='')}/json")
            if status == 404:
                return {**asked, "missing": True}
            if status != 200:
                return asked
            found = from_json(content)
            return {**asked, "known": True, **_view(found, self._resolve)}  # type: ignore[arg-type]  # the daemon's own JSON; anything else is a LookupError or TypeError
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return asked

    def _ask(self, target: str) -> tuple[int, bytes]:
        connection = UnixConnection(self._socket, _TIMEOUT)
        try:
            connection.request("GET", target, headers={"Host": "docker", _HEADER: self._nonce})
            response = connection.getresponse()
            content = response.read(_MAX_ANSWER + 1)
            if len(content) > _MAX_ANSWER:
                raise ValueError("too large")
            return response.status, content
        finally:
            connection.close()


def _view(found: Mapping[str, Any], resolve: Resolve) -> dict[str, Any]:
    host, config = found["HostConfig"], found["Config"]
    return {
        "id": found["Id"],
        "name": found["Name"].removeprefix("/"),
        "image": parse_image(config["Image"]),
        "labels": config.get("Labels") or {},
        "security": create_security(host, config),
        "devices": device_view(host),
        "mounts": [_mount(each, resolve) for each in found.get("Mounts") or ()],
    }


def _mount(item: Mapping[str, Any], resolve: Resolve) -> Mount:
    kind = item.get("Type") or "other"
    return host_mount(
        "Container",
        item.get("Source") or "",
        item.get("Destination") or "",
        resolve,
        type_=kind,
        readonly=not item.get("RW"),
        propagation=item.get("Propagation") or "",
        driver=item.get("Driver") or "",
    )
