"""How often what caches keep could be used again, as pages and metrics show it."""

from __future__ import annotations

import re
from typing import Any

from doorward.bundles.loader import Loaded
from doorward.pdp.pdp import PDP
from doorward.pdp.residuals import residual_of_rows
from doorward.pdp.snapshot import Settings, build
from doorward.rego import Engine, Environment
from doorward.rego.shared import (
    CacheCounts,
    HTTPRequest,
    HTTPResponse,
    ResponseCache,
    VerifiedTokens,
)
from doorward.telemetry.metrics import Metrics

POLICY = """package app

claims := payload if {
	[is_valid, _, payload] := io.jwt.decode_verify(input.token, {"secret": "s3cret"})
	is_valid
}

fetched := http.send({
	"method": "GET", "url": "http://peer/", "force_cache": true, "force_cache_duration_seconds": 60,
}).status_code

matches if regex.match(input.pattern, "abc")

globs if glob.match(input.glob, [], "abc")

allow if input.row.owner == input.user
"""


class Sender:
    """Answers every request with the same."""

    def send(self, request: HTTPRequest, deadline: float | None) -> HTTPResponse:
        return HTTPResponse(200, "200 OK", (), b"{}")


def decision_point() -> PDP:
    environment = Environment(
        tokens=VerifiedTokens(), responses=ResponseCache(), http=Sender(), clock=lambda: 10**18
    )
    return PDP(build(Loaded({"p.rego": POLICY}), Settings(environment=environment)))


def token(subject: str) -> str:
    key = {"kty": "oct", "k": "czNjcmV0"}
    query = Engine().prepare('io.jwt.encode_sign({"alg": "HS256"}, {"sub": input.sub}, input.key)')
    return str(query.value({"sub": subject, "key": key}))


def change(before: dict[str, CacheCounts], pdp: PDP, name: str) -> tuple[int, int]:
    """How many hits and misses there were since."""
    now = pdp.snapshot.cache_counts()[name]
    was = before.get(name, CacheCounts(0, 0, 0))
    return (now.hits or 0) - (was.hits or 0), now.misses - was.misses


def test_what_is_used_again_is_a_hit() -> None:
    pdp = decision_point()
    before = pdp.snapshot.cache_counts()
    ann = token("ann")
    uses: list[tuple[str, str, Any]] = [
        ("tokens", "claims", {"token": ann}),
        ("http.send", "fetched", {}),
        ("regex", "matches", {"pattern": f"^{ann[-9:-1]}|abc$"}),
        ("glob", "globs", {"glob": f"*{{{ann[-9:-1]},c}}"}),
    ]
    for name, path, input in uses:
        for _ in range(4):
            assert pdp.decide(f"app/{path}", input).error is None
        assert change(before, pdp, name) == (3, 1), name
    pdp.decide("app/claims", {"token": token("bob")})
    assert change(before, pdp, "tokens") == (3, 2)
    assert pdp.snapshot.cache_counts()["tokens"].entries == 2


def test_queries_and_filters_count_for_the_policies_in_force() -> None:
    pdp = decision_point()
    for _ in range(3):
        pdp.decide("app/allow", {})
        rows(pdp, "ann")
    rows(pdp, "bob")
    counts = pdp.snapshot.cache_counts()
    assert counts["queries"].misses == counts["queries"].entries == 1
    assert counts["queries"].hits == 2
    pdp.decide("app/nowhere", {})  # nothing is prepared where no rule is
    pdp.decide("app/allow", {})
    assert pdp.snapshot.cache_counts()["queries"] == CacheCounts(1, 3, 1)
    assert counts["filters"] == CacheCounts(2, 2, 2)


def rows(pdp: PDP, user: str) -> None:
    residual_of_rows(pdp.snapshot, pdp.build_gate, "app/allow", ["input.row"], {"user": user})


def test_metrics_hold_what_never_falls() -> None:
    pdp, metrics = decision_point(), Metrics("1")
    metrics.watch_caches(lambda: pdp.snapshot.engine.cache_counts())
    for _ in range(3):
        pdp.decide("app/fetched", {})
    text = metrics.render().decode()
    assert 'cache_hits_total{cache="http.send"} 2.0' in text
    assert 'cache_misses_total{cache="http.send"} 1.0' in text
    assert 'cache_entries{cache="http.send"} 1.0' in text
    assert set(re.findall(r'cache_misses_total\{cache="(.*?)"\}', text)) == set(
        pdp.snapshot.engine.cache_counts()
    )


def test_a_cache_of_somebody_else_need_not_count() -> None:
    class Kept(dict[Any, Any]):
        """Keeps everything."""

        def put(self, key: Any, value: Any) -> None:
            self[key] = value

    engine = Engine({"p.rego": POLICY}, environment=Environment(tokens=Kept()))
    assert "tokens" not in engine.cache_counts()
