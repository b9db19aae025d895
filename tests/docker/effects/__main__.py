"""Run the check for as long as wanted: `python -m tests.docker.effects --minutes 10 --seed 1`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from examples.docker.private_daemon import PrivateDaemon, missing
from tests.docker.effects.check import Check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    reason = missing()
    if reason:
        sys.stderr.write(f"no daemon of our own: {reason}\n")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="dwe-"))
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    daemon = PrivateDaemon(folder)
    daemon.prepare()
    try:
        daemon.start()
        daemon.import_image("img:1")
        check = Check(daemon, f"dwe{os.getpid()}", folder / "packs", seed=options.seed)
        started = time.monotonic()
        reported = 0
        while time.monotonic() < started + options.minutes * 60:
            check.step()
            for violation in check.violations[reported:]:
                seconds = time.monotonic() - started
                effects = ", ".join(violation.effects)
                said = f"{seconds:.0f} s: {violation.kind}: {violation.request}\n    {effects}\n"
                sys.stdout.write(said)
                sys.stdout.flush()
            reported = len(check.violations)
        sys.stdout.write(check.table() + "\n")
        return 1 if check.violations else 0
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
