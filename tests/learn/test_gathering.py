"""Lines of all kinds are gathered plain, from gzip and from Parquet, alike."""

from __future__ import annotations

import gzip
import json
import pickle
from importlib import import_module
from pathlib import Path

import pytest
from tests.learn.logs import line, text_of

from doorward.learn import gathering
from doorward.learn.gathering import Gather, Gathered, failed_requests
from doorward.learn.observations import LearnError
from doorward.learn.reading import Options, request_id_of
from doorward.replay import replay

LINES = [line(f"u{n % 9}", f"/papers/{n}", number=n) for n in range(600)]


def gather(path: Path) -> Gathered:
    return replay([str(path)], Gather(Options()), processes=1, size=20_000)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(text_of(LINES))
    return path


def test_forms_and_chunks_of_a_log_do_not_matter(plain: Path, tmp_path: Path) -> None:
    expected = gather(plain).observations
    assert expected.events == 600
    others = []
    (tmp_path / "log.gz").write_bytes(gzip.compress(plain.read_bytes()))
    others.append(gather(tmp_path / "log.gz"))
    (tmp_path / "log.json").write_text(json.dumps(LINES))
    others.append(gather(tmp_path / "log.json"))
    import_module("duckdb").sql(  # whose threads begin with it
        "COPY (SELECT json->>'decision_id' AS decision_id, json->>'path' AS path, "
        "json->>'timestamp' AS timestamp, (json->'input')::VARCHAR AS input, "
        f"(json->'result')::VARCHAR AS result FROM read_ndjson_objects('{plain}')) "
        f"TO '{tmp_path / 'log.parquet'}' (FORMAT parquet)"
    )
    others.append(gather(tmp_path / "log.parquet"))
    for other in others:
        assert other.observations.allowed == expected.allowed
        assert other.observations.activity == expected.activity


def test_ids_of_requests_that_failed_are_digests(tmp_path: Path) -> None:
    lines = [
        {"method": "GET", "path": "/a", "status": status, "request_id": f"r-{status}", "user": "u"}
        for status in (200, 302, 404, 500)
    ]
    (tmp_path / "access.log").write_text(text_of(lines))
    failed = failed_requests([str(tmp_path / "access.log")])
    assert failed == {request_id_of("r-404"), request_id_of("r-500")}


def test_ids_of_requests_that_failed_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MAX_FAILED", 3)
    lines = [
        {"method": "GET", "path": "/a", "status": 404, "request_id": f"r-{n}", "user": "u"}
        for n in range(9)
    ]
    (tmp_path / "access.log").write_text(text_of(lines))
    with pytest.raises(LearnError, match="shorter"):
        failed_requests([str(tmp_path / "access.log")])


def test_a_job_can_be_sent(plain: Path) -> None:
    job = pickle.loads(pickle.dumps(Gather(Options())))
    part = pickle.loads(pickle.dumps(job.job().decide(plain.read_bytes())))
    total = job.empty()
    total.merge(part)
    assert total.observations.allowed == gather(plain).observations.allowed
