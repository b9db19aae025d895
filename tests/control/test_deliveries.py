"""Events reach a collector and an object store whole, and as often as they should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from moto.server import ThreadedMotoServer
from tests.telemetry.collectors import http_collector, texts_of
from tests.waiting import PATIENCE

from doorward.config.configuration import Config, parse_config
from doorward.control.client import ServiceClient
from doorward.control.uploads import Uploads
from doorward.telemetry.otlp import rejected_records

EVENT = {
    "decision_id": "d-1",
    "input": {"huge": 10**5000, "timestamp": "1999-01-01T00:00:00Z", "text": "grüße"},
    "labels": {"id": "server-1"},
    "path": "p/allow",
    "span_id": "b7ad6b7169203331",
    "timestamp": "2026-11-23T01:02:03.5Z",
    "trace_id": "0af7651916cd43dd8448eb211c80319c",
}
# As the decision log writes it: no number is too long.
TEXT = (
    json.dumps({**EVENT, "input": {**EVENT["input"], "huge": 0}}, ensure_ascii=False)  # type: ignore[dict-item]
    .replace('"huge": 0', '"huge": 1' + "0" * 5000)
    .encode()
)
OTHER = json.dumps({**EVENT, "decision_id": "d-2", "input": 1, "trace_id": ""}).encode()


def config_for(url: str, **options: Any) -> Config:
    document: dict[str, Any] = {"services": {"s": {"url": url}}, "decision_logs": options}
    if options["protocol"] == "s3":
        document["services"]["s"]["credentials"] = {"s3_signing": {"environment_credentials": {}}}
    return parse_config(json.dumps(document), environment={})


def client(url: str, **options: Any) -> ServiceClient:
    return ServiceClient(config_for(url, **options).services["s"])


def uploads(url: str, lost: list[tuple[str, int]], **options: Any) -> Uploads:
    upload = config_for(url, **options).decision_logs.upload
    assert upload is not None

    def note(reason: str, count: int) -> None:
        lost.append((reason, count))

    return Uploads(upload, client(url, **options), on_lost=note)


def test_a_collector_gets_records() -> None:
    lost: list[tuple[str, int]] = []
    with http_collector() as collector:
        sending = uploads(f"http://{collector.address}", lost, protocol="otlp")
        sending.write([TEXT, OTHER])
        assert sending.send()
        first, second = collector.records
        assert first.body.string_value.encode() == TEXT
        assert second.body.string_value.encode() == OTHER
        assert first.time_unix_nano == 1795395723_500_000_000
        assert first.trace_id.hex() == EVENT["trace_id"]
        assert first.span_id.hex() == EVENT["span_id"]
        assert (second.trace_id, second.span_id) == (b"", b"")
        assert texts_of(first.attributes) == {
            "event.name": "opa.decision",
            "opa.decision_id": "d-1",
            "opa.path": "p/allow",
        }
        assert collector.resources[0]["service.instance.id"] == "server-1"
        collector.status = 503
        sending.write([TEXT])
        assert not sending.send()
        collector.status = 200
        assert sending.send()
        assert len(collector.records) == 3
    assert lost == []


def test_what_a_collector_rejects_is_counted() -> None:
    # partial_success { rejected_log_records: 300, error_message: "x" }
    assert rejected_records(b"\x0a\x06\x08\xac\x02\x12\x01x") == 300
    for broken in (b"", b"\x0a", b"\x0a\x05\x08", b"\xff" * 30, b"\x09\x00"):
        assert rejected_records(broken) == 0


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket of a server of S3."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = f"http://127.0.0.1:{server.get_host_and_port()[1]}/decisions"
    assert httpx.put(url).status_code == 200
    yield url
    server.stop()


def objects(url: str) -> list[str]:
    """The names of a bucket's objects, with the server's own signature check left to it."""
    listing = ElementTree.fromstring(httpx.get(url, timeout=PATIENCE).text)
    return [str(each.text) for each in listing.iter() if each.tag.endswith("}Key")]


def test_a_bucket_gets_each_chunk_once(bucket: str) -> None:
    lost: list[tuple[str, int]] = []
    sending = uploads(bucket, lost, protocol="s3", resource="/team/opa/")
    sending.write([TEXT, OTHER])
    assert sending.send()
    # What was sent already and is sent again is the same object.
    again = uploads(bucket, lost, protocol="s3", resource="team/opa")
    again.write([TEXT, OTHER])
    assert again.send()
    (name,) = objects(bucket)
    assert name.startswith("team/opa/2026/11/23/01/")
    assert name.endswith(".json.gz")
    again.write([OTHER])
    assert again.send()
    assert len(objects(bucket)) == 2
    # The body comes unpacked, as the object says that it is compressed.
    answer = client(bucket, protocol="s3").request("GET", name)
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.body == b"[" + TEXT + b"," + OTHER + b"]"
    assert lost == []
