"""A process that keeps the plugin answering: it starts it, watches it, and starts it again.

What systemd does where it runs. The socket belongs to this process, so that calls wait in its
queue while the plugin starts again, and none is refused. The plugin sends a sign of life every
second; one that is stopped (SIGSTOP), hangs or has ended is replaced. A watchdog that is killed
leaves the plugin serving: the plugin sees that nobody receives its signs of life, answers what is
under way, and becomes the next watchdog on the same socket (`Service.run`).

Time is counted in rounds of waiting, not read from a clock: on a machine so busy that this process
does not run, it must not conclude that the other one does not.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from doorward.docker.server import BACKLOG, CLOSING, HANDOVER, LISTEN_FD, BindError, bind_unix
from doorward.docker.watch.notify import NOTIFY_FD, READY, WATCHDOG

__all__ = ["SIGNALS", "Watchdog"]

SIGNALS: Final = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM})

ROUND: Final = 0.25
"""Seconds of one round of waiting."""
SILENCE: Final = 12
"""Rounds without a sign of life after which the plugin is replaced."""
STOPPED: Final = 2
"""Rounds after which a process is replaced that the kernel says is stopped."""
START: Final = 1200
"""Rounds in which the plugin must have started, on a busy machine."""
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
"""Seconds until a plugin that ended is started again: they double while it ends soon."""
LONG: Final = 40
"""Rounds of service after which an end is not soon."""
END: Final = 15.0
"""Seconds that the plugin has for open calls when it must end."""
KILLED: Final = 5.0
"""Seconds after SIGKILL at which a plugin that has not ended is given up: the kernel may hold it
for as long as a disk does not answer, and calls must not wait for that."""

_log: Final = logging.getLogger(__name__)


class Watchdog:
    """Runs the plugin on `listener` until a signal ends both."""

    def __init__(
        self, listener: socket.socket, *, unlink: bool = True, has_served: bool = False
    ) -> None:
        self._listener = listener
        # The kernel names the process that called this last as the one that listens.
        listener.listen(BACKLOG)
        self._has_served = has_served
        name = listener.getsockname()
        self._inode = os.stat(name).st_ino if unlink and isinstance(name, str) else 0
        self._given_up: list[_Plugin] = []
        """The plugins that SIGKILL has not ended yet."""

    def run(self) -> int | None:
        """Run the plugin in child processes and replace each that ends or hangs, after a pause of
        at most `LONGEST_PAUSE` seconds, until SIGTERM or SIGINT.

        None in a new child process, where the caller must serve as the plugin. In this process,
        return the exit code: 0 after a signal, or that of a plugin that ended before it ever
        served. SIGHUP is passed on. `SIGNALS` must be blocked.
        """
        gc.collect()
        # The children share this memory as long as no collection writes to its objects.
        gc.freeze()
        pause = FIRST_PAUSE
        while True:
            plugin = _Plugin(self._listener)
            if plugin.pid == 0:
                return None
            ended_by_signal = self._watch(plugin)
            self._has_served = self._has_served or plugin.is_ready
            if ended_by_signal:
                self._end(plugin)
                return 0
            code = plugin.end()
            if code is None:
                _log.error("The plugin does not end after SIGKILL: the watchdog starts another one")
                self._given_up.append(plugin)
            self._given_up = [each for each in self._given_up if not each.has_ended]
            self._bind_again()
            if not self._has_served:
                _log.error(
                    "The plugin never became ready: the watchdog ends too; see the previous errors"
                )
                self._remove_name()
                return code or 1
            pause = FIRST_PAUSE if plugin.rounds > LONG else min(pause * 2, LONGEST_PAUSE)
            _log.error("The plugin has ended: the watchdog starts it again", extra={"after": pause})
            if self._pause(pause):
                self._remove_name()
                return 0

    def _end(self, plugin: _Plugin) -> None:
        """Let the plugin answer its open calls for at most `END` seconds, then end it and remove
        the socket's name.

        The plugin first closes the daemon's connections. The socket is renamed while it still
        answers, so that the daemon waits for a successor instead of calling a plugin that ends.
        """
        plugin.send(signal.SIGTERM)
        # A plugin that is stopped could not act on the signal before.
        plugin.send(signal.SIGCONT)
        time.sleep(HANDOVER)
        with suppress(OSError):
            if self._name:
                os.rename(self._name, self._name + CLOSING)
        plugin.end(END)
        self._remove_name()

    @property
    def _name(self) -> str:
        """The path of the socket; "" if another file is there now, or if this process must not
        remove it.
        """
        name = self._listener.getsockname()
        with suppress(OSError):
            if isinstance(name, str) and os.stat(name).st_ino == self._inode:
                return name
        return ""

    def _remove_name(self) -> None:
        """Remove the socket's file, also under the name that it has while the plugin closes, unless
        another process has replaced it.
        """
        name = self._listener.getsockname()
        if self._inode and isinstance(name, str):
            for each in (name, name + CLOSING):
                with suppress(OSError):
                    if os.stat(each).st_ino == self._inode:
                        os.unlink(each)

    def _watch(self, plugin: _Plugin) -> bool:
        """Wait until the plugin must be replaced, and return False; return True if a signal ends
        this process.
        """
        while True:
            plugin.wait()
            if self._take_signals(plugin):
                return True
            reason = plugin.problem or self._why_unreachable()
            if reason:
                _log.error("The plugin fails: the watchdog ends it", extra={"reason": reason})
                return False

    def _why_unreachable(self) -> str:
        """Return why clients cannot reach the plugin although its process may be well: the socket's
        file was removed. "" if they can.
        """
        name = self._listener.getsockname()
        if self._inode and not os.path.exists(name):
            return f"{name} was removed"
        return ""

    def _bind_again(self) -> None:
        """Replace the socket by a new one at the same path if its file was removed; log an error if
        that fails.
        """
        if self._why_unreachable():
            try:
                listener = bind_unix(self._listener.getsockname())
            except BindError as error:
                _log.error(
                    "The plugin's socket file was removed and cannot be created again",
                    extra={"error": str(error)},
                )
                return
            self._listener.close()
            self._listener = listener
            self._inode = os.stat(listener.getsockname()).st_ino

    def _take_signals(self, plugin: _Plugin | None) -> bool:
        """Return True if a signal that ends the service has come, False otherwise, without waiting;
        SIGHUP is passed on to the plugin.
        """
        while (taken := signal.sigtimedwait(SIGNALS, 0)) is not None:
            if taken.si_signo != signal.SIGHUP:
                return True
            if plugin is not None:
                plugin.send(signal.SIGHUP)
        return False

    def _pause(self, seconds: float) -> bool:
        """Wait for some seconds; return True as soon as a signal ends the service."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)
            if self._take_signals(None):
                return True
        return False


