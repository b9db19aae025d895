"""A body is read once: the system policy, the decision, the log and its masks see one value.

Each shape of a body goes to each endpoint twice: once the system policy tells the value that it
sees, and once it lets the request through. With the system policy, names of fields count as they
are written; without it, as Go's decoder takes them.
"""

from __future__ import annotations

import gzip
import itertools
import json
from functools import cache, partial
from typing import Any, Final

import pytest
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, parse_config
from doorward.decision_log.log import DecisionLog
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Snapshot, build
from doorward.rego import Undefined
from doorward.rego.shared import parse_number
from doorward.rest.app import Api
from doorward.rest.authorization import Access
from doorward.telemetry.health import Health
from doorward.telemetry.log import line_for
from doorward.telemetry.metrics import Metrics

NOTHING: Final = "nothing"
POLICIES: Final = {
    "authz.rego": """package system.authz

allow := {"allowed": false, "reason": json.marshal(seen)} if input.headers["X-Show"]
else := true

default seen := "nothing"

seen := {"body": input.body}
""",
    "log.rego": """package system.log

mask contains {"op": "upsert", "path": "/input", "value": {"masks see": input.input}}
""",
    "p.rego": 'package p\n\ndefault seen := "nothing"\n\nseen := {"input": input}\n',
    "main.rego": "package system\n\nmain := data.p.seen\n",
}
SHAPES: Final[list[bytes]] = [
    b"",
    b" ",
    b"\n\t ",
    b"null",
    b"true",
    b"1",
    b'"input"',
    b"[]",
    b'[{"input": 1}]',
    b"{}",
    b'{"input": null}',
    b'{"input": {"user": "bob"}, "INPUT": {"user": "root"}}',
    b'{"INPUT": {"user": "root"}, "input": {"user": "bob"}}',
    b'{"INPUT": {"user": "root"}}',
    b'{"Input": 1, "iNPUT": 2, "input": 3, "INPUT": 4, "Input": 5}',
    b'{"input": 1, "INPUT": 2, "input": 3}',
    b'{"input": null, "INPUT": {"user": "root"}}',
    b'{"input": {"user": "bob"}, "INPUT": null}',
    b'{"input": 1, "input": 2}',
    b'{"input": {"a": 1}, "input": {"b": 2}}',
    b'{"input": {"a": 1, "a": 2}}',
    b'{"input": {"a": 1, "A": 2}}',
    b'{"\\u0069nput": 1}',
    b'{"\\u0049NPUT": 1, "input": 2}',
    '{"\u0131nput": 1, "input": 2}'.encode(),
    '{"\u0130NPUT": 1}'.encode(),
    b'{" input": 1, "input ": 2}',
    b'{"inputs": 1, "inpu": 2}',
    b'{"input": 1} ',
    b'{"input": 1}\n\n',
    b'{"input": 1} {"input": 2}',
    b'{"input": 1} garbage',
    b'{"input": 1}}',
    b'{"input": 1} null',
    b'{"input": 1}\x00',
    b'{"input": 1',
    b'{"input": ',
    b"{",
    b'{"input": 01}',
    b"{'input': 1}",
    b"input: 1",
    b"input: {user: bob}\nINPUT: {user: root}\n",
    b"INPUT: {user: root}\n",
    b"? input\n: 1\n",
    b"input: &a [1]\nother: *a\n",
    b"input: !!str 1\n",
    b"---\ninput: 1\n---\ninput: 2\n",
    b"<<: {input: 1}\n",
    b"- input: 1\n",
    b'\xef\xbb\xbf{"input": 1}',
    '{"input": 1}'.encode("utf-16"),
    b'{"input": "\xff"}',
    b'{"inp\xffut": 1, "input": 2}',
    b'{"input": "\\ud800"}',
    b'{"input": "\\u0000"}',
    b'{"input": 1e400}',
    b'{"input": 1.0}',
    b'{"input": 123456789012345678901234567890}',
    b'{"input": -0}',
    b'{"input": []}',
    b'{"input": {}}',
    b'{"input": ""}',
    b'{"input": false}',
    b'{"input": {"input": {"input": 1}}}',
    b'{"body": {"input": 1}}',
    b'{"input": {"body": {"input": 1}}}',
    b'{"input": ' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"inputs": {"a": {"user": "bob"}}, "INPUTS": {"a": {"user": "root"}}}',
    b'{"inputs": {"a": 1, "b": 2}, "common_input": {"c": 1}, "Common_Input": {"c": 2}}',
    b'{"subject": {"type": "user", "id": "bob"}, "action": {"name": "read"}, '
    b'"resource": {"type": "file", "id": "x"}, "Subject": {"type": "user", "id": "root"}}',
    b'{"subject": {"type": "user", "id": "bob"}, "subject": {"type": "user", "id": "root"}, '
    b'"action": {"name": "read"}, "resource": {"type": "file", "id": "x"}}',
]
KINDS: Final = {
    "json": {"content-type": "application/json"},
    "none": {},
    "yaml": {"content-type": "application/x-yaml"},
    "json-yaml": {"content-type": "application/json; a=yaml"},
    "gzip": {"content-type": "application/json", "content-encoding": "gzip"},
    "gzip-yaml": {"content-type": "text/yaml", "content-encoding": "x, gzip"},
}
V1: Final = ("/v1/data/p/seen", "/v1/data/p/seen?input=%7B%22user%22%3A%22root%22%7D")
V0: Final = ("/v0/data/p/seen", "/")


