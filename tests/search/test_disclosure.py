"""What inputs of a search display: words of policies and data, and no credential."""

from __future__ import annotations

import base64
import hmac
from typing import Any

import pytest

from doorward.rego import Engine
from doorward.rego.shared import MASKED
from doorward.search.disclosure import COMPUTED, Disclosure
from doorward.search.tokens import Token

POLICY = """package app

allow if {
	[true, _, claims] = io.jwt.decode_verify(input.token, {"secret": data.signing.one})
	claims.role == "auditor"
}

allow if crypto.hmac.sha256(input.body, data.signing.two) == input.mark

allow if input.code == data.secrets.pin

allow if input.note == data.secrets.short

allow if input.headers.authorization == input.owner

allow if input.client == data.clients[_].name
"""
DATA: dict[str, Any] = {
    "signing": {"one": "quarterdeck-lantern", "two": "harpsichord"},
    "secrets": {"pin": 48213, "short": "zq", "text": "marmalade"},
    "tokens": {"opaquewordone": "ann"},
    "clients": [{"name": "warehouse-robot", "password": "hunter22"}],
}
SECRETS = ["quarterdeck-lantern", "harpsichord", "marmalade", "opaquewordone", "hunter22", "zq"]
DISCLOSURE = Disclosure(Engine({"app.rego": POLICY}, DATA))


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", ["{}", "x {} y", "/a/{}", "{}/b"])
def test_no_secret_is_displayed_at_any_name_or_inside_a_text(secret: str, form: str) -> None:
    text = form.format(secret)
    document = {"note": text, text: [text, {"deep": text}]}
    displayed = str(DISCLOSURE.value(document))
    if secret != "zq" or form == "{}":  # two letters are in many words
        assert secret not in displayed


@pytest.mark.parametrize("secret", SECRETS[:5])
def test_no_encoding_of_a_secret_is_displayed(secret: str) -> None:
    octets = secret.encode()
    texts = [
        octets.hex(),
        base64.b64encode(octets).decode(),
        base64.urlsafe_b64encode(octets).decode().rstrip("="),
        secret.upper(),
        secret[::-1],
        hmac.digest(octets, b"body", "sha256").hex(),
    ]
    for text in texts:
        for document in (text, {"note": text}, {text: 1}, [f"Basic {text}"]):
            assert text not in str(DISCLOSURE.value(document))


def test_numbers_of_secrets_are_masked_and_others_are_not() -> None:
    document = {"code": 48213, "size": 17, "pin": True}
    assert DISCLOSURE.value(document) == {"code": MASKED, "size": 17, "pin": True}


def test_a_token_becomes_its_claims_without_a_signature() -> None:
    claims: Any = {"role": "auditor", "note": "marmalade", "exp": 4102444800}
    for scheme in ("", "Bearer "):
        token = Token(scheme, claims).signed("quarterdeck-lantern")
        displayed = DISCLOSURE.value({"token": token, "headers": {"authorization": token}})
        text = displayed["token"]
        assert displayed["headers"]["authorization"] == text
        assert text.startswith(f"{scheme}(a token that claims ")
        assert '"role":"auditor"' in text
        assert '"exp":4102444800' in text
        assert "a caller cannot sign it" in text
        assert not {*token.rpartition(" ")[2].split(".")} & {*text.split()}
        assert "marmalade" not in text


def test_words_of_policies_and_of_open_data_are_displayed() -> None:
    document = {
        "role": "auditor",
        "client": "warehouse-robot",
        "path": "/a/bc/1",
        "long": "aaaaaaa",
    }
    assert DISCLOSURE.value(document) == document
    assert DISCLOSURE.value({"note": "made-of-nothing-known"}) == {"note": COMPUTED}


def test_words_that_a_caller_sent_are_displayed() -> None:
    token = Token("Bearer ", {"sub": "somebody"}).signed("unknown")
    sent = {"user": "penelope", "authorization": token, "password": "hedgehog"}
    disclosure = Disclosure(Engine({"app.rego": POLICY}, DATA), sent)
    document = {"owner": "penelope", "sub": "somebody", "note": "hedgehog"}
    assert disclosure.value(document) == {**document, "note": COMPUTED}


def test_texts_about_policies_have_no_secret() -> None:
    for secret in SECRETS[:5]:
        if secret != "opaquewordone":
            assert secret not in DISCLOSURE.text(f"input.x = {secret}")


KEYS = """package app

token(request) := request.header

allow if io.jwt.decode_verify(token(input), {"secret": "literal-lantern", "iss": "issuer-one"})[0]

allow if io.jwt.decode_verify(token(input), {"secret": data.codes.first})[0]

allow if crypto.hmac.sha1(token(input), "velvet-anchor") == input.mark

allow if crypto.hmac.sha1(token(input), data.codes.second) == input.mark

allow if crypto.hmac.sha1(token(input), data.rows[0]) == input.mark

allow if crypto.hmac.sha1("text", input.colour) == input.mark
"""


def test_keys_of_built_ins_are_secrets_in_whatever_form_they_are_given() -> None:
    data: Any = {
        "codes": {"first": "tumbleweed", "second": "candlestick", "third": "inkwell"},
        "colour": "turquoise",
        "rows": ["windmill"],
    }
    disclosure = Disclosure(Engine({"app.rego": KEYS}, data))
    secrets = ("literal-lantern", "velvet-anchor", "tumbleweed", "candlestick", "windmill")
    for secret in secrets:
        assert disclosure.value({"note": secret}) == {"note": MASKED}
        assert secret not in disclosure.text(f"the key is {secret}")
    for other in ("issuer-one", "inkwell", "turquoise", "text"):
        assert disclosure.value({"note": other}) == {"note": other}


def test_a_secret_of_known_words_is_not_displayed_inside_a_text() -> None:
    policy = 'package app\n\nallow if input.note == "open the sesame gate"\n'
    engine = Engine({"app.rego": policy}, {"door": {"password": "open-sesame"}})
    disclosure = Disclosure(engine)
    assert disclosure.value({"note": "the gate: open-sesame"}) == {"note": MASKED}
    assert disclosure.value({"note": "the sesame gate"}) == {"note": "the sesame gate"}
