"""One description of a sidecar becomes the files of a deployment, for each target.

    Description -> `to_files` -> texts by file name

Everything that is generated says why it is so, and is what `doorward kit check` finds nothing in.
Nothing here writes a file, and no secret is ever part of one: deployments name where it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from doorward.envoy.kit import compose, grafana, helm, host, kubernetes, systemd
from doorward.envoy.kit.description import Description, Policy, ResponseList

__all__ = ["TARGETS", "Description", "Policy", "ResponseList", "to_files"]

TARGETS: Final[Mapping[str, Callable[[Description], dict[str, str]]]] = {
    "kubernetes": kubernetes.to_files,
    "helm": helm.to_files,
    "compose": compose.to_files,
    "systemd": systemd.to_files,
    "host": host.to_files,
    "grafana": grafana.to_files,
}


def to_files(description: Description, target: str) -> dict[str, str]:
    """Return the files of a deployment, text by file name, for one of `TARGETS`; KeyError for
    another.
    """
    return TARGETS[target](description)
