"""Decision logs at a fixed rate into a service that is slow: what is dropped, and what it costs.

python benchmarks/decision_uploads.py --rate 2000 --seconds 300 --answer 0.2
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from doorward.bundles.loader import Loaded
from doorward.config.configuration import DecisionLogs
from doorward.config.services import Service
from doorward.config.upload_options import UploadOptions
from doorward.control.client import ServiceClient
from doorward.control.uploads import Uploads
from doorward.decision_log.log import DecisionLog
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego import Value
from doorward.telemetry.log import line_for


class Slow(BaseHTTPRequestHandler):
    """Counts events, and answers late."""

    received = 0
    lock = threading.Lock()
    answer = 0.2
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        time.sleep(self.answer)
        events = len(json.loads(gzip.decompress(content)))
        with Slow.lock:
            Slow.received += events
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def serve() -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2_000, help="decisions a second")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--answer", type=float, default=0.2, help="seconds until the sink answers")
    parser.add_argument("--spool", default="", help="a folder to keep what waits in")
    options = parser.parse_args()
    Slow.answer = options.answer
    lost: dict[str, int] = {}

    def lose(reason: str, events: int = 1) -> None:
        lost[reason] = lost.get(reason, 0) + events

    upload = UploadOptions("s", min_delay=1, max_delay=1, spool=options.spool)
    client = ServiceClient(Service("s", f"http://127.0.0.1:{serve()}"))
    uploads = Uploads(upload, client, on_lost=lose)
    log = DecisionLog(
        None,
        line_for("json"),
        labels={"id": "benchmark"},
        options=DecisionLogs(upload=upload),
        on_lost=lose,
        sinks=[uploads],
    )
    pdp = PDP(build(Loaded({"p.rego": 'package p\n\nallow if input.path[0] == "people"\n'})), log)
    uploads.start()
    started, cpu = time.monotonic(), time.process_time()
    count = 0
    while (elapsed := time.monotonic() - started) < options.seconds:
        while count < elapsed * options.rate:
            input: Value = {
                "user": f"user-{count}",
                "path": ["people", str(count)],
                "x": {"a": "b"},
            }
            decision = pdp.decide("p/allow", input, is_parsed=True)
            pdp.record(decision, input, size=200)
            count += 1
        time.sleep(0.005)
    pdp.close()
    spent = time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count} decisions in {options.seconds:g} s, {Slow.received} arrived, lost {lost or 0}")
    print(f"{spent / count * 1e6:.0f} µs of CPU each (decision and sink included), {memory:.0f} MB")


if __name__ == "__main__":
    main()
