"""The running plugin is watched: `notify` sends its signs of life, `watchdog` restarts it without
them, `status` is what it says of itself to the commands.
"""

from __future__ import annotations

__all__: list[str] = []
