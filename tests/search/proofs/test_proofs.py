"""What is proved, what is not, and the traps in which a prover lies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from doorward.cli.main import run
from doorward.rego import Engine
from doorward.rego.shared import Source
from doorward.rego.tools import parse_query
from doorward.search.proofs import as_json, proofs, properties_of
from doorward.search.proofs.checking import Checker
from doorward.search.proofs.refuting import Refuter
from doorward.search.proofs.steps import (
    Alias,
    Bounds,
    Cases,
    Contradiction,
    Cycle,
    Denied,
    Derived,
    Empty,
    Fails,
    Instance,
    Named,
    Opposite,
    Same,
    Shape,
    Split,
    Step,
    Texts,
    Undefined,
)

POLICY = """package p

default allow := false

allow if {
	input.m == "GET"
	input.u in data.users
}

allow if {
	input.m == "PUT"
	data.roles[input.u] == "adm"
}

allow if {
	input.m == "POST"
	small(input.n)
}

small(n) if n < 5

late if time.now_ns() > 3

claims := payload if {
	[_, token] := split(input.auth, " ")
	[true, _, payload] = io.jwt.decode_verify(token, {"secret": "s", "alg": "HS256"})
}

holds contains role if some role in data.grants[input.u]

holds contains "guest" if input.u == "nobody"

default views := []

views := input.views

refused contains "kind" if {
	some item in input.items
	item.kind == "host"
}

refused contains "view" if {
	"host" in views
	input.host == true
}

