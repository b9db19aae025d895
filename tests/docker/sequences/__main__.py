"""Send sequences for as long as it is said, and print what was reached."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import click
from examples.docker.private_daemon import PrivateDaemon, missing
from tests.docker.sequences.behind import ProxiedMachine
from tests.docker.sequences.machine import Machine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--proxy", action="store_true", help="in front of the proxy")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # to end the daemon as well
    if reason := missing():
        click.echo(reason)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="dws-"))
    daemon = PrivateDaemon(folder)
    daemon.prepare()
    machine: Machine | None = None
    sequences = 0
    try:
        daemon.start()
        daemon.import_image("img:1")
        make = ProxiedMachine if options.proxy else Machine
        machine = make(daemon, folder / "machine", options.seed)
        shown: set[tuple[str, str]] = set()
        until = time.monotonic() + options.minutes * 60
        while time.monotonic() < until:
            machine.step()
            sequences += 1
            for each in machine.findings:
                if (each.canary, each.kind) not in shown:
                    shown.add((each.canary, each.kind))
                    click.echo(
                        f"{each.canary} by {each.kind}: {each.seconds:.0f} s, {each.calls} calls"
                    )
                    click.echo("   " + "\n   ".join(each.sequence))
        click.echo(f"{sequences} sequences, {len(machine.findings)} findings")
        click.echo(machine.table())
    finally:
        if machine is not None:
            machine.close()
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if machine.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
