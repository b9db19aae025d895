"""Forward-auth through real proxies: the matrix, forged headers, a decision point that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.forward.proxies import COMMANDS, SECRET, Setup, proxy
from tests.integrations.servers import DECIDED, POLICY, TOKENS, send_row
from tests.integrations.servers import SECRET as KEY
from tests.waiting import PATIENCE

from acceptance.row import Row
from acceptance.wire import Answer, send, write_request
from doorward.pdp import DecisionPoint, from_modules

NORMALISED = frozenset(
    {
        "POST //people",
        "POST /./people",
        "POST /x/../people",
        "POST /%2e/people",
        "POST /%70eople",
        "POST /\\people",
        "GET //people",
    }
)
"""Envoy normalises these paths; strict mode refuses what a proxy passes on as it was sent."""
ITSELF = frozenset({"CONNECT", "OPTIONS *"})
"""What proxies answer themselves, whatever they ask of a policy."""
UNDERSCORE = "a header with an underscore"
"""Envoy refuses it; the others take the header away."""
OURS = """
allow if {
	http.path == "/tenant"
	not http.headers["x-tenant"]
}

allow := {"allowed": true, "headers": {"x-user": "ann"}} if {
	http.path == "/user"
	claims.role == "admin"
}
"""


def point() -> DecisionPoint:
    modules = {"policy.rego": POLICY.read_text() + OURS}
    return from_modules(modules, {"secrets": {"jwt": KEY}})


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def setup(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Setup]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    with proxy(request.param, folder, point) as running:
        running.name = request.param
        yield running


def passed(setup: Setup, row: Row) -> tuple[bool, Answer]:
    """Whether a row reached the application, and its answer."""
    before = len(setup.application.arrivals)
    answer = send_row(setup.port, row)
    return len(setup.application.arrivals) > before, answer


def test_the_matrix_gets_what_it_gets_through_envoy(setup: Setup) -> None:
    more, fewer, opened = set(), set(), set()
    for row in DECIDED:
        has_arrived, answer = passed(setup, row)
        should = bool(row.arrives)
        if has_arrived and not should:
            more.add(row.name)
        elif should and not has_arrived:
            fewer.add(row)
        if not has_arrived and not 400 <= answer.status < 500:
            opened.add(row.name)
    assert opened <= ITSELF
    if setup.name == "envoy":
        # It passes on a chunked body whole, and a body as long as may be could go on; that a query
        # is empty is lost.
        assert more == {"chunked", "POST /people?"}
        assert {row.name for row in fewer} == {"exactly the limit"}
    elif setup.name == "traefik":
        # It cleans paths like Envoy, sends bodies, and refuses headers with underscores.
        assert more == set()
        assert {row.name for row in fewer} <= NORMALISED
    elif setup.name == "haproxy":
        # It sends bodies whose length is known and that one buffer holds, and refuses a target with
        # another host than that of the header.
        assert more <= {UNDERSCORE}
        others = {"chunked", "POST http://elsewhere/people"}
        assert {row.name for row in fewer} <= NORMALISED | others
    else:
        assert more <= {UNDERSCORE}
        # The policy sees no bodies, so that it cannot allow what has one.
        assert {
            row for row in fewer if row.method != "POST" and row.name not in NORMALISED
        } == set()
        assert {row for row in DECIDED if row.arrives and row.method == "POST"} <= fewer


def test_a_request_without_a_host_is_refused(setup: Setup) -> None:
    before = len(setup.application.arrivals)
    answer = send(setup.port, b"GET /people HTTP/1.0\r\n\r\n", within=PATIENCE)
    assert 400 <= answer.status < 500
    assert setup.name != "nginx" or answer.status == 403
    assert len(setup.application.arrivals) == before


def test_a_chunked_body_of_a_read_is_not_passed_on_unseen(setup: Setup) -> None:
    before = len(setup.application.arrivals)
    headers = (("authorization", f"Bearer {TOKENS['guest']}"), ("transfer-encoding", "chunked"))
    request = write_request("GET", "/people", headers) + b"5\r\nhello\r\n0\r\n\r\n"
    answer = send(setup.port, request, within=PATIENCE)
    assert 400 <= answer.status < 500
    assert len(setup.application.arrivals) == before


FORGED = {
    "x-forwarded-method": "GET",
    "x-forwarded-uri": "/people",
    "x-forwarded-host": "elsewhere",
    "x-original-method": "GET",
    "x-original-uri": "/people",
    "x-original-url": "/people",
    "x-rewrite-url": "/people",
    "x-http-method-override": "GET",
    "x-original-content-length": "0",
    "x-doorward-secret": SECRET,
    "x-user": "root",
    "x-role": "root",
    "remote-user": "root",
    "x-forwarded-user": "root",
    "x-auth-request-user": "root",
    "forwarded": "host=elsewhere",
    "x-forwarded-port": "6666",
    "x-forwarded-prefix": "/people",
    "x-forwarded-ssl": "forged",
    "x-real-ip": "6.6.6.6",
    "x-script-name": "/elsewhere",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_header_opens_nothing_and_does_not_arrive(setup: Setup, name: str) -> None:
    guest = ("authorization", f"Bearer {TOKENS['guest']}")
    forged = (name, FORGED[name])
    for method, target in [("GET", "/elsewhere"), ("DELETE", "/people"), ("POST", "/people")]:
        for headers in [(guest, forged), (guest, forged, forged), (guest, (name, "x"), forged)]:
            row = Row(name="", method=method, target=target, headers=headers)
            has_arrived, answer = passed(setup, row)
            assert not has_arrived, (method, headers)
            assert 400 <= answer.status < 500
    has_arrived, _ = passed(setup, Row(name="", headers=(guest, forged)))
    if has_arrived:
        assert setup.application.arrivals[-1][2].get(name, "") not in (FORGED[name], "x")


@pytest.mark.parametrize("name", ["X_User", "x_forwarded_uri", "Remote_User"])
def test_another_spelling_does_not_arrive(setup: Setup, name: str) -> None:
    headers = (("authorization", f"Bearer {TOKENS['guest']}"), (name, "root"))
    has_arrived, _ = passed(setup, Row(name="", headers=headers))
    if has_arrived:
        assert "root" not in setup.application.arrivals[-1][2].values()


def test_what_the_policy_sets_arrives_and_nothing_else_of_that_name(setup: Setup) -> None:
    headers = (
        ("authorization", f"Bearer {TOKENS['admin']}"), ("x-user", "eve"), ("x-role", "eve"),
    )  # fmt: skip
    has_arrived, answer = passed(setup, Row(name="", target="/user", headers=headers))
    assert has_arrived, answer
    method, target, given = setup.application.arrivals[-1]
    assert (method, target, given["x-user"]) == ("GET", "/user", "ann")
    assert given.get("x-role", "") == ""
    assert SECRET not in given.values()


@pytest.mark.parametrize("listed", ["x-user", "x-user, x-role, x-doorward-secret", "Host, x-user"])
def test_what_connection_names_stays(setup: Setup, listed: str) -> None:
    """Headers of one connection are taken away on the next: not those that the policy sets."""
    headers = (("authorization", f"Bearer {TOKENS['admin']}"), ("connection", listed))
    has_arrived, answer = passed(setup, Row(name="", target="/user", headers=headers))
    assert has_arrived or answer.status == 400
    if has_arrived:
        assert setup.application.arrivals[-1][2]["x-user"] == "ann"
        assert "x-user" not in setup.application.arrivals[-1][2].get("connection", "")


@pytest.mark.parametrize("name", ["x-tenant", "X-TENANT", "x_tenant", "x.tenant", "x-tenant\t"])
@pytest.mark.parametrize("connection", ["close", "x-tenant", "upgrade, x-tenant"])
def test_what_the_policy_does_not_see_does_not_arrive(
    setup: Setup, name: str, connection: str
) -> None:
    headers = (("connection", connection), (name, "evil"), ("upgrade", "websocket"))
    has_arrived, answer = passed(setup, Row(name="", target="/tenant", headers=headers))
    assert has_arrived or 400 <= answer.status < 500
    if has_arrived:
        assert "evil" not in setup.application.arrivals[-1][2].values()


def test_without_the_decision_point_nothing_passes(setup: Setup) -> None:
    """The last test of each proxy: its decision point ends."""
    setup.pdp.close()
    before = len(setup.application.arrivals)
    headers = (("authorization", f"Bearer {TOKENS['admin']}"),)
    answer = send(setup.port, write_request("GET", "/people", headers), within=PATIENCE)
    assert answer.status >= 400
    assert len(setup.application.arrivals) == before
