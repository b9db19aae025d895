"""A description becomes a Kustomize base: a Deployment, its ConfigMaps, a Service, a NetworkPolicy
and a PodDisruptionBudget.

The init container redirects before any other container starts; nobody else may change the network.
All else runs without root, without capabilities and on read-only file systems. The Service leads
to Envoy's port, and the NetworkPolicy lets nothing else in, so that a pod without its redirect
would still not be open to the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.envoy.kit.description import ENVOY_ARGUMENTS, Description, Places
from doorward.envoy.kit.manifest import Text, write_manifest

__all__ = ["PLACES", "Document", "places", "to_documents", "to_files", "write"]

Document = dict[str, Any]

PLACES: Final = Places(
    socket="/run/doorward/auth.sock", listen="", api="unix:///run/doorward/api.sock"
)
_RUN: Final = {"name": "run", "mountPath": "/run/doorward"}


def to_files(description: Description) -> dict[str, str]:
    """Return the files of a Kustomize base, text by file name."""
    return {name: write(documents) for name, documents in to_documents(description).items()}


def to_documents(description: Description) -> dict[str, list[Document]]:
    """Return the manifests of the base as documents, by file name."""
    return {
        "configmaps.yaml": _to_config_maps(description),
        "deployment.yaml": [_to_deployment(description)],
        "kustomization.yaml": [_to_kustomization()],
        "networkpolicy.yaml": [_to_network_policy(description)],
        "poddisruptionbudget.yaml": [_to_budget(description)],
        "service.yaml": [_to_service(description)],
    }


def write(documents: list[Document], target: str = "kubernetes") -> str:
    """Return manifests as the text of one YAML file with comments; the head names `target`."""
    return write_manifest(documents, _WHY, (f"Made by `doorward kit --target {target}`.",))


def places(description: Description) -> Places:
    """Return the sockets inside the pod, and the address at which Envoy listens."""
    return Places(PLACES.socket, description.listen(), PLACES.api)


def _to_kustomization() -> Document:
    """Return the Kustomization that lists the other files."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [
            "configmaps.yaml",
            "deployment.yaml",
            "networkpolicy.yaml",
            "poddisruptionbudget.yaml",
            "service.yaml",
        ],
    }


def _to_metadata(description: Description, suffix: str = "") -> Document:
    return {"name": description.name + suffix, "labels": _to_labels(description)}


def _to_labels(description: Description) -> Document:
    return {"app.kubernetes.io/name": description.name}


def _to_config_maps(description: Description) -> list[Document]:
    """Return the ConfigMaps of Envoy's configuration, the decision point's, and the policies."""
    where = places(description)
    contents: Mapping[str, Mapping[str, str]] = {
        "-envoy": {"envoy.yaml": description.envoy_yaml(where)},
        "-doorward": {"doorward.yaml": description.doorward_yaml(where)},
        "-policy": {policy.name: policy.text for policy in description.policies},
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _to_metadata(description, suffix),
            "data": {name: Text(text) for name, text in data.items()},
        }
        for suffix, data in contents.items()
    ]


def _to_deployment(description: Description) -> Document:
    """Return the Deployment of two pods; an annotation with a checksum restarts them when a
    configuration changes.
    """
    labels = _to_labels(description)
    checksum = description.checksum(places(description))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _to_metadata(description),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {
                        "doorward/configuration": checksum,
                        **_to_scraping(description),
                    },
                },
                "spec": _to_pod(description),
            },
        },
    }


def _to_scraping(description: Description) -> Document:
    """Return the annotations by which Prometheus finds the pod; {} if nobody scrapes it."""
    if not description.scraped_from:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(description.diagnostic_port),
        "prometheus.io/path": "/metrics",
    }


def _to_pod(description: Description) -> Document:
    """Return the pod: an init container that redirects, then application, decision point and Envoy.

    With `native` the two sidecars are init containers that stay, and so are ready before the
    application starts.
    """
    sidecars = [_to_decision_point(description), _to_envoy(description)]
    application = _to_application(description)
    init, containers = [_to_redirect(description)], [application, *sidecars]
    if description.native:
        for sidecar in sidecars:
            # The application starts when these are ready, and they end after it.
            probe = {**sidecar["readinessProbe"], "periodSeconds": 1, "failureThreshold": 60}
            init.append({**sidecar, "restartPolicy": "Always", "startupProbe": probe})
        containers = [application]
    return {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": description.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": init,
        "containers": containers,
        "volumes": _to_volumes(description),
    }


def _to_redirect(description: Description) -> Document:
    """Return the init container that redirects connections, the only one with root and
    NET_ADMIN.
    """
    return {
        "name": "redirect",
        "image": description.image,
        "imagePullPolicy": "IfNotPresent",
        "args": description.redirect_arguments(),
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            "runAsGroup": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
        },
        "resources": _to_resources("10m", "64Mi", "128Mi"),
    }


def _to_application(description: Description) -> Document:
    """Return the container of the application, without capabilities."""
    return {
        "name": "application",
        "image": description.app_image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": _to_resources("50m", "64Mi", "256Mi"),
    }


