"""The chart renders what the Kubernetes target makes, and refuses values that it does not know.

Helm itself renders it: its own library, as a package of Python has it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.envoy.kit.test_kit import POLICY, VARIANTS

from doorward.cli.main import run
from doorward.envoy.kit import Description, Policy, to_files

ODD = Policy("odd.rego", 'package odd\n\n# {{ .Values.secret }} <&> "\\u2028"\np := `{{ end }}`\n')


@cache
def helm() -> Any:
    """Imported by the tests that ask it: it is a program in Go, whose threads start with it."""
    return pytest.importorskip("helm_python", reason="no build of Helm's library for this machine")


def written(description: Description, folder: Path) -> Path:
    for name, text in to_files(description, "helm").items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def rendered(folder: Path, values: dict[str, Any], name: str = "people") -> dict[str, Any]:
    with helm().Chart.load(str(folder)) as chart:
        texts = chart.render(values, name=name, namespace="shop")
    return {
        f"{each['kind']}/{each['metadata']['name']}": each
        for text in texts.values()
        for each in yaml.safe_load_all(text)
    }


def manifests(description: Description) -> dict[str, Any]:
    texts = to_files(description, "kubernetes")
    texts.pop("kustomization.yaml")
    return {
        f"{each['kind']}/{each['metadata']['name']}": each
        for text in texts.values()
        for each in yaml.safe_load_all(text)
    }


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Description:
    return VARIANTS[request.param]


def test_a_chart_renders_what_the_kubernetes_target_makes(
    variant: Description, tmp_path: Path
) -> None:
    assert rendered(written(variant, tmp_path), {}) == manifests(variant)


def test_helm_finds_nothing_in_a_chart(variant: Description, tmp_path: Path) -> None:
    report = helm().lint(str(written(variant, tmp_path)))
    assert [each["error"] for each in report["messages"]] == ["icon is recommended"]


def test_braces_of_a_policy_stay_as_they_are(tmp_path: Path) -> None:
    description = Description(app_port=80, policies=(POLICY, ODD), name="people")
    documents = rendered(written(description, tmp_path), {})
    assert documents["ConfigMap/people-policy"]["data"] == {
        "policy.rego": POLICY.text,
        "odd.rego": ODD.text,
    }


def test_values_say_what_differs_between_releases(tmp_path: Path) -> None:
    values = {
        "replicas": 5,
        "images": {"doorward": "registry.example/doorward:2@sha256:0"},
        "imagePullSecrets": [{"name": "pull"}],
        "policies": {"policy.rego": "package envoy.authz", "more.json": "{}"},
        "resources": {"envoy": {"limits": {"memory": "1Gi"}}},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "podAnnotations": {"a.example/b": "1"},
        "secret": "other",
    }
    documents = rendered(written(VARIANTS["secret"], tmp_path), values, "x1")
    template = documents["Deployment/x1"]["spec"]["template"]
    pod = template["spec"]
    assert documents["Deployment/x1"]["spec"]["replicas"] == 5
    assert template["metadata"]["annotations"]["a.example/b"] == "1"
    assert template["metadata"]["labels"] == documents["Service/x1"]["spec"]["selector"]
    images = [each["image"] for each in [*pod["initContainers"], *pod["containers"]]]
    assert images.count("registry.example/doorward:2@sha256:0") == 2
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["tolerations"] == [{"key": "a", "operator": "Exists"}]
    assert {"secretName": "other", "defaultMode": 0o440} in [
        v.get("secret") for v in pod["volumes"]
    ]
    policies = documents["ConfigMap/x1-policy"]["data"]
    assert policies == {"policy.rego": "package envoy.authz", "more.json": "{}"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicas": 0}, "replicas"),
        ({"replica": 3}, "replica"),
        ({"images": {"doorwart": "x"}}, "doorwart"),
        ({"imagePullPolicy": "Sometimes"}, "imagePullPolicy"),
        ({"secret": ""}, "secret"),
        ({"policies": {"p.rego": 1}}, "policies"),
    ],
)
def test_unknown_values_are_refused(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(helm().HelmValuesError, match=said):
        rendered(written(VARIANTS["secret"], tmp_path), values)


def test_a_rendered_chart_is_hardened(
    variant: Description, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = rendered(written(variant, tmp_path / "chart"), {})
    text = yaml.safe_dump_all(documents.values())
    (tmp_path / "all.yaml").write_text(text)
    assert run(["kit", "check", "--errors-only", str(tmp_path / "all.yaml")]) == 0, (
        capsys.readouterr().out
    )


def test_the_library_is_there_where_ci_runs() -> None:
    assert helm().helm_sdk_version().startswith("v4")
