"""Calls answered without a socket: decisions, failures, and what never happens."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, CrossedCount, WatchedLock

from doorward.docker.audit import AuditLog, Entry
from doorward.docker.decider.answer import Answer, PdpError
from doorward.docker.plugin import (
    FEW_PATHS,
    PROBE_HEADER,
    RESOLVING,
    Plugin,
    PluginOptions,
    Waiting,
)
from doorward.docker.reply import Verdict, clean, to_verdict
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import WaitError
from doorward.docker.request.input import InputOptions
from doorward.docker.request.known import LONGEST, MOST_KNOWN, SHORT, KnownCalls
from doorward.rego.values import UNDEFINED

REQUEST = "/AuthZPlugin.AuthZReq"
RESPONSE = "/AuthZPlugin.AuthZRes"


class Pdp:
    """Answers what it is told to, or fails, and keeps the inputs."""

    def __init__(self, result: Any = True, error: Exception | None = None) -> None:
        self.result = result
        self.error = error
        self.inputs: list[Any] = []

    def decide(self, input: Any) -> Answer:
        self.inputs.append(input)
        if self.error is not None:
            raise self.error
        return Answer(self.result, "of-the-pdp")


def call(method: str = "GET", uri: str = "/v1.41/info", body: Any = None, **others: Any) -> bytes:
    actual = {"RequestMethod": method, "RequestUri": uri, **others}
    if body is not None:
        actual["RequestBody"] = base64.b64encode(json.dumps(body).encode()).decode()
        actual["RequestHeaders"] = {"Content-Type": "application/json"}
    return json.dumps(actual).encode()


def answered(plugin: Plugin, content: bytes, path: str = REQUEST) -> tuple[bool, str]:
    response = plugin.answer(path, content)
    assert response.status == 200
    document = json.loads(response.body)
    return document["Allow"], document.get("Msg", "")


def test_activation() -> None:
    assert Plugin(Pdp()).answer("/Plugin.Activate", b"").body == b'{"Implements":["authz"]}'
    assert Plugin(Pdp()).answer("/VolumeDriver.Create", b"{}").status == 404


RESULTS = [
    (True, True, ""),
    ({"allow": True}, True, ""),
    ({"allow": True, "messages": ["x"]}, True, ""),
    (False, False, "denied by policy"),
    ({"allow": False}, False, "denied by policy"),
    ({"allow": False, "messages": ["a", "b"]}, False, "a; b"),
    ({"allow": False, "messages": frozenset({"b", "a"})}, False, "a; b"),
    ({"allow": False, "messages": "a"}, False, "a"),
    ({"allow": False, "messages": [1, ""]}, False, "denied by policy"),
    (UNDEFINED, False, "policy decision is undefined"),
    ({}, False, "policy decision has no `allow`, which must be true or false"),
    ({"allow": "true"}, False, "`allow` of the policy decision is not a boolean"),
    ({"allow": 1}, False, "`allow` of the policy decision is not a boolean"),
    ({"allow": None}, False, "`allow` of the policy decision is not a boolean"),
    (1, False, "policy decision is neither a boolean nor an object with `allow`"),
    ("true", False, "policy decision is neither a boolean nor an object with `allow`"),
    ([True], False, "policy decision is neither a boolean nor an object with `allow`"),
    (None, False, "policy decision is neither a boolean nor an object with `allow`"),
]


@pytest.mark.parametrize(("result", "allow", "reason"), RESULTS)
def test_only_true_allows(result: Any, allow: bool, reason: str) -> None:
    assert answered(Plugin(Pdp(result)), call()) == (allow, reason)
    assert to_verdict(result)[:2] == (allow, reason)


def test_failing_policy_server_denies_and_can_be_told_to_allow() -> None:
    pdp = Pdp(error=PdpError("policy server answered with status 500"))
    assert answered(Plugin(pdp), call()) == (False, "policy server answered with status 500")
    assert answered(Plugin(pdp, PluginOptions(allow_on_failure=True)), call())[0] is True


class UnknownError(Exception):
    """What a library raises that nobody thought of."""


@pytest.mark.parametrize(
    "error", [RecursionError(), ValueError("secret"), MemoryError(), UnknownError("secret")]
)
def test_fault_of_ours_denies_without_its_text(error: Exception) -> None:
    allow, reason = answered(Plugin(Pdp(error=error)), call())
    assert allow is False
    assert reason.startswith("internal error (")
    assert "secret" not in reason


@pytest.mark.parametrize("content", [b"", b"x", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_call_that_is_none_denies(content: bytes) -> None:
    assert answered(Plugin(Pdp()), content)[0] is False
    plugin = Plugin(Pdp(), PluginOptions(authorize_responses=True))
    assert answered(plugin, content, RESPONSE)[0] is False


@pytest.mark.parametrize("uri", ["/_ping", "/v1.41/_ping", "/_ping?x=y"])
def test_ping_is_allowed_without_asking(uri: str) -> None:
    pdp = Pdp(False)
    for method in ("GET", "HEAD"):
        assert answered(Plugin(pdp), call(method, uri)) == (True, "")
    assert pdp.inputs == []
    assert answered(Plugin(pdp), call("POST", uri))[0] is False


def test_probe_is_remembered() -> None:
    plugin = Plugin(Pdp(False))
    seen = {"RequestHeaders": {PROBE_HEADER: "n" * 32}}
    assert plugin.answer("/Doorward.Probe", b"n" * 32).body == b'{"Seen":false}'
    plugin.answer(REQUEST, call("GET", "/_ping", **seen))
    assert plugin.answer("/Doorward.Probe", b"n" * 32).body == b'{"Seen":true}'


def test_responses_are_allowed_without_asking_unless_wanted() -> None:
    pdp = Pdp(False)
    assert answered(Plugin(pdp), call(), RESPONSE) == (True, "")
    assert pdp.inputs == []
    plugin = Plugin(pdp, PluginOptions(authorize_responses=True))
    assert answered(plugin, call(ResponseStatusCode=200), RESPONSE)[0] is False
    [actual] = pdp.inputs
    assert (actual["phase"], actual["status"]) == ("response", 200)


def test_reason_is_one_clean_line() -> None:
    assert clean("a\nb\x1b[31m\u202e c\t\x00d") == "a b [31m c d"
    assert len(clean("ü" * 5000).encode()) <= 1000


PLANTED = "hunter2planted"
SECRETS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", "/v1.41/auth", {"username": "u", "password": PLANTED}, {}),
    ("POST", "/v1.41/images/x/push", {"password": PLANTED}, {}),
    ("POST", "/v1.41/secrets/create", {"Name": "s", "Data": PLANTED}, {}),
    ("POST", "/v1.41/configs/create", {"Name": "s", "data": PLANTED}, {}),
    ("POST", "/v1.41/swarm/join", {"JoinToken": PLANTED}, {}),
    ("POST", "/v1.41/swarm/unlock", {"unlockkey": PLANTED}, {}),
    (
        "POST",
        "/v1.41/swarm/init",
        {"Spec": {"CAConfig": {"SigningCAKey": PLANTED, "signingcacert": PLANTED}}},
        {},
    ),
    ("POST", "/v1.41/swarm/update", {"CAConfig": {"ExternalCAs": [{"CACert": PLANTED}]}}, {}),
    ("GET", "/v1.41/info", None, {"Cookie": PLANTED}),
    ("GET", "/v1.41/info", None, {"Proxy-Authorization": PLANTED}),
    ("GET", "/v1.41/info", None, {"X-Auth-Token": PLANTED}),
    ("GET", "/v1.41/info", None, {"x-api-key": PLANTED}),
    ("POST", f"/v1.41/build?buildargs=%7B%22A%22%3A%22{PLANTED}%22%7D", None, {}),
    ("POST", f"/v1.41/build?remote=https://u:{PLANTED}@host/x", None, {}),
    ("POST", f"/v1.41/images/create?fromSrc=http://u:{PLANTED}@host/x", None, {}),
    ("POST", f"/v1.41/commit?container=c&changes=ENV+A%3D{PLANTED}", None, {}),
    (
        "POST",
        "/v1.41/volumes/create",
        {"DriverOpts": {"type": "cifs", "o": f"user=a,password={PLANTED}", "device": "//h/s"}},
        {},
    ),
    ("POST", "/v1.41/volumes/create", {"Driver": "x", "DriverOpts": {"secret-key": PLANTED}}, {}),
    (
        "POST",
        "/v1.41/containers/create",
        {"HostConfig": {"LogConfig": {"Type": "splunk", "Config": {"splunk-token": PLANTED}}}},
        {},
    ),
    ("POST", "/v1.41/containers/create", {"Env": [f"A={PLANTED}"]}, {}),
    ("POST", "/v1.41/containers/c/exec", {"Env": [f"A={PLANTED}"]}, {}),
    (
        "POST",
        "/v1.41/services/create",
        {"TaskTemplate": {"ContainerSpec": {"Env": [f"A={PLANTED}"]}}},
        {},
    ),
    ("POST", "/v1.41/plugins/x/set", [f"A={PLANTED}"], {}),
]


@pytest.mark.parametrize(("method", "uri", "body", "headers"), SECRETS)
def test_secret_reaches_neither_policy_nor_log(
    method: str, uri: str, body: Any, headers: dict[str, str], tmp_path: Path
) -> None:
    pdp = Pdp({"allow": False})
    audit = AuditLog(str(tmp_path / "audit"), with_input=True)
    options = PluginOptions(InputOptions(mask_env=True))
    plugin = Plugin(pdp, options, audit=audit)
    content = json.loads(call(method, uri, body))
    content["RequestHeaders"] = {**content.get("RequestHeaders", {}), **headers}
    response = plugin.answer(REQUEST, json.dumps(content).encode())
    assert len(pdp.inputs) == 1, response.body
    assert PLANTED not in repr(pdp.inputs[0])
    assert PLANTED.encode() not in response.body
    assert PLANTED not in (tmp_path / "audit").read_text()
    audit.close()


def test_environment_is_in_no_log_even_where_the_policy_sees_it(tmp_path: Path) -> None:
    pdp = Pdp({"allow": False})
    audit = AuditLog(str(tmp_path / "audit"), with_input=True)
    plugin = Plugin(pdp, audit=audit)
    plugin.answer(REQUEST, call("POST", "/v1.41/containers/create", {"Env": [f"A={PLANTED}"]}))
    assert PLANTED in repr(pdp.inputs[0])
    assert PLANTED not in (tmp_path / "audit").read_text()
    audit.close()


def test_audit_line(tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path / "audit"))
    plugin = Plugin(Pdp({"allow": False, "messages": ["no"], "rule": "r"}), audit=audit)
    who = {"User": "alice", "UserAuthNMethod": "TLS"}
    plugin.answer(REQUEST, call("DELETE", "/v1.41/containers/c", **who))
    plugin.answer(REQUEST, call("POST", "/v1.41/containers/create", **who))
    first, second = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert first.pop("time")
    assert first.pop("latency_ms") >= 0
    assert first == {
        "decision_id": "of-the-pdp",
        "user": "alice",
        "method": "DELETE",
        "action": "container.delete",
        "target": "c",
        "uri": "/v1.41/containers/c",
        "phase": "request",
        "decision": "deny",
        "reason": "no",
        "rule": "r",
    }
    assert (second["user"], second["rule"]) == ("alice", "doorward:invisible")
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o600
    audit.close()


class Facts:
    """In place of the daemon: what it says about a request changes from one to the next."""

    def __init__(self) -> None:
        self.questions = 0

    def is_own(self, _request: AuthzRequest) -> bool:
        return False

    def join(self, view: dict[str, Any], *, may_wait: bool) -> None:
        if not may_wait:
            raise WaitError
        self.questions += 1
        view["container"] = {"asked": self.questions}


@pytest.mark.parametrize(
    ("before", "lines"), [('{"time": "20', 2), ('{"time": "20"}\n', 2), ("", 1)]
)
def test_a_line_begins_on_its_own_behind_one_that_a_killed_process_left(
    before: str, lines: int, tmp_path: Path
) -> None:
    log = tmp_path / "audit"
    log.write_text(before)
    audit = AuditLog(str(log))
    Plugin(Pdp({"allow": False}), audit=audit).answer(REQUEST, call("POST", "/v1.41/version"))
    audit.close()
    written = log.read_text().splitlines()
    assert len(written) == lines
    assert json.loads(written[-1])["decision"] == "deny"


def test_known_calls_are_decided_again_and_logged_alike(tmp_path: Path) -> None:
    log, pdp = tmp_path / "audit.log", Pdp()
    plugin = Plugin(pdp, audit=AuditLog(str(log)))
    content = call("POST", "/v1.41/containers/create?name=a", {"Image": "b"}, User="u")
    assert [answered(plugin, content)[0] for _ in range(3)] == [True] * 3
    pdp.result = False
    assert answered(plugin, content)[0] is False
    assert answered(plugin, content.replace(b"name=a", b"name=c"))[0] is False
    first, second, third, fourth, other = pdp.inputs
    assert first == second
    assert first is not second  # kept when it comes for the second time
    assert second is third is fourth
    assert other["target"] == "c"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["decision"] for line in lines] == [*["allow"] * 3, "deny", "deny"]
    assert [line["uri"][-1] for line in lines] == [*"aaaa", "c"]
    changing = {"time", "decision", "reason", "latency_ms"}
    same = [{k: v for k, v in line.items() if k not in changing} for line in lines[:4]]
    assert same == same[:1] * 4


def test_what_the_daemon_says_is_asked_again_for_a_known_call() -> None:
    pdp = Pdp()
    facts: Any = Facts()
    plugin = Plugin(pdp, facts=facts)
    for _ in range(3):
        assert answered(plugin, call("POST", "/v1.41/containers/a/kill"))[0] is True
    assert [input["container"]["asked"] for input in pdp.inputs] == [1, 2, 3]


def test_paths_that_are_not_followed_in_time_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of thousands of paths may have dozens of links."""
    now = 100.0

    def follow(path: str) -> str:
        nonlocal now
        now += RESOLVING / 2
        return path

    pdp = Pdp()
    plugin = Plugin(pdp, resolve=follow)
    monkeypatch.setattr("doorward.docker.plugin.monotonic", lambda: now)
    body = {"Image": "a", "HostConfig": {"Binds": [f"/{name}:/{name}" for name in "abcd"]}}
    assert answered(plugin, call("POST", "/v1.41/containers/create", body))[0] is True
    [input_doc] = pdp.inputs
    assert [mount["resolved"] for mount in input_doc["mounts"]] == ["/a", "/b", "", ""]


