"""The admission webhook of examples/admission, over TLS, asked as a Kubernetes API server asks."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.cli.test_run import Process, until
from tests.transport.certificates import Authority
from tests.waiting import PATIENCE

from doorward.cli.main import run

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples/admission"
Ask = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Ask]]:
    folder = tmp_path_factory.mktemp("admission")
    authority = Authority(folder)
    certificate, key = authority.issue("admission.policy.svc")
    process = Process(
        folder,
        "--authorization=basic",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        "--set=decision_logs.console=true",
        str(EXAMPLE / "policies"),
    )
    trusted = ssl.create_default_context(cafile=str(authority.file))

    def ask(path: str, body: Any = None, *, method: str | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(
            f"https://127.0.0.1:{process.port}{path}", data, headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=trusted) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def is_up() -> bool:
        try:
            return ask("/health")[0] == 200
        except OSError:
            return process.process.poll() is not None

    assert until(is_up), process.log.read_text()
    yield process, ask
    if process.process.poll() is None:
        process.process.kill()
    process.process.wait()


@pytest.fixture
def review() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((EXAMPLE / "requests/pod.json").read_text())
    return document


def test_the_tests_of_the_example_pass() -> None:
    assert run(["test", str(EXAMPLE / "policies")]) == 0
    assert run(["check", "--strict", str(EXAMPLE / "policies")]) == 0


def test_a_review_is_answered(server: tuple[Process, Ask], review: dict[str, Any]) -> None:
    _, ask = server
    uid = review["request"]["uid"]
    status, answer = ask("/?timeout=5s", review)
    assert status == 200
    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": True},
    }
    (container,) = review["request"]["object"]["spec"]["containers"]
    container["image"] = "docker.io/library/nginx"
    container["securityContext"] = {"privileged": True}
    status, answer = ask("/?timeout=5s", review)
    assert status == 200
    message = answer["response"].pop("status")["message"]
    assert answer["response"] == {"uid": uid, "allowed": False}
    assert "[images-are-ours] container web has an image of another registry" in message
    assert "[nothing-is-privileged] privileged container is not allowed: web" in message


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"request": {"uid": "u"}}, 200),
        ({"kind": "AdmissionReview", "request": {"uid": "u", "kind": {"kind": "Pod"}}}, 200),
        # A failure of the webhook, for which `failurePolicy: Fail` refuses.
        ({}, 404),
        ([], 404),
        ("x", 404),
        (None, 404),
    ],
)
def test_what_is_no_review_is_not_admitted(
    server: tuple[Process, Ask], body: Any, status: int
) -> None:
    _, ask = server
    code, answer = ask("/", body, method="POST")
    assert code == status
    assert status != 200 or answer["response"]["allowed"] is False


def test_nobody_reads_policies_or_data(server: tuple[Process, Ask]) -> None:
    _, ask = server
    for path in ("/v1/data", "/v1/policies", "/v1/data/constraints", "/v1/config", "/metrics"):
        assert ask(path)[0] == 401
    assert ask("/v1/data/system/main", {"input": {}})[0] == 401


def test_secrets_are_not_logged(server: tuple[Process, Ask], review: dict[str, Any]) -> None:
    process, ask = server
    request = review["request"]
    request["kind"]["kind"] = "Secret"
    request["object"] = {"metadata": {"name": "s"}, "data": {"note": "aHVudGVyMg=="}}
    assert ask("/", review)[1]["response"]["allowed"]

    def events() -> list[dict[str, Any]]:
        logged = process.messages("Decision Log")
        return [each for each in logged if "Secret" in json.dumps(each.get("input"))]

    assert until(lambda: bool(events()))
    (event,) = events()
    assert "/input/request/object/data" in event["erased"]
    assert "aHVudGVyMg==" not in process.log.read_text()


def test_the_webhook_is_what_kubernetes_takes() -> None:
    webhook = yaml.safe_load((EXAMPLE / "webhook.yaml").read_text())
    kubernetes_validate.validate(webhook, "1.33", strict=True)
    (hook,) = webhook["webhooks"]
    assert hook["failurePolicy"] == "Fail"
