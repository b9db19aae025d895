"""`opa-python-client`, unchanged: every operation that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from opa_client.errors import DeleteDataError, PolicyNotFoundError, RegoParseError
from opa_client.opa import OpaClient
from tests.clients.server import serving
from tests.waiting import PATIENCE

pytestmark = pytest.mark.system

POLICY: Final = (
    "package play\n\ndefault allow := false\n\nallow if input.user == data.users.admin\n"
)


@pytest.fixture
def client() -> Iterator[Any]:
    with serving() as port:
        client = OpaClient(host="127.0.0.1", port=port, timeout=PATIENCE)
        client.update_policy_from_string(POLICY, "play.rego")
        client.update_or_create_data({"admin": "ann"}, "users")
        yield client
        client.close_connection()


def of_url(client: Any, tmp_path: Path) -> Any:
    """A policy from a web server: the client's own server, at an endpoint that answers text."""
    with serving() as port:
        OpaClient(host="127.0.0.1", port=port, timeout=PATIENCE).update_or_create_data({}, "x")
        with pytest.raises(RegoParseError):
            client.update_policy_from_url(f"http://127.0.0.1:{port}/metrics", "m.rego")


def to_file(client: Any, tmp_path: Path) -> bool:
    return bool(client.policy_to_file("play.rego", str(tmp_path), "saved.rego"))


def from_file(client: Any, tmp_path: Path) -> Any:
    path = tmp_path / "b.rego"
    path.write_text("package b\n\np := 1\n")
    client.update_policy_from_file(str(path), "b.rego")
    return client.query_rule({}, "b", "p")["result"]


OPERATIONS: Final[dict[str, tuple[Callable[[Any, Path], Any], Any]]] = {
    "check_connection": (lambda c, _: c.check_connection(), True),
    "check_health": (lambda c, _: c.check_health({"bundles": True, "plugins": True}), True),
    "wait_for_ready": (lambda c, _: c.wait_for_ready(timeout=PATIENCE), True),
    "get_config": (lambda c, _: c.get_config()["result"]["default_decision"], "/system/main"),
    "get_metrics": (lambda c, _: "http_request_duration_seconds" in c.get_metrics(), True),
    "get_policies_list": (lambda c, _: c.get_policies_list(), ["play.rego"]),
    "get_policies_info": (lambda c, _: list(c.get_policies_info()), ["play.rego"]),
    "get_policy": (lambda c, _: c.get_policy("play.rego")["result"]["raw"], POLICY),
    "policy_to_file": (to_file, True),
    "update_policy_from_string": (
        lambda c, _: c.update_policy_from_string("package c\n", "c.rego"),
        True,
    ),
    "update_policy_from_file": (from_file, 1),
    "update_policy_from_url": (of_url, None),
    "update_or_create_data": (lambda c, _: c.update_or_create_data({"x": 1}, "a/b"), True),
    "patch_data": (
        lambda c, _: (
            c.patch_data("users", [{"op": "add", "path": "/bob", "value": 1}]),
            c.get_data("users")["result"],
        ),
        (True, {"admin": "ann", "bob": 1}),
    ),
    "get_data": (lambda c, _: c.get_data("users")["result"], {"admin": "ann"}),
    "delete_data": (lambda c, _: c.delete_data("users"), True),
    "delete_policy": (lambda c, _: c.delete_policy("play.rego"), True),
    "query_rule": (lambda c, _: c.query_rule({"user": "ann"}, "play", "allow"), {"result": True}),
    "bulk_query_rule": (
        lambda c, _: c.bulk_query_rule([{"user": "ann"}, {"user": "bob"}], "play", "allow"),
        [True, False],
    ),
    "ad_hoc_query": (
        lambda c, _: c.ad_hoc_query("data.users[name] = x")["result"],
        [{"name": "admin", "x": "ann"}],
    ),
    "compile_query": (
        lambda c, _: c.compile_query("data.users.admin"),
        {"result": {"queries": [[]]}},
    ),
    "get_status": (lambda c, _: c.get_status()["result"]["labels"], {"id": "test"}),
    "close_connection": (lambda c, _: c.close_connection(), None),
}
LATER: Final[dict[str, str]] = {}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_works(name: str, client: Any, tmp_path: Path) -> None:
    operation, result = OPERATIONS[name]
    assert operation(client, tmp_path) == result


def test_no_operation_is_left_out() -> None:
    names = {name for name in dir(OpaClient) if not name.startswith("_")}
    assert names == OPERATIONS.keys() | LATER.keys()


def test_errors_are_those_that_the_client_knows(client: Any) -> None:
    with pytest.raises(RegoParseError):
        client.update_policy_from_string("package x\n\np := ]\n", "x.rego")
    with pytest.raises(PolicyNotFoundError):
        client.get_policy("nothing.rego")
    with pytest.raises(DeleteDataError):
        client.delete_data("nothing")
