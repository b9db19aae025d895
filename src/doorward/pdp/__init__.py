"""Policies, data and an input become a `Decision`: the policy decision point.

    point = from_folder("policies", "data").watch()
    point.decide_now("shop/allow", {"user": "ann"}).allowed

What is here knows files, threads and clocks, and no wire: the adapters (`rest`, `envoy`, `docker`)
turn their requests into an input and a decision into their answer. A name is loaded when it is
first used: the commands read files here, and decide without a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.base.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.bundles.loader import Loaded, LoadError, load
    from doorward.config.identity_options import Issuer
    from doorward.embedded.in_process import DecisionPoint, from_bundle, from_folder, from_modules
    from doorward.pdp.decision import Decision, DecisionError
    from doorward.pdp.pdp import PDP, DecisionObserver, DecisionSink, Tee
    from doorward.pdp.snapshot import Settings, Snapshot, build, read
else:
    __getattr__ = _exporter(
        __name__,
        {
            "bundles.loader": "LoadError Loaded load",
            "config.identity_options": "Issuer",
            "embedded.in_process": "DecisionPoint from_bundle from_folder from_modules",
            "pdp.decision": "Decision DecisionError",
            "pdp.pdp": "PDP DecisionObserver DecisionSink Tee",
            "pdp.snapshot": "Settings Snapshot build read",
        },
        below="doorward",
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
