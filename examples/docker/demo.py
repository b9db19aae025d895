"""One command becomes the whole example, running: `make demo-docker`.

A daemon of our own in a temporary folder, a decision point, the plugin installed the way an
operator would, and users with certificates: alice may run plain containers, bob may only look,
and nobody may mount the host. Prints what each command answered, and takes everything down.
"""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from private_daemon import PATIENCE, PrivateDaemon, free_port, missing

from doorward.docker.decider.embedded import PACK

EXAMPLE: Final = Path(__file__).resolve().parent
NAME: Final = "doorward-demo"
DENIED_BY_PROXY: Final = "authorization denied by Doorward's proxy: "
DOORWARD: Final = [sys.executable, "-c", "from doorward.cli.main import main; main()"]


class Row(NamedTuple):
    """One command, and what it must answer: a reason, or "" where it is allowed."""

    user: str
    command: str
    reason: str = ""


ROWS: Final = (
    Row("alice", "version --format '{{.Server.Version}}'"),
    Row("alice", "run --rm --network none img:1 echo hello from a plain container"),
    Row("alice", "run --rm --network none -v data:/v img:1 ls /v"),
    Row("alice", "run --privileged img:1 true", "privileged is not allowed"),
    Row("alice", "run -v /:/host img:1 ls /host", "host path / may not be mounted"),
    Row(
        "alice",
        "run --mount type=bind,src=/etc,dst=/h img:1 ls /h",
        "host path /etc may not be mounted",
    ),
    Row(
        "alice",
        "volume create -o type=none -o o=bind -o device=/etc etc",
        "host path /etc may not be mounted",
    ),
    Row("alice", "run --pid host img:1 true", "pid namespace of the host may not be used"),
    Row("alice", "run --cap-add SYS_ADMIN img:1 true", "capability SYS_ADMIN is not allowed"),
    Row("alice", "plugin disable x", "user alice may not plugin.disable"),
    Row("bob", "ps --all --quiet"),
    Row("bob", "images --format '{{.Repository}}:{{.Tag}}'"),
    Row("bob", "run --rm img:1 true", "user bob may not container.create"),
    Row("bob", "rmi img:1", "user bob may not image.delete"),
    Row("carol", "ps", "user carol may not container.list"),
    Row("", "ps --quiet"),
    Row("", "run -v /etc:/h img:1 true", "host path /etc may not be mounted"),
    Row("", "plugin disable x", "a local user may not plugin.disable"),
)


BEHIND_PROXY: Final = (
    Row("root", "run --rm --network none img:1 id -u"),
    Row("root", "run -v /etc:/h img:1 true", "host path /etc may not be mounted"),
    Row("socket:traefik", "ps --quiet"),
    Row("socket:traefik", "version --format '{{.Server.Version}}'"),
    Row(
        "socket:traefik", "cp x:/etc/passwd -", "user socket:traefik may not container.archive.get"
    ),
    Row("socket:traefik", "run img:1 true", "user socket:traefik may not container.create"),
    Row("socket:traefik", "rm -f x", "user socket:traefik may not container.delete"),
)
"""Commands on the sockets of the proxy, which knows who calls there."""


class Terminated(BaseException):
    """Somebody wants the demo to end."""


class PartFailed(Exception):
    """A part of the demo that did not start."""


def main() -> int:
    """Run the demo; 0 only when every command answers as it must."""
    reason = missing()
    if reason:
        say(f"The demo starts a Docker daemon of its own, and that {reason}.")
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        with ExitStack() as stack:
            return _run(stack)
    except PartFailed as error:
        say(str(error))
        return 1
    except (KeyboardInterrupt, Terminated):
        say("\nStopped.")
        return 1


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def _run(stack: ExitStack) -> int:
    folder = stack.enter_context(_folder())
    daemon = PrivateDaemon(folder)
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    daemon.prepare()
    stack.callback(daemon.stop)
    daemon.start()
    daemon.import_image("img:1")
    say(f"dockerd          unix://{daemon.socket} and, with certificates, port {daemon.port}")
    url = stack.enter_context(_decision_point(folder))
    say(f"decision point   {url}")
    where = ["--name", NAME, "--daemon-json", str(daemon.config), "--pidfile", str(daemon.pidfile)]
    where += ["--docker-socket", daemon.socket, "--no-systemd", "--state", str(folder / "state")]
    audit = folder / "audit.log"
    # The default is 3 seconds for a decision, which a busy machine may not have.
    patient = ["--serve=--timeout=60", "--audit-log", str(audit)]
    _doorward("install", "-p", url, *patient, *where)
    stack.callback(_doorward, "uninstall", *where)
    denied = f"authorization denied by plugin {NAME}: "
    failures = sum(not _holds(daemon, row, denied) for row in ROWS)
    sockets = stack.enter_context(_proxy(daemon))
    say("\nThe same daemon through the proxy, where users and programs have names:")
    for row in BEHIND_PROXY:
        behind = Behind(daemon.folder, path=str(sockets[row.user]))
        failures += not _holds(behind, row, DENIED_BY_PROXY)
    lines = audit.read_text().splitlines()
    count = len(ROWS) + len(BEHIND_PROXY)
    say(f"\n{count - failures} of {count} commands answered as they must; the audit log")
    say(f"has {len(lines)} lines, the last of them:\n{lines[-1]}\n")
    return 1 if failures else 0


