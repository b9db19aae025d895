"""Keys of a real issuer process: warmed, rotated under load, and kept while it is gone."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tests.clock import VirtualClock
from tests.pdp.bearer import allows
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.owners import OwnedError
from doorward.config.schema import OptionError
from doorward.embedded import in_process
from doorward.pdp import DecisionPoint, Issuer, LoadError, from_modules
from doorward.pdp import identity as identity_module
from doorward.pdp.identity import Identity, IdentityError, read_keys

SERVER = """
import http.server, json, sys
folder, port = sys.argv[1], int(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = {"/.well-known/openid-configuration": "discovery", "/keys": "keys"}.get(self.path)
        body = open(f"{folder}/{name}.json", "rb").read() if name else b""
        self.send_response(200 if name else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
POLICY = """package envoy.authz

default allow := false

allow if {
	[_, token] := split(input.attributes.request.http.headers.authorization, " ")
	main := data.identity.main
	[verified, _, claims] := io.jwt.decode_verify(token, {"cert": main.jwks, "iss": main.issuer})
	verified
	claims.sub == "ann"
}
"""


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class KeyPair:
    """A key and the tokens that it signs."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def public(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        n, e = (
            encoded(number.to_bytes((number.bit_length() + 7) // 8, "big"))
            for number in (numbers.n, numbers.e)
        )
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, "n": n, "e": e}

    def token(self, issuer: str, subject: str = "ann") -> str:
        claims = {"iss": issuer, "sub": subject, "exp": int(time.time()) + 3600}
        head = {"alg": "RS256", "kid": self.kid}
        text = ".".join(encoded(json.dumps(each).encode()) for each in (head, claims))
        return f"{text}.{encoded(self._key.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"


ONE, TWO = KeyPair("one"), KeyPair("two")
FIRST_ANSWERS = 10.0
"""Seconds of a virtual clock in which all issuers have to answer."""


class Provider:
    """An issuer in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.publish(ONE)
        discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        (folder / "discovery.json").write_text(json.dumps(discovery))
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", SERVER, str(self.folder), str(self.port)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def publish(self, *keys: KeyPair) -> None:
        new = self.folder / "keys.new"
        new.write_text(json.dumps({"keys": [key.public for key in keys]}))
        new.replace(self.folder / "keys.json")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    running = Provider(tmp_path)
    yield running
    running.stop()


def test_keys_are_rotated_under_load_and_kept_while_the_issuer_is_gone(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_module, "MISS_QUIET", 0.05)
    with from_modules({"p.rego": POLICY}) as point:
        point.trust({"main": Issuer(provider.url, interval=1.0)}, within=PATIENCE)
        one, two = ONE.token(provider.url), TWO.token(provider.url)
        assert allows(point, one)
        assert not allows(point, two)
        assert not allows(point, ONE.token("http://elsewhere"))
        assert not allows(point, ONE.token(provider.url, "bob"))
        denied = 0
        ended = threading.Event()

        def decide() -> None:
            nonlocal denied
            while not ended.is_set():
                denied += not allows(point, one)

        load = threading.Thread(target=decide)
        load.start()
        provider.publish(ONE, TWO)
        wait_until(lambda: allows(point, two))
        provider.stop()
        wait_until(lambda: point._identity and point._identity.errors.get("main"))
        assert allows(point, two)
        ended.set()
        load.join(PATIENCE)
        assert denied == 0
        provider.publish(TWO)
        provider.start()
        wait_until(lambda: not allows(point, one))
        assert allows(point, two)


class Answering:
    """An issuer in this process, and when its keys were fetched."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.times: list[float] = []
        self.keys = [ONE]
        self.status = 200

    def __call__(self, _request: httpx.Request) -> httpx.Response:
        self.times.append(self.clock.now())
        return httpx.Response(self.status, json={"keys": [key.public for key in self.keys]})


@contextmanager
def trusting(issuer: Answering, *, interval: float) -> Iterator[DecisionPoint]:
    """A decision point that fetches the issuer's keys, for the first time at 0 seconds."""
    identity = partial(Identity, transport=httpx.MockTransport(issuer), clock=issuer.clock)
    trusted = Issuer("https://i", jwks_url="https://i/keys", interval=interval)
    with from_modules({"p.rego": POLICY}) as point:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(in_process, "Identity", identity)
            point.trust({"main": trusted}, within=FIRST_ANSWERS)
        assert issuer.times == [0.0]
        yield point


def test_unknown_keys_bring_a_fetch_and_no_flood_of_them() -> None:
    clock = VirtualClock(threads=1)
    issuer = Answering(clock)
    unknown = TWO.token("https://i")

    def deny(count: int) -> list[float]:
        for number in range(count):
            assert not allows(point, unknown + str(number))
        clock.settle()
        return issuer.times

    with trusting(issuer, interval=3600.0) as point:
        clock.advance(identity_module.MISS_QUIET - 0.5)
        assert deny(20) == [0.0]
        clock.advance(0.5)
        assert deny(20) == [0.0, 10.0]
        clock.advance(identity_module.MISS_QUIET)
        assert allows(point, ONE.token("https://i"))
        assert issuer.times == [0.0, 10.0]
        issuer.keys.append(TWO)
        assert deny(1) == [0.0, 10.0, 20.0]
        assert allows(point, unknown)


def test_keys_are_fetched_at_intervals_and_while_the_issuer_is_gone_after_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock(threads=1)
    issuer = Answering(clock)
    with trusting(issuer, interval=60.0) as point:
        clock.advance(130.0)
        assert issuer.times == [0.0, 60.0, 120.0]
        issuer.times.clear()
        issuer.status = 503
        clock.advance(260.0)
        assert issuer.times == [180.0, 181.0, 183.0, 187.0, 195.0, 211.0, 243.0, 303.0, 363.0]
        assert point._identity is not None
        assert "status 503" in point._identity.errors["main"]
        outage = "The issuer's keys could not be fetched; the known keys stay active."
        assert [record.getMessage() for record in caplog.records].count(outage) == 1
        assert allows(point, ONE.token("https://i"))
        issuer.times.clear()
        issuer.status, issuer.keys = 200, [TWO]
        clock.advance(100.0)
        assert issuer.times == [423.0, 483.0]
        assert point._identity.errors == {}
        assert not allows(point, ONE.token("https://i"))
        assert allows(point, TWO.token("https://i"))
        issuer.status = 503  # the pauses begin again
        clock.advance(60.0)
        assert issuer.times == [423.0, 483.0, 543.0, 544.0, 546.0, 550.0]


def test_an_issuer_that_does_not_answer_opens_nothing(tmp_path: Path) -> None:
    with from_modules({"p.rego": POLICY}) as point:
        with pytest.raises(LoadError, match="no keys of main"):
            point.trust({"main": Issuer(f"http://127.0.0.1:{free_port()}")}, within=0.5)
        assert not allows(point, ONE.token("http://127.0.0.1"))
        with pytest.raises(ValueError, match="call it once, with all issuers"):
            point.trust({})


RSA = ONE.public


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "not a list"),
        ({"keys": {}}, "not a list"),
        ({"keys": []}, "no key for signatures"),
        ({"keys": [1]}, "not an object"),
        ({"keys": [RSA] * 101}, "at most 100 keys"),
        ({"keys": [RSA, RSA]}, "two keys with the same id"),
        ({"keys": [{**RSA, "kid": 1}]}, "no key for signatures"),
        ({"keys": [RSA, {"kty": "oct", "k": "c2VjcmV0"}]}, "a private or shared key"),
        ({"keys": [{**RSA, "d": "AQ"}]}, "a private or shared key"),
        ({"keys": [{**RSA, "use": "enc"}]}, "no key for signatures"),
    ],
)
def test_a_set_that_is_wrong_in_part_is_not_used(document: Any, message: str) -> None:
    with pytest.raises(IdentityError, match=message):
        read_keys(document)


