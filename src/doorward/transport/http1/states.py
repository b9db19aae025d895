"""The states of an HTTP/1.1 connection.

What is read, from the parser's events:

            head_ends          body_ends
    head ─────────────▶ body ─────────────▶ between
     ▲ │ begins                                │ begins
     └─┴───────────────────────────────────────┘

A new connection is in `head`: its first request must come as soon as the rest of a head must.

How far the connection has come, which never goes back:

    open ─ last ─▶ last ─ end ─▶ ending ─ lose ─▶ closed

`last`: no further request is read. `ending`: the last response is written, and the client has time
to read it. From `open` every later state can be reached. An event that leads back, such as `last`
while the connection is `ending`, changes nothing.

A table leads from a state and an event to the next state. A missing event is a defect of ours: the
KeyError reaches the edge of the connection, which ends.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LIFE", "READING"]

READING: Final[dict[str, dict[str, str]]] = {
    "head": {"begins": "head", "head_ends": "body"},
    "body": {"body_ends": "between"},
    "between": {"begins": "head"},
}

LIFE: Final[dict[str, dict[str, str]]] = {
    "open": {"last": "last", "end": "ending", "lose": "closed"},
    "last": {"last": "last", "end": "ending", "lose": "closed"},
    "ending": {"last": "ending", "end": "ending", "lose": "closed"},
    "closed": {"last": "closed", "end": "closed", "lose": "closed"},
}