def test_links_of_the_host_are_followed_again(tmp_path: Path) -> None:
    pdp, link = Pdp(), tmp_path / "link"
    plugin = Plugin(pdp)
    body = {"Image": "a", "HostConfig": {"Binds": [f"{link}:/x"]}}
    for target in "abc":
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / target)
        assert answered(plugin, call("POST", "/v1.41/containers/create", body))[0] is True
    resolved = [input["mounts"][0]["resolved"] for input in pdp.inputs]
    assert resolved == [str(tmp_path / target) for target in "abc"]


def test_responses_have_inputs_of_their_own() -> None:
    pdp = Pdp()
    plugin = Plugin(pdp, PluginOptions(authorize_responses=True))
    content = call("GET", "/v1.41/info", ResponseStatusCode=200)
    for _ in range(3):
        for path in (REQUEST, RESPONSE):
            assert answered(plugin, content, path)[0] is True
    assert [input["phase"] for input in pdp.inputs] == ["request", "response"] * 3


def test_probes_are_never_known() -> None:
    plugin = Plugin(Pdp())
    content = call(uri="/_ping", RequestHeaders={PROBE_HEADER: "abc"})
    for _ in range(2):
        assert answered(plugin, content)[0] is True
    assert plugin.answer("/Doorward.Probe", b"abc").body == b'{"Seen":true}'


