"""Decision points that always decide the same, and CheckRequests to ask them with."""

from __future__ import annotations

from dataclasses import dataclass, field

from envoy.service.auth.v3 import external_auth_pb2 as auth
from tests.envoy.golden import DECISION_ID

from doorward.pdp.decision import Decision
from doorward.rego.values import UNDEFINED, Undefined, Value


@dataclass
class Fixed:
    """Decides `result` (or fails with `error`), and keeps what it was asked and what was logged."""

    result: Value | Undefined = UNDEFINED
    error: Exception | None = None
    logs_decisions: bool = True
    queries: list[tuple[str, Value | Undefined]] = field(default_factory=list)
    logged: list[tuple[Decision, Value | Undefined]] = field(default_factory=list)

    def decide(
        self, path: str, input: Value | Undefined = UNDEFINED, /, *, is_parsed: bool = False
    ) -> Decision:
        self.queries.append((path, input))
        return Decision(DECISION_ID, path, self.result, self.error)

    def decide_query(
        self, text: str, input: Value | Undefined = UNDEFINED, /, *, is_parsed: bool = False
    ) -> Decision:
        self.queries.append((text, input))
        return Decision(DECISION_ID, "", self.result, self.error, query=text)

    def record(
        self,
        decision: Decision,
        input: Value | Undefined = UNDEFINED,
        /,
        *,
        handler_ns: int | None = None,
        size: int = 0,
    ) -> None:
        assert handler_ns is not None
        self.logged.append((decision, input))


def request(
    path: str = "/people",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: str = "",
    raw_body: bytes = b"",
) -> bytes:
    """A serialized CheckRequest."""
    check = auth.CheckRequest()
    http = check.attributes.request.http
    http.method, http.path, http.body, http.raw_body = method, path, body, raw_body
    http.headers.update(headers or {})
    encoded: bytes = check.SerializeToString(deterministic=True)
    return encoded
