"""`config check`, variables for flags, and SIGHUP."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from tests.cli.test_run import Process, folder, start, until  # noqa: F401  # fixtures

from doorward.bundles.loader import Loaded
from doorward.cli.main import Commands, cli, run
from doorward.config.configuration import DecisionLogs, parse_config
from doorward.decision_log.log import DecisionLog
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego import CompileError
from doorward.rego.builtins.http_client.cache import StoredResponse
from doorward.rego.builtins.http_client.message import HTTPResponse
from doorward.server.sidecar_options import SidecarOptions, settings_of
from doorward.telemetry.log import line_for, stamp_for


def test_a_configuration_is_checked_before_a_server_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("labels: {a: b}\nunheard_of: 1\n")
    assert run(["config", "check", str(file)]) == 0
    assert "unheard_of: unknown key, ignored" in capsys.readouterr().err
    for text, message in [
        ("plugins: {foo: {}}", 'plugin "foo" not registered'),
        ("storage: {disk: {}}", "storage is not supported: data is in memory"),
        ("plugins: {envoy_ext_authz_grpc: {path: 1}}", "path must be"),
    ]:
        file.write_text(text)
        assert run(["config", "check", str(file)]) == 1
        assert message in capsys.readouterr().err
    assert run(["config", "check", "--set", "labels.a=1"]) == 1
    assert "labels.a must be a string" in capsys.readouterr().err
    (tmp_path / "text").write_text("from file")
    assert run(["config", "check", "--set-file", f"labels.a={tmp_path / 'text'}"]) == 0


@pytest.mark.parametrize("arguments", [[], [""]])
def test_a_check_of_nothing_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "check", *arguments]) == 1
    assert "there is nothing to check: name a file" in capsys.readouterr().err


EXT_AUTHZ = "plugins.envoy_ext_authz_grpc"
EXT_PROC = "plugins.envoy_ext_proc_grpc"
FORWARD = "plugins.forward_auth"
BELOW = "must be the path of a document below the root, such as a/b"
BINDS = "must be HOST:PORT, :PORT or unix:///PATH"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (f"{EXT_AUTHZ}.addr", "foo", ": `foo`: must be host:port, or :port for every address"),
        (f"{EXT_AUTHZ}.addr", "http://a:1", ": `http://a:1`: the scheme of the address must be"),
        (f"{EXT_AUTHZ}.addr", "unix:///" + "a" * 107, "a socket's path has at most 107 bytes"),
        (f"{EXT_AUTHZ}.query", "data..x", " must be a Rego query: rego_parse_error: "),
        (f"{EXT_PROC}.addr", "localhost:65536", ": `localhost:65536`: must be host:port"),
        (f"{EXT_PROC}.path", "/", f" {BELOW}"),
        (f"{FORWARD}.addr", "foo", f" {BINDS}"),
        (f"{FORWARD}.addr", "localhost:x", f" {BINDS}"),
        (f"{FORWARD}.addr", "unix://", f" {BINDS}"),
        (f"{FORWARD}.addr", "unix:///" + "a" * 107, f" {BINDS}"),
        (f"{FORWARD}.path", "//", f" {BELOW}"),
        ("authzen.decision", "/", f" {BELOW}"),
        ("services.s.url", "http://s:xx", " must be an http:// or https:// URL with a host"),
        ("services.s.url", "http://s:65536", " must be an http:// or https:// URL with a host"),
        ("services.s.url", "http://:80/v1", " must be an http:// or https:// URL with a host"),
    ],
)
def test_what_a_start_refuses_is_refused(
    key: str, value: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    document: object = value
    for name in reversed(key.split(".")):
        document = {name: document}
    file.write_text(json.dumps(document))
    assert run(["config", "check", str(file)]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {file}:1: {key}")
    assert message in printed


@pytest.mark.parametrize(
    ("protocol", "address", "is_warned"),
    [
        ("grpc", "a b:4317", True),
        ("http", "a b:4318", True),
        ("http", "a\tb:4318", True),
        ("http", "http://a:4318", True),
        ("http", "a:x", True),
        ("grpc", "collector:4317", False),
        ("grpc", "dns:///collector:4317", False),
        ("http", "[::1]:4318", False),
        ("http", "collector/prefix", False),
        ("http", "", False),
    ],
)
def test_an_address_to_which_no_span_can_be_sent_is_a_warning(
    protocol: str,
    address: str,
    is_warned: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(json.dumps({"distributed_tracing": {"type": protocol, "address": address}}))
    assert run(["config", "check", str(file)]) == 0
    message = "distributed_tracing.address: no span can be sent to "
    assert (message in capsys.readouterr().err) is is_warned


def test_flags_may_be_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPA_EVAL_FORMAT", "raw")
    assert run(["eval", "1 + 1"]) == 0
    assert capsys.readouterr().out == "2\n"
    monkeypatch.setenv("DOORWARD_EVAL_FORMAT", "json")
    assert run(["eval", "1 + 1"]) == 0
    assert '"result"' in capsys.readouterr().out
    # A flag on the command line wins.
    assert run(["eval", "-f", "raw", "1 + 1"]) == 0
    assert capsys.readouterr().out == "2\n"


def test_several_values_in_a_variable_are_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPA_RUN_ADDR", "localhost:9")
    monkeypatch.setenv("DOORWARD_RUN_ADDR", "localhost:1,unix:///a b")
    command = Commands().get_command(click.Context(cli), "run")
    assert command is not None
    with command.make_context("run", []) as context:
        assert context.params["addr"] == ("localhost:1", "unix:///a b")


def test_a_hangup_reads_the_configuration_again(
    folder: Path,  # noqa: F811  # the fixture
    start: Callable[..., Process],  # noqa: F811  # the fixture
) -> None:
    (folder / "c.yaml").write_text("default_decision: /envoy/authz/allow\n")
    process = start("--config-file=c.yaml", "policy.rego")
    assert process.ready()
    assert process.ask("/", {"user": "ann"}) == (200, True)
    (folder / "c.yaml").write_text("default_decision: [\n")
    process.process.send_signal(signal.SIGHUP)
    assert until(
        lambda: bool(
            process.messages("The configuration was not reloaded; the previous one stays active.")
        )
    )
    assert process.ask("/", {"user": "ann"}) == (200, True)
    (folder / "c.yaml").write_text("default_decision: /other\nserver: {decision_paths: [a]}\n")
    process.process.send_signal(signal.SIGHUP)
    assert until(lambda: bool(process.messages("Configuration reloaded.")))
    assert process.ask("/", {"user": "ann"})[0] == 404
    assert process.messages("the configuration key `server` changed: restart Doorward to apply it")
    assert process.end() == 0


def test_a_signal_to_reload_before_the_start_is_obeyed_after_it(
    folder: Path,  # noqa: F811  # the fixture
    start: Callable[..., Process],  # noqa: F811  # the fixture
) -> None:
    (folder / "c.yaml").write_text("default_decision: /envoy/authz/allow\n")
    (folder / "mine.py").write_text("""
