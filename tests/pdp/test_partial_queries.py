"""A filter is parsed and prepared once for all callers, as long as the snapshot is active."""

from __future__ import annotations

import pytest

from doorward.bundles.loader import Loaded
from doorward.pdp import residuals
from doorward.pdp.partial_queries import LONGEST, MOST, PartialQueries
from doorward.pdp.pdp import PDP
from doorward.pdp.residuals import residual
from doorward.pdp.snapshot import build
from doorward.rego import CompileError, Engine, PartialOptions
from doorward.rego.tools import Body

POLICY = """package app

allow if {
	input.row.owner == input.user
	input.row.team in data.teams
}
"""
QUERY = "data.app.allow"


@pytest.fixture
def pdp() -> PDP:
    return PDP(build(Loaded({"p.rego": POLICY}, {"teams": ["red"]})))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that were parsed."""
    queries: list[str] = []
    parse = residuals.parse_client_query

    def noted(text: str, *, v0: bool) -> Body:
        queries.append(text)
        return parse(text, v0=v0)

    monkeypatch.setattr(residuals, "parse_client_query", noted)
    return queries


def ask(pdp: PDP, user: str, query: str = QUERY) -> tuple[str, ...]:
    left = residual(pdp.snapshot, pdp.build_gate, query, ["input.row"], {"user": user})
    return left.query_texts


def test_a_query_is_parsed_once_for_all_inputs(pdp: PDP, parsed: list[str]) -> None:
    assert ask(pdp, "ann") == (
        '"ann" = input.row.owner; internal.member_2(input.row.team, ["red"])',
    )
    assert ask(pdp, "bob") == (
        '"bob" = input.row.owner; internal.member_2(input.row.team, ["red"])',
    )
    assert parsed == [QUERY]


def test_other_data_is_read(pdp: PDP) -> None:
    ask(pdp, "ann")
    pdp.replace(pdp.snapshot.with_data({"teams": ["blue"]}, "r2"))
    assert ask(pdp, "ann") == (
        '"ann" = input.row.owner; internal.member_2(input.row.team, ["blue"])',
    )


def test_what_clients_may_not_call_is_refused_each_time(pdp: PDP) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="unsafe built-in"):
            ask(pdp, "ann", 'http.send({"url": "http://127.0.0.1", "method": "get"})')


def test_long_queries_are_not_kept_and_the_cache_is_bounded() -> None:
    engine, options = Engine({"p.rego": POLICY}), PartialOptions()
    prepared, kept = engine.prepare_partial(QUERY), PartialQueries()
    long = QUERY + " " * LONGEST, (), options
    kept.keep(long, prepared)
    assert kept.get(long) is None
    for n in range(MOST + 1):
        kept.keep((QUERY, (f"input.x{n}",), options), prepared)
    assert kept.get((QUERY, ("input.x0",), options)) is None
    assert kept.get((QUERY, (f"input.x{MOST}",), options)) is prepared
