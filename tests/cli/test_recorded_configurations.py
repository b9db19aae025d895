"""What `config check` refuses is what OPA's server did not start with, and the other way round."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows

from doorward.cli.main import run

DIFFERENCES = {
    "service-no-url": "a service without a URL can never answer",
    "service-url-bad": "the same of a URL that is none",
    "bundle-and-bundles": "OPA ignores the older `bundle` then",
    "prom-config": "buckets that do not increase, which no histogram can have",
}
"""What is refused here and OPA's server starts with, and why."""


def rows() -> list[Any]:
    recorded = read_rows(GOLDEN / "serve.jsonl.gz")
    return [
        pytest.param(row, id=row["id"].rpartition("/")[2])
        for row in recorded
        if row["group"] == "config"
    ]


@pytest.mark.parametrize("row", rows())
def test_a_configuration_is_refused_as_by_opa(
    row: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (row.get("env") or {}).items():
        monkeypatch.setenv(name, text)
    for name, text in (row.get("files") or {}).items():
        Path(name).write_text(text)
    flags = [name for name in row.get("flags") or () if name not in ("-c", "c.yaml", "nope.yaml")]
    if "config" in row:
        Path("c.yaml").write_text(json.dumps(row["config"]))
    elif "c.yaml" not in (row.get("files") or {}) and flags:
        Path("c.yaml").write_text("{}")
    refused = run(["config", "check", "c.yaml", *flags]) != 0
    said = capsys.readouterr().err
    wanted = any("exit" in call for call in row["calls"])
    if row["id"].rpartition("/")[2] in DIFFERENCES:
        assert refused
        assert not wanted
    else:
        assert refused == wanted, said
    if refused:
        assert re.search(r"[a-z]", said)