def test_known_calls_are_bounded_and_those_in_use_stay() -> None:
    known = KnownCalls()
    used, *others = [sha256(b"%d" % number).digest() for number in range(2 * MOST_KNOWN + 1)]
    known.add(used, {"Path": "used"})
    for key in others[: 2 * MOST_KNOWN]:
        known.add(key, {"Path": ""})
        assert known.find(used) == {"Path": "used"}
    assert known.find(others[0]) is None
    assert known.find(others[2 * MOST_KNOWN - 1]) is not None


def test_a_call_is_known_from_its_second_time_on() -> None:
    known = KnownCalls()
    assert known.key(b"call") is None
    assert known.key(b"call") == sha256(b"call").digest()
    long = b" " * (LONGEST + 1)
    assert known.key(long) is known.key(long) is None


def test_log_of_denials_only(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(str(path), denied_only=True)
    for allow in (True, False, True):
        entry = Entry(Verdict(allow, rule="r"), None, "d", "request", "GET", "alice", 0.0)
        assert log.write(entry) is True
    log.close()
    [line] = path.read_text().splitlines()
    assert json.loads(line)["decision"] == "deny"


def test_full_disk_denies_where_every_decision_must_be_logged() -> None:
    allowed = call()
    for deny_unlogged, expected in (
        (False, (True, "")),
        (True, (False, "the audit log cannot be written")),
    ):
        log = AuditLog("/dev/full")
        plugin = Plugin(Pdp(), PluginOptions(deny_unlogged=deny_unlogged), audit=log)
        assert answered(plugin, allowed) == expected
        assert log.lost == 1
        log.close()


def test_lines_that_are_lost_at_the_same_time_are_all_counted() -> None:
    log, lock = AuditLog("/dev/full"), WatchedLock()
    entry = Entry(Verdict(False), None, "d", "request", "GET", "alice", 0.0)
    count = CrossedCount(lambda: log.write(entry), lock)
    log._lock, log.lost = lock, count  # type: ignore[assignment]  # as far as it is used
    assert not log.write(entry)
    count.thread.join(PATIENCE)
    assert log.lost == 2
    log.close()


def call_with_binds(*sources: str) -> bytes:
    binds = [f"{source}:/v" for source in sources]
    return call("POST", "/v1.41/containers/create", {"Image": "a", "HostConfig": {"Binds": binds}})


def test_path_is_followed_again_for_each_call(tmp_path: Path) -> None:
    pdp = Pdp()
    plugin = Plugin(pdp)
    (tmp_path / "a").mkdir()
    for _ in range(4):
        plugin.answer(REQUEST, call_with_binds(str(tmp_path / "a")))
        assert pdp.inputs[-1]["BindMounts"][0]["Resolved"] == str(tmp_path / "a")
    (tmp_path / "a").rmdir()
    (tmp_path / "a").symlink_to("/usr")
    plugin.answer(REQUEST, call_with_binds(str(tmp_path / "a")))
    assert pdp.inputs[-1]["BindMounts"][0]["Resolved"] == "/usr"


def test_paths_that_take_long_are_followed_by_a_thread(tmp_path: Path) -> None:
    plugin = Plugin(Pdp())
    many = call_with_binds(*[str(tmp_path)] * (FEW_PATHS + 1))
    assert isinstance(plugin.begin(REQUEST, many), Waiting)
    assert isinstance(plugin.begin(REQUEST, call_with_binds(f"{tmp_path}/none")), Waiting)


def test_long_calls_are_known_where_they_have_no_body() -> None:
    known = KnownCalls()
    certificate = call(RequestPeerCertificates=["x" * 2 * SHORT])
    short = call("POST", "/v1.41/containers/create", {"Image": "a"})
    long = call("POST", "/v1.41/containers/create", {"Image": "a", "Env": ["x" * SHORT]})
    longest = call(RequestPeerCertificates=["x" * LONGEST])
    # One after the other: two calls in one slot, which chance may choose, forget each other.
    for each, is_known in ((certificate, True), (short, True), (long, False), (longest, False)):
        assert known.key(each) is None
        assert (known.key(each) is not None) is is_known
