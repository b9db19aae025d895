"""The decider of an input: the engine in this process (`embedded`), or a server (`remote`).

Each is a `Decider` and raises nothing but `PdpError`; `trial` tells whether one decides at all.
"""

from __future__ import annotations

__all__: list[str] = []
