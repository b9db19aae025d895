"""A description becomes a Compose project, for Docker or Podman.

One service holds the network namespace that all share, redirects in it and stays: its health is
that every rule is active, and the others start when it is well. Only Envoy's port is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.envoy.kit.description import ENVOY_ARGUMENTS, Description, Places
from doorward.envoy.kit.manifest import write_manifest

__all__ = ["to_files"]

Document = dict[str, Any]

_PLACES: Final = Places("/run/doorward/auth.sock", "", "unix:///run/doorward/api.sock")
_HEAD: Final = ("Made by `doorward kit --target compose`.",)
_UNSAFE: Final = frozenset(':$"\\')
"""Characters that the path of a mount must not contain."""


def to_files(description: Description) -> dict[str, str]:
    """Return the files of a Compose project, text by file name."""
    places = Places(_PLACES.socket, description.listen(), _PLACES.api)
    return {
        "compose.yaml": write_manifest([_to_project(description, places)], _WHY, _HEAD),
        "doorward.yaml": description.doorward_yaml(places),
        "envoy.yaml": description.envoy_yaml(places),
        **{f"policy/{policy.name}": policy.text for policy in description.policies},
    }


def _to_project(description: Description, places: Places) -> Document:
    """Return the Compose project: redirect, decision point, Envoy and application in one network
    namespace, and the volume for sockets.
    """
    return {
        "name": description.name,
        "services": {
            "redirect": _to_redirect(description),
            "doorward": _to_decision_point(description, places),
            "envoy": _to_envoy(description),
            "application": _to_application(description),
        },
        "volumes": {
            "run": {
                "driver": "local",
                "driver_opts": {
                    "type": "tmpfs",
                    "device": "tmpfs",
                    "o": f"size=1m,mode=0700,uid={description.user},gid={description.user}",
                },
            }
        },
    }


def _to_redirect(description: Description) -> Document:
    """Return the service that holds the shared network namespace, installs the redirect and repairs
    it.
    """
    arguments = description.redirect_arguments()
    return {
        "image": description.image,
        "command": [*arguments, "--stay"],
        "user": "0:0",
        "cap_drop": ["ALL"],
        "cap_add": ["NET_ADMIN"],
        **_HARDENED,
        "sysctls": {"net.ipv6.conf.all.disable_ipv6": "0"} if description.dual_stack else {},
        "ports": [f"127.0.0.1:{description.port}:{description.port}"],
        "healthcheck": {
            "test": ["CMD", "doorward", *arguments, "--verify"],
            "interval": "10s",
            "timeout": "5s",
            "start_period": "30s",
            "start_interval": "1s",
        },
        "restart": "unless-stopped",
    }


def _to_decision_point(description: Description, places: Places) -> Document:
    """Return the service of the decision point, with policies and the secret as read-only
    mounts.
    """
    paths = ["/policy"] + (["/secret.json"] if description.secret else [])
    mounts = [
        "./doorward.yaml:/config/doorward.yaml:ro",
        "./policy:/policy:ro",
        "run:/run/doorward",
    ]
    if description.secret:
        mounts.append(f"{_to_path(description.secret)}:/secret.json:ro")
    address = f"0.0.0.0:{description.diagnostic_port}"
    health = f"http://127.0.0.1:{description.diagnostic_port}/health?plugins"
    return {
        "image": description.image,
        "command": description.run_arguments(
            places, address, "--config-file=/config/doorward.yaml", *paths
        ),
        **_to_sidecar(description),
        "volumes": mounts,
        "healthcheck": {
            "test": ["CMD", "python", "-c", f"import urllib.request as r; r.urlopen({health!r})"],
            "interval": "5s",
            "timeout": "3s",
            "start_period": "30s",
            "start_interval": "1s",
        },
    }


def _to_envoy(description: Description) -> Document:
    """Return the service of Envoy, with its configuration and the shared sockets as read-only
    mounts.
    """
    return {
        "image": description.envoy_image,
        "entrypoint": ["envoy"],
        "command": ["--config-path", "/config/envoy.yaml", *ENVOY_ARGUMENTS],
        **_to_sidecar(description),
        "volumes": ["./envoy.yaml:/config/envoy.yaml:ro", "run:/run/doorward:ro"],
    }  # fmt: skip


def _to_application(description: Description) -> Document:
    """Return the service of the application, which gets neither sockets nor capabilities."""
    return {
        "image": description.app_image,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        **_SHARED,
    }


_SHARED: Final[Mapping[str, Any]] = {
    "network_mode": "service:redirect",
    "depends_on": {"redirect": {"condition": "service_healthy", "restart": True}},
    "restart": "unless-stopped",
}
_HARDENED: Final[Mapping[str, Any]] = {
    "read_only": True,
    "security_opt": ["no-new-privileges:true"],
}


def _to_sidecar(description: Description) -> Document:
    """Return the settings that decision point and Envoy share: the user, no capabilities or new
    privileges, a read-only root, the network of `redirect`, which must be healthy first, and the
    restart policy.
    """
    return {
        "user": f"{description.user}:{description.user}",
        "cap_drop": ["ALL"],
        **_HARDENED,
        **_SHARED,
    }


def _to_path(text: str) -> str:
    """Return a path as a Compose mount writes it: `a.json` -> `./a.json`.

    Raise ValueError for `:`, `$`, double quotes, backslashes and characters that cannot be printed.
    """
    if not text.startswith(("./", "/")):
        text = f"./{text}"
    # A colon would end the path here, and a `$` begin a variable.
    if not text.isprintable() or not _UNSAFE.isdisjoint(text):
        raise ValueError(
            f"the file `{text}` cannot be mounted by Compose: use a path without `:`, `$`, double "
            "quotes, backslashes and characters that cannot be printed"
        )
    return text


_WHY: Final[Mapping[str, str]] = {
    "services.redirect": (
        "Owns the network that the other containers share, sets its redirection, and repairs "
        "missing rules. Without this container the others have no network."
    ),
    "redirect.cap_add": "The only capability that the redirect needs.",
    "ports": "Only Envoy's port, on this host; change 127.0.0.1 to serve other machines.",
    "volumes.run": "The folder of the socket, which the application does not mount.",
}
