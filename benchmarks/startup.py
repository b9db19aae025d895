"""`doorward eval` on a policy of one rule -> milliseconds from start to end, wall and CPU.

The bytecode of the modules is there already, as it is after an installation.

python benchmarks/startup.py [--runs 10]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POLICY = "package p\n\nallow if input.user == 1\n"


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU milliseconds of one run."""
    before = os.times()
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    wall = time.perf_counter() - begin
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    after = os.times()
    spent = after.children_user + after.children_system
    return wall * 1000, (spent - before.children_user - before.children_system) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description="how long `doorward eval` takes")
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        policy = Path(folder) / "policy.rego"
        policy.write_text(POLICY)
        commands = {
            "doorward eval": [
                str(Path(sys.executable).parent / "doorward"),
                *("eval", "-d", str(policy), "data.p.allow"),
            ],
            "python -c pass": [sys.executable, "-c", "pass"],
        }
        for name, command in commands.items():
            run(command, environment)
            times = [run(command, environment) for _ in range(runs)]
            walls, cpus = zip(*times, strict=True)
            print(
                f"{name:15} wall min {min(walls):6.0f} median {statistics.median(walls):6.0f} ms"
                f"   CPU min {min(cpus):6.0f} ms"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
