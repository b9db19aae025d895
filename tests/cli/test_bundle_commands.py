"""`build`, `exec` and `inspect` against what OPA's printed and built, and what is refused."""

from __future__ import annotations

import base64
import errno
import gzip
import io
import json
import os
import random
import re
import tarfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows
from tests.rego.partial.recorded import comparable

from doorward.bundles.bundle import read_bundle
from doorward.bundles.signatures import Verification
from doorward.bundles.sources import Sources
from doorward.cli.main import run
from doorward.rego import UNDEFINED, Engine, EvalError, Query
from doorward.rego.shared import Source
from doorward.rego.tools import module_to_json, parse_module

FILES = ("cli.jsonl.gz", "cli-partial.jsonl.gz")
COMMANDS = ("build", "exec", "inspect")
RULES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())["bundles"]
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r'"?[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z"?')


def rows() -> list[Any]:
    recorded = [row for file in FILES for row in read_rows(GOLDEN / file)]
    return [
        pytest.param(row, id=row["id"])
        for row in recorded
        if row["argv"][1] in ("build", "exec", "inspect")
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("row", rows())
def test_the_answer_is_that_of_opa(
    row: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in row["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = set(folder.rglob("*"))
    stdin = io.TextIOWrapper(io.BytesIO(row.get("stdin", "").encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    code = run(row["argv"][1:])
    out, err = capsys.readouterr()
    mine = [code, said(out), said(err), readable(built(folder, before))]
    want = [row["exit"], said(row["stdout"]), said(row["stderr"]), readable(recorded(row))]
    reason = next((rule["reason"] for rule in RULES if row["id"] in rule["ids"]), None)
    if reason is None:
        assert mine == want
    elif mine == want:
        pytest.fail(f"does not differ any more: {reason}")
    elif "METADATA" in reason:
        text = re.compile(r"# METADATA\\n# entrypoint: true\\n\\n")
        assert json.dumps(mine) == text.sub("", json.dumps(want))


def said(text: str) -> Any:
    text = TIME.sub('"TIME"', UUID.sub("UUID", text)).partition("Usage:")[0]
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def recorded(row: dict[str, Any]) -> Any:
    bundle = row.get("bundle") or {}
    only = next(iter(bundle.values()), None)
    return without_signatures(only if isinstance(only, dict) else bundle)


def readable(members: dict[str, Any]) -> dict[str, Any]:
    """Members, optimized policies up to the names of generated variables and the order of rules."""
    return {
        name: residual(text) if name.startswith("/optimized/") else text
        for name, text in members.items()
    }


def residual(text: str) -> str:
    v0 = " if " not in text
    module = parse_module(Source("", text), v0=v0)
    tree = module_to_json(replace(module, comments=(), imports=()))
    return comparable({"queries": [], "support": [tree]}, unordered=True)


def without_signatures(members: dict[str, Any]) -> dict[str, Any]:
    return {name: text for name, text in members.items() if "signatures" not in name}


def built(folder: Path, before: set[Path]) -> dict[str, str]:
    new = [path for path in set(folder.rglob("*")) - before if path.name.endswith(".gz")]
    if not new:
        return {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(new[0].read_bytes()))) as archive:
        members = {each.name: archive.extractfile(each) for each in archive}
        texts = {name: file.read().decode() for name, file in members.items() if file is not None}
    return without_signatures(texts)


def test_every_reason_names_rows_that_are_run() -> None:
    run = {str(row.id) for row in rows()}
    for rule in RULES:
        assert set(rule["ids"]) <= run, rule["reason"]


def test_help_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "build"]) == 0
    text = capsys.readouterr().out
    assert run(["build", "--help"]) == 0
    assert capsys.readouterr().out == text
    assert run(["help"]) == 0
    assert "Build a bundle." in capsys.readouterr().out
    assert run(["help", "config", "check"]) == 0
    assert "would not start" in capsys.readouterr().out
    assert run(["help", "nothing"]) == 1


def test_a_configuration_with_bundles_is_refused_by_exec(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "i.json").write_text("{}")
    (folder / "c.yaml").write_text("bundles: {a: {resource: 'file:///x'}}")
    assert run(["exec", "-c", "c.yaml", "i.json"]) == 1
    assert "are not used here: give --bundle" in capsys.readouterr().err


def test_a_bundle_that_is_built_and_signed_is_verified(folder: Path) -> None:
    (folder / "p.rego").write_text("package p\n\nallow if data.on\n")
    (folder / "data.json").write_text('{"on": true, "text": "<&>"}')
    (folder.parent / "claims.json").write_text('{"scope": "release"}')
    flags = ["--signing-key", "secret", "--signing-alg", "HS256", "--claims-file", "../claims.json"]
    assert run(["build", *flags, "-r", "7", "-b", "."]) == 0
    verification = Verification("secret", "HS256", "release")
    bundle = read_bundle("bundle.tar.gz", signed=True, verification=verification)
    assert bundle.manifest.revision == "7"
    assert bundle.data == {"on": True, "text": "<&>"}
    token = json.loads(dict(bundle.members)[".signatures.json"])["signatures"][0]
    payload = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert [each["name"] for each in payload["files"]] == [".manifest", "data.json", "p.rego"]
    # The same again is the same to the byte.
    first = Path("bundle.tar.gz").read_bytes()
    assert run(["build", *flags, "-r", "7", "-b", "."]) == 0
    assert Path("bundle.tar.gz").read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "wasm", "p.rego"], "--target wasm is not supported: use --target rego"),
        (["-O", "1", "p.rego"], "optimizations require at least one entrypoint"),
        (["-o", "none/b.tar.gz", "p.rego"], "open none/b.tar.gz: no such file"),
        (["--signing-key", "x", "-b", "b"], "failed to parse PEM block"),
        (["--signing-key", "x", "p.rego"], "enable bundle mode (ie. --bundle) to verify or sign"),
        (["--verification-key", "x", "b"], "enable bundle mode (ie. --bundle) to verify or sign"),
        (["--claims-file", "c.json", "-b", "b"], "specify the secret (HMAC) or path of the PEM"),
        (["--signing-key", "x", "--claims-file", "p.rego", "-b", "b"], "invalid character 'p'"),
        (["p.rego", "data.json", "more.json"], "merge error"),
    ],
)
def test_what_cannot_be_built_is_said_and_nothing_is_written(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "p.rego").write_text("package p\n\nallow := true\n")
    (folder / "b").mkdir()
    (folder / "b/p.rego").write_text("package p\n\nallow := true\n")
    (folder / "data.json").write_text('{"on": true}')
    (folder / "more.json").write_text('{"on": false}')
    assert run(["build", *arguments]) == 1
    assert message in capsys.readouterr().out
    assert not list(folder.glob("*.gz"))


