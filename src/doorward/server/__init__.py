"""The decision point as a process: its parts put together, its workers, its logs.

    run ─SidecarOptions─▶ Sidecar: snapshot, listeners, planes, logs, one supervision
                     └──▶ WorkerGroup: a parent that loads and fetches, and workers, each a Sidecar

Only this room imports all adapters. The commands pass options to it.
"""

from __future__ import annotations

__all__: list[str] = []
