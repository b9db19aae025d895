"""The description of a deployment, checked, and the parts that all targets derive from it.

The three resources of the specification are made here: `envoy.yaml`, `doorward.yaml` and the
policies as they were given. Targets put them where their platform keeps such things.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
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
"""The arguments of Envoy besides `--config-path`."""

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
    """Where a target puts its sockets: Envoy's Checks (`socket`), Envoy's own listener (`listen`),
    and the HTTP API (`api`).
    """

    socket: str
    listen: str
    api: str

    @property
    def responses(self) -> str:
        """The socket to which Envoy sends responses: `responses.sock` in the folder of `socket`."""
        folder, slash, _ = self.socket.rpartition("/")
        return f"{folder}{slash}responses.sock"


@record
class ResponseList:
    """A list in response bodies: its path, and the document `rule` that decides on each item.

    The rule reads the item as `input.ITEM`.
    """

    name: str
    path: tuple[str, ...]
    rule: str
    item: str = "item"

    @classmethod
    def parse(cls, text: str) -> ResponseList:
        """Return the list that `NAME=a.b:RULE` or `NAME=a.b:RULE:ITEM` describes; ITEM is `item` by
        default.

        Nothing is checked here: other missing parts are empty, and `Description` refuses them.
        """
        name, _, rest = text.partition("=")
        path, _, rule = rest.partition(":")
        rule, _, item = rule.partition(":")
        return cls(name, tuple(path.split(".")) if path else (), rule, item or "item")


@record(kw_only=True)
class Description:
    """An application, its policies and the sidecars in front of it; ValueError if a part does not
    fit.
    """

    app_port: int
    policies: tuple[Policy, ...]
    name: str = "application"
    app_image: str = "application:latest"
    image: str = "doorward:latest"
    envoy_image: str = "envoyproxy/envoy:v1.40.0"
    secret: str = ""
    """The source of secret data for the policies: the name of a Kubernetes Secret, or a file."""
    decision: str = "envoy/authz/allow"
    responses: str = ""
    """The document that decides on responses, such as `envoy/response`; "" leaves them
    undecided."""
    lists: tuple[ResponseList, ...] = ()
    """The lists in responses whose items a rule decides on."""
    port: int = 8000
    """The port at which Envoy listens."""
    diagnostic_port: int = 8282
    user: int = 1111
    dual_stack: bool = True
    """True if Envoy listens on IPv6 as well; otherwise IPv6 connections are refused."""
    capture_loopback: bool = True
    native: bool = False
    """Kubernetes: the sidecars are init containers that stay, and start before the application."""
    scraped_from: str = ""
    """Kubernetes: the namespace of Prometheus, which may read the metrics."""
    bootstrap: Mapping[str, object] = field(default_factory=dict)
    """Further fields of `Bootstrap` by their names; not Envoy's own configuration."""

    def __post_init__(self) -> None:
        _check(self)
        # For the checks in it.
        self.redirect()

    def redirect(self, *, host: bool = False) -> Redirect:
        """Return the options of the redirect: all inbound ports but the diagnostic one or, with
        `host`, only the application's port.

        Connections over loopback are redirected too with `host`, else if `capture_loopback` is set.
        """
        return Redirect(
            port=self.port,
            user=self.user,
            open_ports=() if host else (self.diagnostic_port,),
            only_ports=(self.app_port,) if host else (),
            capture_loopback=self.capture_loopback or host,
        )

    def redirect_arguments(self, *, host: bool = False) -> list[str]:
        """Return the arguments of `doorward` that install the redirect, beginning with `envoy
        redirect`. With `host` only the application's port is redirected.
        """
        options = self.redirect(host=host)
        words = ["envoy", "redirect", "-p", str(options.port), "-u", str(options.user)]
        for port in options.open_ports:
            words += ["-w", str(port)]
        for port in options.only_ports:
            words += ["--only", str(port)]
        return [*words, *(["--capture-loopback"] if options.capture_loopback else [])]

    def run_arguments(self, places: Places, diagnostic: str, *paths: str) -> list[str]:
        """Return the arguments of `doorward` that run the decision point; `paths` are policies and
        data.

        `diagnostic` is the listen address of health and metrics.
        """
        return [
            "run", "--server", f"--addr={places.api}", f"--diagnostic-addr={diagnostic}",
            "--unix-socket-perm=700", "--ignore=.*", *paths,
        ]  # fmt: skip

    def listen(self) -> str:
        """Return Envoy's listen address: all addresses, with IPv6 if `dual_stack`."""
        return f"[::]:{self.port}" if self.dual_stack else f"0.0.0.0:{self.port}"

    def envoy_yaml(self, places: Places) -> str:
        """Return the text of `envoy.yaml`. ValueError if an option in `bootstrap` has a value that
        Envoy could not use (see `Bootstrap`); TypeError if `Bootstrap` has no option of that name.
        """
        options = {
            "listen": places.listen,
            "upstream": f"127.0.0.1:{self.app_port}",
            "pdp": (f"unix:{places.socket}",),
            "responses": (f"unix:{places.responses}",) if self.responses else (),
            **self.bootstrap,
        }
        return render(Bootstrap(**options))  # type: ignore[arg-type]  # Bootstrap checks them

    def doorward_yaml(self, places: Places) -> str:
        """Return the text of `doorward.yaml`, the decision point's configuration for the sockets in
        `places`, with comments.
        """
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
        """Return the configuration block of the plugin that decides on responses, with its lists;
        its address is `places.responses`.
        """
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
        """Return 16 hex digits that change when `envoy.yaml` or `doorward.yaml` changes.

        Both are read only at start-up, so that a new checksum must restart the pods.
        """
        text = self.envoy_yaml(places) + self.doorward_yaml(places)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_WHY: Final = {
    "addr": "A socket that only Envoy and the decision point can reach.",
    "envoy_ext_authz_grpc.path": "The document that decides on requests.",
    "strict": (
        "Requests that the policy and the application could read differently are answered with "
        "400: duplicate keys, truncated bodies, a content type that is not the body's."
    ),
    "enable-performance-metrics": "Metrics of the duration of checks, and of failed decisions.",
    "envoy_ext_proc_grpc": (
        "Decides how much of a response the client may see. A response without a decision is an "
        "error."
    ),
    "lists": "Lists in response bodies, each with the rule for the items that stay.",
    "decision_paths": "The HTTP API serves these documents only, not the data and its secrets.",
    "decision_logs": "Every decision is a line on standard output; `authorization` is masked.",
}