def _to_envoy(description: Description) -> Document:
    """Return the container of Envoy with probes, limits and read-only mounts."""
    return {
        "name": "envoy",
        "image": description.envoy_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["envoy", "--config-path", "/config/envoy.yaml", *ENVOY_ARGUMENTS],
        "ports": [{"name": "http", "containerPort": description.port}],
        "securityContext": _to_security_context(description),
        "readinessProbe": {"tcpSocket": {"port": description.port}, "periodSeconds": 5},
        "livenessProbe": {
            "tcpSocket": {"port": description.port}, "initialDelaySeconds": 10, "periodSeconds": 10,
        },
        "resources": _to_resources("100m", "128Mi", "640Mi"),
        "volumeMounts": [
            {"name": "envoy", "mountPath": "/config", "readOnly": True},
            {**_RUN, "readOnly": True},
        ],
    }  # fmt: skip


def _to_decision_point(description: Description) -> Document:
    """Return the container of the decision point with probes, limits, policies and, if any, the
    secret.
    """
    paths = ["/policy"] + (["/secret"] if description.secret else [])
    mounts: list[Document] = [
        {"name": "doorward", "mountPath": "/config", "readOnly": True},
        {"name": "policy", "mountPath": "/policy", "readOnly": True},
        _RUN,
    ]
    if description.secret:
        mounts.append({"name": "secret", "mountPath": "/secret", "readOnly": True})
    # Kubelets ask by whichever family the pod's first address is of.
    address = f"[::]:{description.diagnostic_port}"
    if not description.dual_stack:
        address = f"0.0.0.0:{description.diagnostic_port}"
    arguments = description.run_arguments(
        places(description), address, "--config-file=/config/doorward.yaml", *paths
    )
    if description.dual_stack:
        arguments.insert(3, f"--diagnostic-addr=0.0.0.0:{description.diagnostic_port}")
    port = description.diagnostic_port
    return {
        "name": "doorward",
        "image": description.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "ports": [{"name": "health", "containerPort": port}],
        "securityContext": _to_security_context(description),
        "readinessProbe": {
            "httpGet": {"path": "/health?plugins", "port": port}, "periodSeconds": 5,
        },
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": port},
            "initialDelaySeconds": 10, "periodSeconds": 10,
        },
        "resources": _to_resources("100m", "96Mi", "384Mi"),
        "volumeMounts": mounts,
    }  # fmt: skip


def _to_security_context(description: Description) -> Document:
    """Return the security context of the sidecars: their user, no privileges, a read-only file
    system.
    """
    return {
        "runAsNonRoot": True,
        "runAsUser": description.user,
        "runAsGroup": description.user,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _to_resources(cpu: str, memory: str, most: str) -> Document:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": most}}


def _to_volumes(description: Description) -> list[Document]:
    """Return the volumes: ConfigMaps, a folder in memory for sockets and, if any, the secret."""
    volumes: list[Document] = [
        {"name": name, "configMap": {"name": f"{description.name}-{name}"}}
        for name in ("envoy", "doorward", "policy")
    ]
    volumes.append({"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
    if description.secret:
        secret = {"secretName": description.secret, "defaultMode": 0o440}
        volumes.append({"name": "secret", "secret": secret})
    return volumes


def _to_service(description: Description) -> Document:
    """Return the Service that leads port 80 to Envoy."""
    port = {"name": "http", "port": 80, "targetPort": description.port, "protocol": "TCP"}
    spec: Document = {"selector": _to_labels(description), "ports": [port]}
    if description.dual_stack:
        spec["ipFamilyPolicy"] = "PreferDualStack"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _to_metadata(description),
        "spec": spec,
    }


def _to_network_policy(description: Description) -> Document:
    """Return the NetworkPolicy that admits connections to Envoy's port only, and Prometheus to the
    metrics.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _to_metadata(description),
        "spec": {
            "podSelector": {"matchLabels": _to_labels(description)},
            "policyTypes": ["Ingress"],
            "ingress": [_to_ingress(description.port), *_to_scrapers(description)],
        },
    }


def _to_ingress(port: int) -> Document:
    return {"ports": [{"protocol": "TCP", "port": port}]}


def _to_scrapers(description: Description) -> list[Document]:
    """Return the network policy rule that lets Prometheus in; none if nobody scrapes."""
    if not description.scraped_from:
        return []
    labels = {"kubernetes.io/metadata.name": description.scraped_from}
    source = {"namespaceSelector": {"matchLabels": labels}}
    return [{"from": [source], **_to_ingress(description.diagnostic_port)}]


def _to_budget(description: Description) -> Document:
    """Return the PodDisruptionBudget: at most one pod is down at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _to_metadata(description),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _to_labels(description)}},
    }


# Comments by key, or by parent and key where a key is in several places.
_WHY: Final[Mapping[str, str]] = {
    "doorward/configuration": (
        "Changed policies are loaded again; a change of the files that Envoy and the decision "
        "point read at their start creates new pods."
    ),
    "automountServiceAccountToken": "No container of the pod uses the API of the cluster.",
    "fsGroup": "The group of Envoy and the decision point, which owns the folder of the socket.",
    "initContainers": (
        "The redirect runs first; if it fails, no other container starts. HTTP probes of the "
        "application would be redirected, too: use `exec`."
    ),
    "capabilities.add": "The only capability that the redirect needs.",
    "emptyDir": "The folder of the socket, which the application does not mount.",
    "targetPort": "Envoy's port, so that requests reach Envoy even without the redirect.",
    "policyTypes": ("Others can only reach Envoy's port; kubelets also reach the health port."),
    "maxUnavailable": "Nodes are drained one replica after the other.",
    "namespaceSelector": "Prometheus may reach the port of health and metrics.",
    "ipFamilyPolicy": "Envoy listens on both families, and both are redirected.",
}
