"""Values of the fields of one object fit together, or the field that does not is named."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.docker.request.model.objects import OBJECTS


@pytest.mark.parametrize(
    ("kind", "document", "field"),
    [
        ("mount", {"Type": "bind", "Source": "/etc"}, ""),
        ("mount", {"Type": "bind", "Source": "etc"}, "Source"),
        ("mount", {"Type": "volume"}, ""),
        ("mount", {"Type": "volume", "Source": "data"}, ""),
        ("mount", {"Type": "volume", "Source": "/etc"}, "Source"),
        ("mount", {"Type": "tmpfs"}, ""),
        ("mount", {"Type": "tmpfs", "Source": "data"}, "Source"),
        ("mount", {"Type": "image", "Source": "busybox:1"}, ""),
        ("mount", {"Type": "image", "Source": "sha256:" + "a" * 64}, ""),
        ("mount", {"Type": "image", "Source": "Not An Image"}, "Source"),
        ("mount", {"Type": "image"}, "Source"),
        ("mount", {"Type": "npipe"}, "Type"),
        ("mount", {"Type": "volume", "BindOptions": {"Propagation": "shared"}}, "BindOptions"),
        ("reference", {}, ""),
        ("reference", {"File": {}}, ""),
        ("reference", {"File": {"Name": "/run/secret"}}, ""),
        ("reference", {"File": {"Name": "/run/{{.Node}}"}}, "File.Name"),
        ("network", {}, ""),
        ("network", {"IPAM": {"Config": [{}, {"Gateway": ""}]}}, ""),
        ("network", {"IPAM": {"Config": [None]}}, ""),
        ("network", {"IPAM": {"Config": [{"Subnet": "10.1.0.0/16", "Gateway": "10.1.0.1"}]}}, ""),
        ("network", {"IPAM": {"Config": [{"Gateway": "10.1.0.1"}]}}, "IPAM.Config[].Subnet"),
    ],
)
def test_the_field_that_does_not_fit_is_named(
    kind: str, document: dict[str, Any], field: str
) -> None:
    fault = OBJECTS[kind](document)
    assert (fault[0] if fault else "") == field


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({}, True),
        ({"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}, True),
        ({"type": "tmpfs", "device": "/etc"}, False),
        ({"type": "none", "o": "bind", "device": "/srv"}, True),
        ({"o": "bind", "device": "/srv"}, True),
        ({"type": "bind", "o": "bind", "device": "/srv"}, True),
        ({"type": "none", "o": "bind", "device": "srv"}, False),
        ({"type": "none", "o": "rbind,dev", "device": "/srv"}, False),
        ({"type": "none", "o": "bind", "device": "/srv", "size": "1"}, False),
        ({"type": "nfs", "o": "addr=10.0.0.1,ro", "device": ":/x"}, True),
        ({"type": "nfs4", "o": "addr=10.0.0.1", "device": "/x"}, False),
        ({"type": "ext4", "o": "addr=10.0.0.1", "device": ":/x"}, False),
    ],
)
def test_the_options_of_a_local_volume_fit_together(options: dict[str, str], fits: bool) -> None:
    fault = OBJECTS["volume"]({"Driver": "local", "DriverOpts": options})
    assert (fault is None) is fits
