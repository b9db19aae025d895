"""Real proxies with the kit's configuration, in front of an application that records requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from tests.integrations.servers import people_point
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from acceptance.wire import send, write_request
from doorward.envoy.kit.bootstrap import Bootstrap, to_document
from doorward.forward.app import ForwardAuth
from doorward.forward.kit import Site, to_files
from doorward.forward.options import Options
from doorward.pdp import DecisionPoint
from doorward.rest.server import HttpServer, Listener, bind

ROOT = Path(__file__).resolve().parents[2]
SECRET = "what-only-our-proxies-know"
COPIED = ("x-user", "x-role")


class Application(ThreadingHTTPServer):
    """Records method, target and headers of what arrives."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[str, str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, *_: Any) -> None:
        """A connection that a proxy gives up is nobody's error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Application

    def _record(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            key = name.lower()
            headers[key] = f"{headers[key]},{value}" if key in headers else value
        self.server.arrivals.append((self.command, self.path, headers))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _record

    def log_message(self, *_: Any) -> None:
        pass


@dataclass
class Setup:
    """A proxy, what is behind it, and what it asks."""

    port: int
    application: Application
    process: subprocess.Popen[bytes]
    pdp: HttpServer
    name: str = ""


def _answers(port: int) -> bool:
    try:
        return send(port, write_request("GET", "/"), within=PATIENCE).status == 403
    except OSError:
        return False


@contextmanager
def application() -> Iterator[Application]:
    server = Application()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


@contextmanager
def decision_point(
    make: Callable[[], DecisionPoint] = people_point, **options: Any
) -> Iterator[tuple[HttpServer, str]]:
    """The endpoints of forward-auth on the server that `doorward run` uses."""
    listener = bind("127.0.0.1:0")
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    with make() as point:
        app: Any = ForwardAuth(point.pdp, Options(secret=SECRET, **options))
        server = HttpServer([Listener(address, listener, app)])
        server.start()
        try:
            yield server, address
        finally:
            server.close()


@contextmanager
def proxy(
    name: str, folder: Path, make: Callable[[], DecisionPoint] = people_point
) -> Iterator[Setup]:
    with ExitStack() as stack:
        behind = stack.enter_context(application())
        pdp, address = stack.enter_context(decision_point(make, response_headers=COPIED))
        port = free_port()
        site = Site(
            listen=f"127.0.0.1:{port}",
            upstream=f"127.0.0.1:{behind.server_port}",
            pdp=address,
            secret=SECRET,
            response_headers=COPIED,
        )
        files = envoy_files(site) if name == "envoy" else to_files(name, site)
        for file, text in files.items():
            (folder / file).write_text(text)
        log = stack.enter_context((folder / "proxy.log").open("wb"))
        # The files of HAProxy start from any folder.
        start = folder.parent if name == "haproxy" else folder
        process = subprocess.Popen(
            COMMANDS[name](folder), cwd=start, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            wait_until(
                # Traefik has no routes at first, and answers 404.
                lambda: process.poll() is not None or _answers(port),
                lambda: (folder / "proxy.log").read_text(),
            )
            assert process.poll() is None, (folder / "proxy.log").read_text()
            yield Setup(port, behind, process, pdp)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _nginx(folder: Path) -> list[str]:
    temporary = "".join(
        f"  {kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log stderr notice; worker_processes 1;\n"
        f"events {{}}\nhttp {{\n  access_log off;\n{temporary}"
        f"  include {folder}/doorward.nginx.conf;\n}}\n"
    )
    return [_program("nginx"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]


def _program(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name, path=f"/usr/sbin:{os.defpath}")
    assert path, f"{name} is missing"
    return path


def envoy_files(site: Site) -> dict[str, str]:
    """The bootstrap of the gRPC sidecar, which asks by HTTP instead, as the page says."""
    document = to_document(Bootstrap(listen=site.listen, upstream=site.upstream))
    resources = document["static_resources"]
    manager = resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    (authorization,) = (
        each["typed_config"]
        for each in manager["http_filters"]
        if each["name"] == "envoy.filters.http.ext_authz"
    )
    page = (ROOT / "docs/forward-auth.md").read_text()
    shown = yaml.safe_load(
        page.partition("# http_service of")[2].partition("\n")[2].partition("```")[0]
    )
    copied = {"patterns": [{"exact": name} for name in site.response_headers]}
    service = shown["http_service"]
    service["authorization_request"]["headers_to_add"][0]["value"] = site.secret
    service["authorization_response"]["allowed_upstream_headers"] = copied
    del authorization["grpc_service"], authorization["with_request_body"]["pack_as_bytes"]
    authorization |= shown
    cluster = resources["clusters"][1]
    host, _, port = site.pdp.rpartition(":")
    address = {"socket_address": {"address": host, "port_value": int(port)}}
    cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] = [
        {"endpoint": {"address": address}}
    ]
    for options in cluster["typed_extension_protocol_options"].values():
        options["explicit_http_config"] = {"http_protocol_options": {}}
    removed = manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"]
    removed += [{"remove": name} for name in site.stripped]
    return {"envoy.yaml": json.dumps(document)}


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "envoy": lambda folder: [
        _program("envoy"), "-c", str(folder / "envoy.yaml"), "--disable-hot-restart",
        "--concurrency", "1", "--log-level", "warning",
    ],
    "nginx": _nginx,
    "haproxy": lambda folder: [_program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")],
    "caddy": lambda folder: [
        _program("caddy"), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile"),
    ],
    "traefik": lambda folder: [
        _program("traefik"), "--configFile=traefik.yaml",
    ],
}  # fmt: skip