"""
DATA: Any = {
    "grants": {"ann": ["adm", "dev"]},
    "users": ["kim"],
    "roles": {"ann": "adm", "kim": "dev"},
}

PROVED = {
    "another method": 'allow; input.m == "DELETE"',
    "a stranger": 'allow; input.m in {"GET", "PUT"}; not input.u in {"kim", "ann"}',
    "a role that data does not give": 'allow; input.m == "PUT"; input.u == "kim"',
    "an expression and its negation": "input.x; not input.x",
    "bounds of a leaf": "input.n > 5; input.n < 3",
    "bounds through a function": 'allow; input.m == "POST"; input.n >= 5',
    "a call with a value": 'input.x in {"/a", "/b"}; not startswith(input.x, "/")',
    "two leaves": 'input.x == input.y; input.x == "a"; input.y == "b"',
    "bounds of all kinds": 'input.n < 5; input.n == "a"',
    "terms in a circle": "input.a < input.b; input.b <= input.c; input.c <= input.a",
    "terms and constants in a circle": "input.a > 5; input.b >= input.a; input.b < 4",
    "equal and unequal": "input.a == input.b; input.b == input.c; input.a != input.c",
    "a glob and a prefix": 'glob.match("/p*", [], input.p); not startswith(input.p, "/p")',
    "a glob without a star": 'glob.match("/a", [], input.p); startswith(input.p, "/a/")',
    "a glob that stops": 'glob.match("/a/*", ["/"], input.p); regex.match(`^/a/[a-z]+/`, input.p)',
    "a pattern and an end": 'regex.match(`^/u/[0-9]{1,3}(/x)?$`, input.p); endswith(input.p, "/y")',
    "a part of a text": 'contains(input.p, ".."); regex.match(`^[a-z/]*$`, input.p)',
    "a text of a call": 'startswith(lower(input.p), "/a"); not contains(lower(input.p), "a")',
    "no text that is one of two": 'input.p in {"/a", "/b"}; endswith(input.p, "c")',
    "a text that is equal": 'input.p == "/a"; input.p != "/a"',
    "two readings of one token": 'claims.role == "guest"; not claims.role in {"guest", "admin"}',
    "two roles of one token": 'claims.role == "guest"; claims.role == "admin"',
    "a window of time": "claims.exp > time.now_ns(); claims.exp <= time.now_ns()",
    "every item and one": 'every x in input.xs { x != "a" }; input.xs[_] == "a"',
    "every item with a key": "every k, x in input.xs { k < 3; x }; some i; input.xs[i]; i > 5",
    "no items and one": 'count(input.xs) == 0; input.xs[_].name == "a"',
    "no members": '"root" in holds; input.u == "ann"',
    "a field of what is not an object": 'input.o.name == "a"; not is_object(input.o)',
    "a part that is read and denied": 'not input.auth; claims.role == "guest"',
    "fewer items than an index": "count(input.xs) <= 2; input.xs[2] == 1",
    "no item below one": "count(input.xs) < 1; input.xs[_] == 1",
    "an input without fields": "input == {}; input.x",
    "one of two inputs": 'input in [{"a": 1}, {"b": 2}]; not input.a; not input.b',
    "an input that is allowed nothing": "input == {}; allow",
    "an alias": "x := input.a; x > 5; input.a < 3",
    "sums of small integers": "input.a == 3; input.a + 4 == 8",
    "a text in another case": 'lower(input.p) == "secret"; contains(input.p, "/")',
    "a text of two cases": 'lower(upper(input.p)) == "a"; input.p == "b"',
    "a text in its own case": 'lower(input.p) == input.p; contains(input.p, "A")',
    "a part of a text in another case": (
        'startswith(upper(input.p), "A/"); startswith(input.p, "b")'
    ),
    "a sum above its parts": "input.a <= 3; input.b < 4; input.a + input.b > 7",
    "a difference": "input.a - 5 > 3; input.a < 8",
    "a difference of what is subtracted": "10 - input.a > 8; input.a >= 2",
    "a multiple": "input.a * 2 > 10; input.a < 5",
    "a negative multiple": "input.a * -2 > 10; input.a >= 0",
    "a part of a number": "input.a / 2 > 10; input.a <= 20",
    "a rounded number": "round(input.a) > 3; input.a <= 3",
    "bounds of a term that is below another": "input.a <= input.b; input.b < 2; input.a + 1 > 3",
    "fewer items than none": "count(input.xs) < 0",
    "a margin of time": "claims.exp < time.now_ns(); claims.exp >= time.now_ns() + 60",
    "seconds of a clock": (
        "now := time.now_ns() / 1000000000; claims.exp + 30 < now; now < claims.exp"
    ),
    "a comparison that is denied": "not input.a < 5; input.a < 3",
    "two comparisons that are denied": "not input.a < input.b; not input.a >= input.b",
    "an inequality that is denied": "not input.a != 1; input.a != 1",
    "a member that is denied": 'not input.a in {"x", "y"}; input.a == input.b; input.b == "x"',
    "a token that is not a text": (
        'io.jwt.decode_verify(input.t, {"secret": "s", "time": time.now_ns()})[0]; not input.t'
    ),
    "a call that has no value": (
        "input.t == null; time.parse_rfc3339_ns(input.t) <= time.now_ns()"
    ),
    "an item that is refused": 'count(refused) == 0; some x in input.items; x.kind == "host"',
    "a rule that names a part": 'count(refused) == 0; "host" in input.views; input.host == true',
    "a denial of a rule that holds": (
        'not "view" in refused; "host" in input.views; input.host == true'
    ),
    "a comparison that is denied of a term without a value": "not input.a == 5; not input.a != 5",
    "a call without a value that is denied": (
        "input.t == null; not time.parse_rfc3339_ns(input.t) <= time.now_ns()"
    ),
    "a denied sum": "not input.a + 1 > 5; input.a > 5",
    "a membership that is true": '(input.x in {"a"}) == true; not startswith(input.x, "a")',
    "a membership that is false": (
        '(input.x in {"a"}) == false; startswith(input.x, "a"); regex.match("^a?$", input.x)'
    ),
    "an inequality that is false": '(input.x != "a") == false; regex.match("^b$", input.x)',
    "a test of a text that is false": (
        'startswith(input.x, "a") == false; not contains(input.x, "")'
    ),
    "a test in another case that is false": (
        '(lower(input.x) == "a") == false; not startswith(input.x, "")'
    ),
}
NOT_PROVED = {
    "default makes false a value": 'allow == false; input.m == "PUT"',
    "a denial": 'not allow; input.m == "PUT"; input.u == "kim"',
    "a clock": "late; not input.x",
    "a type error is true under not": 'not startswith(input.f, "a"); input.f == false',
    "an allowed request": 'allow; input.m == "GET"',
    "an unknown item": "some i; input.xs[i] == 1; not input.xs[0] == 1",
    "a membership that is false of another value": (
        '(input.x in {"a"}) == false; not startswith(input.x, "")'
    ),
    "an equation that is false of another value": (
        'false == (input.x == "a"); not startswith(input.x, "")'
    ),
    "an inequality that is false of an equal text": (
        '(input.x != "a") == false; regex.match("^a$", input.x)'
    ),
    "an inequality that is true of another value": (
        '(input.x != "a") == true; not startswith(input.x, "")'
    ),
    "another input": 'input.x == "a"; allow with input as {"m": "GET", "u": "kim"}',
    "undefined": "not input.x == 1; not input.x == 2",
    "a name that is longer": 'input.m == "GET"; not input.mm == "GET"',
    "chance": 'rand.intn("a", 2) == 0; not rand.intn("b", 2) == 0',
    "a number that is written differently": 'input.a == 1; json.marshal(input.a) == "1.0"',
    "numbers of a set": 'input.a in {1, 2}; sprintf("%v", [input.a]) == "1.0"',
    "a number in an object": 'input.a == {"b": 1}; json.marshal(input.a) == `{"b":1.0}`',
    "equal numbers of two leaves": (
        'x := input.a; x == input.b; json.marshal(x) == "1"; not json.marshal(input.b) == "1"'
    ),
    "items of their own": "input.xs[_] < 3; input.xs[_] > 5",
    "every item of none": 'every x in input.xs { x != "a" }; input.ys[_] == "a"',
    "every item of an empty list": "every x in input.xs { x == 1 }; every x in input.xs { x == 2 }",
    "no item, and a denial": "count(input.xs) == 0; not input.xs[0]",
    "two walks": "walk(input, [p, v]); v == 1; walk(input, [q, w]); w == 2; p != q",
    "two tokens": 'claims.role == "guest"; io.jwt.decode(input.other)[1].role == "admin"',
    "members": '"adm" in holds; input.u == "ann"',
    "a member by another rule": '"guest" in holds; input.u == "nobody"',
    "a prefix that is longer": 'glob.match("/p*", [], input.p); not startswith(input.p, "/p/")',
    "a dot that stops nothing": 'glob.match("/a/*", ["/"], input.p); contains(input.p, ".")',
    "a new line in a text": 'regex.match(`^a[^b]$`, input.p); endswith(input.p, "\\n")',
    "no text at all": 'not startswith(input.p, "a"); not regex.match(`^[^a]`, input.p)',
    "what is not an object is undefined": "not is_object(input.o)",
    "equal or less": "input.a <= input.b; input.b <= input.a",
    "unequal in a circle": "input.a <= input.b; input.b <= input.c; input.a != input.c",
    "an index within": "count(input.xs) <= 2; input.xs[1] == 1",
    "an index that is a key": 'count(input.xs) <= 1; input.xs["2"] == 1',
    "an index of data": "count(data.users) == 1; data.users[0]; input.x",
    "an empty input": "input == {}; not input.x",
    "an input of one field": 'input == {"x": 1}; input.x == 1',
    "an input with a number": 'input == {"x": 1}; json.marshal(input.x) == "1.0"',
    "an input, and a term": 'input == {"x": "A"}; lower(input.x) == "a"',
    "a letter with another small one": 'lower(input.p) == "k"; not input.p in {"k", "K"}',
    "a letter with another large one": 'upper(input.p) == "S"; not input.p in {"s", "S"}',
    "large letters that are not ASCII's": (
        "lower(input.p) != input.p; not regex.match(`[A-Z]`, input.p)"
    ),
    "a large letter": 'startswith(upper(input.p), "A/"); endswith(input.p, "a")',
    "a sum of its parts": "input.a <= 3; input.b <= 4; input.a + input.b >= 7",
    "a sum that is rounded": "input.a < 5; input.a + 1 >= 6",
    "a sum of what may be a text": "input.a > 3; input.b > 3; input.a > input.b + 5",
    "a multiple of a negative number": "input.a * input.b > 10; input.a < 1",
    "an equation that is denied": "not input.a == 1; not input.b == 1; input.c",
    "a call that answers for any type": (
        "[json.is_valid(input.t), time.now_ns()][0] == false; not input.t"
    ),
    "a call that may have a value": (
        'input.t == "2030-01-01T00:00:00Z"; time.parse_rfc3339_ns(input.t) <= time.now_ns()'
    ),
    "a margin that is not there": "input.exp <= input.now + 60; input.exp > input.now",
    "another item than what is refused": (
        'count(refused) == 0; some x in input.items; x.kind == "volume"'
    ),
    "an item of another list": 'count(refused) == 0; some x in input.others; x.kind == "host"',
    "a kind of another item": (
        'count(refused) == 0; some x in input.items; some y in input.items; x.kind == "a"; '
        'y.name == "host"'
    ),
    "a view that is not there": (
        'count(refused) == 0; not "host" in input.views; input.host == true'
    ),
    "a key that the input names": '{input.a: 1}.x; input.a == "x"',
    "a key of an object that is compared": '{input.a: 1} == {"x": 1}; input.a == "x"',
    "keys that are one": '{input.a: 1, input.b: 2} == {"x": 2}; input.a == "x"',
    "the opposite of a stranger": 'allow; input.m in {"GET", "PUT"}; input.u in {"kim", "ann"}',
}


def outcome(conditions: str, rule: str = "never_x if {{ {} }}\n") -> str:
    engine = Engine({"p.rego": POLICY + rule.format(conditions)}, DATA)
    (verdict,) = proofs(engine)
    return verdict.outcome


@pytest.mark.long
@pytest.mark.parametrize("name", PROVED)
def test_what_no_input_makes_true_is_proved(name: str) -> None:
    assert outcome(PROVED[name]) == "none exists"


@pytest.mark.parametrize("name", NOT_PROVED)
def test_what_some_input_makes_true_is_never_proved(name: str) -> None:
    assert outcome(NOT_PROVED[name]) == "cannot say"


@pytest.mark.parametrize(
    "rule",
    [
        "never_x := input.z\n",
        "never_x contains input.z\n",
        "default never_x := true\n",
        "never_x := false\n",
        "never_x if {{ input.x; not input.x }} else if input.y\n",
        "never_x(n) if n == 1\n",
    ],
)
def test_what_is_no_plain_property_is_not_proved(rule: str) -> None:
    assert outcome("", rule) == "cannot say"


def test_types_that_are_wrong_inside_a_negation_decide_nothing() -> None:
    rule = "never_x if {{ not startswith(input.n % 2, `a`); {} }}\n"
    policy = f"package q\n\nimport future.keywords.not\n\n{rule.format('input.b')}"
    (verdict,) = proofs(Engine({"q.rego": policy}))
    assert verdict.outcome == "cannot say"


def test_properties_are_named_with_their_rows() -> None:
    engine = Engine({"p.rego": "package p\n\nnever_b if input.x\n\nnever_a if input.y\n"})
    assert [(each.name, each.where) for each in properties_of(engine)] == [
        ("data.p.never_b", "p.rego:3"),
        ("data.p.never_a", "p.rego:5"),
    ]


TEXTS = (
    'input.m = "GET"',
    'not input.m = "GET"',
    "input.n > 5",
    "input.n < 3",
    "input.n < 7",
    'internal.member_2(input.u, {"kim", "ann"})',
    "not data.support.denied",
    'input.u = "bob"',
    'rand.intn("a", 2) = 0',
    'not rand.intn("a", 2) = 0',
    "input.u.name = 1",
    '[a, b] = split(input.t, ":")',
    '[c, d] = split(input.t, ":")',
    "b = 1",
    "d = 2",
    "y = input.n",
    "y < 1",
    'every v in input.xs { v = "a" }',
    'input.xs[i] = "b"',
    "count(input.xs) = 0",
    "internal.member_2(input.u, data.support.names)",
    'startswith(input.u, "z")',
    'not startswith(input.u, "b")',
    "not is_object(input.u)",
    "not input.u",
    'io.jwt.decode(input.u)[1].x = "a"',
)
SUPPORT = (
    'package support\n\ndenied := true if { input.m = "GET"; input.n > 5 }\n'
    'names contains x if { x = "k"; input.z = x }\nnames contains "l" if input.n > 6\n'
)
KIM_OR_ANN = (("kim", Fails(7)), ("ann", Fails(7)))
K_AT_26: Final = Cases("x_at26", 26, (("k", Fails(28)),))
SOUND: list[Step] = [
    Contradiction(0, 1),
    Cycle((2, 3)),
    Denied(6, (0, 0), (0, 2)),
    Cases("input.u", 5, KIM_OR_ANN),
    Texts("input.u", (5, 21)),
    Texts("input.u", (7, 21)),
    Same(11, 12, Cases("b", 13, ((1, Fails(14)),))),
    Alias(15, Cycle((2, 16))),
    Instance(17, 18, "input.xs[i]", Cases("input.xs[i]", 18, (("b", Fails(len(TEXTS))),))),
    Empty(19, 18),
    Shape(23, 10),
    Split(20, tuple(Cases("input.u", 7, (("bob", each),)) for each in (K_AT_26, Fails(27)))),
    Cases("input.u", 24, ((False, Fails(25)),), reader=25),
]
UNSOUND: list[Step] = [
    Contradiction(1, 0),
    Contradiction(0, 7),
    Contradiction(8, 9),
    Contradiction(0, 99),
    Cycle((2, 4)),
    Cycle((2, 2)),
    Cycle((2,)),
    Cycle(()),
    Cycle((3, 4)),
    Denied(6, (0, 0), (0, 3)),
    Denied(6, (0, 0), (0,)),
    Denied(1, (0, 0), (0, 2)),
    Denied(6, (3, 0), (0, 2)),
    Cases("input.u", 5, KIM_OR_ANN[:1]),
    Cases("input.u", 5, (KIM_OR_ANN[0], KIM_OR_ANN[0])),
    Cases("input.u", 5, (("kim", Fails(0)), ("ann", Fails(7)))),
    Cases("input.m", 5, KIM_OR_ANN),
    Cases("input.u", 2, KIM_OR_ANN),
    Cases("input", 5, ()),
    Cases("input.u", 5, ()),
    Cases("input.u", 24, ((False, Fails(25)),)),
    Cases("input.u", 24, ((False, Fails(25)),), reader=24),
    Cases("input.u", 24, ((False, Fails(25)),), reader=22),
    Cases("input.n", 24, ((False, Fails(25)),), reader=25),
    Fails(0),
    Fails(9),
    Texts("input.u", (21,)),
    Texts("input.u", (22,)),
    Texts("input.m", (7, 21)),
    Texts("input.u", (21, 3)),
    Texts("input.u", ()),
    Same(11, 11, Contradiction(0, 1)),
    Same(11, 13, Contradiction(0, 1)),
    Same(11, 12, Cases("a", 13, ((1, Fails(14)),))),
    Alias(0, Contradiction(0, 1)),
    Alias(15, Cycle((4, 16))),
    Instance(17, 7, "input.xs[i]", Contradiction(0, 1)),
    Instance(17, 18, "input.ys[i]", Contradiction(0, 1)),
    Instance(17, 17, "input.xs[v]", Contradiction(0, 1)),
    Empty(19, 19),
    Empty(19, 17),
    Empty(2, 18),
    Shape(23, 7),
    Shape(1, 10),
    Split(20, (Fails(7),)),
    Split(20, (Fails(7), Fails(7))),
    Split(6, (Fails(7),)),
]


MORE_TEXTS: Final = (
    "input.n + input.k > 9",
    "input.n <= 4",
    "input.k <= 5",
    "input.n + input.k >= 9",
    "not input.n + input.k > 9",
    'input.xs[i].name = "a"',
    'internal.member_2("b", input.views)',
    "count(data.support.names) = 0",
    "not data.support.denied",
    "input.u < input.u - 2",
    "input.u - 2 > input.u + 1",
    "lower(input.t) = input.t",
    'startswith(input.t, "A")',
    'startswith(lower(input.t), "b")',
    'not internal.member_2("b", input.views)',
    "not input.w < 7",
    "input.w < 3",
    "not input.w = 7",
    'not input.v in {"x", "y"}',
    'input.v = "y"',
    "input.e = null",
    "time.parse_ns(input.e, input.e) < time.now_ns()",
    "not time.parse_ns(input.e, input.e) < time.now_ns()",
)
MORE_SUPPORT = (
    'package support\n\nnames contains k if input.xs[k].name = "a"\n'
    'denied if internal.member_2("b", data.support.views)\n'
    "views := v if v = input.views\ndefault views := []\n"
    "other := v if v = input.views\nother := 1 if input.n\n"
    "names contains lower(input.z) if input.n <= 4\n"
)
ADDED: Final = len(MORE_TEXTS)
MORE_SOUND: list[Step] = [
    Opposite((15,), Cycle((ADDED, 16))),
    Opposite((15, 18), Cycle((ADDED + 2, 19))),
    Cases("input.e", 20, ((None, Undefined(21, "time.parse_ns(input.e, input.e)")),)),
    Bounds(0),
    Cycle((9,)),
    Cycle((10,)),
    Texts("input.t", (11, 12)),
    Texts("input.t", (12, 13)),
    Derived((0, 0), (("k", "i"),), (5,), Empty(7, ADDED)),
    Named(6, ("support", "views"), Derived((0, 1), (), (ADDED,), Contradiction(ADDED + 1, 8))),
]
MORE_UNSOUND: list[Step] = [
    Opposite((17,), Cycle((ADDED, 16))),
    Opposite((16,), Cycle((ADDED, 16))),
    Opposite((15,), Cycle((ADDED, 18))),
    Opposite((15,), Cycle((16,))),
    Opposite((12,), Contradiction(0, 4)),
    Opposite((21,), Contradiction(0, 4)),
    Cases("input.e", 20, ((None, Undefined(22, "time.parse_ns(input.e, input.e)")),)),
    Cases("input.e", 20, ((None, Undefined(21, "time.now_ns()")),)),
    Cases("input.e", 20, ((None, Undefined(21, "lower(input.e)")),)),
    Undefined(21, "time.parse_ns(input.e, input.e)"),
    Bounds(4),
    Bounds(5),
    Bounds(99),
    Cycle((1,)),
    Texts("input.t", (11, 13)),
    Texts("input.t", (13,)),
    Derived((0, 0), (("k", "j"),), (5,), Empty(7, ADDED)),
    Derived((0, 0), (), (5,), Empty(7, ADDED)),
    Derived((0, 0), (("k", "i"),), (6,), Empty(7, ADDED)),
    Derived((0, 0), (("k", "i"),), (), Empty(7, ADDED)),
    Derived((0, 1), (), (6,), Contradiction(ADDED, 8)),
    Derived((0, 6), (), (1,), Empty(7, ADDED)),
    Derived((0, 0), (("k", "i"),), (5,), Empty(2, ADDED)),
    Named(14, ("support", "views"), Derived((0, 1), (), (ADDED,), Contradiction(ADDED + 1, 8))),
    Named(6, ("support", "other"), Derived((0, 1), (), (ADDED,), Contradiction(ADDED + 1, 8))),
    Named(6, ("support", "denied"), Contradiction(ADDED, 8)),
    Named(1, ("support", "views"), Derived((0, 1), (), (ADDED,), Contradiction(ADDED + 1, 8))),
]


@pytest.mark.parametrize("refutation", MORE_SOUND, ids=str)
def test_the_checker_accepts_bounds_and_what_rules_make(refutation: Step) -> None:
    engine = Engine({"support.rego": MORE_SUPPORT})
    assert Checker(engine, [*engine.trees.values()]).accepts(refutation, MORE_TEXTS)


@pytest.mark.parametrize("refutation", MORE_UNSOUND, ids=str)
def test_the_checker_refuses_other_bounds_and_rules(refutation: Step) -> None:
    engine = Engine({"support.rego": MORE_SUPPORT})
    assert not Checker(engine, [*engine.trees.values()]).accepts(refutation, MORE_TEXTS)


def test_a_position_has_one_name() -> None:
    """A negative one would name an expression again, where a step demands two of them."""
    assert checker().accepts(Contradiction(0, 1), TEXTS)
    assert not checker().accepts(Contradiction(-len(TEXTS), 1), TEXTS)
    assert not checker().accepts(Contradiction(0, 1 - len(TEXTS)), TEXTS)


def checker() -> Checker:
    engine = Engine({"support.rego": SUPPORT})
    return Checker(engine, [*engine.trees.values()])


@pytest.mark.parametrize("refutation", SOUND, ids=str)
def test_the_checker_accepts_what_refutes(refutation: Step) -> None:
    assert checker().accepts(refutation, TEXTS)


@pytest.mark.parametrize("refutation", UNSOUND, ids=str)
def test_the_checker_refuses_what_does_not(refutation: Step) -> None:
    assert not checker().accepts(refutation, TEXTS)


@pytest.mark.parametrize(
    "texts",
    [
        ('internal.member_2(input.x, {"a"}, false)', 'not startswith(input.x, "")'),
        ('(input.x == "a") = false', 'not startswith(input.x, "")'),
        ('(input.x != "a") = false', "regex.match(`^a$`, input.x)"),
        ('input.x != "a"', 'not startswith(input.x, "")'),
        # Go refuses the pattern, so that the call has no value for any text.
        ("not regex.match(`.{0,1001}`, input.x)", 'contains(input.x, "")'),
    ],
)
def test_the_checker_refuses_texts_that_the_engine_accepts(texts: tuple[str, ...]) -> None:
    assert not checker().accepts(Texts("input.x", (0, 1)), texts)


@pytest.mark.parametrize(
    ("refutation", "texts"),
    [
        (Denied(0, (0, 0), (1,)), ('not data.support.q["1"]', "input.x = 1")),
        (
            Derived((0, 0), (), (1,), Contradiction(2, 0)),
            ('not data.support.q["1"]', "input.x = 1"),
        ),
        (Split(0, (Cases("input.x", 1, ((1, Fails(2)),)),)), ("data.support.r.s", "input.x = 1")),
    ],
    ids=["a number is not a text", "a fact about a number", "a path with a variable"],
)
def test_the_checker_refuses_rules_at_other_paths(refutation: Step, texts: tuple[str, ...]) -> None:
    support = (
        "package support\n\nq[1] if input.x = 1\nr.s if input.x = 2\nr[k] if { k = input.k }\n"
    )
    engine = Engine({"s.rego": support})
    assert not Checker(engine, [*engine.trees.values()]).accepts(refutation, texts)


def test_no_steps_are_no_proof() -> None:
    assert not checker().accepts(None, TEXTS)


def test_every_refutation_of_the_refuter_is_accepted() -> None:
    engine = Engine({"p.rego": POLICY}, DATA)
    texts = ["input.n > 5", "3 > input.n"]
    body = tuple(parse_query(Source("", text), v0=False)[0] for text in texts)
    refutation = Refuter(engine, ()).refute(body)
    assert refutation == Cycle((0, 1))
    assert Checker(engine, []).accepts(refutation, texts)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    (tmp_path / "p.rego").write_text(POLICY)
    return [str(tmp_path / "p.rego"), str(tmp_path / "data.json"), str(tmp_path / "never.rego")]


def prove(files: list[str], rules: str, *options: str) -> int:
    Path(files[2]).write_text(f"package never\n\nimport data.p.allow\n\n{rules}\n")
    return run(["prove", "--time", "300ms", *options, *files])


def test_proved_properties_end_with_0(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert prove(files, 'never_other if { allow; input.m == "DELETE" }') == 0
    shown = capsys.readouterr().out
    assert "data.never.never_other" in shown
    assert "none exists, for any JSON input and the data given: 3 conjunctions refuted" in shown


def test_a_counterexample_ends_with_2_and_is_a_request_and_a_test(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = 'never_dev if { allow; data.roles[input.u] == "dev" }'
    assert prove(files, rule, "--format", "json") == 2
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["outcome"] == "counterexample"
    assert (
        verdict["input"]
        in (
            {"m": "GET", "u": "kim"},
            {"m": "POST", "n": 0, "u": "kim"},
        )
        or verdict["input"]["u"] == "kim"
    )
    assert verdict["curl"].startswith('curl -d \'{"input": {')
    path = Path(files[0]).with_name("regression_test.rego")
    path.write_text(f"package regression_test\n\n{verdict['test']}\n")
    capsys.readouterr()
    assert run(["test", *files, str(path), "-r", "test_never"]) == 2
    assert "FAIL: 1/1" in capsys.readouterr().out
    Path(files[0]).write_text("package p\n\ndefault allow := false\n")
    assert run(["test", *files, str(path), "-r", "test_never"]) == 0


def test_what_is_not_known_ends_with_3_and_names_what_never_held(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = 'never_hash if { allow; crypto.md5(input.h) == "0" }'
    assert prove(files, rule) == 3
    shown = capsys.readouterr().out
    assert "cannot say" in shown
    assert "never held: " in shown
    assert 'crypto.md5(input.h) == "0"' in shown
    assert "conditions on results of crypto.md5 can be met by chance only" in shown
    assert prove(files, rule, "--searched") == 3


def test_a_full_search_ends_with_0_where_that_is_enough(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "never_sum if { input.n + input.k == 7; input.k + input.n == 8 }"
    assert prove(files, rule) == 3
    code = prove(files, rule, "--searched")
    assert code in (0, 3)
    assert ("none found" in capsys.readouterr().out) is (code == 0) or code == 3


def test_policies_without_a_property_and_broken_ones_end_with_1(files: list[str]) -> None:
    assert prove(files, "always if input.x") == 1
    assert prove(files, "never_x if {") == 1


def test_json_of_nothing_is_an_empty_list() -> None:
    assert json.loads(as_json([])) == []


def test_a_proof_needs_the_data_that_rules_read() -> None:
    rule = 'never_x if { allow; input.m == "DELETE" }\n'
    (verdict,) = proofs(Engine({"p.rego": POLICY + rule}, {"users": ["kim"]}))
    assert verdict.outcome == "cannot say"
    assert verdict.reason == "the property reads data.roles, which is missing: load its file"