import os, signal
from doorward.rego import Registry
builtins = Registry()
os.kill(os.getpid(), signal.SIGHUP)
""")
    process = start("--config-file=c.yaml", "--builtins=mine.py:builtins", "policy.rego")
    assert process.ready()
    assert until(lambda: bool(process.messages("Configuration reloaded.")))
    assert process.end() == 0


def test_a_server_keeps_as_much_as_its_configuration_says() -> None:
    text = (
        "caching:\n"
        "  inter_query_builtin_cache: {max_size_bytes: 2000,"
        " forced_eviction_threshold_percentage: 50}\n"
        "  inter_query_builtin_value_cache: {named: {io_jwt: {max_num_entries: 2}}}\n"
    )
    config = parse_config(text, environment={})
    environment = settings_of(SidecarOptions(config=config)).environment
    for number, size in enumerate((100, 400, 600)):
        environment.responses.put(number, StoredResponse(HTTPResponse(200, "", (), b"x" * size), 0))
    assert environment.responses.get(1) is not None
    assert [environment.responses.get(number) for number in (0, 2)] == [None, None]
    assert environment.tokens is not None
    for number in range(5):
        environment.tokens.put(number, number)
    assert environment.tokens.get(1) is None
    assert environment.tokens.get(4) == 4


def test_a_server_notes_answers_where_its_configuration_says_so() -> None:
    config = parse_config("nd_builtin_cache: true", environment={})
    settings = settings_of(SidecarOptions(config=config))
    snapshot = build(Loaded({"p.rego": 'package p\n\nx := rand.intn("k", 1)'}), settings)
    assert PDP(snapshot).decide("p/x").builtins == {"rand.intn": {'["k",1]': 0}}


def test_a_server_reports_as_many_errors_as_it_is_told_to() -> None:
    broken = Loaded({"p.rego": "package p\n\n" + "\n".join(f"r{n} := x{n}" for n in range(20))})
    for most, reported in ((3, 4), (0, 20)):
        with pytest.raises(CompileError) as raised:
            build(broken, settings_of(SidecarOptions(max_errors=most)))
        assert len(raised.value.diagnostics) == reported


def test_the_log_has_the_times_that_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    stamp = stamp_for("2006-01-02T15:04:05.000Z07:00")
    assert stamp(1_795_000_000_123_456_789) == "2026-11-18T11:06:40.123Z"
    assert stamp_for("")(1_795_000_000_123_456_789) == "2026-11-18T11:06:40Z"
    lines: list[bytes] = []
    log = DecisionLog(
        lines.append,
        line_for("json"),
        labels={},
        options=DecisionLogs(console=True),
        stamp=stamp_for("(2006)"),
    )
    pdp = PDP(build(Loaded({"p.rego": "package p\n\nx := 1"})), log)
    pdp.record(pdp.decide("p/x"))
    pdp.close()
    assert re.search(rb'"time":"\(20\d\d\)"', lines[0])


@pytest.mark.parametrize(("level", "is_logged"), [("info", True), ("error", False)])
def test_requests_are_logged_at_info(
    level: str,
    is_logged: bool,
    folder: Path,  # noqa: F811 - the fixture
    start: Callable[..., Process],  # noqa: F811 - the same
) -> None:
    server = start("--log-level", level, "policy.rego")
    assert server.ready()
    server.ask("/v1/data/people?explain=off", {"input": {}})
    server.end()
    paths = [each["req_path"] for each in server.messages("Sent response.")]
    assert ("/v1/data/people" in paths) is is_logged
