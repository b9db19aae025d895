"""What is fetched and reported begins without looking dead for a moment."""

from __future__ import annotations

import json
from pathlib import Path

from tests.control.test_bundles import Service

from doorward.bundles.loader import Loaded
from doorward.config.configuration import parse_config
from doorward.control.plane import ControlPlane
from doorward.edge import Part, Parts
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import Store
from doorward.telemetry.health import Health


class Watched(Parts):
    """Parts that must be well from the moment on that they count."""

    def __init__(self) -> None:
        super().__init__()
        self.added: dict[str, str | None] = {}

    def add(self, part: Part) -> None:
        self.added[part.name] = part.problem
        super().add(part)


def test_no_part_is_dead_before_it_begins(tmp_path: Path) -> None:
    document = {
        "services": {"s": {"url": "http://s"}},
        "discovery": {"resource": "discovery"},
        "bundles": {"app": {"resource": "app.tar.gz"}},
        "status": {"service": "s"},
        "persistence_directory": str(tmp_path),
    }
    config, parts = parse_config(json.dumps(document), environment={}), Watched()
    store = Store(PDP(build(Loaded())), Loaded())
    plane = ControlPlane(config, store, Health(), transport=Service(), parts=parts)
    plane.start()
    plane.close()
    assert parts.added == {"status": None, "bundle-app": None, "discovery": None}
