"""How often a test repeats itself with random programs: a third of it in `make test`.

Recorded cases are never left out; this is for what a generator writes, of which there is no end.
`DOORWARD_ROUNDS=all`, as in `make soak`, repeats as often as the test says.
"""

from __future__ import annotations

import os

__all__ = ["rounds"]


def rounds(count: int) -> int:
    """Return the number of repetitions of this run, where the long form has `count`."""
    return count if os.environ.get("DOORWARD_ROUNDS") == "all" else (count + 2) // 3