def _first_repeated(names: Sequence[str]) -> str:
    """Return the first name that occurs again; "" if all are different."""
    return next((name for name in names if names.count(name) > 1), "")


def _check(description: Description) -> None:
    """Raise ValueError for a field that the generated files cannot use: names, images, documents,
    lists, ports, Envoy as root, or policies (no `.rego` file, a repeated or unusable name, more
    than `_MOST` bytes). `bootstrap` is checked only when `envoy_yaml` is made.
    """
    for subject, pattern, text in (
        ("name", _NAME, description.name),
        ("image", _IMAGE, description.image),
        ("application's image", _IMAGE, description.app_image),
        ("image of Envoy", _IMAGE, description.envoy_image),
        ("decision", _DECISION, description.decision),
    ):
        if pattern.fullmatch(text) is None:
            raise ValueError(f"`{text}` cannot be the {subject}: it must match {pattern.pattern}")
    if description.responses and _DECISION.fullmatch(description.responses) is None:
        raise ValueError(
            f"`{description.responses}` cannot be the decision on responses: it must match "
            f"{_DECISION.pattern}"
        )
    if description.lists and not description.responses:
        raise ValueError("--list needs a decision on responses: name it with --responses")
    for each in description.lists:
        has_names = _ITEM.fullmatch(each.name) and _ITEM.fullmatch(each.item)
        if not has_names or not _DECISION.fullmatch(each.rule):
            raise ValueError(f"the list `{each.name}` is malformed: write NAME=a.b:RULE[:ITEM]")
    if repeated := _first_repeated([each.name for each in description.lists]):
        raise ValueError(f"two lists have the name `{repeated}`: rename one")
    if description.scraped_from and _NAME.fullmatch(description.scraped_from) is None:
        raise ValueError(
            f"`{description.scraped_from}` cannot be the namespace of Prometheus: it "
            f"must match {_NAME.pattern}"
        )
    ports = (description.app_port, description.port, description.diagnostic_port)
    for port in ports:
        if not 0 < port < 65536:
            raise ValueError(f"port {port} must be from 1 to 65535")
    if len(set(ports)) < len(ports):
        raise ValueError(
            "application, Envoy and diagnostic address need ports of their own, not "
            + ", ".join(map(str, ports))
        )
    # Root's own connections pass the redirect, so that an application that runs as root would, too.
    if description.user == 0:
        raise ValueError("Envoy must not run as root: choose another user id than 0")
    names = [policy.name for policy in description.policies]
    if not any(name.endswith(".rego") for name in names):
        raise ValueError("at least one policy, a `.rego` file, is needed")
    if repeated := _first_repeated(names):
        raise ValueError(f"two policies have the name `{repeated}`: rename one")
    for name in names:
        if _FILE.fullmatch(name) is None:
            raise ValueError(
                f"`{name}` cannot be the name of a policy: it must match {_FILE.pattern}"
            )
    if sum(len(policy.text.encode()) for policy in description.policies) > _MOST:
        raise ValueError(
            f"the policies are longer than {_MOST} bytes, too long for a ConfigMap: load them as a "
            "bundle"
        )
