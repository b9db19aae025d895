"""The states of an HTTP/2 connection, as the server sees it (RFC 9113, sections 3.4, 6.2 and 6.8).

What may come next:

             preface            settings        block_begins
    preface ─────────▶ settings ─────────▶ open ────────────▶ block
                                           │ ▲ ◀──────────── │
                                  settings └─┘  block_ends

In `settings` the next frame is SETTINGS, in `block` it is CONTINUATION, in `open` any but that.

How the connection ends:

             announce             finish
    serving ─────────▶ announced ─────────▶ final
       └───────────────────┴─────────────────┴── close ──▶ closed

`announced`: a GOAWAY without a limit was sent, and clients start no new streams once they have read
it. `final`: the last stream that is served was named. `close` leads from every state to `closed`.

A table leads from a state and an event to the next state. A missing event is a defect of ours: the
KeyError reaches the edge of the connection, which ends.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ENDING", "RECEIVING"]

RECEIVING: Final[dict[str, dict[str, str]]] = {
    "preface": {"preface": "settings"},
    "settings": {"settings": "open"},
    "open": {"settings": "open", "block_begins": "block"},
    "block": {"block_ends": "open"},
}

ENDING: Final[dict[str, dict[str, str]]] = {
    "serving": {"announce": "announced", "close": "closed"},
    "announced": {"finish": "final", "close": "closed"},
    "final": {"close": "closed"},
    "closed": {"close": "closed"},
}
