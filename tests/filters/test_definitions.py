"""Filters of documents with other values than true: a row is listed where it is allowed."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Final

import pytest
from tests.rest.asgi import Answer, ask

from doorward.config.configuration import Config
from doorward.filters import Conditions, FilterError, to_conditions, to_sql
from doorward.pdp import DecisionPoint, from_modules
from doorward.pdp.residuals import residual_of_rows
from doorward.rego import Engine, EvalError
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

COLUMNS: Final[Any] = {"doc": {"ok": "boolean", "a": "number", "s": "text"}}
ROWS: Final = [
    {"ok": ok, "a": a, "s": s}
    for ok in (True, False, None)
    for a in (0, 1, 2, None)
    for s in ("x", "y", None)
]


def conditions_of(point: DecisionPoint, known: Any, path: str = "f/allow") -> Conditions:
    left = residual_of_rows(point.snapshot, point.pdp.build_gate, path, ["input.doc"], known)
    return to_conditions(left)


def conditions(text: str, known: Any, path: str = "f/allow") -> Conditions:
    with from_modules({"f.rego": f"package f\n\n{text}\n"}) as point:
        return conditions_of(point, known, path)


def listed(text: str, nulls: Any, known: Any, path: str = "f/allow") -> list[int]:
    clause = to_sql(conditions(text, known, path), COLUMNS, "sqlite", nulls=nulls)
    connection = sqlite3.connect(":memory:")
    connection.execute("create table doc (id integer, ok boolean, a integer, s text)")
    rows = [(number, *row.values()) for number, row in enumerate(ROWS)]
    connection.executemany("insert into doc values (?, ?, ?, ?)", rows)
    selected = connection.execute(f"select id from doc where {clause.text}", clause.parameters)
    numbers = sorted(number for (number,) in selected)
    connection.close()
    return numbers


def allowed(text: str, nulls: str, known: Any, path: str = "f/allow") -> list[int]:
    return allowed_rows(text, nulls, known, ROWS, path)


def allowed_rows(
    text: str, nulls: str, known: Any, rows: list[dict[str, Any]], path: str = "f/allow"
) -> list[int]:
    with from_modules({"f.rego": f"package f\n\n{text}\n"}) as point:
        numbers = []
        for number, row in enumerate(rows):
            fields = {k: v for k, v in row.items() if v is not None or nulls == "null"}
            if point.decide_now(path, {**known, "doc": fields}).allowed:
                numbers.append(number)
        return numbers


A = "input.doc.a == 1"
B = 'input.doc.s == "x"'
OK = "input.doc.ok == true"


@pytest.mark.parametrize("nulls", ["null", "undefined"])
@pytest.mark.parametrize("user", ["ann", "bob"])
@pytest.mark.parametrize(
    "text",
    [
        'allow := {"allowed": false, "body": "suspended"} if input.user == "ann"',
        f'allow := "deny" if {A}',
        f"allow := 0 if {A}",
        f"allow := null if {A}",
        f"allow := [] if {A}\n\nallow if {B}",
        "allow := input.doc.ok",
        "allow := input.doc.a",
        f"allow := input.doc.ok if {A}\n\nallow if {B}",
        f"allow := true if {A}\n\nallow := false if {B}",
        f'allow := {{"allowed": true}} if {A}\n\nallow if {B}',
        f'allow := {{"allowed": true, "level": 3}} if {A}',
        f'allow := {{"allowed": true, "headers": 5}} if {A}',
        f'allow := {{"allowed": "yes"}} if {A}',
        f'allow := {{"allowed": input.doc.ok, "body": "x"}} if {A}',
        "allow := input.doc.a == 1",
        "allow := input.doc.a != 1",
        "allow := input.doc.a < 1",
        'allow := startswith(input.doc.s, "x")',
        "allow := input.doc.a in [1, 2]",
        f"allow := input.doc.a < 2\n\nallow := false if {B}",
        "default shown := false\n\nallow := shown\n\nshown if input.doc.a == 1",
        f"default allow := true\n\nallow := false if {A}",
        f'default allow := {{"allowed": true}}\n\nallow := false if {A}\n\nallow if {B}',
        f'default allow := {{"allowed": false}}\n\nallow if {A}',
        f"allow := true if {A} else := false if {B} else := true if {OK}",
        f"allow := false if {A} else := true if {B}",
        f"allow := false if {A} else := true if {B}\n\nallow := true if {OK}",
        f"default allow := true\n\nallow := false if {A} else := input.doc.ok if {B}",
        f"allow := level if {A}\n\nlevel := true if {B}\n\nlevel := 3 if not {B}",
        f'kind := "a" if {A}\n\nkind := "b" if input.doc.a == 2\n\nallow if not kind == "a"',
        "big if input.doc.a > 1\n\nallow := true if big\n\nallow := false if not big",
        "allow if level(input.doc.a) == 2\n\nlevel(x) := 2 if x > 1\n\nlevel(x) := 1 if x <= 1",
        f"default hidden := true\n\nallow if not hidden\n\nhidden := false if {A}",
        f"default level := 0\n\nallow if level < 1\n\nlevel := 2 if {A}\n\nlevel := 2 if {B}",
        f'default kind := "x"\n\nallow if not kind != "x"\n\nkind := null if {A}',
        f"default level := 3\n\nallow if 2 <= level\n\nlevel := 1 if not {A}",
        f"default kind := null\n\nallow if kind\n\nkind := false if {OK}",
        f'allow if names.k == 1\n\nnames["k"] := 1 if {A}\n\nnames["l"] := 2 if {B}',
        f"allow if level == 2\n\nlevel := 1 if {A} else := 2 if {B} else := 2 if {OK}",
        f"allow if level == 3\n\nlevel := 1 if {A} else := 2 if {B} else := 3",
        f"allow if level\n\nlevel := false if {{\n\t{A}\n\t{OK}\n}} else := true if {B}",
        f"allow if not level\n\nlevel := false if {{\n\t{A}\n\t{OK}\n}} else := true if {B}",
        f"allow if level == 1\n\nlevel := input.doc.a if {OK} else := 1",
        f"default level := 2\n\nallow if level == 2\n\nlevel := 1 if {A} else := 2 if {B}",
        f"default level := 2\n\nallow if level > 2\n\nlevel := 1 if {A}\n\nlevel := 3 if not {A}",
        f"allow if level.of == 2\n\nlevel.of := 1 if {A} else := 2 if {B}",
        f"allow if level == 2\n\nlevel := 1 if {A} else := 2 if {B}\n\nlevel := 2 if not {A}",
        "allow if f(input.doc.a) == 2\n\nf(x) := 1 if {\n\tx > 0\n\tx < 2\n} else := 2 if x == 2",
        "allow if f(input.doc.a)\n\nf(x) := false if {\n\tx > 1\n\tx < 3\n} else if x < 3",
        "allow if not f(input.doc.a)\n\nf(x) := false if x == 1 else if x < 3 else := false",
        "allow if f(input.doc.a, input.doc.s) == 2\n\n"
        'f(1, s) := 1 if s == "x" else := 2\n\nf(2, s) := 1 if s == "x" else := 2 if s == "y"',
        'limit := 1 if input.user == "ann"\n\nlimit := 2 if input.user == "bob"\n\n'
        "allow if input.doc.a == limit",
    ],
)
def test_a_row_is_listed_where_it_is_allowed(text: str, user: str, nulls: str) -> None:
    known = {"user": user}
    assert listed(text, nulls, known) == allowed(text, nulls, known)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"allow if level == 1\n\nlevel := 1 if {A}\n\nlevel := 2 if {B}",
            r"the rules of data\.f\.level may .*: f\.rego:5 and f\.rego:7",
        ),
        (
            f"allow if not hidden\n\nhidden if {A}\n\nhidden := false if {B}",
            r"data\.f\.hidden may .*: f\.rego:5 and f\.rego:7",
        ),
        (
            "allow if level(input.doc.a) == 1\n\nlevel(x) := 1 if x > 0\n\nlevel(x) := 2 if x > 1",
            r"data\.f\.level may .*: f\.rego:5 and f\.rego:7",
        ),
        (
            f"allow if names.k == 1\n\nnames.k := 1 if {A}\n\nnames[input.key] := 2 if {B}",
            r"data\.f\.names.* may .*: f\.rego:5 and f\.rego:7",
        ),
        (
            "allow if level == 1\n\nlevel := x if {\n\tsome x in [1, 2]\n\tinput.doc.a >= x\n}",
            r"data\.f\.level may .*: f\.rego:5",
        ),
        (
            f"allow if level == 1\n\nlevel := 1 if {A} else := 2 if {B}\n\nlevel := 2 if {OK}",
            r"data\.f\.level may .*: f\.rego:5 and f\.rego:7",
        ),
        (
            f'allow := {{"allowed": true, "owner": input.doc.s}} if {A}',
            "neither a column nor known",
        ),
        (f"allow := [input.doc.ok] if {A}", "neither a column nor known"),
        ("allow := x if [x] = input.doc", "neither a column nor known"),
    ],
)
def test_rules_that_may_contradict_each_other_are_named(text: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        conditions(text, {"user": "ann", "key": "k"})


def test_many_rules_that_exclude_each_other_are_compared_in_little_time() -> None:
    rules = [f'level := {n} if input.doc.s == "{n}"' for n in range(500)]
    filtered = conditions("\n\n".join(["allow if level == 3", *rules]), {})
    assert len(filtered) == 1


def test_a_document_with_too_many_values_is_refused() -> None:
    rules = [f"allow := input.doc.ok if input.doc.a > {n}" for n in range(110)]
    with pytest.raises(FilterError, match="too many rules"):
        conditions("\n\n".join(rules), {})


def test_a_call_whose_result_is_a_value_is_refused_with_what_to_write() -> None:
    with pytest.raises(FilterError, match="its result cannot be used as a value") as raised:
        conditions('allow if { x := startswith(input.doc.s, "x"); x == false }', {})
    assert "write the call as a condition of its own" in str(raised.value)


def test_a_residual_that_does_not_ask_for_truth_is_refused() -> None:
    left = Engine({"f.rego": f"package f\n\nallow if {A}\n"}).partial("data.f.allow", ["input.doc"])
    with pytest.raises(FilterError, match="only_truth"):
        to_conditions(left)


@pytest.mark.parametrize("kinds", [2, 3])
def test_items_that_give_different_values_are_a_conflict(kinds: int) -> None:
    """A row with two of the tags has two roles, which a decision refuses; it must not be listed."""
    pairs = [["a", "reader"], ["b", "banned"], ["c", "guest"]][:kinds]
    text = f"""
        role := pair[1] if {{
            some tag in input.doc.tags
            some pair in {json.dumps(pairs)}
            tag == pair[0]
        }}

        allow if role == "reader"
    """
    with pytest.raises(FilterError, match="different values at once"):
        conditions(text, {})


def _answer(text: str) -> Answer:
    with from_modules({"f.rego": f"package f\n\n{text}\n"}) as point:
        app = Api(point.pdp, Config(), Health(), Metrics("1"))
        return ask(
            app,
            "POST",
            "/v1/compile/f/allow",
            b'{"input": {"user": "ann"}, "unknowns": ["input.doc"]}',
            {"accept": "application/vnd.opa.sql.postgresql+json"},
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('allow := "deny"', "not a boolean"),
        (f"allow := null if {A}", "not a boolean"),
        (f'allow := {{"allowed": true}} if {A}', "not a boolean"),
        ('default allow := {"allowed": true}\n\nallow if false', "not a boolean"),
        (f"allow := true if {A}\n\nallow := false if {B}", "different values at once"),
        # Between the two that contradict each other stands another.
        (
            f"allow := true if {B}\n\nallow := true if {A}\n\nallow := false if not {A}",
            "different values at once",
        ),
        (f"allow if level == 1\n\nlevel := 1 if {A}\n\nlevel := 2 if {B}", "different values"),
    ],
)
def test_the_http_interface_refuses_what_its_text_cannot_say(text: str, message: str) -> None:
    answer = _answer(text)
    assert answer.status == 400
    assert message in answer.body


def test_the_http_interface_says_rules_that_exclude_each_other() -> None:
    answer = _answer(f"allow := true if {A}\n\nallow := false if not {A}")
    assert (answer.status, '"WHERE doc.a = 1"' in answer.body) == (200, True)


SECRET: Final = "hs256-secret"
TOKEN: Final = "eyJhbGciOiJIUzI1NiJ9.e30.XX"


@pytest.mark.parametrize(
    "body",
    [
        "io.jwt.verify_hs256(concat(input.doc.s, [input.token]), data.secret)",
        "count(input.doc.s) > input.number",
        "startswith(input.token, input.doc.s)",
        "input.doc.s in [[input.token]]",
        "input.doc.when == input.token",
        "not input.doc.when < input.number",
        'walk(input.doc.s, [["a"], input.token])',
        "input.doc[input.token] == 1",
        "some x in input.doc.list\n\tx[0] == input.token",
        "every x in input.known { x == input.doc.list[_] }",
    ],
)
@pytest.mark.parametrize("way", ["python", "http"])
def test_errors_show_no_values_of_the_input_and_of_data(body: str, way: str) -> None:
    text = f"package f\n\nallow if {{\n\t{body}\n}}\n"
    known = {"token": TOKEN, "number": 987654321, "known": [TOKEN]}
    with from_modules({"f.rego": text}, {"secret": SECRET}) as point:
        if way == "http":
            app = Api(point.pdp, Config(), Health(), Metrics("1"))
            request = {"input": known, "unknowns": ["input.doc"]}
            answer = ask(
                app,
                "POST",
                "/v1/compile/f/allow",
                json.dumps(request).encode(),
                {"accept": "application/vnd.opa.sql.sqlite+json"},
            )
            shown = "" if answer.status == 200 else str(answer.body)
        else:
            with pytest.raises(FilterError) as raised:
                to_sql(conditions_of(point, known), COLUMNS, "sqlite")
            shown = f"{raised.value} {raised.value.render()}"
    assert not [secret for secret in (SECRET, TOKEN, "987654321") if secret in shown]


def test_a_with_of_a_column_is_not_left_out() -> None:
    # Where the column is NULL and a missing key, the expression is undefined.
    policy = "allow if w = 1 with input.x as input.doc.s"
    with pytest.raises(FilterError, match="with"):
        listed(policy, "undefined", {})
    assert listed("allow if input.doc.s == `x` with input.x as 1", "null", {}) == [
        number for number, row in enumerate(ROWS) if row["s"] == "x"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "allow if input == 2",
        "allow if {\n\tinput.doc.a == 1\n\tinput == 2\n}",
        "q if input == 2\n\nallow := q if 0",
        "q := input\n\nallow if q == 2",
        "f(x) if x == 2\n\nallow if f(input)",
        "allow := input if input.doc.a == 1",
        'allow := {"allowed": input} if input.doc.a == 1',
        "allow if [input] == [2]",
        "allow if input in [1, 2]",
        "allow if every x in [1] { input == x }",
        "allow if input.doc.parts[input].a == 1",
        "s contains input if input.doc.a == 1\n\nallow if 2 in s",
    ],
)
def test_no_equation_binds_the_whole_input(text: str) -> None:
    with pytest.raises(FilterError):
        conditions(text, {"k": 1})


@pytest.mark.parametrize("nulls", ["null", "undefined"])
@pytest.mark.parametrize(
    "text",
    [
        "allow := lower(input.doc.s)",
        "allow := trim(input.doc.s, `x`)",
        "allow := object.get(input.doc, `s`, `none`)",
        "allow := object.get(input.doc, `a`, true)",
        "allow := object.get(input.doc, `ok`, false)",
        "allow := object.get(input.doc, `ok`, true)",
        "allow := {`allowed`: object.get(input.doc, `a`, 0)}",
        "allow := startswith(input.doc.s, `x`)",
        "allow := q\n\ndefault q := null\n\nq if input.doc.a == 1",
        "allow := q\n\ndefault q := `x`\n\nq := false if input.doc.a == 1",
        "allow := q\n\ndefault q := 3\n\nq if input.doc.ok == true",
        "allow := q\n\ndefault q := true\n\nq := 0 if input.doc.a == 1",
        "allow := q\n\nq if input.doc.a == 1",
        "allow := {`allowed`: q}\n\ndefault q := null\n\nq if input.doc.a == 1",
        "allow if q\n\ndefault q := null\n\nq if input.doc.a == 1",
    ],
)
def test_only_true_allows_and_not_what_holds_as_a_statement(text: str, nulls: str) -> None:
    assert listed(text, nulls, {"k": 1}) == allowed(text, nulls, {"k": 1})


@pytest.mark.parametrize(
    "unevaluated",
    [
        "every x in [1] { f(x) }",
        "{1 | f(1)}",
        "[y | y := g(1)] != []",
        "every x in [1] { g(x) }",
        "not {1 | f(1)} == set()",
    ],
)
def test_rules_in_bodies_that_stay_as_they_are_may_conflict(unevaluated: str) -> None:
    """Also where an expression behind them does not hold: a decision fails before it."""
    policy = f"""package f

f(x) := true if x == 1

f(x) := false if input.doc.b == x

g(_) := y if some y in input.doc.l

r := input.doc.l[_]

include if {{
	{unevaluated}
	input == input.never
}}

include if true
"""
    engine = Engine({"f.rego": policy})
    with pytest.raises(EvalError, match="conflict"):
        engine.prepare("data.f.include").value({"doc": {"a": 1, "b": 1, "l": [1, 2]}})
    left = engine.partial("data.f.include", ["input.doc"], {}, only_truth=True)
    with pytest.raises(FilterError, match="may give different values at once"):
        to_conditions(left)


def test_rules_with_one_value_in_such_bodies_do_not_conflict() -> None:
    policy = """package f

f(x) if x == 1

f(x) if input.doc.b == x

h(x) := x + 1

v := input.doc.b

include if {
	every x in [1] { f(x); h(x) == v }
	input == input.never
}

include if input.doc.a == 1
"""
    engine = Engine({"f.rego": policy})
    left = engine.partial("data.f.include", ["input.doc"], {}, only_truth=True)
    assert not left.conflicts
    assert to_conditions(left)
