"""The decision point as a process: its parts put together, its workers, its logs.

    run ─SidecarOptions─▶ Sidecar: snapshot, listeners, planes, logs, one supervision
                     └──▶ WorkerGroup: a parent that loads and asks, and workers, each a Sidecar

The only room that knows all adapters. Commands hand it their options.
"""

from __future__ import annotations

__all__: list[str] = []
