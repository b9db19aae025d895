"""The linter reads Caddyfiles as Caddy does: what it says of random ones, and what Caddy runs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doorward.envoy.lint.forwarding import FORGED, check_caddy

CADDY = Path(sys.executable).with_name("caddy")
STRIP = "\n".join(f"request_header -{name}" for name in FORGED)
ORDERS = (
    "request_header before forward_auth",
    "request_header first",
    "forward_auth after request_header",
    "forward_auth last",
    "route before request_header",
    "handle first",
)
LINES = (
    "import strip",
    "import strip",
    "import some remote-user",
    "request_header -x-original-uri",
    "request_header -remote-*",
    "request_header @m -x-original-uri",
    "# import strip",
    'respond /a "{"',
    'header X-A "# x"',
    "encode gzip",
)


class Writer:
    """Writes random Caddyfiles, whose questions go to hosts with numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.questions = 0

    def file(self) -> str:
        order = f"order {self.random.choice(ORDERS)}\n" if self.random.random() < 0.4 else ""
        parts = [
            f"{{\nadmin off\n{order}}}",
            f"(strip) {{\n{STRIP}\n}}",
            "(some) {\nrequest_header -{args[0]}\n}",
            f"(asks) {{\n{self.block(2)}\n}}",
        ]
        if self.random.random() < 0.2:
            return "\n".join([*parts, "http://a:80", self.block(0)]) + "\n"
        sites = [f"http://{name}:80 {{\n{self.block(0)}\n}}" for name in ("a", "b")]
        return "\n".join([*parts, *sites]) + "\n"

    def block(self, depth: int) -> str:
        lines = [] if depth else ["@m path /m"]
        for _ in range(self.random.randint(1, 5)):
            choice = self.random.random()
            if choice < 0.3:
                self.questions += 1
                lines.append(f"forward_auth h{self.questions}:1 {{\nuri /x\n}}")
            elif choice < 0.5 and depth < 3:
                name = self.random.choice(["route", "route", "handle", "handle /y*", "route /z"])
                lines.append(f"{name} {{\n{self.block(depth + 1)}\n}}")
            elif choice < 0.55 and depth < 2:
                lines.append("import asks")
            else:
                lines.append(self.random.choice(LINES))
        return "\n".join(lines)


def questions(routes: list[Any], removed: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """The hosts that adapted routes ask, each with whether all headers were removed before."""
    for route in routes:
        for handler in route.get("handle", ()):
            name = handler["handler"]
            if name == "headers" and "match" not in route:
                for each in handler.get("request", {}).get("delete", ()):
                    removed |= {
                        header
                        for header in FORGED
                        if header == each.lower()
                        or (each.endswith("*") and header.startswith(each[:-1]))
                    }
            elif name == "reverse_proxy" and "rewrite" in handler:
                yield handler["upstreams"][0]["dial"], removed.issuperset(FORGED)
            elif name == "subroute":
                yield from questions(handler.get("routes", []), removed)


def run_by_caddy(text: str) -> set[tuple[str, bool]]:
    command = [str(CADDY), "adapt", "--adapter", "caddyfile", "--config", "-"]
    adapted = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    servers = json.loads(adapted.stdout)["apps"]["http"]["servers"].values()
    return {each for server in servers for each in questions(server["routes"], frozenset())}


@pytest.mark.parametrize("seed", range(40))
def test_headers_count_as_removed_where_caddy_removes_them(seed: int) -> None:
    text = Writer(seed).file()
    lines = text.splitlines()
    asking = {number for number, line in enumerate(lines, 1) if line.startswith("forward_auth")}
    findings = list(check_caddy("Caddyfile", text))
    open_lines = {each.line for each in findings if each.rule == "forward-forged-header"}
    hosts = {each.line for each in findings} & asking
    caddy = run_by_caddy(text)
    # A snippet that two sites import asks twice: open where one of them is.
    assert {host for host, _ in caddy} == {lines[line - 1].split()[1] for line in hosts}
    assert {host for host, is_safe in caddy if not is_safe} == {
        lines[line - 1].split()[1] for line in open_lines
    }
