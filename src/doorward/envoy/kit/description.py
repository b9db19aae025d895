"""The description of a deployment, checked, and the parts that all targets derive from it.

The three resources of the specification are made here: `envoy.yaml`, `doorward.yaml` and the
policies as they were given. Targets put them where their platform keeps such things.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from doorward.base.records import record
from doorward.envoy.kit.bootstrap import Bootstrap, render
from doorward.envoy.kit.explained_yaml import explain
from doorward.envoy.redirect.rules import Redirect

__all__ = ["ENVOY_ARGUMENTS", "Description", "Places", "Policy", "ResponseList"]

ENVOY_ARGUMENTS: Final = (
    "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning",
)  # fmt: skip
"""Besides `--config-path`."""

_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.(rego|json|yaml|yml)")
_IMAGE: Final = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,254}")
_DECISION: Final = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_ITEM: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MOST: Final = 512 * 1024  # a ConfigMap holds 1 MiB


@record
class Policy:
    """One file of policies or data: its name and its text."""

    name: str
    text: str


@record
class Places:
    """The socket on which Envoy asks, and the address on which it listens, of a target."""

    socket: str
    listen: str
    api: str

    @property
    def responses(self) -> str:
        """The socket on which Envoy sends responses, beside the other one."""
        folder, slash, _ = self.socket.rpartition("/")
        return f"{folder}{slash}responses.sock"


@record
class ResponseList:
    """A list in the bodies of responses, and the rule that says which of its items stay."""

    name: str
    path: tuple[str, ...]
    rule: str
    item: str = "item"

    @classmethod
    def parse(cls, text: str) -> ResponseList:
        """The list that `NAME=a.b:RULE` or `NAME=a.b:RULE:ITEM` is. ValueError."""
        name, _, rest = text.partition("=")
        path, _, rule = rest.partition(":")
        rule, _, item = rule.partition(":")
        return cls(name, tuple(path.split(".")) if path else (), rule, item or "item")


@record(kw_only=True)
class Description:
    """One application and what is put in front of it."""

    app_port: int
    policies: tuple[Policy, ...]
    name: str = "application"
    app_image: str = "application:latest"
    image: str = "doorward:latest"
    envoy_image: str = "envoyproxy/envoy:v1.40.0"
    secret: str = ""
    """Where data that no policy text may hold comes from: a Kubernetes Secret, a file."""
    decision: str = "envoy/authz/allow"
    responses: str = ""
    """The document that decides on responses, as `envoy/response`; "": they pass unseen."""
    lists: tuple[ResponseList, ...] = ()
    """Of responses, the lists whose items a rule decides on."""
    port: int = 8000
    """Where Envoy listens."""
    diagnostic_port: int = 8282
    user: int = 1111
    dual_stack: bool = True
    """Whether Envoy listens on IPv6 as well; without, IPv6 connections are refused."""
    capture_loopback: bool = True
    native: bool = False
    """Kubernetes: sidecars as init containers that stay, which start before the application."""
    scraped_from: str = ""
    """Kubernetes: the namespace of Prometheus, which may read the metrics."""
    bootstrap: Mapping[str, object] = field(default_factory=dict)
    """Further fields of `Bootstrap` by their names; not Envoy's own configuration."""

    def __post_init__(self) -> None:
        _check(self)
        self.redirect()

    def redirect(self, *, host: bool = False) -> Redirect:
        """The init step's options; on a host only the application's port is redirected."""
        return Redirect(
            port=self.port,
            user=self.user,
            open_ports=() if host else (self.diagnostic_port,),
            only_ports=(self.app_port,) if host else (),
            capture_loopback=self.capture_loopback or host,
        )

    def redirect_arguments(self, *, host: bool = False) -> list[str]:
        """The init step as a command line."""
        options = self.redirect(host=host)
        words = ["envoy", "redirect", "-p", str(options.port), "-u", str(options.user)]
        for port in options.open_ports:
            words += ["-w", str(port)]
        for port in options.only_ports:
            words += ["--only", str(port)]
        return [*words, *(["--capture-loopback"] if options.capture_loopback else [])]

    def run_arguments(self, places: Places, diagnostic: str, *paths: str) -> list[str]:
        """The decision point as a command line."""
        return [
            "run", "--server", f"--addr={places.api}", f"--diagnostic-addr={diagnostic}",
            "--unix-socket-perm=700", "--ignore=.*", *paths,
        ]  # fmt: skip

    def listen(self) -> str:
        """All addresses, on the proxy's port."""
        return f"[::]:{self.port}" if self.dual_stack else f"0.0.0.0:{self.port}"

    def envoy_yaml(self, places: Places) -> str:
        """The first resource: the proxy's configuration."""
        options = {
            "listen": places.listen,
            "upstream": f"127.0.0.1:{self.app_port}",
            "pdp": (f"unix:{places.socket}",),
            "responses": (f"unix:{places.responses}",) if self.responses else (),
            **self.bootstrap,
        }
        return render(Bootstrap(**options))  # type: ignore[arg-type]  # Bootstrap checks them

    def doorward_yaml(self, places: Places) -> str:
        """The second resource: the decision point's configuration."""
        plugin: dict[str, object] = {
            "addr": f"unix://{places.socket}",
            "path": self.decision,
            "strict": True,
        }
        if self.scraped_from:
            plugin["enable-performance-metrics"] = True
        plugins: dict[str, object] = {"envoy_ext_authz_grpc": plugin}
        if self.responses:
            plugins["envoy_ext_proc_grpc"] = self._responses_plugin(places)
        document = {
            "plugins": plugins,
            "server": {"decision_paths": [self.decision]},
            "decision_logs": {"console": True},
        }
        return "\n".join([*explain(document, _WHY), ""])

    def _responses_plugin(self, places: Places) -> dict[str, object]:
        """Return the configuration of the response processor."""
        plugin: dict[str, object] = {"addr": f"unix://{places.responses}", "path": self.responses}
        if self.lists:
            plugin["lists"] = {
                each.name: {"path": list(each.path), "rule": each.rule, "name": each.item}
                for each in self.lists
            }
        if self.scraped_from:
            plugin["enable-performance-metrics"] = True
        return plugin

    def checksum(self, places: Places) -> str:
        """A short text that changes when what is read only at the start does."""
        text = self.envoy_yaml(places) + self.doorward_yaml(places)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_WHY: Final = {
    "addr": "A socket that Envoy and the decision point alone can reach.",
    "envoy_ext_authz_grpc.path": "The decision.",
    "strict": (
        "What the policy and the application could read in two ways is answered with 400: "
        "duplicate keys, truncated bodies, a content type that lies."
    ),
    "enable-performance-metrics": "How long checks take, and why some get no decision.",
    "envoy_ext_proc_grpc": (
        "Responses: what of them this client may see. One that nobody decided on is an error."
    ),
    "lists": "Lists in bodies, and the rule that says which items stay.",
    "decision_paths": "All that its HTTP API serves: not the data, nor the secrets in it.",
    "decision_logs": "Every decision is a line on standard output; `authorization` is masked.",
}


