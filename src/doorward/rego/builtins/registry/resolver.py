"""Host names become addresses, in bounded time.

The system's resolver cannot be interrupted, so it runs in a thread of its own: the evaluation
continues at the deadline, and at most `MAX_PENDING` look-ups can be stuck.
"""

from __future__ import annotations

from threading import BoundedSemaphore, Thread
from typing import Final

__all__ = ["resolve"]

MAX_PENDING: Final = 32
"""The most look-ups in progress at a time, those without an answer included; further ones wait."""

_pending: Final = BoundedSemaphore(MAX_PENDING)


class _LookUp(Thread):
    """One DNS look-up in progress; `addresses` or `error` is set when it has ended."""

    def __init__(self, name: str) -> None:
        super().__init__(name="name look-up", daemon=True)
        self.host = name
        self.addresses: list[str] = []
        self.error: OSError | None = None

    def run(self) -> None:
        """Resolve the host in this thread and set `addresses`, or `error` if that fails. Frees the
        slot of this look-up in the end.
        """
        import socket  # only policies that look names up need it

        try:
            entries = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
            self.addresses = list(
                # Without the zone of a link-local address, which names an interface of this
                # machine.
                dict.fromkeys(str(entry[4][0]).split("%")[0] for entry in entries)
            )
        except (OSError, UnicodeError) as error:
            self.error = error if isinstance(error, OSError) else OSError("no such host")
        finally:
            _pending.release()


def resolve(name: str, seconds: float) -> list[str]:
    """The IP addresses of a host, without duplicates. Waits up to `seconds` for a slot, then up to
    `seconds` for the resolver; TimeoutError after either. OSError if the host cannot be resolved.
    """
    if not _pending.acquire(timeout=seconds):
        raise TimeoutError
    look_up = _LookUp(name)
    look_up.start()
    look_up.join(seconds)
    if look_up.is_alive():
        raise TimeoutError
    if look_up.error is not None:
        raise look_up.error
    return look_up.addresses
