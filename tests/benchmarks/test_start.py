"""The benchmark of starts: both engines answer its policy alike, and the page gets its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import start
from benchmarks.start import INPUT, Start
from doorward.rego import Engine


def test_both_engines_decide_by_the_rules() -> None:
    text = start.policy(20)
    query = Engine({"policy.rego": text}).prepare("data.envoy.authz.allow")
    assert query.value(INPUT) is False
    http = INPUT["attributes"]["request"]["http"]
    allowed = {"attributes": {"request": {"http": http | {"path": "/svc7/items"}}}}
    assert query.value(allowed) is True
    assert start.opa(text) > 0


def test_the_rows_are_written_between_the_marks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = iter(
        [Start(9.0, 9.0, 9.0, 99.0), Start(0.5, 2.0, 1.0, 60.4), Start(0.6, 1.5, 1.2, 61)]
    )
    monkeypatch.setattr(start, "start", lambda file, address, environment: next(starts))
    monkeypatch.setattr(start, "opa", lambda text: 0.25)
    page = tmp_path / "page.md"
    page.write_text("head\n<!-- start: begin -->\nold\n<!-- start: end -->\ntail\n")
    assert start.main(["--rules", "1000", "--rounds", "2", "--markdown", str(page)]) == 0
    row = "| 1,000 | 0.50 | 1.5 | 1.0 | 60 | 0.25 | 2.0 |"
    assert capsys.readouterr().out == f"{row}\n"
    text = page.read_text()
    assert text.startswith("head\n<!-- start: begin -->\nWritten by")
    assert text.endswith(f"{row}\n<!-- start: end -->\ntail\n")
    assert "old" not in text


def test_a_policy_that_opa_refuses_is_not_measured() -> None:
    with pytest.raises(SystemExit, match="OPA does not decide"):
        start.opa("package envoy.authz\n\nallow if")
