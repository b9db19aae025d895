"""A socket in front of the Docker daemon's, whose callers are known, decided as the plugin decides.

    client -> head, body -> caller, request -> Plugin.judge -> canonical request -> daemon
    client <- the part that the caller may see <- answer <- daemon

Nothing reaches the daemon that was not decided, and no byte of a request is passed on as it came:
the request line, the headers and the JSON are written from the values that the policy saw. Streams
(uploads, logs, connections that are taken over) are decided once, before their first byte.

`wire` and `messages` know HTTP/1.1; `peers` finds out who calls; `requests` reads and writes
requests, `exchange` carries one through, `connection` is a client, `daemon` the other side;
`service` runs them.
"""

from __future__ import annotations

__all__: list[str] = []