loads: Final = partial(json.loads, parse_float=parse_number, parse_int=parse_number)


class Sink:
    """What was answered, and what the decision log wrote of it."""

    def __init__(self, config: Config) -> None:
        self.answered: list[Answered] = []
        self.lines: list[bytes] = []
        self.log = DecisionLog(
            self.lines.append, line_for("json"), labels={}, options=config.decision_logs
        )

    def record(self, answered: Answered) -> None:
        self.answered.append(answered)
        self.log.record(answered)

    def close(self) -> None:
        self.log.close()

    def inputs(self) -> list[Any]:
        """The inputs that were logged, decisions of the system policy apart."""
        return [NOTHING if isinstance(e.input, Undefined) else e.input for e in self.answered]

    def masked(self) -> list[Any]:
        """The inputs that masks saw."""
        self.close()
        events = [loads(line) for line in b"".join(self.lines).splitlines()]
        return [event.get("input", {}).get("masks see", NOTHING) for event in events]


@cache
def snapshot() -> Snapshot:
    return build(Loaded(POLICIES))


def api(*, authorizes: bool) -> tuple[Api, Sink]:
    config = parse_config("decision_logs: {console: true, mask_credentials: false}", environment={})
    sink = Sink(config)
    pdp = PDP(snapshot(), sink)
    access = Access(authorizes=authorizes)
    return Api(pdp, config, Health(), Metrics("1"), access=access), sink


def post(app: Api, target: str, shape: bytes, kind: str, *, shows: bool = False) -> Answer:
    headers = dict(KINDS[kind])
    if "content-encoding" in headers:
        shape = gzip.compress(shape)
    return ask(app, "POST", target, shape, headers | ({"x-show": "1"} if shows else {}))


def view_of_authorization(target: str, shape: bytes, kind: str) -> tuple[int, Any]:
    """The status, and the body that the system policy sees."""
    app, sink = api(authorizes=True)
    answer = post(app, target, shape, kind, shows=True)
    sink.close()
    if answer.status != 401:
        return answer.status, None
    seen = loads(json.loads(answer.body)["message"])
    return 401, seen if seen == NOTHING else seen["body"]


def input_of(body: Any, target: str) -> Any:
    """The input in a body, as OPA reads it behind its system policy."""
    if target in V0:
        return body
    return body["input"] if isinstance(body, dict) and "input" in body else NOTHING


CASES: Final = [
    *itertools.product(SHAPES, ("json", "yaml", "gzip"), (V1[0], V0[0])),
    *itertools.product(SHAPES[::4], ("none", "json-yaml", "gzip-yaml"), (V1[1], V0[1])),
]


@pytest.mark.long
@pytest.mark.parametrize("target", [*V1, *V0])
def test_authorization_decision_log_and_masks_see_one_value(target: str) -> None:
    shapes = [(shape, kind) for shape, kind, where in CASES if where == target]
    assert len(CASES) > 200
    for shape, kind in shapes:
        status, body = view_of_authorization(target, shape, kind)
        app, sink = api(authorizes=True)
        answer = post(app, target, shape, kind)
        if status != 401:  # what cannot be read reaches neither policy
            assert (status, answer.status, sink.inputs()) == (400, 400, []), shape
            assert json.loads(answer.body)["code"] == "invalid_parameter"
            sink.close()
            continue
        expected = input_of(body, target)
        result = loads(answer.body)
        assert answer.status == 200, (shape, answer.body)
        seen = result if target in V0 else result["result"]
        logged = None if target in V0 and expected == NOTHING else expected
        assert (seen if seen == NOTHING else seen["input"]) == expected, shape
        assert sink.inputs() == [logged], shape
        assert sink.masked() == [logged], shape
        if target not in V0:
            assert ("warning" in result) is (expected == NOTHING), shape


