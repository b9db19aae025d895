"""The daemon of the tests behind the shipped policies, with data of a test's own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.docker.private_daemon import PrivateDaemon
from tests.waiting import PATIENCE

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.plugin import Plugin
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.host import HostFacts
from doorward.docker.request.input import resolve_path

__all__ = ["guard", "write_policies"]


def write_policies(folder: Path, *, allow: str = "", **settings: Any) -> Path:
    """The shipped policies in `folder`, with these settings; `allow` is a folder of the host that
    users may mount."""
    shutil.copytree(PACK, folder)
    data = json.loads((folder / "data.json").read_text())
    data["docker"] |= settings
    if allow:
        data["docker"]["mounts"]["allow"] = [allow]
    (folder / "data.json").write_text(json.dumps(data))
    return folder


@contextmanager
def guard(
    daemon: PrivateDaemon, name: str, policies: Path, *, owners: bool = False
) -> Iterator[PrivateDaemon]:
    """The daemon behind these policies, which ask it about containers, under this name."""
    pdp = EmbeddedPdp([str(policies)], watch=False)
    facts = ContainerFacts(daemon.socket, resolve_path, deadline=PATIENCE, owners=owners)
    host = HostFacts(config=str(daemon.config), pidfile=str(daemon.pidfile))
    daemon.plugin(name, Plugin(pdp, facts=facts, host=host).answer)
    daemon.chain(name)
    try:
        yield daemon
    finally:
        daemon.chain()
        daemon.end_plugin(name)
        pdp.close()
