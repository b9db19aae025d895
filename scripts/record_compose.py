"""The services of docker/awesome-compose as docker-compose 1.29 sends them to a daemon.

    scripts/record_compose.py CHECKOUT > tests/docker/data/compose_sent.json

Each project is copied to a folder that is called `/home/dev/PROJECT` in the output, and brought up
by `docker-compose up --no-start` before a daemon that has every image and does nothing but answer.
What it is asked to create is a row: project, service, name, API version and body as sent. A `name`
of the project, which this version does not read, is taken out: the command line gives it. The
repository is in the public domain (CC0).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

_FILES: Final = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_VERSION: Final = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}
_HOME: Final = "/home/dev"
_NAME: Final = re.compile(r"^name:.*\n", re.MULTILINE)
_API: Final = re.compile(r"/v([0-9.]+)(/.*)")


def _identifier(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Remembers what was created, by kind and name."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(path, _Answers)
        self.networks: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.containers: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that ends with an open connection is not a fault."""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _daemon(self) -> Daemon:
        assert isinstance(self.server, Daemon)
        return self.server

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(lambda _version, _path, _query, _body: (204, None))

    def _answer(self, work: Callable[[str, str, dict[str, Any], bytes], tuple[int, Any]]) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        matched = _API.fullmatch(parts.path)
        version, path = (matched[1], matched[2]) if matched else ("", parts.path)
        status, document = work(version, path, parse_qs(parts.query), body)
        content = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _get(self, _version: str, path: str, _query: Any, _body: bytes) -> tuple[int, Any]:
        daemon = self._daemon
        kind, _, rest = path.strip("/").partition("/")
        name = unquote(rest)
        if kind == "images":
            image = name.removesuffix("/json")
            config: dict[str, Any] = {
                "Volumes": None,
                "ExposedPorts": None,
                "Labels": None,
                "Env": [],
            }
            document = {"Id": f"sha256:{_identifier(image)}", "RepoTags": [image]}
            return 200, {**document, "Config": config, "ContainerConfig": config}
        if kind == "containers":
            if name == "json":
                return 200, []
            known = daemon.containers.get(name.removesuffix("/json"))
            return (200, known) if known else (404, {"message": "no such container"})
        if kind in ("networks", "volumes"):
            things = daemon.networks if kind == "networks" else daemon.volumes
            if not name:
                everything = list(things.values())
                return 200, everything if kind == "networks" else {"Volumes": everything}
            known = things.get(name)
            return (200, known) if known else (404, {"message": f"no such {kind}"})
        return 200, dict(_VERSION)

    def _post(self, version: str, path: str, query: Any, body: bytes) -> tuple[int, Any]:
        daemon = self._daemon
        document = json.loads(body) if body.startswith(b"{") else {}
        if path == "/networks/create":
            name = document["Name"]
            daemon.networks[name] = {**document, "Id": _identifier(name), "Scope": "local"}
            return 201, {"Id": _identifier(name)}
        if path == "/volumes/create":
            daemon.volumes[document["Name"]] = {**document, "Mountpoint": "/v", "Scope": "local"}
            return 201, daemon.volumes[document["Name"]]
        if path == "/containers/create":
            name = query["name"][0]
            daemon.created.append({"name": name, "api": version, "body": document})
            daemon.containers[_identifier(name)] = {
                "Id": _identifier(name),
                "Name": f"/{name}",
                "Config": document,
                "HostConfig": document.get("HostConfig"),
                "Image": f"sha256:{_identifier(document['Image'])}",
                "State": {"Running": False, "Status": "created"},
                "NetworkSettings": {"Networks": {}},
                "Mounts": [],
            }
            return 201, {"Id": _identifier(name), "Warnings": []}
        return 200, {}


def _rows(project: str, file: Path, folder: Path) -> list[dict[str, Any]]:
    """What is created for a project, whose compose file is in `folder/home`."""
    socket = folder / "d.sock"
    daemon = Daemon(str(socket))
    thread = threading.Thread(target=daemon.serve_forever)
    thread.start()
    command = ["docker-compose", "-f", str(file), "-p", project]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    try:
        done = subprocess.run(
            [*command, "up", "--no-start", "--no-build"],
            env={**environment, "DOCKER_HOST": f"unix://{socket}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        daemon.shutdown()
        thread.join()
        daemon.server_close()
        socket.unlink()
    if done.returncode != 0:
        sys.stderr.write(f"{project}: {done.stderr.strip().splitlines()[-1]}\n")
    text = json.dumps(daemon.created).replace(str(folder / "home"), _HOME)
    created: list[dict[str, Any]] = json.loads(text)
    for row in created:
        row["project"] = project
        row["service"] = row["body"]["Labels"]["com.docker.compose.service"]
    return created


def main() -> None:
    checkout = Path(sys.argv[1])
    files = sorted(each for name in _FILES for each in checkout.rglob(name))
    rows = []
    for file in files:
        source = file.parent
        project = str(source.relative_to(checkout)).replace("/", "-").lower()
        with tempfile.TemporaryDirectory(prefix="dwc-") as name:
            folder = Path(name)
            copy = folder / "home" / project
            shutil.copytree(source, copy)
            text = (copy / file.name).read_text(encoding="utf-8")
            (copy / file.name).write_text(_NAME.sub("", text), encoding="utf-8")
            rows += _rows(project, copy / file.name, folder)
    json.dump(rows, sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
