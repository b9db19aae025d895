"""Manifests, Compose projects, units and configurations of decision points become findings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from doorward.bundles.located_yaml import Located
from doorward.envoy.lint.finding import Finding

__all__ = ["check_compose", "check_manifests", "check_pdp", "check_unit", "is_pdp"]

Problem = tuple[str, str, Located]

_PLUGIN: Final = "envoy_ext_authz_grpc"
_RESPONSES: Final = "envoy_ext_proc_grpc"
_POD_SPECS: Final[Mapping[object, Sequence[str]]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        (
            *("Deployment", "StatefulSet", "DaemonSet", "Job"),
            *("ReplicaSet", "ReplicationController"),
        ),
        ("spec", "template", "spec"),
    ),
}
"""The path of the spec of pods in a manifest, by the manifest's kind."""
_LOCAL: Final = ("localhost:", "127.", "[::1]:", "unix:")
_FALSE: Final = (None, False, "false")
"""Values of an option that is off; a tuple, since the value of another may be a list."""
_CLOSES: Final = (("server", "decision_paths"), ("secrets",))
"""Options that keep data from callers of the HTTP API. A local port needs them too, since the
application itself can be tricked into a request."""


def is_pdp(document: Located) -> bool:
    """Return True if a document configures a decision point with `envoy_ext_authz_grpc` or
    `envoy_ext_proc_grpc`.
    """
    plugins = document.get("plugins")
    return any(_is_given(plugins.get(name)) for name in (_PLUGIN, _RESPONSES))


def check_pdp(file: str, document: Located) -> Iterator[Finding]:
    """Yield findings for settings of a decision point's configuration (OPA's or Doorward's) that
    weaken it, such as an address open to others, a dry run, an API that serves all data, or no
    decision log.
    """
    for rule, message, at in _check_pdp(document):
        yield Finding(file, at.line, rule, message)


def _check_pdp(document: Located) -> Iterator[Problem]:
    """Yield problems of a decision point: its plugins, an API that serves all data, no decision
    log.
    """
    plugin = document.get("plugins", _PLUGIN)
    if _is_given(plugin):
        yield from _check_plugin(plugin)
    yield from _check_processor(document.get("plugins", _RESPONSES))
    if not any(_is_given(document.get(*path)) for path in _CLOSES):
        message = "the HTTP API serves all data: set decision_paths, or hide keys with secrets"
        yield "pdp-data-served", message, document
    if document.get("decision_logs").value is None:
        yield "pdp-no-decision-log", "decision_logs is not set", document


def _check_plugin(plugin: Located) -> Iterator[Problem]:
    """Yield problems of the plugin that decides on requests; without `addr` it is open to
    others.
    """
    address = plugin.get("addr")
    # OPA-Envoy's default: the file may configure OPA, where no `addr` means every address.
    if not str(address.value or ":9191").startswith(_LOCAL):
        yield "pdp-exposed", f"other machines can reach `{address.value or ':9191'}`", address
    if (option := plugin.get("dry-run")).value not in _FALSE:
        yield "pdp-dry-run", "dry-run is on", option
    if (option := plugin.get("on-error")).value == "fail-call":
        yield "pdp-fail-call", "on-error is fail-call", option
    if (option := plugin.get("strict")).value is not True:
        yield "pdp-not-strict", "strict is not true", option


def _check_processor(plugin: Located) -> Iterator[Problem]:
    """Yield problems of the plugin that decides on responses; without `addr` it listens on
    loopback.
    """
    address = plugin.get("addr")
    if address.value is not None and not str(address.value).startswith(_LOCAL):
        yield "pdp-exposed", f"other machines can reach `{address.value}`", address
    if (option := plugin.get("dry-run")).value not in _FALSE:
        yield "pdp-dry-run", "dry-run of responses is on", option
    if (option := plugin.get("log-bodies")).value is True:
        yield "pdp-logs-bodies", "log-bodies is true", option


