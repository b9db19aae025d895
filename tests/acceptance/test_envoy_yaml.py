"""The configuration files of the example are what they say they are."""

from __future__ import annotations

from pathlib import Path

import yaml

from acceptance.ports import Ports
from doorward.envoy.kit.bootstrap import Bootstrap, render

EXAMPLE = Path(__file__).parents[2] / "examples" / "people"


def test_envoy_yaml_is_what_bootstrap_prints() -> None:
    assert (EXAMPLE / "envoy.yaml").read_text() == render(Bootstrap())


def test_the_files_and_the_demo_agree_on_ports_and_socket() -> None:
    options = Bootstrap()
    assert options.listen == f"127.0.0.1:{Ports().envoy}"
    assert options.upstream == f"127.0.0.1:{Ports().people}"
    sidecar = yaml.safe_load((EXAMPLE / "doorward.yaml").read_text())
    block = sidecar["plugins"]["envoy_ext_authz_grpc"]
    assert options.pdp == (block["addr"].replace("unix://", "unix:"),)
    assert block["strict"] is True


def test_no_secret_stands_in_a_file_of_the_example() -> None:
    for file in EXAMPLE.glob("*.*"):
        assert '"secret": "' not in file.read_text()
