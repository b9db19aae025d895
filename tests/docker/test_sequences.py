"""Nothing of the host is reached by sequences of requests, as many as there is time for here.

For longer: `python -m tests.docker.sequences --minutes 60`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from examples.docker.private_daemon import PrivateDaemon
from tests.docker.sequences.behind import ProxiedMachine
from tests.docker.sequences.grammars import Grammars
from tests.docker.sequences.machine import Machine
from tests.docker.sequences.world import LAN_BRIDGE

SEQUENCES = 30


def test_no_sequence_reaches_a_canary(daemon: PrivateDaemon, tmp_path: Path) -> None:
    machine = Machine(daemon, tmp_path / "machine", seed=3)
    try:
        for _ in range(SEQUENCES):
            machine.step()
        assert not machine.findings, machine.findings
        assert machine.accepted.total() > SEQUENCES / 3, machine.table()
    finally:
        machine.close()


def test_no_sequence_reaches_a_canary_through_the_proxy(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    machine = ProxiedMachine(daemon, tmp_path / "machine", seed=4)
    try:
        for _ in range(SEQUENCES // 3):
            machine.step()
        assert not machine.findings, machine.findings
        assert machine.accepted.total() > SEQUENCES / 10, machine.table()
    finally:
        machine.close()


def test_the_canaries_are_seen_where_they_are_reached(
    daemon: PrivateDaemon, tmp_path: Path
) -> None:
    """Otherwise a machine without findings would say nothing."""
    machine = Machine(daemon, tmp_path / "machine")
    world = machine.world
    try:
        host = {"NetworkMode": "none", "Binds": [f"{world.hidden}:/v"]}
        body = {"Image": "img:1", "Cmd": ["sleep", "86400"], "HostConfig": host}
        daemon.json("POST", "/containers/create?name=c-seen", body)
        daemon.raw("POST", "/containers/c-seen/start")
        assert world.sees_file(world.pid("c-seen"))
        assert not world.sees_file(world.pid("plain"))
        body["HostConfig"] = {"NetworkMode": "none", "Binds": ["t-volume:/v"]}
        daemon.json("POST", "/containers/create?name=c-other", body)
        daemon.raw("POST", "/containers/c-other/start")
        assert world.sees_theirs(world.pid("c-other"))
        assert not world.sees_theirs(world.pid("c-seen"))
        assert not world.has_changed_theirs()
        daemon.raw("POST", "/containers/t-container/pause")
        assert world.has_changed_theirs()
        daemon.raw("POST", "/containers/t-container/unpause")
        contacts = world.server.contacts
        reference = f"127.0.0.1:{world.server.server_address[1]}/x"
        daemon.raw("GET", f"/distribution/{reference}/json")
        assert world.server.contacts > contacts
        assert not world.lost_lan()
        assert not world.reaches_server(world.pid("c-seen"))
        assert not world.is_on_lan(world.pid("c-seen"))
        body["HostConfig"] = {"NetworkMode": "host"}
        daemon.json("POST", "/containers/create?name=c-host", body)
        daemon.raw("POST", "/containers/c-host/start")
        assert world.reaches_server(world.pid("c-host"))
        options = {"parent": LAN_BRIDGE}
        config = {"Config": [{"Subnet": "10.77.3.0/24"}]}
        network = {"Name": "n-lan", "Driver": "macvlan", "IPAM": config, "Options": options}
        assert daemon.json("POST", "/networks/create", network).status == 201
        body["HostConfig"] = {"NetworkMode": "n-lan"}
        daemon.json("POST", "/containers/create?name=c-lan", body)
        daemon.raw("POST", "/containers/c-lan/start")
        assert world.is_on_lan(world.pid("c-lan"))
    finally:
        machine.close()


def test_grammars_write_what_the_parsers_read_as_more_than_a_value() -> None:
    grammars = Grammars(
        random.Random(1),
        {
            "allowed": ["/a", "/a,"],
            "hidden": ["/h"],
            "servers": ["s:1"],
            "subnets": ["10.0.0.0/24"],
        },
    )
    volumes = [json.dumps(grammars.options(templates=False)) for _ in range(2000)]
    services = [json.dumps(grammars.options(templates=True)) for _ in range(2000)]
    assert any("\\\\," in text for text in volumes)
    assert any("/.." in text for text in volumes)
    assert not any("{{" in text for text in volumes)
    assert any("{{print" in text for text in services)
    assert any("=PID" in grammars.ps() for _ in range(50))
    commas = {grammars.template_of(",") for _ in range(200)}
    assert any("printf" in text and "44" in text for text in commas)
    assert any("\\x2c" in text for text in commas)
    shapes = {grammars.shape(json.loads(text)) for text in volumes}
    assert len(shapes) < len(volumes) / 2
