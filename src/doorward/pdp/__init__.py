"""Policies, data and an input become a `Decision`: the policy decision point.

What is here knows files, threads and clocks, and no wire: the adapters (`rest`, `envoy`, `docker`)
turn their requests into an input and a decision into their answer.
"""

from __future__ import annotations

__all__: list[str] = []