def test_inspect_shows_the_signatures_of_an_archive(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "p.rego").write_text("package p\n\nallow := true\n")
    assert run(["build", "-b", ".", "--signing-key", "secret", "--signing-alg", "HS256"]) == 0
    capsys.readouterr()
    assert run(["inspect", "bundle.tar.gz", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["signatures_config"]["signatures"]) == 1
    assert document["namespaces"] == {"data": ["data.json"], "data.p": ["p.rego"]}
    (folder / "d.json").write_text("{}")
    assert run(["inspect", "d.json"]) == 0
    assert "| data      | d.json |" in capsys.readouterr().out


@pytest.fixture
def inputs(folder: Path) -> Path:
    (folder / "b").mkdir()
    text = (
        "count([1 | some i in numbers.range(1, 90000); some j in numbers.range(1, 90000); i < j])"
    )
    (folder / "b/p.rego").write_text(f"package p\n\nx := 1\n\nslow := {text} if input\n")
    (folder / "i.json").write_text("{}")
    return folder


def exec_log(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    run(["exec", "-b", "b", "--decision", "p/x", "--fail-defined", *flags, "i.json"])
    return capsys.readouterr().err


@pytest.mark.usefixtures("inputs")
def test_exec_logs_as_it_is_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = exec_log(capsys).splitlines()
    assert json.loads(line)["level"] == "error"
    levels = [json.loads(line)["level"] for line in exec_log(capsys, "-l", "info").splitlines()]
    assert levels == ["info", "error"]
    shown = exec_log(capsys, "--log-format", "text", "--log-timestamp-format", "2006 (MST)")
    assert re.match(r'time="20\d\d \(UTC\)" level=error msg="Unexpected error." err=', shown)


@pytest.mark.usefixtures("inputs")
def test_exec_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["exec", "-b", "b", "--decision", "p/slow", "--timeout", "500ms", "i.json"]) == 0
    assert "caller cancelled query execution" in capsys.readouterr().out
    call = ["exec", "-b", "b", "--decision", "p/slow", "--timeout", "500ms", "i.json", "i.json"]
    assert run(call) == 1
    assert "context deadline exceeded" in capsys.readouterr().err


def test_exec_takes_a_setting_from_a_file(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inputs / "decision").write_text("p/x")
    assert run(["exec", "-b", "b", "--set-file", "default_decision=decision", "i.json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"][0]["result"] == 1


@pytest.mark.usefixtures("inputs")
def test_flags_are_turned_off_as_in_go(capsys: pytest.CaptureFixture[str]) -> None:
    call = ["exec", "-b", "b", "--decision", "p/x"]
    assert run([*call, "--fail-defined=true", "i.json"]) == 1
    assert run([*call, "--fail-defined=false", "i.json"]) == 0
    assert run([*call, "--fail-defined=perhaps", "i.json"]) == 1
    assert run(["fmt", "--check-result=false", "b/p.rego"]) == 0
    capsys.readouterr()
    assert run(["eval", "--", '"--fail=false"']) == 0
    assert "--fail=false" in capsys.readouterr().out


OPTIMIZED = [
    row
    for row in read_rows(GOLDEN / "cli-partial.jsonl.gz")
    if row["argv"][1] == "build" and "-O" in row["argv"] and row["exit"] == 0
]
VOCABULARY: dict[str, list[Any]] = {
    "role": ["dev", "ops", "admin"],
    "action": ["read", "write", "reboot"],
    "blocked": [True, False],
    "user": ["ann"],
    "a": [1, 3, False],
    "b": [2],
    "c": [4],
    "n": [5, 6, "x"],
    "ns": [[1, 2], [11], []],
    "o": [{"k": 1}],
    "resource": [{"owner": "ann"}, {}],
    "x": [1, 2, 3, False],
    "xs": [[1, 2], []],
    "y": [1, 2],
    "z": [3, 4, "x"],
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in OPTIMIZED])
def test_what_is_optimized_decides_as_before(row: dict[str, Any], folder: Path) -> None:
    for name, text in row["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert run(row["argv"][1:]) == 0
    v0 = "--v0-compatible" in row["argv"]
    texts = {name: text for name, text in row["files"].items() if name.endswith(".rego")}
    loaded = Sources(bundles=["bundle.tar.gz"], v0=v0).load()
    before = Engine(texts, loaded.data, v0=v0)
    after = Engine(loaded.modules, loaded.data, v0=v0, rego_versions=loaded.rego_versions)
    chance = random.Random(row["id"])
    named = [flag for flag, kind in zip(row["argv"][1:], row["argv"], strict=False) if kind == "-e"]
    assert named or row["id"] == "build-p035"
    for entrypoint in named or ["a/allow"]:
        queries = [each.prepare(f"data.{entrypoint.replace('/', '.')}") for each in (before, after)]
        for _ in range(100):
            names = chance.sample(sorted(VOCABULARY), chance.randrange(1, len(VOCABULARY)))
            input = {name: chance.choice(VOCABULARY[name]) for name in names}
            first, second = (answer(query, input) for query in queries)
            assert first == second, (entrypoint, input)


def answer(query: Query, input: Any) -> Any:
    try:
        return query.value(input)
    except EvalError as error:
        return error.code


SHOP = """package shop

import data.members

# METADATA
# entrypoint: true
# title: may this user order?
allow if {
	input.user in data.members
	not blocked
}

# who is blocked
blocked if input.user == data.blocked[_]

# METADATA
# title: kept
kept := rego.metadata.rule().title

replaced if allow with members as ["eve"]
"""


def test_metadata_stays_with_its_rule(folder: Path) -> None:
    (folder / "p.rego").write_text(SHOP)
    (folder / "data.json").write_text('{"members": ["ann", "bob"], "blocked": ["bob"]}')
    assert run(["build", "-O2", "p.rego", "data.json"]) == 0
    loaded = Sources(bundles=["bundle.tar.gz"]).load()
    engine = Engine(loaded.modules, loaded.data)
    assert engine.prepare("data.shop.kept").value() == "kept"
    assert "entrypoint" not in "".join(loaded.modules.values())
    assert "# who is blocked" in loaded.modules["bundle.tar.gz/p.rego"]
    for user, wanted in (("ann", True), ("bob", UNDEFINED), ("eve", UNDEFINED)):
        assert engine.prepare("data.shop.allow").value({"user": user}) == wanted
    # What `with` replaces is not taken as it is known.
    assert run(["build", "-O2", "-e", "shop/replaced", "p.rego", "data.json"]) == 0
    loaded = Sources(bundles=["bundle.tar.gz"]).load()
    replaced = Engine(loaded.modules, loaded.data).prepare("data.shop.replaced")
    assert replaced.value({"user": "eve"}) is True
    assert replaced.value({"user": "ann"}) is UNDEFINED


def test_data_of_other_bundles_is_unknown(folder: Path) -> None:
    (folder / ".manifest").write_text('{"roots": ["shop", "members"]}')
    (folder / "p.rego").write_text(SHOP)
    (folder / "data.json").write_text('{"members": ["ann", "bob"]}')
    assert run(["build", "-b", "-O2", "--partial-namespace", "made", "."]) == 0
    loaded = Sources(bundles=["bundle.tar.gz"]).load()
    query = Engine(loaded.modules, {**loaded.data, "blocked": ["ann"]}).prepare("data.shop.allow")
    assert query.value({"user": "bob"}) is True
    assert query.value({"user": "ann"}) is UNDEFINED
    assert loaded.roots["bundle.tar.gz"] == ("shop", "members", "made")


def test_data_of_others_is_unknown_under_the_name_of_an_import(folder: Path) -> None:
    (folder / ".manifest").write_text('{"roots": ["shop"]}')
    (folder / "p.rego").write_text(
        """package shop

import data.members.data

# METADATA
# entrypoint: true
allow if data.ann
"""
    )
    assert run(["build", "-b", "-O2", "."]) == 0
    loaded = Sources(bundles=["bundle.tar.gz"]).load()
    for members, wanted in (({"data": {"ann": True}}, True), ({}, UNDEFINED)):
        engine = Engine(loaded.modules, {**loaded.data, "members": members})
        assert engine.prepare("data.shop.allow").value({}) is wanted


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "bundle optimizations require at least one entrypoint"),
        (["-e", "p"], "invalid entrypoint data.p: to create optimized support module"),
        (["-e", "p/none"], "undefined entrypoint data.p.none"),
    ],
)
def test_what_cannot_be_optimized_makes_no_bundle(
    flags: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "p.rego").write_text("package p\n\nx := 1\n")
    assert run(["build", "-O1", *flags, "p.rego"]) == 1
    assert message in capsys.readouterr().out
    assert not (folder / "bundle.tar.gz").exists()


