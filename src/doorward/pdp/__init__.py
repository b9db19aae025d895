"""Policies, data and an input become a `Decision`: the policy decision point.

    pdp = PDP(read(["policy.rego", "data/"]))
    pdp.decide("envoy/authz/allow", {"user": "ann"}).result

What is here knows files, threads and clocks, and no wire: the adapters (`rest`, `envoy`, `docker`)
turn their requests into an input and a decision into their answer.
"""

from __future__ import annotations

from doorward.pdp.decision import Decision, DecisionError
from doorward.pdp.loader import Loaded, LoadError, load
from doorward.pdp.pdp import PDP, DecisionSink
from doorward.pdp.snapshot import Settings, Snapshot, build, read

__all__ = [
    "PDP",
    "Decision",
    "DecisionError",
    "DecisionSink",
    "LoadError",
    "Loaded",
    "Settings",
    "Snapshot",
    "build",
    "load",
    "read",
]
