"""A list says who asked, as far as an input says it, and never shows a credential."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from tests.console.points import Point

from doorward.console.callers import Caller, caller_of
from doorward.console.rows import row_of
from doorward.console.views import try_input
from doorward.search.tokens import Token

POLICY = """package app

default allow := false

allow if {
	token := trim_prefix(input.headers.authorization, "Bearer ")
	[verified, _, claims] := io.jwt.decode_verify(token, {"secret": "k", "alg": "HS256"})
	verified
	claims.role == "admin"
}
"""


HEADER = b'{"alg":"HS256"}'


def encode(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def token(claims: Any, secret: bytes = b"k") -> str:
    text = f"{encode(HEADER)}.{encode(json.dumps(claims).encode())}"
    return f"{text}.{encode(hmac.digest(secret, text.encode(), 'sha256'))}"


CLAIMS = token({"sub": "ann", "role": "r"})


@pytest.mark.parametrize(
    ("input", "caller"),
    [
        ({"user": "ann", "role": "admin"}, Caller("ann", "admin")),
        ({"user": {"name": "ann", "roles": ["a", "b"]}}, Caller("ann", "a, b")),
        ({"subject": {"id": "ann", "properties": {"role": "x"}}}, Caller("ann", "x")),
        ({"User": "ann", "Method": "GET"}, Caller("ann", "")),
        ({"user": "Ym9i"}, Caller("bob (Ym9i)", "")),
        ({"user": "anna"}, Caller("anna", "")),
        ({"user": "YWJj"}, Caller("abc (YWJj)", "")),
        ({"user": "bm9i"}, Caller("nob (bm9i)", "")),
        ({"user": "4711"}, Caller("4711", "")),
        ({"user": {"name": "ann", "roles": frozenset("cab")}}, Caller("ann", "a, b, c")),
        ({"role": "x", "headers": {"authorization": f"Bearer {CLAIMS}"}}, Caller("ann?", "x")),
        ({"user": "bob", "headers": {"authorization": [CLAIMS]}}, Caller("bob", "r?")),
        *[
            ({"headers": {"Authorization": f"Bearer {text}"}}, Caller())
            for text in ("", "x", CLAIMS.rpartition(".")[0], f"{CLAIMS}.x")
        ],
        ({"user": ["x"], "role": 1}, Caller()),
        ({"headers": {"authorization": "Bearer x.y.z"}}, Caller()),
        ({"headers": {"authorization": "Bearer " + "x" * 20_000}}, Caller()),
        (None, Caller()),
        ([], Caller()),
    ],
)
def test_a_caller_is_read_from_the_fields_that_clients_use(input: Any, caller: Caller) -> None:
    assert caller_of(input) == caller


def test_claims_that_nobody_verified_are_marked() -> None:
    point = Point(POLICY)
    claims = {"sub": encode(b"bob"), "role": "admin"}
    for secret, expected in ((b"k", ("bob (Ym9i)", "admin")), (b"x", ("bob (Ym9i)?", "admin?"))):
        header = f"Bearer {token(claims, secret)}"
        row = row_of(point.decide({"headers": {"authorization": header}}))
        assert (row["user"], row["role"]) == expected


def test_a_token_in_the_place_of_a_name_is_masked() -> None:
    text = token({"sub": "x"})
    assert text.split(".")[2] not in caller_of({"user": text}).user


def test_claims_of_the_log_name_the_caller() -> None:
    assert caller_of({"a": 1}, claims={"sub": "ann", "role": "x"}) == Caller("ann", "x")


VERIFYING = """package app

default allow := false

allow if {
	input.method == "GET"
	claims.role == "guest"
}

claims := payload if {
	[_, token] := split(input.headers.authorization, " ")
	[true, _, payload] = io.jwt.decode_verify(token, {"secret": "quarterdeck"})
}

other if OTHER
"""


def test_a_tried_request_says_the_same_of_its_token_each_time() -> None:
    def user(other: str, subject: str, secret: str) -> str:
        point = Point(VERIFYING.replace("OTHER", other))
        token = Token("Bearer ", {"sub": subject, "role": "guest"}).signed(secret)
        input: Any = {"method": "DELETE", "headers": {"authorization": token}}
        first, again = (try_input(point.pdp, "app/allow", input, changes=False) for _ in range(2))
        assert (first["verdict"], again["user"]) == ("deny", first["user"])
        return str(first["user"])

    # The decision does not come to the token; the policies verify it.
    assert user("input.x", "tried-one", "quarterdeck") == "tried-one"
    assert user("input.x", "tried-two", "another") == "tried-two?"
    # Nothing is sent for it.
    sends = 'http.send({"method": "GET", "url": "http://127.0.0.1:9"}).status_code == 200'
    assert user(sends, "tried-three", "quarterdeck") == "tried-three?"
