"""Commands in processes of their own that need not import the command line again.

`run_command` asks one process that has imported it, and that forks for each command: it costs a
third of a new interpreter. For tests that look at what a command prints and does; those of a start
start the command itself.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any, Final

from tests.waiting import PATIENCE

__all__ = ["run_command"]

ROOT: Final = Path(__file__).resolve().parent.parent
_CLONE_NEWNET: Final = 0x40000000
_MOST: Final = 1 << 20
"""Bytes of a request: arguments and environment."""
_LOCK: Final = Lock()


def run_command(
    arguments: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    namespace: str = "",
    input: str = "",
) -> subprocess.CompletedProcess[str]:
    """Return what `doorward …` prints, and its exit code; in the network namespace of a name."""
    request = {
        "arguments": [*arguments],
        "folder": str(folder or Path.cwd()),
        "environment": dict(os.environ if environment is None else environment),
        "namespace": f"/run/netns/{namespace}" if namespace else "",
    }
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(input.encode())
        given.seek(0)
        with _LOCK:
            connection = _connection()
            files = [file.fileno() for file in (given, out, err)]
            socket.send_fds(connection, [json.dumps(request).encode()], files)
            answer = connection.recv(_MOST)
        assert answer, "the process that forks has ended"
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["doorward", *arguments], json.loads(answer), *texts)


@cache
def _connection() -> socket.socket:
    """The way to the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
        )
    ours.settimeout(PATIENCE)

    def end() -> None:
        ours.close()
        process.wait(PATIENCE)

    atexit.register(end)
    return ours


def serve(connection: socket.socket) -> None:
    """Fork for each request, and answer with the exit code of what it ran."""
    from doorward.cli.main import main, run

    with open(os.devnull, "w") as nowhere:
        kept, sys.stdout = sys.stdout, nowhere
        for command in ("eval", "envoy"):
            run([command, "--help"])  # imports what the command needs
        sys.stdout = kept
    gc.freeze()
    while True:
        text, files, _, _ = socket.recv_fds(connection, _MOST, 3)
        if not text:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            become(json.loads(text), files)
            main()
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        connection.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Make this process what a new one would be."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if request["namespace"]:
        enter_network(request["namespace"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["doorward", *request["arguments"]]


def enter_network(path: str) -> None:
    """`os.setns`, which Python has from 3.12 on."""
    file = os.open(path, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(file, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    os.close(file)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
