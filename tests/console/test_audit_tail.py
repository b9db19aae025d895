"""The audit log of a Docker plugin is followed, bounded, and shown without its credentials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doorward.console import AuditTail, audit_tail
from doorward.docker.audit import AuditLog, Entry
from doorward.docker.reply import Verdict


def line(number: int, **more: Any) -> str:
    fields = {
        "time": "2026-11-22T10:00:00.500000Z",
        "decision_id": f"id-{number}",
        "user": "ann",
        "action": "create container",
        "target": "alpine",
        "decision": "deny",
        "reason": "no privileged containers",
        "rule": "privileged",
        "latency_ms": 0.25,
    }
    return json.dumps(fields | more) + "\n"


def ids(tail: AuditTail, after: int, most: int = 10) -> list[str]:
    return [each["id"] for each in tail.after(after, most)[0]]


def test_lines_are_followed_where_the_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    tail = AuditTail(str(path))
    assert tail.after(0, 10) == ([], 0)
    path.write_text(line(1) + "not JSON\n[1]\n\n" + line(2, decision="allow") + line(3)[:20])
    (first, second), last = tail.after(0, 10)
    assert (first["id"], first["verdict"], first["path"]) == ("id-1", "deny", "docker")
    assert first["request"] == "create container alpine"
    assert first["eval_us"] == 250
    assert first["time_ms"] == 1795341600500
    assert second["verdict"] == "allow"
    with path.open("a") as file:
        file.write(line(3)[20:])
    assert ids(tail, last) == ["id-3"]
    path.rename(tmp_path / "audit.log.1")
    path.write_text(line(4))
    assert ids(tail, 3) == ["id-4"]
    path.write_text("")
    assert tail.after(4, 10) == ([], 4)
    # What another process counted is not of this one.
    assert ids(AuditTail(str(path), start=7), 4) == []
    path.write_text(line(5))
    assert ids(AuditTail(str(path), start=7), 4) == ["id-5"]
    assert ids(AuditTail(str(path), start=7), 99) == ["id-5"]


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_tail, "PIECE", 2_000)
    path = tmp_path / "audit.log"
    path.write_text("".join(line(n) for n in range(1_000)))
    assert ids(AuditTail(str(path)), 0, 3) == ["id-997", "id-998", "id-999"]
    odd = tmp_path / "odd.log"
    odd.write_text(line(1, time=5, latency_ms="x", user=["x"], target="t" * 1_500))
    (summary,), _ = AuditTail(str(odd)).after(0, 3)
    assert (summary["time_ms"], summary["eval_us"], len(summary["request"])) == (0, 0.0, 200)


def test_one_decision_is_shown_with_its_reason_and_without_credentials(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(str(path), with_input=True)
    verdict = Verdict(False, "no privileged containers", "privileged")
    request = {"User": "ann", "action": "create", "password": "hunter2", "Env": ["A=secret"]}
    log.write(Entry(verdict, request, "id-9", "request", "POST", "ann", 0.001))
    log.close()
    tail = AuditTail(str(path))
    (summary,), _ = tail.after(0, 9)
    detail = tail.get(summary["id"])
    assert detail is not None
    assert detail["why"] == "privileged: no privileged containers"
    assert detail["result"] == "deny"
    assert "hunter2" not in json.dumps(detail)
    assert detail["hidden"] == ["/input/password"]
    assert tail.get("id-0") is None