@pytest.mark.parametrize("kind", ["json", "yaml", "gzip"])
def test_the_items_of_a_batch_are_those_that_authorization_sees(kind: str) -> None:
    target = "/v1/batch/data/p/seen"
    for shape in SHAPES:
        status, body = view_of_authorization(target, shape, kind)
        app, sink = api(authorizes=True)
        answer = post(app, target, shape, kind)
        inputs = body.get("inputs") if isinstance(body, dict) else None
        if status != 401 or not isinstance(inputs, dict | None):
            assert (answer.status, sink.inputs()) == (400, []), shape
        else:
            common = body.get("common_input") if isinstance(body, dict) else None
            expected = {
                key: common | each if isinstance(common, dict) and isinstance(each, dict) else each
                for key, each in (inputs or {}).items()
            }
            responses = loads(answer.body).get("responses", {})
            seen = {key: each["result"]["input"] for key, each in responses.items()}
            assert seen == expected, shape
            assert sink.inputs() == sink.masked() == list(expected.values())
        sink.close()


@pytest.mark.long
def test_an_evaluation_of_authzen_is_that_which_authorization_sees() -> None:
    target = "/access/v1/evaluation"
    evaluated = 0
    for shape, kind in itertools.product(SHAPES, ("json", "json-yaml", "gzip")):
        status, body = view_of_authorization(target, shape, kind)
        app, sink = api(authorizes=True)
        answer = post(app, target, shape, kind)
        if sink.answered:
            assert status == 401
            (input,) = sink.inputs()
            assert {name: body[name] for name in input} == input
            assert sink.masked() == [input]
            evaluated += 1
        else:
            assert answer.status == 400, shape
        sink.close()
    assert evaluated == 6


@pytest.mark.parametrize("target", ["/v1/query", "/v1/compile", "/v1/compile/p/seen"])
def test_other_bodies_are_not_shown_to_the_system_policy(target: str) -> None:
    """As in OPA, which shows it the bodies of the Data API alone."""
    body = b'{"query": "x := input", "input": {"user": "bob"}, "INPUT": {"user": "root"}}'
    assert view_of_authorization(target, body, "json") == (401, NOTHING)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "GET", "HEAD"])
@pytest.mark.parametrize("target", [V1[0], V0[0], "/", "/v1/batch/data/p", "/v1/policies/x"])
def test_bodies_of_other_methods_are_not_shown_to_the_system_policy(
    method: str, target: str
) -> None:
    app, sink = api(authorizes=True)
    answer = ask(app, method, target, b'{"input": 1}', {"x-show": "1"})
    sink.close()
    assert answer.status == 401
    if method != "HEAD":
        assert json.loads(json.loads(answer.body)["message"]) == NOTHING


def test_the_body_of_a_post_is_shown_to_the_system_policy() -> None:
    for target in (V1[0], V0[0], "/", "/v1/batch/data/p", "/access/v1/evaluation"):
        assert view_of_authorization(target, b'{"input": 1}', "json") == (401, {"input": 1})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"input": {"user": "bob"}, "INPUT": {"user": "root"}}', {"user": "bob"}),
        (b'{"INPUT": {"user": "root"}, "input": {"user": "bob"}}', {"user": "bob"}),
        (b'{"INPUT": {"user": "root"}}', NOTHING),
        (b'{"input": null}', None),
        (b"[1]", NOTHING),
        (b"", NOTHING),
    ],
)
def test_behind_the_system_policy_names_count_as_they_are_written(
    body: bytes, expected: object
) -> None:
    app, sink = api(authorizes=True)
    answer = json.loads(post(app, V1[0], body, "json").body)
    sink.close()
    assert answer["result"] == (NOTHING if expected == NOTHING else {"input": expected})
    assert ("warning" in answer) is (expected == NOTHING)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"input": 1, "INPUT": 2}', 2),
        (b'{"INPUT": 2, "input": 1}', 1),
        (b'{"input": 1, "INPUT": 2, "input": 3}', 3),
        (b'{"INPUT": 2, "\\u0069nput": 1}', 1),
        (b'{"input": 1, "INPUT": null}', NOTHING),
        (b'{"input": null}', NOTHING),
    ],
)
def test_without_a_system_policy_the_last_field_in_any_case_counts(
    body: bytes, expected: object
) -> None:
    app, sink = api(authorizes=False)
    answer = json.loads(post(app, V1[0], body, "json").body)
    assert answer["result"] == (NOTHING if expected == NOTHING else {"input": expected})
    assert sink.inputs() == sink.masked() == [expected]
