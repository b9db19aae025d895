"""The processor time of served decisions on `docker run`, next to opa-docker-authz.

    python -m benchmarks.docker_peer --peer PROGRAM [--calls 2000]

Root, since the peer listens below /run/docker/plugins. Each plugin is a process of its own and gets
the same calls over one kept connection, each about another container: its time is what the kernel
counts for the process. The peer reads its policy file again for each decision, as it is mostly run,
or has it from a bundle; Doorward has the same policy, and the shipped policies, which judge every
field. Nothing asks a daemon.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.docker_decisions import FOLDER, write_call
from doorward.docker.decider.embedded import PACK
from doorward.docker.unix_http import UnixConnection

PATH: Final = "/AuthZPlugin.AuthZReq"
ROUNDS: Final = 5
SECONDS: Final = 60.0
"""How long an answer may take."""
ANSWER: Final = "/AuthZPlugin.AuthZRes"
"""The question after the answer, which each of them allows at once: what it takes is not the
decision's."""
POLICY: Final = f"""
package docker.authz

default allow := false

allow if {{
	not privileged
	not outside
}}

privileged if input.Body.HostConfig.Privileged == true

outside if {{
	some mount in input.BindMounts
	not startswith(mount.Source, "{FOLDER}/")
}}
"""


def ask(connection: http.client.HTTPConnection, call: bytes, path: str = PATH) -> bytes:
    """The plugin's answer."""
    connection.request("POST", path, call, {"Content-Type": "application/json"})
    return connection.getresponse().read()


def cpu_of_process(pid: int) -> float:
    """Microseconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(command: Sequence[str], listens: str) -> Iterator[subprocess.Popen[bytes]]:
    """A plugin that listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                connection = UnixConnection(listens, SECONDS)
                connection.connect()
                connection.close()
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait()
        # A socket that nobody answers holds up daemons, which ask it for their volumes.
        Path(listens).unlink(missing_ok=True)


def measure(
    process: subprocess.Popen[bytes], listens: str, calls: Sequence[bytes], path: str
) -> float:
    """Microseconds of one answer of a plugin, all of which allow."""
    connection = UnixConnection(listens, SECONDS)
    for call in calls[:200]:
        ask(connection, call, path)
    before = cpu_of_process(process.pid)
    for call in calls:
        answer = json.loads(ask(connection, call, path))
        if answer.get("Allow") is not True:
            raise RuntimeError(f"denied: {answer}")
    spent = cpu_of_process(process.pid) - before
    connection.close()
    return spent / len(calls)


def _plugins(peer: str, folder: Path) -> Iterator[tuple[str, list[str], str]]:
    """Name, command and socket of each plugin."""
    policy = folder / "policy.rego"
    policy.write_text(POLICY)
    bundle = folder / "bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as archive:
        archive.add(policy, "policy.rego")
    config = folder / "config.json"
    config.write_text(json.dumps({"bundles": {"b": {"resource": f"file://{bundle}"}}}))
    name = f"dwpeer{os.getpid()}"
    below = "/run/docker/plugins"
    allow = "-allowPath=data.docker.authz.allow"
    modes = {"its policy file": f"-policy-file={policy}", "a bundle": f"-config-file={config}"}
    for number, (mode, option) in enumerate(modes.items()):
        own = f"{name}{number}"
        command = [peer, f"-plugin-name={own}", allow, option, "-quiet"]
        yield f"opa-docker-authz, {mode}", command, f"{below}/{own}.sock"
    serve = [sys.executable, "-c", "from doorward.cli.main import main; main()"]
    serve += ["docker", "serve", "--audit-log", "off", "--socket"]
    own = str(folder / "same.sock")
    options = ["--policy", str(policy), "--decision", "docker/authz/allow"]
    yield "Doorward, the same policy", [*serve, own, *options], own
    pack = folder / "pack"
    shutil.copytree(PACK, pack)
    data = json.loads((pack / "data.json").read_text())
    data["docker"]["users"] = {"alice": ["developer"]}
    data["docker"]["mounts"]["allow"] = [FOLDER]
    (pack / "data.json").write_text(json.dumps(data))
    own = str(folder / "pack.sock")
    yield "Doorward, the shipped policies", [*serve, own, "--policy", str(pack)], own


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="decisions next to opa-docker-authz")
    parser.add_argument("--peer", required=True, help="the program opa-docker-authz")
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dwp-"))
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        plugins = [
            (name, stack.enter_context(started(command, listens)), listens)
            for name, command, listens in _plugins(options.peer, folder)
        ]
        print(f"{'microseconds':36} {'served':>9} {'of that the decision':>22}")
        calls = [write_call(number, bind=False) for number in range(options.calls)]
        best = {(name, path): float("inf") for name, _, _ in plugins for path in (PATH, ANSWER)}
        for _ in range(ROUNDS):
            for name, process, listens in plugins:
                for path in (PATH, ANSWER):
                    spent = measure(process, listens, calls, path)
                    best[name, path] = min(best[name, path], spent)
        for name, _, _ in plugins:
            served = best[name, PATH]
            print(f"{name:36} {served:9.1f} {served - best[name, ANSWER]:22.1f}")


if __name__ == "__main__":
    main()