@contextmanager
def _folder() -> Iterator[Path]:
    # Short, since the path of a socket has at most 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="dw-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _decision_point(folder: Path) -> Iterator[str]:
    """`doorward run --server` with the shipped policies and this example's data."""
    policies = folder / "policies"
    policies.mkdir()
    for path in PACK.glob("*.rego"):
        if not path.name.endswith("_test.rego"):
            shutil.copy(path, policies)
    shutil.copy(EXAMPLE / "data.json", policies)
    port = free_port()
    command = [*DOORWARD, "run", "--server", f"--addr=127.0.0.1:{port}", str(policies)]
    with (
        (folder / "pdp.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            _wait_for(port, process, folder / "pdp.log")
            yield f"http://127.0.0.1:{port}/v1/data/policy/docker/authz"
        finally:
            process.terminate()


@dataclass(slots=True)
class Behind(PrivateDaemon):
    """The daemon through a socket of the proxy."""

    path: str = ""

    @property
    def socket(self) -> str:
        return self.path


@contextmanager
def _proxy(daemon: PrivateDaemon) -> Iterator[dict[str, Path]]:
    """`doorward docker proxy` with the shipped policies, and its sockets by who comes there."""
    data = json.loads((PACK / "data.json").read_text())
    users = {"root": ["operator"], "socket:traefik": ["traefik"]}
    data["docker"] |= {"users": users, "local_roles": []}
    file = daemon.folder / "proxy.json"
    file.write_text(json.dumps(data))
    sockets = {"root": daemon.folder / "p.sock", "socket:traefik": daemon.folder / "t.sock"}
    command = [*DOORWARD, "docker", "proxy", "--daemon", daemon.socket, "--data", str(file)]
    command += ["--socket", str(sockets["root"]), "--timeout", "60"]
    command += ["--consumer", f"traefik={sockets['socket:traefik']}", "--grace", "1"]
    with (
        (daemon.folder / "proxy.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            until = time.monotonic() + PATIENCE
            while not _answers(sockets["root"]):
                if process.poll() is not None or time.monotonic() > until:
                    raise PartFailed("the proxy does not start")
                time.sleep(0.05)
            yield sockets
        finally:
            process.terminate()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            return
        except OSError:
            time.sleep(0.05)
    raise PartFailed(f"the decision point does not start:\n{log.read_text()[-1000:]}")


def _doorward(*arguments: str) -> None:
    done = subprocess.run(
        [*DOORWARD, "docker", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    for line in (done.stdout + done.stderr).strip().splitlines():
        say(f"{arguments[0]:16} {line}")
    if done.returncode:
        raise PartFailed(f"`doorward docker {arguments[0]}` failed")


def _holds(daemon: PrivateDaemon, row: Row, denied: str) -> bool:
    """Run one command, print what it answered, and whether that is right."""
    by_certificate = "" if isinstance(daemon, Behind) else row.user
    done = daemon.docker(*shlex.split(row.command), user=by_certificate)
    answer = (done.stdout + done.stderr).strip().replace("\n\nRun 'docker run --help'", "")
    answer = answer.removesuffix(" for more information")
    reason = denied + row.reason
    right = reason in done.stderr if row.reason else done.returncode == 0
    say(f"\n{row.user or 'local user'}$ docker {row.command}")
    for line in answer.splitlines():
        say(f"  {line}")
    if not right:
        say(f"  WRONG: expected {reason if row.reason else 'this to be allowed'}")
    return right


if __name__ == "__main__":
    sys.exit(main())
