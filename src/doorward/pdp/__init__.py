"""Policies, data and an input become a `Decision`: the policy decision point.

    point = from_folder("policies", "data").watch()
    point.decide_now("shop/allow", {"user": "ann"}).allowed

What is here knows files, threads and clocks, and no wire: the adapters (`rest`, `envoy`, `docker`)
turn their requests into an input and a decision into their answer. A name is loaded when it is
first used: the commands read files here, and decide without a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.pdp.decision import Decision, DecisionError
    from doorward.pdp.identity_options import Issuer
    from doorward.pdp.in_process import DecisionPoint, from_bundle, from_folder, from_modules
    from doorward.pdp.loader import Loaded, LoadError, load
    from doorward.pdp.pdp import PDP, DecisionObserver, DecisionSink, Tee
    from doorward.pdp.snapshot import Settings, Snapshot, build, read
else:
    __getattr__ = _exporter(
        __name__,
        {
            "decision": "Decision DecisionError",
            "identity_options": "Issuer",
            "in_process": "DecisionPoint from_bundle from_folder from_modules",
            "loader": "LoadError Loaded load",
            "pdp": "PDP DecisionObserver DecisionSink Tee",
            "snapshot": "Settings Snapshot build read",
        },
        below="doorward.pdp",
    )

__all__ = [
    "PDP",
    "Decision",
    "DecisionError",
    "DecisionObserver",
    "DecisionPoint",
    "DecisionSink",
    "Issuer",
    "LoadError",
    "Loaded",
    "Settings",
    "Snapshot",
    "Tee",
    "build",
    "from_bundle",
    "from_folder",
    "from_modules",
    "load",
    "read",
]
