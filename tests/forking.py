"""Commands in processes of their own that need not import the command line again.

One process has imported it and forks for each command, which costs a third of a new interpreter. It
imports, for those that follow, the modules of this package that commands before have imported.
`run_command` asks it; `command_folder` has a `doorward` for shells that asks it too. For tests that
look at what a command prints and does; those of a start start the command itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from tests.waiting import PATIENCE

__all__ = ["command_folder", "run_command"]

ROOT: Final = Path(__file__).resolve().parent.parent
_CLONE_NEWNET: Final = 0x40000000
_MOST: Final = 1 << 17
"""Bytes of a request: arguments and environment."""
_SOCKET: Final = "s"
_OTHERS: Final = ("grpc", "ray")
"""Packages with threads, which do not survive a fork."""

_COMMAND: Final = """\
#!{python} -ISs
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect({path!r})
request = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
for number in (0, 1, 2):
    os.close(number)
answer = connection.recv(64)
code = json.loads(answer) if answer else 1
os._exit(code if code >= 0 else 128 - code)
"""
"""The program of the folder of commands. It closes its files: a reader of a pipe sees its end."""


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
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(_folder() / _SOCKET))
            files = [file.fileno() for file in (given, out, err)]
            socket.send_fds(connection, [json.dumps(request).encode()], files)
            answer = connection.recv(_MOST)
        assert answer, "the process that forks has ended"
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["doorward", *arguments], json.loads(answer), *texts)


def command_folder() -> Path:
    """A folder for `PATH` in which `doorward` is a command that is forked."""
    folder = _folder() / "bin"
    if not folder.exists():
        folder.mkdir()
        command = folder / "doorward"
        path = str(_folder() / _SOCKET)
        command.write_text(_COMMAND.format(python=sys.executable, path=path))
        command.chmod(0o755)
    return folder


@cache
def _folder() -> Path:
    """The folder with the socket of the process that forks; the process ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="dwf-")
    path = Path(folder.name)
    ours, theirs = socket.socketpair()
    with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path / _SOCKET))
        listener.listen(64)
        numbers = [theirs.fileno(), listener.fileno()]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", *map(str, numbers)],
            cwd=ROOT,
            pass_fds=numbers,
        )

    def end() -> None:
        ours.close()
        process.wait(PATIENCE)
        folder.cleanup()

    atexit.register(end)
    return path


def serve(alive: socket.socket, listener: socket.socket) -> None:
    """Fork for each request, until the other end of `alive` is closed."""
    from doorward.cli.main import run

    with open(os.devnull, "w") as nowhere:
        kept, sys.stdout = sys.stdout, nowhere
        for command in ("eval", "envoy"):
            run([command, "--help"])  # imports what the command needs
        sys.stdout = kept
    gc.freeze()
    with selectors.DefaultSelector() as selector:
        selector.register(alive, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ, partial(_start, selector, listener))
        while True:
            for key, _ in selector.select():
                if key.fileobj is alive:
                    return
                key.data()


def _start(selector: selectors.BaseSelector, listener: socket.socket) -> None:
    """Fork for the request of the next connection; the answer is sent when the child has ended."""
    from doorward.cli.main import main

    connection, _ = listener.accept()
    text, files, _, _ = socket.recv_fds(connection, _MOST, 3)
    if not text:
        connection.close()
        return
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        connection.close()
        os.close(read_end)
        become(json.loads(text), files)
        atexit.register(_report, write_end, {*sys.modules})
        main()
    for file in (*files, write_end):
        os.close(file)
    ended = os.pidfd_open(child)

    def finish() -> None:
        selector.unregister(ended)
        os.close(ended)
        with contextlib.suppress(KeyError):
            selector.unregister(connection)
        _, status = os.waitpid(child, 0)
        with connection, contextlib.suppress(OSError):  # nobody may be there any more
            connection.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
        os.set_blocking(read_end, False)
        with open(read_end, "rb", buffering=0) as report:
            _import((report.read(_MOST) or b"").decode().splitlines())

    def give_up() -> None:
        """End the command of a caller that has ended."""
        selector.unregister(connection)
        os.kill(child, signal.SIGTERM)

    selector.register(ended, selectors.EVENT_READ, finish)
    selector.register(connection, selectors.EVENT_READ, give_up)


def _report(pipe: int, known: set[str]) -> None:
    """Write the modules of this package that a command has imported."""
    if not any(name in sys.modules for name in _OTHERS):
        names = [name for name in sys.modules if name not in known and name[:9] == "doorward."]
        os.set_blocking(pipe, False)
        with contextlib.suppress(OSError):
            os.write(pipe, "".join([f"{name}\n" for name in names]).encode())


def _import(names: Sequence[str]) -> None:
    """Import what commands will need that are like one before."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if names:
        gc.freeze()


def become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Make this process what a new one would be."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if request.get("namespace"):
        enter_network(request["namespace"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    # In place of the folder of `-m`, as a script has it.
    sys.path[:1] = [
        str(Path(sys.executable).parent),
        *filter(None, os.environ.get("PYTHONPATH", "").split(":")),
    ]
    sys.argv = ["doorward", *request["arguments"]]


def enter_network(path: str) -> None:
    """`os.setns`, which Python has from 3.12 on."""
    file = os.open(path, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(file, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    os.close(file)


if __name__ == "__main__":
    serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
