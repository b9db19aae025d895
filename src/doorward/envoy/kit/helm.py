"""A description becomes a Helm chart: the manifests of `kubernetes`, with values for what differs
from one release of it to the next.

    documents with placeholders ─▶ templates/        what was decided here (ports, users) stays
    configuration, policies ─▶ files/                templates put them into ConfigMaps
    images, replicas, resources … ─▶ values.yaml     with a schema that refuses what is not known

Files are not templates, so that Helm reads no brace of a policy. With its values as they stand the
chart renders what `kubernetes` makes, which a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from doorward import __version__
from doorward.envoy.kit import kubernetes
from doorward.envoy.kit.description import Description
from doorward.envoy.kit.kubernetes import Document
from doorward.envoy.kit.manifest import write_manifest

__all__ = ["to_files"]

_MARK: Final = "placeholder"
_BLOCK: Final = re.compile(r"^( *)(\w+): placeholder-block-([\w.]+)$", re.MULTILINE)
_PAIRS: Final = re.compile(r"^( *)placeholder-pairs: placeholder-([\w.]+)$", re.MULTILINE)
_HEAD: Final = ("Made by `doorward kit --target helm`.",)


def to_files(description: Description) -> dict[str, str]:
    """Return the texts of the files of a Helm chart, by their paths in the chart."""
    where = kubernetes.places(description)
    values = _to_values(description)
    files = {
        "Chart.yaml": write_manifest([_to_chart(description)], _WHY, _HEAD),
        "values.yaml": write_manifest([values], _WHY, _HEAD),
        "values.schema.json": json.dumps(_to_schema(values), indent=2) + "\n",
        "files/envoy.yaml": description.envoy_yaml(where),
        "files/doorward.yaml": description.doorward_yaml(where),
    }
    for policy in description.policies:
        files[f"files/policy/{policy.name}"] = policy.text
    # Placeholders go through the same code as values, so that chart and manifests cannot differ.
    for name, documents in kubernetes.to_documents(_insert_placeholders(description)).items():
        if name == "configmaps.yaml":
            files[f"templates/{name}"] = _CONFIG_MAPS
        elif name != "kustomization.yaml":
            files[f"templates/{name}"] = _to_template(documents)
    return files


def _to_chart(description: Description) -> Document:
    """Return the content of Chart.yaml; native sidecars need Kubernetes 1.29."""
    return {
        "apiVersion": "v2",
        "name": description.name,
        "description": "An application behind Envoy and Doorward",
        "type": "application",
        "version": "0.1.0",
        "appVersion": __version__,
        "kubeVersion": ">=1.29.0-0" if description.native else ">=1.21.0-0",
    }


def _to_values(description: Description) -> Document:
    """Return the values of the chart, from the description and its Kubernetes manifests."""
    documents = kubernetes.to_documents(description)
    (deployment,) = documents["deployment.yaml"]
    values: Document = {
        "replicas": deployment["spec"]["replicas"],
        "images": {
            "application": description.app_image,
            "doorward": description.image,
            "envoy": description.envoy_image,
        },
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": [],
        "policies": {},
        "resources": {each["name"]: each["resources"] for each in _containers(deployment)},
        "nodeSelector": {},
        "tolerations": [],
        "podAnnotations": {},
    }
    if description.secret:
        values["secret"] = description.secret
    if description.scraped_from:
        values["scrapedFrom"] = description.scraped_from
    return values


def _to_schema(values: Document) -> Document:
    """Return the JSON Schema of `values`: all of them are required, and only `global` may be
    added.
    """
    text, texts = {"type": "string", "minLength": 1}, {"type": "string"}
    images = {name: text for name in values["images"]}
    properties: Document = {
        "replicas": {"type": "integer", "minimum": 1},
        "images": _exactly(images),
        "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
        "imagePullSecrets": {"type": "array", "items": {"type": "object"}},
        "policies": {"type": "object", "additionalProperties": texts},
        "resources": _exactly({name: {"type": "object"} for name in values["resources"]}),
        "nodeSelector": {"type": "object", "additionalProperties": texts},
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "podAnnotations": {"type": "object", "additionalProperties": texts},
        # Helm itself puts it there.
        "global": {"type": "object"},
    }
    for name in ("secret", "scrapedFrom"):
        if name in values:
            properties[name] = text
    required = [name for name in properties if name != "global"]
    schema = _exactly(properties) | {"required": required}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


def _exactly(properties: Mapping[str, Any]) -> Document:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


# Templates


def _insert_placeholders(description: Description) -> Description:
    """Return the description with placeholders in place of the parts that Helm values replace."""
    return replace(
        description,
        name=f"{_MARK}-name",
        image=f"{_MARK}-image-doorward",
        envoy_image=f"{_MARK}-image-envoy",
        app_image=f"{_MARK}-image-application",
        secret=f"{_MARK}-secret" if description.secret else "",
        scraped_from=f"{_MARK}-scraped-from" if description.scraped_from else "",
    )


def _containers(deployment: Document) -> list[Document]:
    pod = deployment["spec"]["template"]["spec"]
    return [*pod["initContainers"], *pod["containers"]]


def _to_template(documents: list[Document]) -> str:
    """Return manifests as the text of a Helm template; placeholders become expressions on values.

    Changes the documents.
    """
    for document in documents:
        if document["kind"] == "Deployment":
            _mark_deployment(document)
    text = kubernetes.write(documents, "helm")
    # Before the single placeholders: these replace whole lines.
    text = _PAIRS.sub(_pairs, _BLOCK.sub(_block, text))
    # A whole value that looks like a number must stay a text.
    text = text.replace(f": {_MARK}-name\n", ": {{ .Release.Name | quote }}\n")
    for placeholder, expression in _EXPRESSIONS.items():
        text = text.replace(f"{_MARK}-{placeholder}", f"{{{{ {expression} }}}}")
    return text


_EXPRESSIONS: Final = {
    "name": ".Release.Name",
    "image-doorward": ".Values.images.doorward | quote",
    "image-envoy": ".Values.images.envoy | quote",
    "image-application": ".Values.images.application | quote",
    "secret": ".Values.secret | quote",
    "scraped-from": ".Values.scrapedFrom | quote",
    "replicas": ".Values.replicas",
    "pull-policy": ".Values.imagePullPolicy",
    "checksum": (
        'print (.Files.Get "files/envoy.yaml") (.Files.Get "files/doorward.yaml") '
        "| sha256sum | trunc 16 | quote"
    ),
}


def _mark_deployment(deployment: Document) -> None:
    """Put placeholders into a Deployment, in place, where the template reads values."""
    deployment["spec"]["replicas"] = f"{_MARK}-replicas"
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    annotations["doorward/configuration"] = f"{_MARK}-checksum"
    annotations[f"{_MARK}-pairs"] = f"{_MARK}-podAnnotations"
    for container in _containers(deployment):
        container["imagePullPolicy"] = f"{_MARK}-pull-policy"
        container["resources"] = f"{_MARK}-block-resources.{container['name']}"
    pod = deployment["spec"]["template"]["spec"]
    for name in ("imagePullSecrets", "nodeSelector", "tolerations"):
        pod[name] = f"{_MARK}-block-{name}"


def _block(match: re.Match[str]) -> str:
    """Return the template lines of a key whose value is a collection; an empty one leaves the key
    out.
    """
    pad, key, value = match.groups()
    return (
        f"{pad}{{{{- with .Values.{value} }}}}\n"
        f"{pad}{key}: {{{{- toYaml . | nindent {len(pad) + 2} }}}}\n"
        f"{pad}{{{{- end }}}}"
    )


def _pairs(match: re.Match[str]) -> str:
    """Return the template lines that add the pairs of a value to the mapping around them."""
    pad, value = match.groups()
    return (
        f"{pad}{{{{- with .Values.{value} }}}}\n"
        f"{pad}{{{{- toYaml . | nindent {len(pad)} }}}}\n"
        f"{pad}{{{{- end }}}}"
    )


_CONFIG_MAPS: Final = """# Made by `doorward kit --target helm`.
{{- range $name := list "envoy" "doorward" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ $name }}
  labels:
    app.kubernetes.io/name: {{ $.Release.Name }}
data:
  {{ $name }}.yaml: {{ $.Files.Get (printf "files/%s.yaml" $name) | toJson }}
{{- end }}
---
{{- $policies := dict }}
{{- range $path, $content := .Files.Glob "files/policy/*" }}
{{- $_ := set $policies (base $path) (toString $content) }}
{{- end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-policy
  labels:
    app.kubernetes.io/name: {{ .Release.Name }}
data:
{{- range $name, $text := mergeOverwrite $policies .Values.policies }}
  {{ $name | quote }}: {{ $text | toJson }}
{{- end }}
"""

_WHY: Final[Mapping[str, str]] = {
    "version": "The version of the chart: increase it with each change.",
    "policies": "More policies and data by file name; they replace those of the chart.",
    "secret": "An existing Secret, whose JSON is data of the policies.",
    "scrapedFrom": "The namespace of Prometheus.",
    "podAnnotations": "More annotations of the pods.",
}
