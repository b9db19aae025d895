"""A server on a real socket, for clients that others wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.config.status_options import StatusOptions
from doorward.control.status import StatusReporter
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.pdp.store import Store
from doorward.rest.app import Api
from doorward.rest.server import HttpServer, Listener, bind
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

__all__ = ["serving"]


@contextmanager
def serving(**policies: str) -> Iterator[int]:
    """The port of a server with `policies`, by name without `.rego`."""
    loaded = Loaded({f"{name}.rego": text for name, text in policies.items()})
    pdp = PDP(build(loaded))
    status = StatusReporter(plugins=dict)
    status.configure(StatusOptions(), None, {"id": "test"}, starts=False)
    api = Api(pdp, Config(), Health(), Metrics("1"), store=Store(pdp, loaded), status=status)
    socket = bind("127.0.0.1:0")
    listener = Listener("127.0.0.1:0", socket, api, short_path=api.short_path)
    server = HttpServer([listener], grace=1.0)
    server.start()
    try:
        yield socket.getsockname()[1]
    finally:
        server.close()
        api.close()
