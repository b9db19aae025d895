"""Hostile CheckRequests without end: each is answered, soon, and strict mode lets nothing pass that
a reader of multipart bodies sees otherwise.

    python fuzz/request.py [--seconds 60] [--seed 0]

Requests are made of the examples of the tests, of which bytes, headers and bodies are changed, and
go through the whole check in both modes. An exception, a call that takes too long, an answer that
is not a CheckResponse or has no status, and a disagreement each end the run and print the request.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from envoy.service.auth.v3 import external_auth_pb2 as auth
from google.protobuf.message import DecodeError
from tests.enforcement.forms import content_type, disagreeing, mutated
from tests.envoy.deciders import Fixed, request
from tests.envoy.request.test_hostile import HOSTILE
from tests.envoy.request.test_strict import PASSED, REFUSED

from doorward.enforcement.strict_multipart import check_multipart
from doorward.envoy.check import Check, make_check
from doorward.envoy.options import Options

PER_CALL: Final = 0.25
PER_BYTE: Final = 5e-6
"""Seconds of the processor's time: what a busy machine needs ten times over."""

_HEADERS: Final = (
    "authorization", "content-type", "content-length", "content-encoding", "transfer-encoding",
    "host", ":authority", ":path", ":method", "upgrade", "cookie", "x-forwarded-for",
    "x-forwarded-host", "x-envoy-auth-partial-body", "x-http-method-override",
)  # fmt: skip
_TEXTS: Final = (
    '"', "\\", ",", ";", "=", " ", "\t", "\r\n ", "\0", "%", "%00", "%2e", "%C0%AF", "é", "\u0301",
    "gzip", "chunked", "identity", "application/json", "multipart/form-data; boundary=BB", "utf-16",
    "Bearer a", "Digest a=b", "1", "-1", "+1", "99999999999999999999", "{", "[", '{"a":1}', "../",
    "//", "_method=DELETE", "&", "?", "#", "true", "h2c", "websocket",
)  # fmt: skip


def requests(seed: int) -> Iterator[bytes]:
    """CheckRequests, always the same for one seed."""
    source = random.Random(seed)
    examples = [raw for raw, _ in REFUSED] + PASSED + [make(20) for make in HOSTILE.values()]
    bodies = mutated(seed)
    while True:
        raw = source.choice(examples)
        kind = source.randrange(4)
        if kind == 0:
            yield _change_bytes(source, raw)
        elif kind == 1:
            body = next(bodies)
            headers = {"content-type": content_type(), "content-length": str(len(body))}
            yield request("/", "POST", headers, raw_body=body)
        else:
            yield _change_fields(source, raw)


def _change_bytes(source: random.Random, raw: bytes) -> bytes:
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(len(raw) + 1)
        end = min(len(raw), at + source.choice((0, 1, 1, 4)))
        raw = raw[:at] + source.randbytes(source.choice((0, 1, 1, 3))) + raw[end:]
    return raw


def _change_fields(source: random.Random, raw: bytes) -> bytes:
    check = auth.CheckRequest.FromString(raw)
    http = check.attributes.request.http
    for _ in range(source.choice((1, 2, 3))):
        text = source.choice(_TEXTS) * source.choice((1, 1, 1, 2, 50))
        name = source.choice(_HEADERS)
        match source.randrange(5):
            case 0:
                http.headers[name] = text
            case 1:
                http.headers[name] = http.headers[name] + text
            case 2:
                at = source.randrange(len(http.path) + 1)
                http.path = http.path[:at] + text + http.path[at:]
            case 3:
                at = source.randrange(len(http.body) + 1)
                http.body = http.body[:at] + text + http.body[at:]
            case _:
                http.raw_body += text.encode()
    if source.random() < 0.5:
        http.headers["content-length"] = str(len(http.raw_body or http.body.encode()))
    changed: bytes = check.SerializeToString()
    return changed


def fault(check: Check, raw: bytes) -> str:
    """What is wrong with the answer; "" when nothing is."""
    begin = time.thread_time()
    answer = check(raw)  # an exception ends the run with its traceback
    took = time.thread_time() - begin
    if took > PER_CALL + PER_BYTE * len(raw):
        return f"took {took:.3f} s"
    try:
        response = auth.CheckResponse.FromString(answer)
    except DecodeError:
        return "is not answered by a CheckResponse"
    return "" if response.HasField("status") else "is answered without a status"


def disagreement(raw: bytes) -> str:
    """The readers that see another form in a request that strict mode let pass."""
    http = auth.CheckRequest.FromString(raw).attributes.request.http
    if http.headers.get("content-type") != content_type():
        return ""
    body = http.raw_body or http.body.encode()
    return ", ".join(disagreeing(check_multipart("BB", body), body)) if body else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--requests", type=int, help="end after so many")
    options = parser.parse_args()
    logging.disable()
    decider = Fixed(True, logs_decisions=False)
    strict = make_check(decider, Options(strict=True))
    checks = [strict, make_check(decider, Options()), make_check(decider, Options(), version="v2")]
    ends = time.monotonic() + options.seconds
    read = passed = 0
    for raw in islice(requests(options.seed), options.requests):
        if time.monotonic() > ends:
            break
        read += 1
        fault_ = next((what for check in checks if (what := fault(check, raw))), "")
        decider.queries.clear()
        strict(raw)
        if decider.queries:
            passed += 1
            fault_ = fault_ or disagreement(raw)
        if fault_:
            sys.stdout.write(f"{fault_}: {raw!r}\n")
            return 1
    sys.stdout.write(f"{read} requests of seed {options.seed}, {passed} passed strict mode\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