class _Plugin:
    """One child process of the watchdog, with its last messages. `pid` is 0 in the child itself."""

    def __init__(self, listener: socket.socket) -> None:
        # Datagrams, as for sd_notify(3): a message is never cut or joined to the next.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        ours.settimeout(ROUND)
        self._signs = ours
        self.is_ready = False
        self.rounds = 0
        self._silent = self._stopped = 0
        self._code: int | None = None
        # This process has one thread, so that the other one finds every lock free.
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _prepare(theirs.detach(), listener.detach())
        else:
            theirs.close()

    def wait(self) -> None:
        """Wait one round, at most `ROUND` seconds, for messages of the plugin. Note if it is ready,
        and count the rounds in a row in which it was silent or stopped, by which `problem` judges
        it. Only rounds without any message count in `rounds`.
        """
        states: list[bytes] = []
        try:
            states = self._signs.recv(4096).split(b"\n")
        except TimeoutError:
            self._silent += 1
            self.rounds += 1
        except ConnectionError:
            time.sleep(ROUND)  # it has ended
            self._silent += 1
        if READY.encode() in states:
            self.is_ready = True
        if READY.encode() in states or WATCHDOG.encode() in states:
            self._silent = 0
        self._stopped = self._stopped + 1 if self._is_stopped() else 0

    @property
    def problem(self) -> str:
        """The reason why the process must be replaced, "" if there is none: it has ended, it is
        stopped, or it has been silent for too many rounds, of which it has more until it is ready.
        As of the last `wait`.
        """
        if self.has_ended:
            return f"it ended with {self._code}"
        if self._stopped >= STOPPED:
            return "it is stopped"
        if self._silent >= (SILENCE if self.is_ready else START):
            return "it does not notify the watchdog any more"
        return ""

    @property
    def has_ended(self) -> bool:
        """True once the process has ended; it is reaped then."""
        return self._poll() is not None

    def _poll(self) -> int | None:
        """Return the exit code of the process, which is reaped when it has ended; None while it
        runs.
        """
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def _is_stopped(self) -> bool:
        """Return True if the process is stopped, as by SIGSTOP."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False  # `has_ended` says so
        return text.rpartition(")")[2].split()[0] == "T"

    def send(self, number: signal.Signals) -> None:
        # Reaped by `has_ended` alone: until then the number cannot become another process's.
        if not self.has_ended:
            os.kill(self.pid, number)

    def end(self, grace: float = 0.0) -> int | None:
        """End the process and return its exit code; None if it has not ended `KILLED` seconds after
        SIGKILL. With a grace time it first receives SIGTERM and has `grace` seconds.
        """
        if grace:
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)
            until = time.monotonic() + grace
            while not self.has_ended and time.monotonic() < until:
                time.sleep(0.02)
        # SIGKILL ends a stopped process as well.
        self.send(signal.SIGKILL)
        self._signs.close()
        until = time.monotonic() + KILLED
        while not self.has_ended and time.monotonic() < until:
            time.sleep(0.002)
        return self._code


def _prepare(notify: int, listen: int) -> None:
    """Make this new process a child of the watchdog: in its own session, with the two descriptors
    in its environment.

    Variables of systemd are removed, since only the watchdog talks to it.
    """
    # What stops or ends the group of the watchdog must not take the plugin with it.
    os.setsid()
    for name in ("NOTIFY_SOCKET", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    os.environ[NOTIFY_FD] = str(notify)
    os.environ[LISTEN_FD] = str(listen)
    os.environ["WATCHDOG_USEC"] = str(int(ROUND * SILENCE * 1e6))
