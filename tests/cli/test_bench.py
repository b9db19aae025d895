"""`bench` against the shape of what OPA's printed: every number is 0 there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows

from doorward.bundles.loader import LoadError
from doorward.cli import bench
from doorward.cli.bench_server import BenchServer, arguments_of
from doorward.cli.main import run

pytestmark = pytest.mark.long

EXTERNAL = "external_resolve"
"""The timer of external data, of which there is none here, and in newer versions of OPA."""


def rows() -> list[Any]:
    recorded = read_rows(GOLDEN / "cli-partial.jsonl.gz")
    return [pytest.param(row, id=row["id"]) for row in recorded if row["argv"][1] == "bench"]


@pytest.fixture(autouse=True)
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS", 0.01)


@pytest.mark.parametrize("row", rows())
def test_the_answer_has_the_shape_of_opas(
    row: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in row["files"].items():
        (tmp_path / name).write_text(text)
    assert run(row["argv"][1:]) == row["exit"]
    out, err = capsys.readouterr()
    assert err.partition("Usage:")[0] == row["stderr"].partition("Usage:")[0]
    assert shape(out) == wanted(row["stdout_shape"])


def shape(out: str) -> Any:
    if not out.startswith("{"):
        return re.sub(r"-+", "-", re.sub(r" +", " ", re.sub(r"\d+(?:\.\d+)?", "0", out)))
    documents, decoder, rest = [], json.JSONDecoder(parse_int=lambda _: 0, parse_float=zero), out
    while rest:
        document, end = decoder.raw_decode(rest)
        documents.append(document)
        rest = rest[end:].lstrip()
    return documents if len(documents) > 1 else documents[0]


def zero(_text: str) -> int:
    return 0


def wanted(recorded: Any) -> Any:
    if isinstance(recorded, str):
        lines = re.sub(r"(\t) (0 \w+_external_resolve_ns_[^\t\n]+)", "", recorded).splitlines(True)
        return re.sub(r"-+", "-", "".join([line for line in lines if EXTERNAL not in line]))
    if isinstance(recorded, list):
        return [wanted(each) for each in recorded]
    extra = {name: 0 for name in recorded.get("Extra", ()) if EXTERNAL not in name}
    return {**recorded, "Extra": extra} if extra else recorded


def test_each_figure_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.rego").write_text("package p\n\nslow := sum(numbers.range(1, 5000))\n\nfast := 1\n")
    documents = {}
    for name in ("slow", "fast"):
        assert run(["bench", "-f", "json", "-d", "p.rego", f"data.p.{name}"]) == 0
        documents[name] = json.loads(capsys.readouterr().out)
    slow, fast = documents["slow"], documents["fast"]
    prefix = "histogram_timer_rego_query_eval_ns"
    # A machine that is busy for a moment makes the mean of what is fast a large one.
    assert slow["Extra"][f"{prefix}_min"] > 10 * fast["Extra"][f"{prefix}_min"]
    times = [slow["Extra"][f"{prefix}_{name}"] for name in ("min", "median", "99%", "max")]
    assert times == sorted(times)
    assert slow["T"] / slow["N"] > times[0]
    assert slow["Extra"][f"{prefix}_count"] == slow["N"]
    assert slow["MemBytes"] > 0 < slow["MemAllocs"]


def test_what_is_not_wanted_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.rego").write_text("package p\n\nx if input.a\n")
    Path("i.json").write_text('{"a": 1}')
    call = ["bench", "-d", "p.rego", "-i", "i.json", "--metrics=false", "--benchmem=false"]
    assert run([*call, "data.p.x"]) == 0
    out = capsys.readouterr().out
    assert re.fullmatch(
        r"\+-+\+-+\+\n\| samples +\| +\d+ \|\n\| ns/op +\| +\d+ \|\n\+-+\+-+\+\n", out
    )
    assert run([*call, "data.p.y"]) == 1
    assert capsys.readouterr() == ("", "1 error occurred: undefined result\n")
    assert run([*call, "-p", "data.p.y"]) == 1
    assert run([*call, "--package", "p", "--import", "data.p.x", "x"]) == 0


@pytest.mark.parametrize("command", ["bench", "eval"])
def test_the_store_is_read_fast_whatever_is_said(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--optimize-store-for-read-speed", "1 + 1"]) == 0
    assert capsys.readouterr().err == ""


SERVER_FIGURES = {
    "histogram_counter_server_query_cache_hit_count",
    "histogram_timer_rego_query_eval_ns_median",
    "histogram_timer_server_handler_ns_99.9%",
}


@pytest.mark.parametrize(
    ("arguments", "figures"),
    [
        (["data.a.allow"], SERVER_FIGURES),
        (["--no-metrics", "data.a.allow == true"], set()),
        (["--partial", "data.a.allow == true"], {"histogram_timer_rego_partial_eval_ns_max"}),
    ],
)
def test_a_server_is_asked_over_http(
    arguments: list[str],
    figures: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.rego").write_text("package a\n\nallow if input.x == 1\n")
    (tmp_path / "i.json").write_text('{"x": 1}')
    command = ["bench", "--e2e", "-d", "a.rego", "-i", "i.json", "-f", "json", *arguments]
    assert run(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["N"] > 0
    assert figures <= document["Extra"].keys()
    assert bool(figures) == bool(document["Extra"])


@pytest.mark.parametrize(
    ("policy", "arguments", "said"),
    [
        ("package a\n\nallow if {", ["data.a.allow"], "rego_parse_error"),
        ("package a\n\nallow if input.x == 2\n", ["data.a.allow"], "undefined result"),
        ("package a\n", ["--fail", "--config-file=none.yaml", "data.a"], "none.yaml"),
        ("package a\n", ["data.a.x.y[_] = 1 +"], "error"),
    ],
)
def test_what_is_wrong_with_the_server_or_the_query_is_said(
    policy: str,
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.rego").write_text(policy)
    assert run(["bench", "--e2e", "-d", "a.rego", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_the_server_gets_the_flags_that_are_its_own() -> None:
    options = {
        "ignore": (".*",),
        "builtins": ("own.py",),
        "config_file": "c.yaml",
        "shutdown_grace_period": 3,
        "shutdown_wait_period": 0,
        "v0_compatible": True,
        "bundle": ("b.tar.gz",),
        "data": ("a.rego",),
    }
    assert arguments_of(options) == [
        "--ignore=.*",
        "--builtins=own.py",
        "--config-file=c.yaml",
        "--shutdown-grace-period=3",
        "--shutdown-wait-period=0",
        "--v0-compatible",
        "--bundle",
        "--skip-verify",
        "--",
        "a.rego",
        "b.tar.gz",
    ]


class Answers:
    """A connection to a server that answers every request with the same text."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.status = 502

    def request(self, *_: object) -> None:
        pass

    def getresponse(self) -> Answers:
        return self

    def read(self) -> bytes:
        return self._text


@pytest.mark.parametrize("text", [b"<html>", b"[]", b"", b"\xff"])
def test_an_answer_that_is_no_object_is_an_error(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = BenchServer([], grace=0.0)
    monkeypatch.setattr(server, "_connection", Answers(text))
    with pytest.raises(LoadError, match="the server's answer is not a JSON object"):
        server.ask("/v1/data", {})
    server._folder.cleanup()
