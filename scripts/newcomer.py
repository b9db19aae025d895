"""How long a newcomer waits: from `git clone` to the console showing why a request was denied.

usage: python scripts/newcomer.py [--cached]

Clones this checkout's last commit into a temporary folder, runs `make demo` there, and reads from
the console until a denied request has its reason. Packages are downloaded as for the first time;
`--cached` leaves pip and npm their caches, which shows what is left without a network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GOAL = 90
LONGEST = 1200
CONSOLE = re.compile(r"(http://127\.0\.0\.1:[0-9]+/console)")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cached", action="store_true", help="leave pip and npm their caches")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="doorward-newcomer-") as folder:
        environment = dict(os.environ)
        environment.pop("VIRTUAL_ENV", None)
        if not options.cached:
            environment |= {"PIP_NO_CACHE_DIR": "1", "npm_config_cache": f"{folder}/npm"}
        began = time.monotonic()
        clone = Path(folder, "doorward")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        _say("cloned", began)
        seconds = _demo(clone, environment, began)
    return 0 if seconds <= GOAL else 1


def _demo(clone: Path, environment: dict[str, str], began: float) -> float:
    """Seconds until the console shows why; ending the demo is not a part of it."""
    demo = subprocess.Popen(
        ["make", "demo", "PORT_BASE=0"],
        cwd=clone,
        env=environment | {"PORT_BASE": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    try:
        for line in demo.stdout:
            if "installing" in line:
                _say(line.strip(), began)
            if url := CONSOLE.search(line):
                _say("the demo is up", began)
                return _say(f"a denied request: {_reason(url[1])}", began)
        raise SystemExit(f"`make demo` ended with {demo.wait()}")
    finally:
        os.killpg(demo.pid, signal.SIGTERM)
        demo.communicate(timeout=60)


def _reason(url: str) -> str:
    """Why the first request was denied that the console shows."""
    while True:
        with urllib.request.urlopen(f"{url}/api/decisions", timeout=60) as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    for each in json.loads(line[6:])["decisions"]:
                        if each["verdict"] == "deny":
                            return _failed(url, each["id"])


def _failed(url: str, decision: str) -> str:
    with urllib.request.urlopen(f"{url}/api/decisions/{decision}", timeout=60) as answer:
        document: dict[str, Any] = json.load(answer)
    failed = document["failed"][0]
    row = f"{failed['file']}:{failed['row']}"
    return f"{document['request']}: `{failed['text']}` does not hold ({row})"


def _say(text: str, began: float) -> float:
    seconds = time.monotonic() - began
    print(f"{seconds:6.1f} s  {text}", flush=True)
    return seconds


if __name__ == "__main__":
    signal.alarm(LONGEST)
    sys.exit(main())
