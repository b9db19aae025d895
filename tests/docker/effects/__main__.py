"""Run the check for as long as wanted: `python -m tests.docker.effects --minutes 10 --seed 1`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
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
    # A signal ends the check with everything that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="dwe-"))
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    daemon = PrivateDaemon(folder)
    daemon.prepare()
    check: Check | None = None
    try:
        daemon.start()
        daemon.import_image("img:1")
        check = Check(daemon, f"dwe{os.getpid()}", folder / "packs", seed=options.seed)
        if check.world.swarm:
            sys.stdout.write(f"no swarm, so no services: {check.world.swarm}\n")
        reported = 0
        while time.monotonic() < check.started + options.minutes * 60:
            check.step()
            for each in check.violations[reported:]:
                effects = ", ".join(each.effects)
                sys.stdout.write(
                    f"{each.seconds:.0f} s, {each.number} requests: {each.kind}: {each.request}\n"
                    f"    {effects}\n"
                )
                sys.stdout.flush()
            reported = len(check.violations)
        sys.stdout.write(f"{check.table()}\n\n{check.coverage()}\n")
        return 1 if check.violations else 0
    finally:
        if check is not None:
            check.close()
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
