"""`doorward learn`: options, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.learn.docker_logs import create, entry
from tests.learn.logs import line, text_of

from doorward.cli.main import run


@pytest.fixture
def log(tmp_path: Path) -> str:
    lines = [line(f"u{n % 9}", f"/papers/{n}", number=n) for n in range(200)]
    lines += [line("u1", "/vault/x", "DELETE", number=n) for n in range(20)]
    (tmp_path / "log.jsonl").write_text(text_of(lines))
    return str(tmp_path / "log.jsonl")


def learn(log: str, *more: str) -> int:
    return run(["learn", log, "--parallel", "1", *more])


def rules(folder: Path) -> set[str]:
    rows = yaml.safe_load((folder / "review.yaml").read_text())["rules"]
    return {row["request"] for row in rows if row["proposal"] == "allow"}


def test_a_folder_of_files_is_written(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    assert learn(log, "-o", str(out)) == 0
    assert "1 rule, 1 question" in capsys.readouterr().err
    names = {"policy.rego", "policy_test.rego", "data.json", "review.yaml", "learned.md"}
    assert {path.name for path in out.iterdir()} == names
    tested = [str(out / name) for name in ("policy.rego", "policy_test.rego", "data.json")]
    assert run(["test", *tested]) == 0


def test_limits_are_options(log: str, tmp_path: Path) -> None:
    for name, value in [("floor", "500"), ("events", "500"), ("users", "10"), ("spread", "1")]:
        assert learn(log, "-o", str(tmp_path / name), f"--{name}", value) == 0
    assert (
        rules(tmp_path / "floor")
        == rules(tmp_path / "events")
        == rules(tmp_path / "users")
        == set()
    )
    assert learn(log, "-o", str(tmp_path / "one"), "--users", "1", "--spread", "0") == 0
    assert rules(tmp_path / "one") == {"GET /papers/{int}", "DELETE /vault/x"}


def test_ignored_paths_and_other_decisions_are_left_out(log: str, tmp_path: Path) -> None:
    assert learn(log, "-o", str(tmp_path / "a"), "--ignore", "/papers") == 0
    assert rules(tmp_path / "a") == set()
    assert learn(log, "-o", str(tmp_path / "b"), "--path", "other/allow") == 1
    assert learn(log, "-o", str(tmp_path / "c"), "--only", "u1") == 0
    assert rules(tmp_path / "c") == set()


def test_requests_that_failed_by_another_log_are_left_out(tmp_path: Path) -> None:
    lines = []
    for n in range(100):
        http = {"method": "GET", "path": f"/papers/{n}", "headers": {"x-request-id": f"r-{n}"}}
        each = line(f"u{n % 9}", f"/papers/{n}", number=n)
        claims = each["input"]["claims"]
        each["input"] = {
            "attributes": {"request": {"http": http}},
            "parsed_path": ["papers", str(n)],
            "claims": claims,
        }
        lines.append(each)
    (tmp_path / "log").write_text(text_of(lines))
    access = [
        {
            "method": "GET",
            "path": f"/papers/{n}",
            "status": 404,
            "request_id": f"r-{n}",
            "user": "-",
        }
        for n in range(90)
    ]
    (tmp_path / "access").write_text(text_of(access))
    log = str(tmp_path / "log")
    assert learn(log, "-o", str(tmp_path / "with"), "--status", str(tmp_path / "access")) == 0
    assert rules(tmp_path / "with") == set()
    assert learn(log, "-o", str(tmp_path / "without")) == 0
    assert rules(tmp_path / "without") == {"GET /papers/{int}"}


def test_claims_may_be_elsewhere(tmp_path: Path) -> None:
    lines = [line(f"u{n % 9}", f"/papers/{n}", number=n) for n in range(100)]
    for each in lines:
        each["input"]["who"] = {"is": each["input"].pop("claims")}
    (tmp_path / "log").write_text(text_of(lines))
    assert learn(str(tmp_path / "log"), "-o", str(tmp_path / "out"), "--claims", "who.is") == 0
    data = json.loads((tmp_path / "out" / "data.json").read_text())
    assert data["learned"]["subject"]["claims"] == ["who", "is"]
    assert rules(tmp_path / "out") == {"GET /papers/{int}"}
    assert learn(str(tmp_path / "log"), "--claims", "a.b.c.d.e") == 1


def test_shadow_prints_a_configuration_and_writes_its_entry(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert learn(log, "-o", str(out), "--shadow", "httpapi/authz/allow") == 0
    config = yaml.safe_load(capsys.readouterr().out)
    paths = config["shadow"]["paths"]
    assert all(Path(each).is_file() for each in paths)
    assert run(["check", *[each for each in paths if each.endswith(".rego")]]) == 0
    assert learn(log, "-o", str(out), "--shadow", "no document") == 1


def test_learned_data_of_docker_decide_the_log_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = [entry(n, user, create(user, f"team/{user}")) for n in range(9) for user in ("a", "b")]
    once = entry(9, "b", create("b", "team/a"))
    (tmp_path / "audit.log").write_text("".join(json.dumps(each) + "\n" for each in [*usual, once]))
    assert learn(str(tmp_path / "audit.log"), "-o", str(tmp_path / "out")) == 0
    capsys.readouterr()
    data = ["--data", str(tmp_path / "out" / "data.json")]
    assert run(["docker", "replay", str(tmp_path / "audit.log"), *data]) == 1
    printed = capsys.readouterr().out
    assert "allow -> deny  container.create" in printed
    assert "image team/a is not allowed" in printed
    assert printed.endswith("19 requests, 1 changed\n")


def test_a_log_of_docker_has_no_policy_to_shadow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [entry(n, "a", create("a")) for n in range(9)]
    (tmp_path / "audit.log").write_text("".join(json.dumps(each) + "\n" for each in lines))
    out = ["-o", str(tmp_path / "out"), "--shadow", "policy/docker/authz/allow"]
    assert learn(str(tmp_path / "audit.log"), *out) == 1
    assert "docker replay" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_check_reports_dead_grants(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.rego"
    policy.write_text(
        'package httpapi.authz\n\nallow if input.method in {"GET", "DELETE", "PUT"}\n'
    )
    assert learn(log, "--check", str(policy)) == 2
    out = capsys.readouterr().out
    assert 'nobody used the constant "PUT"' in out
    assert '+allow if input.method in {"GET", "DELETE"}' in out
    policy.write_text('package httpapi.authz\n\nallow if input.method in {"GET", "DELETE"}\n')
    assert learn(log, "--check", str(policy)) == 0
    policy.write_text("package")
    assert learn(log, "--check", str(policy)) == 1
    assert not (tmp_path / "learned").exists()


def test_a_learned_policy_is_replayed_without_a_new_permission(log: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert learn(log, "-o", str(out), "--shadow", "httpapi/authz/allow") == 0
    paths = [
        word
        for name in ("policy.rego", "data.json", "entry.rego")
        for word in ("--policy", str(out / name))
    ]
    assert run(["replay", "--log", log, *paths, "--fail-on", "new-allow", "--parallel", "1"]) == 0
    assert run(["replay", "--log", log, *paths, "--fail-on", "new-deny", "--parallel", "1"]) == 2
