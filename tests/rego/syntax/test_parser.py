"""What a text becomes, production by production, and what is refused with which words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from doorward.rego.errors import ParseError
from doorward.rego.numbers import Number
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Module,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.parser import parse_import, parse_module, parse_query, parse_term
from doorward.rego.syntax.parser.cursor import MAX_DEPTH

X, Y = Var("x"), Var("y")


def module(text: str, *, v0: bool = False, imports: str = "") -> Module:
    return parse_module(Source("p.rego", f"package p\n{imports}\n{text}\n"), v0=v0)


def rule(text: str, *, v0: bool = False, imports: str = "") -> Rule:
    (module_,) = module(text, v0=v0, imports=imports).rules
    return module_


def query(text: str) -> Body:
    return parse_query(Source("", text))


def refused(text: str, *, v0: bool = False) -> list[str]:
    with pytest.raises(ParseError) as caught:
        module(text, v0=v0)
    return [f"{d.span.row}:{d.span.col}: {d.message}" for d in caught.value.diagnostics]


def call(name: str, *args: Term, infix: bool = True) -> Call:
    first, *rest = name.split(".")
    return Call(Ref(Var(first), tuple(Scalar(r) for r in rest)), args, infix=infix)


def ref(head: str, *args: str | Term) -> Ref:
    return Ref(Var(head), tuple(Scalar(a) if isinstance(a, str) else a for a in args))


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("null", Scalar(None)),
        ("true", Scalar(True)),
        ("-12", Scalar(-12)),
        (".5", Scalar(Number(".5"))),
        ("1e3", Scalar(Number("1e3"))),
        (r'"a\n\u00e9\ud83d\ude00"', Scalar("a\né😀")),
        (r'"\ud800"', Scalar("\ufffd")),
        ("`a\\n\nb`", Scalar("a\\n\nb")),
        ("x", X),
        ("input", Var("input")),
        ('input.a["b"][x]', ref("input", "a", "b", X)),
        ("input.if.not", ref("input", "if", "not")),
        ("[]", Array(())),
        ("[x, 1,]", Array((X, Scalar(1)))),
        ("{}", Object(())),
        ('{"a": x, y: 1,}', Object(((Scalar("a"), X), (Y, Scalar(1))))),
        ("{x, y,}", Set((X, Y))),
        ("set()", Set(())),
        ("f(x, y)", call("f", X, Y)),
        ("io.jwt.decode(x)", call("io.jwt.decode", X)),
        ("f(x).y", Ref(call("f", X), (Scalar("y"),))),
        ("[x][0]", Ref(Array((X,)), (Scalar(0),))),
        ("[x | y]", ArrayComprehension(X, (Expr(Y),))),
        ("{x | y}", SetComprehension(X, (Expr(Y),))),
        ("{x: y | x; y}", ObjectComprehension(X, Y, (Expr(X), Expr(Y)))),
        ("{x | y, 1}", Set((call("or", X, Y), Scalar(1)))),
        ("[x | y, 1]", Array((call("or", X, Y), Scalar(1)))),
        ("$`a\\b`", TemplateString(("a\\b",), multi_line=True)),
        ("-x.y", call("minus", Scalar(0), ref("x", "y"))),
        ("(x)", X),
    ],
)
def test_terms(text: str, term: Term) -> None:
    assert parse_term(text) == term


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("x + y * x", "x + (y * x)"),
        ("x - y - x", "(x - y) - x"),
        ("x | y & x", "x | (y & x)"),
        ("x == y + 1", "x == (y + 1)"),
        ("x in y == x", "x in (y == x)"),
        ("x | y in x", "(x | y) in x"),
        ("x in y in x", "(x in y) in x"),
        ("x < y == x", "(x < y) == x"),
    ],
)
def test_operators_bind_as_in_opa(text: str, grouped: str) -> None:
    assert query(text) == query(grouped)


def test_in_takes_one_or_two_operands() -> None:
    assert query("x in y")[0].term == call("internal.member_2", X, Y)
    assert query("x, y in x")[0].term == call("internal.member_3", X, Y, X)
    assert parse_term("f(x, y in x)") == call("f", X, call("internal.member_2", Y, X))


def test_every_wildcard_is_another_variable() -> None:
    assert parse_term("[_, _]") == Array((Var("$0"), Var("$1")))


def test_a_template_string_has_texts_and_expressions() -> None:
    parts = ("a{b", Expr(call("plus", X, Scalar(1))), Expr(Y, withs=()), "c")
    assert parse_term(r'$"a\{b{x + 1}{y}c"') == TemplateString(parts)
    assert parse_term("$`a\n{x}`") == TemplateString(("a\n", Expr(X)), multi_line=True)


def test_expressions_of_a_body() -> None:
    body = query(
        """some x, y
        some x in y; some x, y in x
        not x with input.a as 1 with data.b as y
        every x in y { x }
        every x, y in x { x; y }
        x := 1; x = y"""
    )
    withs = (With(ref("input", "a"), Scalar(1)), With(ref("data", "b"), Y))
    assert body == (
        Expr(SomeDecl((X, Y))),
        Expr(SomeIn(None, X, Y)),
        Expr(SomeIn(X, Y, X)),
        Expr(X, negated=True, withs=withs),
        Expr(Every(None, X, Y, (Expr(X),))),
        Expr(Every(X, Y, X, (Expr(X), Expr(Y)))),
        Expr(call("assign", X, Scalar(1))),
        Expr(call("eq", X, Y)),
    )


def test_logic_words_work_where_they_are_imported() -> None:
    imports = "import future.keywords.and\nimport future.keywords.or"
    body = rule("r if { x or y and not x with input as 1 }", imports=imports).body
    conjunction = Expr(And((Expr(Y),), (Expr(X, negated=True),)))
    withs = (With(Var("input"), Scalar(1)),)
    assert body == (Expr(Or((Expr(X),), (conjunction,)), withs=withs),)
    braces = rule("r if { { x := 1; x } or {y} }", imports=imports).body
    assert braces == (Expr(Or((Expr(call("assign", X, Scalar(1))), Expr(X)), (Expr(Y),))),)
    objects = rule('r if { {x} == y or {"a": 1} }', imports=imports).body
    assert objects == (
        Expr(
            Or(
                (Expr(call("equal", Set((X,)), Y)),),
                (Expr(Object(((Scalar("a"), Scalar(1)),))),),
            )
        ),
    )


def test_without_the_import_the_logic_words_are_names() -> None:
    assert query("or(x, and)")[0].term == call("or", X, Var("and"))


def test_not_covers_a_body_where_it_is_imported() -> None:
    imports = "import future.keywords.not"
    assert rule("r if not x", imports=imports).body == (Expr(Not((Expr(X),))),)
    body = rule("r if not { x; y }", imports=imports).body
    assert body == (Expr(Not((Expr(X), Expr(Y)), braces=True)),)


def test_rule_heads() -> None:
    heads = [
        r.head
        for r in module(
            """p := 1
            p = x if y
            p contains x if y
            f(x, [y]) := x if y
            a.b[x].c := y if x
            a[x] if x
            q if x
            """
        ).rules
    ]
    assert [h.ref for h in heads] == [
        *(ref("p"), ref("p"), ref("p"), ref("f")),
        *(ref("a", "b", X, "c"), ref("a", X), ref("q")),
    ]
    assert [h.value for h in heads] == [Scalar(1), X, None, X, Y, None, None]
    assert [h.assign for h in heads] == [True, False, False, True, True, False, False]
    assert [h.key for h in heads] == [None, None, X, None, None, None, None]
    assert [h.args for h in heads] == [None, None, None, (X, Array((Y,))), None, None, None]


def test_a_rule_without_body_has_none() -> None:
    assert rule("p := 1").body == ()
    assert rule("p contains 1").body == ()
    assert rule("default p := 1") == Rule(rule("p := 1").head, default=True)


def test_else_chains() -> None:
    actual = rule("f(x) := 1 if x else := 2 if { y } else := 3")
    second = actual.else_rule
    assert second is not None
    third = second.else_rule
    assert third is not None
    assert third.else_rule is None
    assert [r.head.value for r in (actual, second, third)] == [Scalar(1), Scalar(2), Scalar(3)]
    assert [r.body for r in (actual, second, third)] == [(Expr(X),), (Expr(Y),), ()]
    assert third.head.args == (X,)


def test_several_bodies_are_several_rules() -> None:
    first, second = module("p if { x } { y }").rules
    assert first.head == second.head
    assert (first.body, second.body) == ((Expr(X),), (Expr(Y),))


def test_v0_rules() -> None:
    member = rule("p[x] { x }", v0=True)
    assert (member.head.ref, member.head.key, member.head.value) == (ref("p"), X, None)
    entry = rule("p[x] = y { x }", v0=True)
    assert (entry.head.ref, entry.head.key, entry.head.value) == (ref("p", X), None, Y)
    assert rule("p { x }", v0=True).body == (Expr(X),)
    assert rule("if = 1", v0=True).head.ref == ref("if")


def test_v0_takes_words_from_imports() -> None:
    assert not module("p { x }", v0=True).v1
    module_ = module("p contains x if x in y", v0=True, imports="import rego.v1")
    assert module_.v1
    assert module_.rules[0].head.key == X
    with pytest.raises(ParseError, match="`if` keyword is required before rule body"):
        module("p { x }", v0=True, imports="import rego.v1")
    single = rule("p[x] if { x }", v0=True, imports="import future.keywords.if")
    assert single.head.ref == ref("p", X)


def test_package_and_imports() -> None:
    module_ = parse_module(
        Source("", 'package a.if["b c"]\nimport data.x\nimport input as i\nimport rego.v1')
    )
    assert module_.package.path == ("a", "if", "b c")
    assert [(i.path, i.alias) for i in module_.imports] == [
        (ref("data", "x"), None),
        (Var("input"), "i"),
        (ref("rego", "v1"), None),
    ]


def test_comments_are_kept_with_their_places() -> None:
    comments = module("# one\np := [1, # two\n2] #three").comments
    assert [(c.text, c.span.row, c.span.col) for c in comments] == [
        (" one", 3, 1),
        (" two", 4, 10),
        ("three", 5, 4),
    ]


def test_spans_cover_the_text() -> None:
    actual = rule("p := x.y + f(x) if { not x.y with input as 1 }")
    assert actual.span.text == "p := x.y + f(x) if { not x.y with input as 1 }"
    assert actual.head.span.text == "p := x.y + f(x)"
    assert actual.head.value is not None
    assert actual.head.value.span.text == "x.y + f(x)"
    (expr,) = actual.body
    assert expr.span.text == "not x.y with input as 1"
    assert isinstance(expr.term, Ref)
    assert expr.term.span.text == "x.y"
    assert [w.span.text for w in expr.withs] == ["with input as 1"]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("p { x }", ["3:1: `if` keyword is required before rule body"]),
        ("f(x) { x }", ["3:1: `if` keyword is required before function body"]),
        ("p[x]", ["3:1: `contains` keyword is required for partial set rules"]),
        ("p", ["3:1: var cannot be used for rule name"]),
        ("p.a.b", ["3:1: rule must have value assignment and/or body declaration"]),
        ("p if { x", ["4:0: unexpected eof token"]),
        ("p if { x } }", ["3:12: unexpected } token"]),
        ("default p(x).y := 1", ["3:9: rule head ref p(x).y invalid"]),
        ('p(x)["y"] := 1', ["3:1: invalid rule head: p(x).y"]),
        ("1 := 2", ["3:1: number cannot be used for rule name"]),
        ("x + 1 := 2", ["3:1: call cannot be used for rule name"]),
        ("count(x)", ["3:1: rule name conflicts with built-in function"]),
        ("p if { é }", ["3:8: illegal token"]),
        ("package q", ["3:1: unexpected package"]),
        ("default p := input", ["3:1: illegal default rule (value cannot contain ref)"]),
        ("default f(x, x) := 1", ["3:1: illegal default rule (arguments cannot be repeated x)"]),
        ("contains := 1", ["3:1: contains keyword cannot be used for rule name"]),
        ("import data.x as input", ["4:0: unexpected eof token: expected var"]),
    ],
)
def test_refusals(text: str, errors: list[str]) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(Source("p.rego", f"package p\n\n{text}\n"), builtins={"count"})
    diagnostic = [f"{d.span.row}:{d.span.col}: {d.message}" for d in caught.value.diagnostics]
    assert diagnostic == errors


def chunks() -> Iterator[tuple[str, list[str]]]:
    for chunk in (Path(__file__).parent / "errors.rego").read_text().split("---\n"):
        lines = chunk.splitlines()
        errors = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
        yield "\n".join(line for line in lines if not line.startswith("### ")), errors


@pytest.mark.parametrize(("text", "errors"), list(chunks()))
def test_errors_have_opas_places_and_words(text: str, errors: list[str]) -> None:
    """Each chunk of `errors.rego` is what follows a package line and a blank one."""
    assert errors
    with pytest.raises(ParseError) as caught:
        parse_module(Source("p.rego", f"package p\n\n{text}\n"))
    diagnostic = [f"{d.span.row}:{d.span.col}: {d.message}" for d in caught.value.diagnostics]
    assert diagnostic == errors


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import future.keywords.or\np if { x or ) }", "4:13: unexpected ) token"),
        ("p := 1 if { x } else := 2 else := 3", "3:27: unexpected else keyword"),
        ("p := 1 if x else := {2} if y else := 3\nelse := 4", "4:1: unexpected else keyword"),
        ("import future.keywords.not\np if { not some x }", "4:12: unexpected some keyword: "
         "illegal negation of 'some'"),
        ("import future.keywords.not\np if not { ) }", "4:12: unexpected ) token"),
        ("import future.keywords.not\np if { $\"{not x}\" }", "4:11: unexpected negation ('not') "
         "in template-string expression"),
        ("import future.keywords.and\nx and y", "4:1: expression cannot be used for rule head"),
        ("import future.keywords.and\np if { x := 1 and y }", "4:15: unexpected assignment (':=') "
         "outside `{ ... }` in `and` or `or`"),
        ("import future.keywords.in as x", "3:8: `future` imports cannot be aliased"),
        ("import future", "3:8: invalid import, must be `future.keywords`"),
    ],
)  # fmt: skip
def test_errors_with_imported_words(text: str, error: str) -> None:
    assert refused(text)[0] == error


def test_v0_errors() -> None:
    assert refused("import rego.v1 as x", v0=True) == ["3:8: `rego` imports cannot be aliased"]
    assert refused('p { $"" }', v0=True) == [
        "3:5: template strings are not supported by current capabilities"
    ]


def test_names_may_be_keywords_where_a_path_goes_on() -> None:
    first, second = module("package.x := 1\nimport[y] := 2 if y := 3").rules
    assert first.head.ref == ref("package", "x")
    assert second.head.ref == ref("import", Y)
    assert query("not.x; some.y")[1].term == ref("some", "y")


def test_more_bodies_get_wildcards_of_their_own() -> None:
    first, second = module("f(_, x) if { x } { not x }").rules
    assert first.head.args == (Var("$0"), X)
    assert second.head.args == (Var("$1"), X)


def test_a_term_from_a_source() -> None:
    assert parse_term(Source("", "x")) == X


def test_true_is_not_one() -> None:
    assert Scalar(True) != Scalar(1)
    assert len({Scalar(True), Scalar(1), Scalar(Number("1.0")), Scalar("1")}) == 3


def test_v0_hints_at_the_import() -> None:
    assert refused("p { some x in y }", v0=True) == [
        "3:12: unexpected identifier token: expected \\n or ; or } "
        "(hint: `import future.keywords.in` for `some x in xs` expressions)"
    ]
    assert refused("p { every x in y { x } }", v0=True) == [
        "3:11: unexpected identifier token: expected \\n or ; or } "
        "(hint: `import future.keywords.every` for `every x in xs { ... }` expressions)"
    ]


def test_an_empty_text_is_no_module() -> None:
    with pytest.raises(ParseError, match="rego_parse_error: empty module"):
        parse_module(Source("p.rego", "  # nothing\n"))


def test_a_term_is_exactly_one() -> None:
    for text in ("", "x; y", "not x", "some x", "x with input as 1"):
        with pytest.raises(ParseError, match="expected exactly one term"):
            parse_term(text)


def test_all_errors_are_reported_up_to_a_limit() -> None:
    assert len(refused("1\n" * 20)) == 20
    assert len(refused("1\n" * 2_000)) == 1_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "(" * 5000,
        "{" * 5000,
        "p := " + "[x | " * 5000,
        "p := " + "f(" * 5000,
        "p := x" + " in x" * 5000,
        "p := " + '$"{' * 5000,
        "p if {" + "every x in x {" * 5000,
        "p := f" + "(x).y" * 5000,
    ],
)
def test_deep_nesting_is_an_error(text: str) -> None:
    with pytest.raises(ParseError, match="max parsing recursion depth exceeded"):
        module(text)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("p := x" + " + x" * 5000, "operators", "`sum([a, b])`"),
        ("p := x" + " == x | x" * 5000, "operators", "`x in {a, b}`"),
        ("p if { x }" + " else if { x }" * 5000, "else branches", "`object.get(values, "),
    ],
)
def test_what_follows_each_other_without_end_is_an_error(text: str, what: str, hint: str) -> None:
    with pytest.raises(ParseError, match=f"more than 500 {what} follow each other") as caught:
        module(text)
    assert hint in str(caught.value.diagnostics[-1].hint)


def test_nesting_within_the_limit_parses() -> None:
    depth = MAX_DEPTH - 1
    for begin, end in (("[1, ", "]"), ("{1: ", "}"), ("f(", ")"), ("(", ")")):
        assert isinstance(parse_term(begin * depth + "x" + end * depth), get_args(Term))


def test_a_deep_stack_of_the_caller_is_an_error_too() -> None:
    def parse(frames: int) -> None:
        if frames:
            parse(frames - 1)
        else:
            parse_term("[" * (MAX_DEPTH - 1))

    with pytest.raises(ParseError, match="max parsing recursion depth exceeded"):
        parse(sys.getrecursionlimit() - 250)


def test_going_back_does_not_explode() -> None:
    inner = "p := " + "{x | " * 60 + "x,,"
    assert refused(inner)
    assert refused("p if " + "{" * 60 + "x,,")


@pytest.mark.parametrize(
    "body",
    [
        "input.x == 1",
        "xs[_] == ys[_]\n\tzs[_]",
        "1 + f(x) * 2 > y; x in xs; y, z in xs",
        "x in xs\n\ty",
        "x, y in xs\n\ty",
        "not x == 1\n\ty",
        "[1 | x] == 1\n\ty",
        "{1, 2} == x\n\ty",
        "x == {y | z == 1}\n\ty",
        "x := 1 with input as y\n\tx",
        "(x == 1) == y\n\tz",
        "x == 1 with input as 2\n\tz",
    ],
)
def test_the_first_expression_of_a_body_is_parsed_like_any_other(body: str) -> None:
    def bodies(text: str) -> Body:
        (rule,) = parse_module(Source("a.rego", f"package a\n\np if {{ {text} }}\n")).rules
        return rule.body

    # Braces are read as a set first, which leaves its first term to the body.
    first, *rest = bodies(f"true; {body}")
    assert bodies(body) == tuple(rest)
    shift = len("true; ")
    spans = [expr.span.start + shift for expr in bodies(body)]
    assert spans == [expr.span.start for expr in rest]
    assert first.span.text == "true"


@pytest.mark.parametrize("text", ["p := 1", "import data.a data.b", ""])
def test_a_text_that_is_not_one_import_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="expected import"):
        parse_import(Source("", text))