def _is_given(at: Located) -> bool:
    return at.value is not None


def check_manifests(documents: Sequence[tuple[str, Located]]) -> Iterator[Finding]:
    """Yield findings for the pods with sidecars among Kubernetes manifests that are applied
    together.

    Pods without a sidecar are passed over. `documents` are pairs of file name and document.
    """
    kinds = {document.get("kind").scalar for _, document in documents}
    for file, document in documents:
        path = _POD_SPECS.get(document.get("kind").scalar)
        if path is None:
            continue
        spec = document.get(*path)
        if not any(_is_sidecar(each) for each in _containers(spec)):
            continue
        for rule, message, at in _check_pod(spec):
            yield Finding(file, at.line, rule, message)
        if "NetworkPolicy" not in kinds:
            message = "no NetworkPolicy is among the manifests"
            yield Finding(file, document.line, "kit-network-policy", message)
        yield from _check_services(documents, spec)


def _check_services(documents: Sequence[tuple[str, Located]], spec: Located) -> Iterator[Finding]:
    """Yield a finding for each Service port that leads to an application's port instead of
    Envoy's, by its number or name; without `targetPort` it leads to the same number.
    """
    ports = {
        port.get(key).scalar
        for each in _containers(spec)
        if not _is_sidecar(each)
        for port in each.get("ports").items()
        for key in ("containerPort", "name")
    }
    for file, document in documents:
        if document.get("kind").value == "Service":
            for port in document.get("spec", "ports").items():
                target = port.get("targetPort")
                if target.scalar is None:
                    target = port.get("port")
                if target.scalar is not None and target.scalar in ports:
                    message = (
                        "a port of the Service leads to the application's port, not to Envoy's"
                    )
                    yield Finding(file, target.line, "kit-exposed-port", message)


def _check_pod(spec: Located) -> Iterator[Problem]:
    """Yield problems of a pod that has a sidecar, given its spec: its redirect, host network, token
    of the service account, seccomp profile, containers and users.
    """
    init = spec.get("initContainers")
    redirects = [each for each in init.items() if _redirect(_words(each)) or _is_proxy_init(each)]
    if not redirects:
        yield "kit-no-redirect", "no init container redirects to Envoy", spec
    for each in redirects:
        yield from _check_redirect(each, _words(each), _application_ports(spec))
        if _is_proxy_init(each):
            yield "kit-ipv4-only", "proxy_init redirects IPv4 only", each
    if spec.get("hostNetwork").value is True:
        yield "kit-host-network", "hostNetwork is true", spec.get("hostNetwork")
    if (option := spec.get("automountServiceAccountToken")).value is not False:
        yield "kit-token", "automountServiceAccountToken is not false", option
    common = spec.get("securityContext")
    if common.get("seccompProfile", "type").scalar not in {"RuntimeDefault", "Localhost"}:
        yield "kit-seccomp", "there is no seccompProfile", common
    for each in _containers(spec):
        yield from _check_container(each, common, is_redirect=each in redirects)
    yield from _check_users(spec, common, redirects)


