"""systemd's units with a stand-in for systemctl, and links followed below another root."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from doorward.docker.install import units
from doorward.docker.install.daemon import DaemonError
from doorward.docker.install.units import Process, Systemd
from doorward.docker.plugin import Response
from doorward.docker.request.input import resolver
from doorward.docker.server import PluginServer, bind_unix
from doorward.docker.watch.status import INSTANCE

pytestmark = pytest.mark.system

# Writes down how it was called; fails for what the file `fails` names.
SYSTEMCTL = """\
#!/bin/sh
echo "$*" >> {folder}/calls
! grep -qxF -- "$*" {folder}/fails || {{ echo "no such unit" >&2; exit 1; }}
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    script = tmp_path / "systemctl"
    script.write_text(SYSTEMCTL.format(folder=tmp_path))
    script.chmod(0o755)
    (tmp_path / "fails").touch()
    (tmp_path / "calls").touch()
    (tmp_path / "units").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Systemd("x", str(tmp_path / "p.sock"), tmp_path / "units")


@pytest.fixture
def answering(systemd: Systemd) -> Iterator[PluginServer]:
    def answer(path: str, _body: bytes) -> Response:
        """What the process of the unit would, which knows its instance from the environment."""
        if path != "/Doorward.Instance":
            return Response(200, b'{"Implements":["authz"]}')
        unit = (systemd.folder / "doorward-x.service").read_text()
        instance = unit.partition(f"{INSTANCE}=")[2].partition("\n")[0]
        return Response(200, json.dumps({"Instance": instance}).encode())

    server = PluginServer(bind_unix(systemd.socket), answer, threads=2)
    server.start()
    yield server
    server.close(grace=2.0)


@pytest.mark.usefixtures("answering")
def test_socket_first_and_the_service_anew(systemd: Systemd, tmp_path: Path) -> None:
    systemd.start(["--socket", systemd.socket])
    assert (tmp_path / "calls").read_text().splitlines() == [
        "daemon-reload",
        "enable --now doorward-x.socket",
        "enable doorward-x.service",
        "restart doorward-x.service",
    ]
    assert f"ListenStream={systemd.socket}\n" in (systemd.folder / "doorward-x.socket").read_text()
    (tmp_path / "calls").write_text("")
    systemd.stop()
    assert (tmp_path / "calls").read_text().splitlines() == [
        "disable --now doorward-x.service",
        "disable --now doorward-x.socket",
        "daemon-reload",
    ]
    assert list(systemd.folder.iterdir()) == []


@pytest.mark.usefixtures("answering")
def test_service_that_does_not_start_leaves_no_units(systemd: Systemd, tmp_path: Path) -> None:
    (tmp_path / "fails").write_text("restart doorward-x.service\n")
    with pytest.raises(DaemonError, match="systemctl restart: no such unit"):
        systemd.start([])
    assert list(systemd.folder.iterdir()) == []


def test_missing_systemctl_leaves_no_units(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DaemonError, match="systemctl daemon-reload: no such file"):
        systemd.start([])
    assert list(systemd.folder.iterdir()) == []


@pytest.mark.usefixtures("answering")
def test_systemctl_that_hangs_leaves_no_units(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "systemctl"
    script.write_text("#!/bin/sh\n[ $1 != restart ] || exec sleep 60\n")
    monkeypatch.setattr(units, "_SYSTEMCTL", 0.5)
    with pytest.raises(DaemonError, match=r"systemctl restart: did not end within 0\.5 s"):
        systemd.start([])
    assert list(systemd.folder.iterdir()) == []


def test_unit_that_is_not_utf8_is_not_replaced(systemd: Systemd) -> None:
    (systemd.folder / "doorward-x.socket").write_text("old socket")
    (systemd.folder / "doorward-x.service").write_bytes(b"\xff")
    with pytest.raises(DaemonError, match="not UTF-8"):
        systemd.start([])
    assert (systemd.folder / "doorward-x.service").read_bytes() == b"\xff"


def test_old_units_come_back(
    systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (systemd.folder / "doorward-x.socket").write_text("old socket")
    (systemd.folder / "doorward-x.service").write_text("old service")
    monkeypatch.setattr(units, "wait_for", lambda _socket, _instance: False)
    with pytest.raises(DaemonError, match="journalctl -u doorward-x"):
        systemd.start([])
    assert (systemd.folder / "doorward-x.service").read_text() == "old service"
    assert (tmp_path / "calls").read_text().count("restart doorward-x.service") == 2


def test_plan_names_the_units(systemd: Systemd) -> None:
    steps = systemd.describe(["--pdp", "http://x"])
    assert steps[1:-1] == [
        "systemctl daemon-reload",
        "systemctl enable --now doorward-x.socket",
        "systemctl enable doorward-x.service",
        "systemctl restart doorward-x.service",
    ]
    assert steps[-1].endswith("docker serve --pdp http://x")


def test_links_are_followed_below_a_root(tmp_path: Path) -> None:
    (tmp_path / "srv" / "real").mkdir(parents=True)
    (tmp_path / "srv" / "absolute").symlink_to("/etc")
    (tmp_path / "srv" / "relative").symlink_to("../srv/real")
    (tmp_path / "srv" / "above").symlink_to("../../../../..")
    (tmp_path / "srv" / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    resolve = resolver(str(tmp_path))
    assert resolve("/srv/real") == "/srv/real"
    assert resolve("/srv/absolute/x") == "/etc/x"
    assert resolve("/srv/relative/../y") == "/srv/y"
    assert resolve("/srv/above") == "/"
    assert resolve("/nothing/there") == "/nothing/there"
    assert resolve("/srv/loop") is None
    assert resolve("/file/below") is None
    assert resolve("/a\x00b") is None


def test_process_that_cannot_open_its_audit_log_says_so(tmp_path: Path) -> None:
    process = Process("x", str(tmp_path / "s"), tmp_path / "run")
    missing = tmp_path / "none" / "audit.log"
    with pytest.raises(DaemonError) as raised:
        process.start(["--socket", process.socket, "--audit-log", str(missing)])
    assert str(raised.value) == f"the plugin does not start: {missing}: no such file or directory"


@pytest.mark.parametrize(("listener", "who"), [(7, "process 7"), (None, "an unknown process")])
def test_other_process_at_the_socket_is_named_if_it_is_known(
    listener: int | None, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process("x", str(tmp_path / "s"), tmp_path / "run")
    monkeypatch.setattr(units, "_END", 0.0)
    monkeypatch.setattr(units, "is_plugin", lambda _socket: True)
    monkeypatch.setattr(units, "listener_pid", lambda _socket: listener)
    with pytest.raises(DaemonError, match=rf"/s is still served by {who}.*: end it and try again"):
        process.stop()