@pytest.mark.parametrize(
    "key", [{**TWO.public, "d": "AQ"}, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "oct"}]
)
def test_a_set_with_a_key_that_signs_is_not_used(key: dict[str, str]) -> None:
    with pytest.raises(IdentityError, match="a private or shared key"):
        read_keys({"keys": [RSA, key]})


def test_keys_for_other_uses_are_left_out() -> None:
    assert read_keys({"keys": [RSA, {**TWO.public, "use": "enc"}, {"kty": "new"}]}) == [RSA]


@pytest.mark.parametrize(
    "odd", [{"n": "!"}, {"e": 1}, {"alg": "RS257"}, {"x5c": ["!"]}, {"kty": []}]
)
def test_a_key_that_no_token_can_be_verified_with_does_not_spoil_the_others(
    odd: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert read_keys({"keys": [{**TWO.public, **odd}, RSA]}, issuer="login") == [RSA]
    assert [vars(each)["issuer"] for each in caplog.records] in ([], ["login"])
    with pytest.raises(IdentityError):
        read_keys({"keys": [{**TWO.public, **odd}]})


KEYS = json.dumps({"keys": [ONE.public]}).encode()


@pytest.mark.parametrize(
    ("discovery", "keys", "message"),
    [
        (
            {"issuer": "https://other", "jwks_uri": "https://i/k"},
            KEYS,
            "is not the configured issuer",
        ),
        ({"issuer": "https://i", "jwks_uri": "http://i/k"}, KEYS, "is http although"),
        ({"issuer": "https://i", "jwks_uri": 1}, KEYS, "is http although"),
        ({"issuer": "https://i"}, KEYS, "is http although"),
        ([], KEYS, "not a JSON object"),
        (b"no json", KEYS, "not JSON"),
        (
            {"issuer": "https://i", "jwks_uri": "https://i/k"},
            KEYS[:-1] + b', "keys": []}',
            "an object in it repeats a name",
        ),
        (b"[" * 100_000, KEYS, "not JSON"),
        ({"issuer": "https://i", "jwks_uri": "https://i/k"}, KEYS + b" " * (2 << 20), "bytes"),
        ({"issuer": "https://i", "jwks_uri": "https://i/k"}, None, "status 302"),
        (None, KEYS, "status 302"),
    ],
)
def test_what_an_issuer_may_not_say_is_an_error(discovery: Any, keys: Any, message: str) -> None:
    answers = {"/.well-known/openid-configuration": discovery, "/k": keys}

    def respond(request: httpx.Request) -> httpx.Response:
        given = answers.get(request.url.path)
        if given is None:
            return httpx.Response(302, headers={"location": "https://evil/keys"})
        return httpx.Response(200, content=given if isinstance(given, bytes) else json.dumps(given))

    clock = VirtualClock(threads=1)
    with from_modules({"p.rego": POLICY}) as point:
        source = Identity(
            {"main": Issuer("https://i")},
            point.store,
            transport=httpx.MockTransport(respond),
            clock=clock,
        )
        assert source.start(within=FIRST_ANSWERS) == ["main"]
        assert clock.now() == FIRST_ANSWERS
        assert message in source.errors["main"]
        source.close()
        assert point.decide_now("identity/main").error is None
        assert not point.decide_now("identity/main/jwks").allowed


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": ""},
        {"issuer": "http://i"},
        {"issuer": "https://a:b@i"},
        {"issuer": "https://:b@i"},
        {"issuer": "https://@i"},
        {"issuer": "https://i?a"},
        {"issuer": "https://i", "jwks_url": "ftp://i"},
        {"issuer": "https://i", "interval": 0.1},
    ],
)
def test_an_issuer_that_cannot_be_believed_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Issuer(**wrong)