def _check_container(each: Located, common: Located, *, is_redirect: bool) -> Iterator[Problem]:
    """Yield problems of one container; settings that it lacks are taken from `common`, the pod's.

    A redirect may run as root and have NET_ADMIN and NET_RAW. Probes and a read-only file system
    are required of sidecars only.
    """
    name, security = each.get("name").value, each.get("securityContext")
    security = security if security.value is not None else Located({}, each.line)
    if not is_redirect:
        user, non_root = (
            _either(security, common, "runAsUser"),
            _either(security, common, "runAsNonRoot"),
        )
        # An image may name root as its user, so silence is not enough.
        if user == 0 or (user is None and non_root is not True):
            yield "kit-root", f"`{name}` may run as root", security
    if security.get("allowPrivilegeEscalation").value is not False:
        yield "kit-privileges", f"`{name}` may gain privileges", security
    if [item.value for item in security.get("capabilities", "drop").items()] != ["ALL"]:
        yield "kit-capabilities", f"`{name}` does not drop all capabilities", security
    for item in security.get("capabilities", "add").items():
        if not (is_redirect and item.scalar in {"NET_ADMIN", "NET_RAW"}):
            yield "kit-capabilities", f"`{name}` has the capability {item.value}", item
    if each.get("resources", "requests").value is None:
        yield "kit-resources", f"`{name}` has no resources.requests", each
    if is_redirect or not _is_sidecar(each):
        return
    if security.get("readOnlyRootFilesystem").value is not True:
        yield "kit-writable", f"the file system of `{name}` is writable", security
    if each.get("readinessProbe").value is None:
        yield "kit-probe", f"`{name}` has no readinessProbe", each
    for word in _words(each):
        name, _, address = word.partition("=")
        if name in {"--addr", "-a"} and address and not address.startswith(_LOCAL):
            yield "pdp-exposed", f"other machines can reach `{address}`", each


def _check_users(spec: Located, common: Located, redirects: list[Located]) -> Iterator[Problem]:
    """Yield a problem for each application container that runs as the proxy's user.

    The traffic of that user is not redirected, so the container would get past Envoy.
    """
    users = {_option(_words(each), "-u") for each in redirects}
    for each in _containers(spec):
        if each not in redirects and not _is_sidecar(each):
            security = each.get("securityContext")
            if str(_either(security, common, "runAsUser")) in users:
                name = each.get("name").value
                yield "kit-shared-user", f"`{name}` runs as the user of Envoy", each


def _either(security: Located, common: Located, key: str) -> Any:
    """Return a setting of a container, else that of its pod; None if neither has it."""
    value = security.get(key).value
    return common.get(key).value if value is None else value


def _containers(spec: Located) -> list[Located]:
    return [*spec.get("initContainers").items(), *spec.get("containers").items()]


def _application_ports(spec: Located) -> set[str]:
    """Return the ports of the containers that are not sidecars, as text."""
    return {
        str(port.get("containerPort").value)
        for each in _containers(spec)
        if not _is_sidecar(each)
        for port in each.get("ports").items()
    }


def _is_sidecar(container: Located) -> bool:
    """Return True if the image's name begins with `envoy` or `doorward`, is `opa`, or is a
    proxy_init. A tag, a digest or neither may follow the name.
    """
    image = str(container.get("image").value).rpartition("/")[2]
    # Not any name that begins with `opa`: other images are called `opal` or `opaque`.
    is_opa = image == "opa" or image.startswith(("opa:", "opa@"))
    return is_opa or image.startswith(("envoy", "doorward")) or _is_proxy_init(container)


def _is_proxy_init(container: Located) -> bool:
    return "proxy_init" in str(container.get("image").value)


def _words(container: Located) -> list[str]:
    """Return the command line of a container or service as words: entrypoint, command,
    arguments.
    """
    words = []
    for key in ("entrypoint", "command", "args"):
        words_of_key = container.get(key)
        if isinstance(words_of_key.value, str):
            words += words_of_key.value.split()
        words += [str(item.value) for item in words_of_key.items()]
    return words


def _redirect(words: Sequence[str]) -> bool:
    """Return True if a command line contains `envoy redirect`."""
    return any(
        words[position : position + 2] == ["envoy", "redirect"] for position in range(len(words))
    )


def _option(words: Sequence[str], name: str) -> str:
    """Return the word after the option `name` in a command line; "" if it is missing."""
    return words[words.index(name) + 1] if name in words[:-1] else ""