def _check(description: Description) -> None:
    """Raise ValueError for a name, an image or a path that does not fit into the generated
    files.
    """
    for subject, pattern, text in (
        ("name", _NAME, description.name),
        ("image", _IMAGE, description.image),
        ("application's image", _IMAGE, description.app_image),
        ("image of Envoy", _IMAGE, description.envoy_image),
        ("decision", _DECISION, description.decision),
    ):
        if pattern.fullmatch(text) is None:
            raise ValueError(f"`{text}` cannot be the {subject}")
    if description.responses and _DECISION.fullmatch(description.responses) is None:
        raise ValueError(f"`{description.responses}` cannot be the decision on responses")
    if description.lists and not description.responses:
        raise ValueError("lists need a decision on responses")
    for each in description.lists:
        has_names = _ITEM.fullmatch(each.name) and _ITEM.fullmatch(each.item)
        if not has_names or not _DECISION.fullmatch(each.rule):
            raise ValueError(f"`{each.name}` is not a list: write NAME=a.b:RULE:ITEM")
    if len({each.name for each in description.lists}) < len(description.lists):
        raise ValueError("two lists have the same name")
    if description.scraped_from and _NAME.fullmatch(description.scraped_from) is None:
        raise ValueError(f"`{description.scraped_from}` cannot be a namespace")
    ports = (description.app_port, description.port, description.diagnostic_port)
    if not all(0 < port < 65536 for port in ports):
        raise ValueError("a port is from 1 to 65535")
    if len(set(ports)) < len(ports):
        raise ValueError("application, Envoy and diagnostic address need ports of their own")
    if description.user == 0:
        raise ValueError("Envoy must not run as root")
    names = [policy.name for policy in description.policies]
    if not any(name.endswith(".rego") for name in names):
        raise ValueError("a policy is needed")
    if len(set(names)) < len(names):
        raise ValueError("two policies have the same name")
    for name in names:
        if _FILE.fullmatch(name) is None:
            raise ValueError(f"`{name}` cannot be the name of a policy")
    if sum(len(policy.text.encode()) for policy in description.policies) > _MOST:
        raise ValueError("the policies are too long for one ConfigMap")