def test_keys_of_a_url_of_the_configuration_need_no_discovery() -> None:
    requests: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(str(request.url))
        return httpx.Response(200, content=KEYS)

    issuer = Issuer("https://i", jwks_url="https://elsewhere/keys")
    with from_modules({"p.rego": POLICY}) as point:
        source = Identity({"main": issuer}, point.store, transport=httpx.MockTransport(respond))
        assert source.start(within=PATIENCE) == []
        source.close()
    assert {*requests} == {"https://elsewhere/keys"}


@pytest.mark.parametrize("length", range(20, 40))
def test_the_id_of_a_key_is_read_from_a_header_of_any_length(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed: list[str] = []
    monkeypatch.setattr(identity_module._Keys, "miss", lambda keys: missed.append(keys.name))

    def note(headers: Any) -> list[str]:
        missed.clear()
        source.note_denied({"attributes": {"request": {"http": {"headers": headers}}}})
        return [*missed]

    with from_modules({"p.rego": POLICY}) as point:
        source = Identity({"main": Issuer("https://i")}, point.store)
        kid = "k" * length
        source._keys["main"].kids = frozenset({kid})
        known, other = (encoded(json.dumps({"kid": each}).encode()) for each in (kid, kid + "x"))
        assert note({"authorization": f"Bearer {known}.e30.x"}) == []
        assert note({"authorization": f"Bearer {other}.e30.x"}) == ["main"]
        # For a header without the id of a key nobody is asked.
        large = encoded(json.dumps({"kid": "x", "pad": "y" * (1 << 20)}).encode())
        odd: list[Any] = [{"authorization": f"Bearer {large}.e30.x"}, {"authorization": 1}, {}, []]
        odd += [
            {"authorization": f"Bearer {encoded(text)}.e30.x"}
            for text in (b"[1]", b"1", b'{"kid": []}')
        ]
        assert [note(headers) for headers in (*odd, None)] == [[]] * 8
        source.note_denied(None)
        assert missed == []


def test_a_hundred_keys_are_the_most() -> None:
    keys = [{**RSA, "kid": str(number)} for number in range(101)]
    assert len(read_keys({"keys": keys[:100]})) == 100
    with pytest.raises(IdentityError, match="at most 100 keys"):
        read_keys({"keys": keys})


def test_clients_of_the_api_do_not_write_keys() -> None:
    with from_modules({"p.rego": POLICY}) as point:
        Identity({"main": Issuer("https://i")}, point.store)
        for path in (("identity",), ("identity", "main"), ("identity", "main", "jwks")):
            with pytest.raises(OwnedError, match="is owned by configuration"):
                point.store.put(path, {})