@pytest.mark.parametrize(
    ("flags", "keyid"),
    [([], "default"), (["--verification-key-id", "2026"], "2026")],
)
def test_a_signature_names_its_key(flags: list[str], keyid: str, folder: Path) -> None:
    (folder / "p.rego").write_text("package p\n\nallow := true\n")
    key = ["--signing-key", "secret", "--signing-alg=HS256"]
    assert run(["build", "-b", ".", *key, *flags]) == 0
    bundle = read_bundle("bundle.tar.gz", signed=True, verification=Verification("secret", "HS256"))
    token = json.loads(dict(bundle.members)[".signatures.json"])["signatures"][0]
    payload = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert payload["keyid"] == keyid


def test_build_reports_its_steps_and_an_ignored_manifest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b").mkdir()
    (folder / "b/p.rego").write_text('package authz\n\nallow if input.user == "bob"\n')
    (folder / "b/.manifest").write_text('{"revision": "r1"}')
    flags = ["--debug", "--follow-symlinks", "--wasm-include-print", "-O=1", "-e=/authz/allow"]
    assert run(["build", *flags, "b"]) == 0
    err = capsys.readouterr().err
    assert 'Warning: .manifest file found in "b" but -b flag not specified.' in err
    assert "debug: optimized at level 1: 1 policies" in err
    assert run(["eval", "-b", "bundle.tar.gz", "-f=raw", "data.authz"]) == 0


