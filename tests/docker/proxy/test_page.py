"""docs/docker-proxy.md, followed: its commands, its data, and Traefik's calls through it all."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.guarded import write_policies
from tests.docker.proxied import proxied

from doorward.cli.docker import doctor
from doorward.cli.docker_proxy import proxy
from doorward.docker.decider.embedded import EmbeddedPdp
from doorward.docker.request.archives import PENDING, Archive
from doorward.docker.request.call import AuthzRequest, Caller
from doorward.docker.request.input import to_input

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/docker-proxy.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)


def data() -> dict[str, Any]:
    """The data that the page writes."""
    documents = [json.loads(each) for each in blocks("json")]
    settings: dict[str, Any] = next(each["docker"] for each in documents if "docker" in each)
    return settings


def test_commands_of_the_page_are_commands() -> None:
    texts = [each.replace("\\\n", " ").strip().lstrip("#$ ") for each in blocks("console")]
    serve, ask, contained = map(shlex.split, texts)
    for words, command, name in ((serve, proxy, "proxy"), (ask, doctor, "doctor")):
        assert words[:3] == ["doorward", "docker", name]
        command.make_context(name, words[3:])
    assert contained[:2] == ["docker", "run"]
    proxy.make_context("proxy", contained[contained.index("proxy") + 1 :])


def test_options_of_the_page_are_those_of_the_command() -> None:
    options = {option for each in proxy.params for option in each.opts}
    table = PAGE.partition("| option | default |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(--[a-z-]+)`", table))
    hidden = {
        "--daemon-json", "--log-level", "--mask-env", "--minimum-api-version", "--pidfile",
        "--tls-ca-cert-file", "--tls-cert-file", "--tls-private-key-file",
    }  # fmt: skip
    assert named == {each for each in options if each.startswith("--")} - hidden


def test_units_start_what_the_page_says() -> None:
    folder = ROOT / "deploy/docker-proxy"
    unit = (folder / "doorward-docker-proxy.service").read_text()
    [command] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    proxy.make_context("proxy", shlex.split(command)[3:])
    assert not re.search(
        r"^(PrivateTmp|ProtectSystem|ProtectHome|PrivateMounts)", unit, re.MULTILINE
    )
    names = [
        re.findall(r"^FileDescriptorName=(.*)$", each.read_text(), re.MULTILINE)
        for each in sorted(folder.glob("*.socket"))
    ]
    assert names == [["traefik"], ["shared"]]


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("FROM python:3\nRUN id\n", True),
        ("# syntax=docker/dockerfile:1\nFROM python:3\n", True),
        ("# syntax=other/dockerfile:1\nFROM python:3\n", False),
        ("FROM ghcr.io/x/y:1\n", False),
        ("FROM python:3\nADD https://example.com/x /\n", False),
    ],
)
def test_data_of_the_page_decide_what_a_dockerfile_takes(
    tmp_path: Path, text: str, is_allowed: bool
) -> None:
    documents = [json.loads(each).get("docker", {}) for each in blocks("json")]
    [settings] = [each for each in documents if "builds" in each]
    policies = write_policies(tmp_path / "pack")
    document = json.loads((policies / "data.json").read_text())
    for name, value in settings.items():
        document["docker"][name] |= value
    (policies / "data.json").write_text(json.dumps(document))
    pdp = EmbeddedPdp([str(policies)], watch=False)
    caller = Caller("dora", "peer")
    for archive in (PENDING, Archive("read", text.encode())):
        request = AuthzRequest(
            "POST", "/v1.41/build", "dora", "peer", caller=caller, archive=archive
        )
        result: Any = pdp.decide(to_input(request)).result
    assert result["allow"] is is_allowed, result
    pdp.close()


def test_data_of_the_page_give_the_roles_that_it_says(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    settings = data()
    consumers = {"traefik": "traefik", "reaper": "reaper"}
    settings["users"]["socket:reaper"] = ["reaper"]
    actions = ["container.list", "container.delete", "system.ping"]
    settings["roles"] = {"reaper": {"actions": actions}}
    with proxied(daemon, tmp_path, consumers=consumers, **settings) as behind:
        traefik, reaper = behind.at("traefik"), behind.at("reaper")
        done = behind.docker(
            "run", "-d", "--name", "web", "--network", "none", "img:1", "sleep", "99"
        )
        assert done.returncode == 0, done.stderr
        try:
            for target in ("/_ping", "/version", "/containers/json", "/containers/web/json"):
                assert traefik.raw("GET", f"/v1.24{target}").status == 200, target
            for method, target in (
                ("GET", "/containers/web/logs?stdout=1"),
                ("GET", "/containers/web/archive?path=/"),
                ("POST", "/containers/web/stop"),
                ("DELETE", "/containers/web"),
            ):
                assert traefik.raw(method, f"/v1.24{target}").status == 403, target
            refused = reaper.docker("kill", "web")
            assert "user socket:reaper may not container.kill" in refused.stderr
            assert reaper.docker("rm", "-f", "web").returncode == 0
        finally:
            behind.docker("rm", "-f", "web")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--daemon", "/d", "--consumer", "x"], "must be of the form NAME=/PATH"),
        (["--daemon", "/d", "--consumer", "shared=/x"], "the name shared is reserved"),
        (["--daemon", "/d", "--listen", "127.0.0.1:1"], "--listen needs --tls-cert-file, "),
        (
            ["--daemon", "/d", "-p", "http://x/y", "--policy", "/p"],
            "--pdp cannot be combined with --policy",
        ),
        (["--daemon", "/d", "--audit-log", "off"], "no socket to serve"),
        (["--daemon", "/d", "--minimum-api-version", "x"], "must be of the form 1.24"),
        (["--daemon", "/d", "--socket", "/x", "--timeout", "0"], "at most 60 seconds"),
    ],
)
def test_options_that_do_not_fit_are_said(arguments: list[str], message: str) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    done = CliRunner().invoke(proxy, arguments)
    assert done.exit_code != 0
    assert message in done.output
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
