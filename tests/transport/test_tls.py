"""TLS of the HTTP API: versions, suites, clients' certificates, and exchange without a restart."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.transport.certificates import Authority
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.rest.authorization import Access
from doorward.rest.server import HttpServer, Listener, bind
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics
from doorward.transport.tls import TlsContext, TlsError, TlsOptions

POLICY = """package system.authz

default allow := {"allowed": false, "reason": "who?"}

allow := {"allowed": true} if {
	input.identity == "CN=ann,O=Doorward"
	input.client_certificates[0].Subject.CommonName == "ann"
}
"""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def serving(context: TlsContext, access: Access | None = None) -> Iterator[int]:
    pdp = PDP(build(Loaded({"authz.rego": POLICY}, {"x": 1})))
    api = Api(pdp, Config(), Health(), Metrics("1"), access=access)
    listener = bind("https://127.0.0.1:0")
    served = Listener("", listener, api, short_path=api.short_path, tls=context)
    server = HttpServer([served], grace=1.0)
    server.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()
        api.close()


def options(authority: Authority, **more: Any) -> TlsOptions:
    certificate, key = authority.issue("server")
    return TlsOptions(certificate, key, **more)


def client(authority: Authority, **more: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.file))
    for name, value in more.items():
        setattr(context, name, value)
    return context


def get(port: int, context: ssl.SSLContext, path: str = "/v1/data/x") -> tuple[int, str]:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def subject(port: int, context: ssl.SSLContext) -> str:
    """The name that the server shows."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    with raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
        shown: Any = wrapped.getpeercert()
    return str(dict(pair[0] for pair in shown["subject"])["commonName"])


def test_requests_are_answered_over_tls_and_not_without(authority: Authority) -> None:
    with serving(TlsContext.load(options(authority))) as port:
        assert get(port, client(authority)) == (200, '{"result":1}\n')
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        plain.request("GET", "/v1/data/x")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            plain.getresponse()
        plain.close()


def test_a_failed_handshake_waits_for_no_client_that_stays(authority: Authority) -> None:
    with serving(TlsContext.load(options(authority, minimum="1.3"))) as port:
        raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        old = client(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
        hello = old.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            hello.do_handshake()
        raw.sendall(outgoing.read())
        # A fatal alert: protocol_version. Then the time for handshakes ends, and the connection.
        assert raw.recv(100)[-2:] == b"\x02\x46"
        raw.sendall(b"\x00" * 10)
        with contextlib.suppress(ConnectionError):
            assert raw.recv(100) == b""
        raw.close()


def test_an_older_version_is_refused(authority: Authority) -> None:
    with serving(TlsContext.load(options(authority, minimum="1.3"))) as port:
        old = client(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
        with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
            get(port, old)
        assert get(port, client(authority))[0] == 200


def test_other_suites_are_refused(authority: Authority) -> None:
    suites = ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]
    old = client(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    with serving(TlsContext.load(options(authority, cipher_suites=suites))) as port:
        assert get(port, old)[0] == 200
        old.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises(ssl.SSLError, match="ALERT_HANDSHAKE_FAILURE"):
            get(port, old)


def test_a_client_is_who_its_certificate_says(authority: Authority, tmp_path: Path) -> None:
    verified = options(authority, client_ca=str(authority.file), verifies_clients=True)
    access = Access("tls", authorizes=True)
    with serving(TlsContext.load(verified), access) as port:
        answers = {}
        for name in ("ann", "bob"):
            context = client(authority)
            context.load_cert_chain(*authority.issue(name))
            answers[name] = get(port, context)
        stranger = client(authority)
        stranger.load_cert_chain(*Authority(tmp_path, "other").issue("ann", "stranger"))
        # The alert says why, in the version that names it.
        for context, alert in (
            (client(authority), "ALERT_CERTIFICATE_REQUIRED"),
            (stranger, "ALERT_UNKNOWN_CA"),
        ):
            with pytest.raises(ssl.SSLError, match=alert):
                get(port, context)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError, match=r"ALERT_(HANDSHAKE_FAILURE|UNKNOWN_CA)"):
                get(port, context)
    assert answers["ann"] == (200, '{"result":1}\n')
    assert answers["bob"][0] == 401
    assert json.loads(answers["bob"][1])["message"] == "who?"


def test_certificates_are_exchanged_without_a_restart(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    context = TlsContext.load(options(authority, refresh=1e-9))
    with serving(context) as port:
        assert subject(port, client(authority)) == "server"
        authority.issue("newer", "server")
        context.refresh()
        assert subject(port, client(authority)) == "newer"
        Path(context._options.private_key).write_text("nonsense")
        context.refresh()
        assert subject(port, client(authority)) == "newer"
    assert "TLS certificates cannot be used" in caplog.text


def test_files_are_not_looked_at_before_it_is_time(authority: Authority) -> None:
    for refresh in (0.0, 3600.0):
        context = TlsContext.load(options(authority, refresh=refresh))
        newest = context._newest
        authority.issue("newer", "server")
        context.refresh()
        assert context._newest is newest


@pytest.mark.parametrize("missing", ["certificate", "private_key", "client_ca"])
def test_files_that_cannot_be_used_are_named(authority: Authority, missing: str) -> None:
    chosen = options(authority, client_ca=str(authority.file))
    Path(getattr(chosen, missing)).write_text("nonsense")
    path = Path(getattr(chosen, missing))
    with pytest.raises(TlsError) as refused:
        TlsContext.load(chosen)
    named, _, reason = str(refused.value).partition(": ")
    assert str(path) in named.split(" and ")
    assert reason in (
        "not a certificate and its private key, both in PEM",
        "no certificate or crl found",
    )
    path.unlink()
    with pytest.raises(TlsError, match=rf"^{re.escape(str(path))}: no such file or directory$"):
        TlsContext.load(chosen)