def test_exec_without_a_decision_asks_for_the_default_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b").mkdir()
    (folder / "b/p.rego").write_text("package system\n\nmain := 7\n")
    (folder / "i.json").write_text("{}")
    assert run(["exec", "-b", "b", "--decision", "", "i.json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["result"][0]["result"] == 7
    assert out.endswith("}\n")
    assert not out.endswith("\n\n")


def test_version_says_that_no_service_knows_the_newest_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["version", "-c"]) == 1
    assert "Error: the newest release is not known" in capsys.readouterr().out


def test_exec_logs_its_decisions_as_the_configuration_says(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "b").mkdir()
    (folder / "b/p.rego").write_text("package system\n\nmain := input.x\n")
    (folder / "i.json").write_text('{"x": 7, "password": "hidden"}')
    flags = ["--set", "decision_logs.console=true", "--set", "decision_logs.file.path=log.jsonl"]
    assert run(["exec", "-b", "b", *flags, "i.json"]) == 0
    captured = capfdbinary.readouterr()
    (line,) = [json.loads(each) for each in captured.err.splitlines()]
    assert (line["msg"], line["result"], line["path"]) == ("Decision Log", 7, "/system/main")
    assert line["decision_id"] == json.loads(captured.out)["result"][0]["decision_id"]
    assert b"hidden" not in captured.err
    (logged,) = (folder / "log.jsonl").read_text().splitlines()
    assert json.loads(logged)["result"] == 7


def test_exec_refuses_to_log_to_a_service(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "i.json").write_text("{}")
    config = "services: {logs: {url: 'http://127.0.0.1:1'}}\ndecision_logs: {service: logs}\n"
    (folder / "c.yaml").write_text(config)
    assert run(["exec", "-c", "c.yaml", "i.json"]) == 1
    assert "nothing is uploaded here" in capsys.readouterr().err


def test_inspect_orders_annotations_by_what_they_describe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = "# METADATA\n# title: "
    (folder / "1.rego").write_text(
        f"{block}T5\npackage b\n\n{block}T7\nz := 1\n\n{block}T6\na := 1\n"
    )
    (folder / "2.rego").write_text(f"{block}T1\npackage a\n\n{block}T2\nz := 1\n")
    assert run(["inspect", "-a", "-f", "json", "."]) == 0
    annotations = json.loads(capsys.readouterr().out)["annotations"]
    titles = [each["annotations"]["title"] for each in annotations]
    assert titles == sorted(titles)


def test_inspect_shows_the_manifest_of_a_delta_bundle(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "patch.json").write_text('{"data": [{"op": "upsert", "path": "/a/b", "value": 1}]}')
    (folder / ".manifest").write_text('{"revision": "r2", "roots": ["a"]}')
    assert run(["inspect", ".", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["manifest"]["revision"] == "r2"
    assert not document.get("namespaces")


def test_inspect_refuses_signatures_that_are_not_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "b").mkdir()
    (folder / "b/.signatures.json").write_text("{")
    assert run(["inspect", "b"]) == 1
    assert "bundle load failed on signatures decode: " in capsys.readouterr().err


def test_exec_names_a_folder_that_cannot_be_read(
    inputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (inputs / "closed").mkdir()
    list_folder = os.listdir

    def refuse(folder: str) -> list[str]:
        if folder == "closed":
            raise PermissionError(errno.EACCES, "Permission denied")
        return list_folder(folder)

    monkeypatch.setattr(os, "listdir", refuse)
    assert run(["exec", "-b", "b", "--decision", "p/x", "closed"]) == 1
    assert "exec error: open closed: permission denied" in capsys.readouterr().err


def test_exec_names_an_input_that_leads_nowhere(
    inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (inputs / "link.json").symlink_to("nothing")
    assert run(["exec", "-b", "b", "--decision", "p/x", "link.json", "i.json"]) == 0
    failed, decided = json.loads(capsys.readouterr().out)["result"]
    assert failed["error"]["message"] == "open link.json: no such file or directory"
    assert decided["result"] == 1


def test_each_file_has_its_own_name_in_a_bundle(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub/.x").mkdir(parents=True)
    for name, package in (("a", "a"), ("sub/a", "b"), ("sub/.x/a", "c")):
        (folder / f"{name}.rego").write_text(f"package {package}\n\np := 1\n")
    monkeypatch.chdir(folder / "sub")
    assert run(["build", "../a.rego", "a.rego", "./.x/a.rego"]) == 0
    with tarfile.open("bundle.tar.gz") as archive:
        names = archive.getnames()
    policies = [name for name in names if name.endswith(".rego")]
    assert sorted(policies) == ["/.x/a.rego", "/a-2.rego", "/a.rego"]
    bundle = read_bundle("bundle.tar.gz")
    assert sorted(Engine(bundle.modules).prepare("data").value()) == ["a", "b", "c"]
