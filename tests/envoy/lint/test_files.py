"""Whole deployments: a naive one is found out line by line, ours are not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from doorward.base.counting import counted
from doorward.bundles.located_yaml import Located, read_documents
from doorward.cli.main import run
from doorward.envoy.kit import TARGETS, Description, Policy, to_files
from doorward.envoy.lint import LintError, check_paths
from doorward.envoy.lint.files import check_documents
from doorward.envoy.lint.finding import RULES

ROOT = Path(__file__).parents[3]
NAIVE = Path(__file__).with_name("naive.yaml")
COMPOSE = """services:
  proxy:
    image: envoyproxy/envoy
    user: root
  shop:
    image: shop
    ports: ["80:8080"]
    network_mode: host
    privileged: true
"""
UNIT = "[Service]\nExecStart=/usr/bin/envoy -c envoy.yaml\n"


OF_THE_WHOLE = ("pdp-data-served", "pdp-no-decision-log")
"""Rules about what a configuration lacks, which are found at its first line."""


def marks(text: str) -> set[tuple[int, str]]:
    return {
        (number, rule)
        for number, line in enumerate(text.splitlines(), 1)
        if (marked := re.search(r" #! (.*)", line))
        for rule in marked[1].split()
    }


def rules_broken_by(*paths: Path) -> set[tuple[int, str]]:
    return {(finding.line, finding.rule) for finding in check_paths(paths)}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_naive_deployment_is_found_out_line_by_line() -> None:
    # The text of a ConfigMap begins a line below its key.
    marked = marks(NAIVE.read_text())
    moved = {(line + (rule in OF_THE_WHOLE), rule) for line, rule in marked}
    assert rules_broken_by(NAIVE) == moved


@pytest.mark.parametrize("folder", ["deploy", "examples/people"])
def test_nothing_is_found_in_what_we_ship(folder: str) -> None:
    assert check_paths([ROOT / folder]) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("native", [False, True])
def test_nothing_is_found_in_what_the_kit_makes(target: str, native: bool, tmp_path: Path) -> None:
    policy = Policy("policy.rego", (ROOT / "examples/people/policy.rego").read_text())
    description = Description(app_port=9000, policies=(policy,), secret="s", native=native)
    for name, text in to_files(description, target).items():
        write(tmp_path, name, text)
    assert check_paths([tmp_path]) == []


def test_a_pod_without_a_redirect_is_found(tmp_path: Path) -> None:
    text = (ROOT / "deploy/kubernetes/deployment.yaml").read_text()
    path = write(tmp_path, "deployment.yaml", text.replace("- redirect\n", "- bootstrap\n"))
    assert "kit-no-redirect" in {rule for _, rule in rules_broken_by(path)}
    path.write_text(
        text.replace("    spec:\n      #", "    spec:\n      hostNetwork: true\n      #")
    )
    assert "kit-host-network" in {rule for _, rule in rules_broken_by(path)}


def test_pods_of_a_cron_job_are_checked(tmp_path: Path) -> None:
    job = "kind: Job\nspec:\n  template:\n    spec:\n"
    cron = "kind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n"
    pod = "containers: [{name: pdp, image: doorward}]\n"
    rules = [
        {rule for _, rule in rules_broken_by(write(tmp_path, "job.yaml", f"{text}{indent}{pod}"))}
        for text, indent in ((job, " " * 6), (cron, " " * 10))
    ]
    assert rules[0] == rules[1]
    assert "kit-no-redirect" in rules[1]


def test_pods_of_each_kind_of_template_are_checked(tmp_path: Path) -> None:
    template = "template: {spec: {containers: [{name: pdp, image: doorward}]}}"
    rules = [
        {rule for _, rule in rules_broken_by(write(tmp_path, "pods.yaml", text))}
        for text in (
            f"kind: Deployment\nspec: {{{template}}}\n",
            f"kind: ReplicationController\nspec: {{{template}}}\n",
            f"kind: PodTemplate\n{template}\n",
        )
    ]
    assert rules[0] == rules[1] == rules[2]
    assert "kit-no-redirect" in rules[0]


@pytest.mark.parametrize(
    ("image", "is_sidecar"),
    [
        ("openpolicyagent/opa:1.0.0-envoy", True),
        ("openpolicyagent/opa@sha256:0123", True),
        ("openpolicyagent/opa:1.0.0-envoy@sha256:0123", True),
        ("registry.example:5000/opa", True),
        ("envoyproxy/envoy@sha256:0123", True),
        ("opal:1.0", False),
        ("opaque@sha256:0123", False),
    ],
)
def test_an_image_of_opa_may_have_a_tag_or_a_digest(
    image: str, is_sidecar: bool, tmp_path: Path
) -> None:
    path = write(tmp_path, "pod.yaml", f"kind: Pod\nspec: {{containers: [{{image: {image!r}}}]}}\n")
    assert bool(rules_broken_by(path)) is is_sidecar


@pytest.mark.parametrize(
    ("port", "is_exposed"),
    [
        ("port: 80\n      targetPort: http-shop", True),
        ("port: 8080", True),  # targetPort is the same
        ("port: 8080\n      targetPort: 8000", False),
        ("port: 80\n      targetPort: http-envoy", False),
        ("port: 80", False),
    ],
)
def test_a_service_may_lead_to_a_port_by_its_name(
    port: str, is_exposed: bool, tmp_path: Path
) -> None:
    text = NAIVE.read_text().replace(
        "{containerPort: 8080}", "{containerPort: 8080, name: http-shop}"
    )
    text = text.replace("port: 80\n      targetPort: 8080", port)
    rules = {rule for _, rule in rules_broken_by(write(tmp_path, "shop.yaml", text))}
    assert ("kit-exposed-port" in rules) is is_exposed


def test_a_naive_compose_project_is_found_out(tmp_path: Path) -> None:
    rules = {rule for _, rule in rules_broken_by(write(tmp_path, "compose.yaml", COMPOSE))}
    assert rules == {
        "kit-no-redirect", "kit-exposed-port", "kit-root", "kit-capabilities", "kit-privileges",
        "kit-writable", "kit-host-network",
    }  # fmt: skip


def test_a_naive_unit_is_found_out(tmp_path: Path) -> None:
    rules = {rule for _, rule in rules_broken_by(write(tmp_path, "envoy.service", UNIT))}
    assert rules == {"kit-root", "kit-privileges", "kit-capabilities", "kit-writable"}
    other = write(tmp_path, "other.service", "[Service]\nExecStart=/usr/bin/nginx\n")
    assert rules_broken_by(other) == set()


def test_a_command_of_a_unit_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    unit = write(tmp_path, "envoy.service", '[Service]\nExecStart=/usr/bin/envoy "x\n')
    assert rules_broken_by(unit) == {(2, "unreadable")}


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("Caddyfile", ":80 {\n  forward_auth a:1\n}\n", "forward-forged-header"),
        ("nginx.conf", "server {\n  auth_request off;\n}\n", "forward-open"),
        ("haproxy.cfg", "frontend a\n  http-request lua.doorward\n", "forward-forged-header"),
        ("envoy.service", UNIT, "kit-root"),
    ],
)
def test_texts_of_a_config_map_are_checked_at_their_lines(
    name: str, text: str, rule: str, tmp_path: Path
) -> None:
    alone = {(line + 3, rule) for line, rule in rules_broken_by(write(tmp_path, name, text))}
    assert (5, rule) in alone
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    path = write(tmp_path, "map.yaml", f"kind: ConfigMap\ndata:\n  {name}: |\n{indented}")
    assert rules_broken_by(path) == alone


def replaced(document: Located, value: object) -> Iterator[Located]:
    """Each document in which one of the values is another one."""
    yield Located(value, document.line)
    for key, item in document.fields().items():
        for other in replaced(item, value):
            yield Located({**document.fields(), key: other}, document.line)
    for number, item in enumerate(document.items()):
        before, after = document.items()[:number], document.items()[number + 1 :]
        for other in replaced(item, value):
            yield Located([*before, other, *after], document.line)


@pytest.mark.long
@pytest.mark.parametrize("value", [[Located(1, 1)], {"a": Located(1, 1)}])
@pytest.mark.parametrize("name", ["naive", "compose", "envoy", "decisions"])
def test_values_of_another_kind_are_no_faults(name: str, value: object) -> None:
    decisions = "plugins: {envoy_ext_authz_grpc: {dry-run: x, strict: x, on-error: x, addr: x}, "
    decisions += "envoy_ext_proc_grpc: {dry-run: x, log-bodies: x, addr: x}}"
    text = {
        "naive": NAIVE.read_text(),
        "compose": COMPOSE,
        "envoy": (ROOT / "examples/people/envoy.yaml").read_text(),
        "decisions": decisions,
    }[name]
    documents = read_documents(text)
    for number, document in enumerate(documents):
        for other in replaced(document, value):
            changed = [*documents[:number], other, *documents[number + 1 :]]
            check_documents("a.yaml", changed)


def test_dry_run_of_another_kind_is_not_off(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "plugins: {envoy_ext_authz_grpc: {dry-run: [1]}}")
    assert "pdp-dry-run" in {rule for _, rule in rules_broken_by(path)}


def test_the_time_that_envoy_waits_is_the_time_a_policy_has(tmp_path: Path) -> None:
    policy = 'package a\n\nx if http.send({"url": "y", "timeout": "300ms"}).body.z\n'
    path = write(tmp_path, "a.rego", policy)
    assert rules_broken_by(path) == {(3, "policy-slow-http-send")}  # 200 ms is Envoy's default
    assert rules_broken_by(path, ROOT / "examples/people/envoy.yaml") == set()


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: !!python/object:os.system x",
        "a: &a [*a]",
        "a: " + "[" * 100 + "]" * 100,
        "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
        "c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n"
        "e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e]\n",
    ],
)
def test_yaml_that_cannot_be_read_is_a_finding(tmp_path: Path, text: str) -> None:
    assert {rule for _, rule in rules_broken_by(write(tmp_path, "a.yaml", text))} == {"unreadable"}


def test_paths_that_cannot_be_checked_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.yaml", write(tmp_path, "a.txt", "")):
        with pytest.raises(LintError):
            check_paths([path])
    (tmp_path / "b.rego").write_bytes(b"\xff")
    with pytest.raises(LintError, match="not UTF-8"):
        check_paths([tmp_path / "b.rego"])
    with pytest.raises(LintError, match="larger than 4 MiB"):
        check_paths([write(tmp_path, "c.yaml", " " * (5 << 20))])


def test_the_report_is_text_json_or_sarif(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kit", "check", str(NAIVE)]) == 1
    text = capsys.readouterr().out
    assert "naive.yaml:53: error: policy-default: the default is true\n    a default other" in text
    assert run(["kit", "check", "-f", "json", str(NAIVE)]) == 1
    documents = json.loads(capsys.readouterr().out)
    assert len(documents) == len(rules_broken_by(NAIVE))
    assert {document["level"] for document in documents} == {"error", "warning"}
    assert run(["kit", "check", "-f", "sarif", "--errors-only", str(NAIVE)]) == 1
    sarif = json.loads(capsys.readouterr().out)
    (analysis,) = sarif["runs"]
    assert sarif["version"] == "2.1.0"
    assert {result["level"] for result in analysis["results"]} == {"error"}
    for result in analysis["results"]:
        rule = analysis["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]


def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kit", "check", str(ROOT / "deploy/kubernetes")]) == 0
    assert capsys.readouterr().out == "nothing found\n"
    assert run(["kit", "check", "nowhere.yaml"]) == 2


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": "# Read me"},
        {"values.yaml": "replicas: 2\n"},
        {"empty.yaml": "", "list.json": "[1]"},
        {"Chart.yaml": "name: a\n", "templates/service.yaml": "kind: Service\n"},
    ],
    ids=["empty", "other-kind", "other-yaml", "no-documents", "templates"],
)
def test_a_check_of_nothing_is_not_a_success(
    files: dict[str, str], form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    assert run(["kit", "check", "-f", form, str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"Error: {tmp_path}: found nothing to check: " in printed.err
    over = f"; passed over {counted(len(files), 'file')} of other kinds" if files else ""
    assert printed.err.startswith(f"checked 0 files{over}\n")


def test_a_path_without_anything_to_check_is_named_beside_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = write(tmp_path, "values.yaml", "replicas: 2\n")
    policy = write(tmp_path, "policy.rego", "package a\n")
    assert run(["kit", "check", str(policy), str(values)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "nothing found\n"
    checked = f"checked 1 file: {policy}; passed over 1 file of other kinds\n"
    assert printed.err.startswith(f"{checked}Error: {values}: found nothing to check: ")


def test_files_of_other_kinds_beside_known_ones_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = write(tmp_path, "policy.rego", "package a\n")
    broken = write(tmp_path, "broken.yaml", "a: [")
    write(tmp_path, "values.yaml", "replicas: 2\n")
    write(tmp_path, "README.md", "# Read me")
    assert run(["kit", "check", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "unreadable" in printed.out
    assert printed.err == (
        f"checked 2 files: {broken}, {policy}; passed over 2 files of other kinds\n"
    )


def test_every_rule_about_deployments_is_proven() -> None:
    marked = marks(NAIVE.read_text())
    proven = {rule for _, rule in marked if not rule.startswith("policy-")}
    proven |= {"kit-no-redirect", "kit-host-network"}
    wanted = {rule for rule in RULES if rule.startswith(("kit-", "pdp-"))}
    assert proven == wanted


@pytest.mark.parametrize(
    ("closing", "rules"),
    [
        ("", {"pdp-data-served"}),
        ("server: {decoding: {max_length: 1}}", {"pdp-data-served"}),
        ("server: {decision_paths: [envoy/authz/allow]}", set()),
        ("secrets: [keys/signing]", set()),
    ],
)
def test_a_data_api_that_serves_everything_is_told(
    closing: str, rules: set[str], tmp_path: Path
) -> None:
    plugin = 'envoy_ext_authz_grpc: {addr: "unix:///a.sock", strict: true}'
    text = f"plugins:\n  {plugin}\ndecision_logs: {{console: true}}\n{closing}\n"
    path = write(tmp_path, "c.yaml", text)
    assert {rule for _, rule in rules_broken_by(path)} == rules


def test_a_missing_file_is_not_a_file_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(LintError, match="none: no such file or directory"):
        check_paths([tmp_path / "none"])
