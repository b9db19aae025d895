"""What the console costs while one person looks at it: CPU of the decision point, and first paint.

    python -m benchmarks.console [--rate 1000] [--seconds 8] [--rounds 3] [--view decisions]

The same server decides in turns with and without a page in Chromium; what the page does itself is
not counted. Frames that the browser left out are counted twice, on the page while nothing is
decided and while it is live: a busy machine costs both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.case import policy

PATIENCE = 60.0
SIGN = {"": ".ranks .count", "decisions": ".table .body .row"}
FRAME = 1_000 / 60
COUNT_FRAMES = """() => {
    window.gaps = [];
    let before = performance.now();
    const note = (now) => {
        window.gaps.push(now - before);
        before = now;
        requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
}"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def seconds_of(pid: int) -> float:
    """The CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connected(port: int) -> socket.socket:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def share(pid: int, port: int, rate: int, seconds: float) -> tuple[float, float]:
    """Decisions a second, and the share of a core that they took."""
    body = json.dumps({"input": {"method": "GET", "path": "/people", "user": "bob"}}).encode()
    head = "POST /v1/data/docker/allow HTTP/1.1\r\nHost: localhost\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with connected(port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began, before, count = time.monotonic(), seconds_of(pid), 0
        while (passed := time.monotonic() - began) < seconds:
            if passed * rate < count:
                time.sleep(0.001)
                continue
            connection.sendall(request)
            if not connection.recv(65_536):
                raise ConnectionError("the server closed the connection")
            count += 1
    return count / passed, (seconds_of(pid) - before) / passed


def dropped_frames(page: Page) -> tuple[int, int]:
    """The frames that were left out since the last call, and those that were due."""
    gaps: list[float] = page.evaluate("window.gaps.splice(0)")
    dropped = sum(max(round(gap / FRAME) - 1, 0) for gap in gaps)
    return dropped, len(gaps) + dropped


def measure(browser: Browser, options: argparse.Namespace, folder: Path) -> None:
    port, diagnostic = free_port(), free_port()
    (folder / "policy.rego").write_text(policy("docker"))
    addresses = [f"--addr=127.0.0.1:{port}", f"--diagnostic-addr=127.0.0.1:{diagnostic}"]
    command = [sys.executable, "-m", "doorward", "run", "--server", "--console", "--workers=1"]
    with subprocess.Popen([*command, *addresses, str(folder)], stderr=subprocess.DEVNULL) as server:
        connected(diagnostic).close()
        share(server.pid, port, options.rate, 1.0)
        for _ in range(options.rounds):
            alone = share(server.pid, port, options.rate, options.seconds)
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{diagnostic}/console/{options.view}")
            page.wait_for_selector(SIGN[options.view])
            paint = float(page.evaluate(PAINT))
            page.evaluate(COUNT_FRAMES)
            page.wait_for_timeout(1_000 * options.seconds)
            idle = dropped_frames(page)
            watched = share(server.pid, port, options.rate, options.seconds)
            live = dropped_frames(page)
            page.close()
            print(
                f"{alone[0]:,.0f}/s alone {alone[1]:.1%} of a core, {watched[0]:,.0f}/s watched "
                f"{watched[1]:.1%}: {watched[1] - alone[1]:+.1%}; first paint {paint:.0f} ms; "
                f"frames left out: idle {idle[0]} of {idle[1]}, live {live[0]} of {live[1]}; "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--view", choices=SIGN, default="decisions")
    options = parser.parse_args()
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        measure(browser, options, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