def _check_redirect(at: Located, words: Sequence[str], ports: set[str]) -> Iterator[Problem]:
    """Yield problems of the command line of a redirect: loopback not captured, or one of `ports`,
    those of the application, left open. `at` is their position.
    """
    if "--capture-loopback" not in words:
        yield "kit-loopback", "the redirect lacks --capture-loopback", at
    for position, word in enumerate(words[:-1]):
        if word == "-w":
            for port in words[position + 1].split(","):
                if port in ports:
                    yield "kit-open-port", f"port {port} is not redirected", at


def check_compose(file: str, document: Located) -> Iterator[Finding]:
    """Yield findings for a Compose project that has a sidecar; nothing for other projects."""
    services = document.get("services").fields()
    if not any(_is_sidecar(each) for each in services.values()):
        return
    for rule, message, at in _check_compose(services):
        yield Finding(file, at.line, rule, message)


def _check_compose(services: dict[str, Located]) -> Iterator[Problem]:
    """Yield problems of a Compose project: no redirect to Envoy, and settings of a service that let
    connections get past Envoy or give it privileges. `services`, by name, must not be empty.
    """
    redirects = {name for name, each in services.items() if _redirect(_words(each))}
    if not redirects:
        first = next(iter(services.values()))
        yield "kit-no-redirect", "no service redirects to Envoy", first
    for name, each in services.items():
        if name in redirects:
            yield from _check_redirect(each, _words(each), set())
        elif (ports := each.get("ports")).items() and not _is_sidecar(each):
            yield "kit-exposed-port", f"`{name}` publishes ports of its own", ports
        if name not in redirects and str(each.get("user").value).startswith(("0", "root")):
            yield "kit-root", f"`{name}` runs as root", each
        if [item.value for item in each.get("cap_drop").items()] != ["ALL"]:
            yield "kit-capabilities", f"`{name}` does not drop all capabilities", each
        options = [str(item.value) for item in each.get("security_opt").items()]
        if "no-new-privileges:true" not in options:
            yield "kit-privileges", f"`{name}` may gain privileges", each
        if _is_sidecar(each) and each.get("read_only").value is not True:
            yield "kit-writable", f"the file system of `{name}` is writable", each
        if each.get("privileged").value is True:
            yield "kit-capabilities", f"`{name}` is privileged", each.get("privileged")
        if each.get("network_mode").value == "host":
            yield "kit-host-network", f"network_mode of `{name}` is host", each


def check_unit(file: str, text: str) -> Iterator[Finding]:
    """Yield findings for a systemd unit whose `ExecStart=` runs Envoy, Doorward or OPA directly,
    and a finding `unreadable` for each `ExecStart=` that cannot be parsed.

    Other units, and containers started by `docker`, are passed over.
    """
    lines = text.splitlines()
    commands = [
        (number, line.partition("=")[2])
        for number, line in enumerate(lines, 1)
        if line.startswith("ExecStart=")
    ]
    for number, command in commands:
        try:
            words = shlex.split(command)
        except ValueError as error:
            yield Finding(
                file,
                number,
                "unreadable",
                f"the command in `ExecStart=` cannot be read and is not checked: {error}",
            )
            continue
        names = {word.rpartition("/")[2] for word in words[:1]}
        if names.isdisjoint({"envoy", "doorward", "opa"}) or "docker" in words[1:2]:
            continue
        at = Located(None, number)
        findings: list[Problem] = []
        if _redirect(words):
            findings += _check_redirect(at, words, set())
        elif not any(line.startswith(("User=", "DynamicUser=yes")) for line in lines):
            findings.append(("kit-root", "the unit runs as root", at))
        if "NoNewPrivileges=yes" not in lines:
            findings.append(("kit-privileges", "the unit may gain privileges", at))
        if not any(line.startswith("CapabilityBoundingSet=") for line in lines):
            findings.append(("kit-capabilities", "capabilities are not bounded", at))
        if "ProtectSystem=strict" not in lines:
            findings.append(("kit-writable", "the file system is writable", at))
        for rule, message, where in findings:
            yield Finding(file, where.line, rule, message)
