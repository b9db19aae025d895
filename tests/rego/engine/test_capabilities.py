"""A capabilities file takes away what it does not name: built-ins, keywords, features, hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.rego import REGISTRY, CompileError, Engine, Environment, EvalError, Registry, types
from doorward.rego.builtins.registry.declarations import from_declaration, to_declaration
from doorward.rego.capabilities import FEATURES, future_keywords
from doorward.rego.shared import Capabilities

ALL: dict[str, Any] = {
    "builtins": [{"name": builtin.name} for builtin in REGISTRY],
    "future_keywords": future_keywords(),
    "features": list(FEATURES),
}


def without(*names: str, **fields: Any) -> Capabilities:
    builtins = [item for item in ALL["builtins"] if item["name"] not in names]
    return Capabilities.from_document(ALL | {"builtins": builtins} | fields)


def problems(policy: str, capabilities: Capabilities, **options: Any) -> list[str]:
    with pytest.raises(CompileError) as caught:
        Engine({"a.rego": f"package a\n\n{policy}\n"}, capabilities=capabilities, **options)
    return [f"{d.span.row}: {d.code}: {d.message}" for d in caught.value.diagnostics]


def test_everything_restricts_nothing() -> None:
    policy = 'package a\n\np := $"{count([1])}"\n\nq := 1 + 2\n'
    engine = Engine({"a.rego": policy}, capabilities=without())
    assert engine.prepare("data.a").value() == {"p": "1", "q": 3}


def test_a_builtin_that_is_not_named_does_not_exist() -> None:
    told = problems("p := count([1])", without("count"))
    assert told == ["3: rego_type_error: undefined function count"]
    assert problems("p := 1 + input.x", without("plus")) == [
        "3: rego_type_error: undefined function plus"
    ]
    with pytest.raises(CompileError, match=r"undefined function http\.send"):
        Engine(capabilities=without("http.send")).prepare("http.send({})")


def test_template_strings_are_a_feature() -> None:
    narrow = without(features=["rego_v1"])
    told = "rego_parse_error: template strings are not supported by current capabilities"
    assert problems('p := $"{input.x}"', narrow) == [f"3: {told}"]
    with pytest.raises(CompileError, match="template strings are not supported"):
        Engine(capabilities=narrow).prepare('$"{input.x}"')


def test_rego_v1_is_a_feature() -> None:
    narrow = without(features=[])
    assert problems("p := 1", narrow) == [
        "1: rego_parse_error: illegal capabilities: rego_v1 feature required for Rego v1"
    ]
    Engine({"a.rego": "package a\n\np = 1"}, v0=True, capabilities=narrow)
    assert problems("import rego.v1\n\np := 1", narrow, v0=True) == [
        "3: rego_parse_error: invalid import, `rego.v1` is not supported by current capabilities"
    ]


def test_keywords_of_the_future_are_named() -> None:
    narrow = without(future_keywords=["not"])
    Engine({"a.rego": "package a\n\nimport future.keywords.not\n"}, capabilities=narrow)
    Engine({"a.rego": "package a\n\nimport future.keywords.in\n"}, capabilities=narrow)
    assert problems("import future.keywords.or", narrow) == [
        "3: rego_parse_error: unexpected keyword, must be one of [contains every if in not]"
    ]
    Engine({"a.rego": "package a\n\nimport input as i\n"}, capabilities=narrow)
    assert "[and or]" in problems("import future.keywords", narrow)[0]


def test_hosts_are_those_of_the_file_and_of_the_environment() -> None:
    engine = Engine(capabilities=without(allow_net=["Other.example"]))
    assert engine.environment.allow_net == frozenset({"other.example"})
    query = engine.prepare(
        'http.send({"method": "get", "url": "http://127.0.0.1:9/"})', strict_builtin_errors=True
    )
    with pytest.raises(EvalError, match="unallowed host"):
        query.value()
    assert Engine(capabilities=without(allow_net=[])).environment.allow_net == frozenset()
    assert Engine(capabilities=without()).environment.allow_net is None
    told = Environment(allow_net=frozenset({"a.example", "b.example"}))
    both = Engine(capabilities=without(allow_net=["b.example", "c.example"]), environment=told)
    assert both.environment.allow_net == frozenset({"b.example"})


@pytest.mark.parametrize(
    "document",
    [[], {"builtins": [1]}, {"builtins": {"a": 1}}, {"features": "rego_v1"}, {"allow_net": [1]}],
)
def test_anything_else_is_no_capabilities(document: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        Capabilities.from_document(document)


DECLARED: dict[str, Any] = {
    "name": "acme.price",
    "decl": {
        "type": "function",
        "args": [{"type": "string", "name": "article", "description": "its name"}],
        "result": {"type": "number"},
    },
}
SHOP = {"shop.rego": "package shop\n\nallow if acme.price(input.article) < 4\n"}


def declaring(*entries: Any) -> Capabilities:
    return without(builtins=[*ALL["builtins"], *entries])


def test_a_builtin_that_only_the_file_declares_has_its_types() -> None:
    assert problems("p := acme.price(1)", declaring(DECLARED)) == [
        "3: rego_type_error: acme.price: invalid argument(s)"
    ]
    with pytest.raises(CompileError, match=r"undefined function acme\.price"):
        Engine(SHOP)


def test_a_builtin_that_only_the_file_declares_can_be_replaced() -> None:
    modules = {**SHOP, "cheap.rego": "package cheap\n\nprice(_) := 3\n"}
    engine = Engine(modules, capabilities=declaring(DECLARED))
    query = engine.prepare("data.shop.allow with acme.price as data.cheap.price")
    assert query.value({"article": "tea"}) is True
    query = engine.prepare('data.shop.allow with acme.price as to_number("3")')
    with pytest.raises(EvalError, match="unsupported built-in"):
        query.value({"article": "tea"})


@pytest.mark.parametrize("strict", [False, True])
def test_a_builtin_that_only_the_file_declares_cannot_be_called(strict: bool) -> None:
    engine = Engine(SHOP, capabilities=declaring(DECLARED))
    query = engine.prepare("data.shop.allow", strict_builtin_errors=strict)
    with pytest.raises(EvalError) as caught:
        query.value({"article": "tea"})
    assert str(caught.value) == "shop.rego:3: eval_internal_error: unsupported built-in"
    assert "only the capabilities file declares acme.price" in caught.value.render()


def test_the_code_of_a_registry_counts_more_than_a_declaration() -> None:
    registry = Registry(REGISTRY)
    registry.builtin("acme.price", types.string, returns=types.number)(lambda _article: 3)
    engine = Engine(SHOP, registry=registry, capabilities=declaring(DECLARED))
    assert engine.prepare("data.shop.allow").value({"article": "tea"}) is True
    assert engine.with_modules({}).prepare('acme.price("tea")').value() == 3


@pytest.mark.parametrize("name", [builtin.name for builtin in REGISTRY])
def test_a_declaration_can_be_read_again(name: str) -> None:
    entry = to_declaration(REGISTRY[name])
    again = from_declaration(entry)
    assert (to_declaration(again)["decl"], again.pure) == (entry["decl"], REGISTRY[name].pure)


def test_a_key_of_any_kind_is_declared_as_json() -> None:
    keys = [True, None, 1.5, [False]]
    fields = [{"key": key, "value": {"type": "string"}} for key in keys]
    type_ = {"type": "object", "static": fields}
    builtin = from_declaration({"name": "acme.f", "decl": {"type": "function", "args": [type_]}})
    assert json.loads(json.dumps(to_declaration(builtin)))["decl"]["args"] == [type_]


def deep() -> dict[str, Any]:
    type_: dict[str, Any] = {"type": "any"}
    for _ in range(60):
        type_ = {"type": "set", "of": type_}
    return type_


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        (None, "`decl` must be an object of type function"),
        ({"type": "string"}, "`decl` must be an object of type function"),
        ({"args": {}}, "`args` must be a list"),
        ({"args": ["string"]}, "a type must be an object"),
        ({"result": {"type": "text"}}, "a type must be an object"),
        ({"result": {"type": "any", "of": {}}}, "`of` must be a list"),
        ({"result": {"type": "object", "static": [1]}}, "`static` of an object type must be"),
        ({"result": {"type": "object", "dynamic": 1}}, "`dynamic` of an object type must be"),
        ({"result": {"type": "any"}, "variadic": {"type": "any"}}, "it cannot have a `result`"),
        ({"result": deep()}, "levels deep"),
    ],
)
def test_a_declaration_that_is_not_valid_is_refused(declaration: Any, said: str) -> None:
    entry = {"name": "acme.f", "decl": declaration}
    if declaration and "type" not in declaration:
        entry["decl"] = {"type": "function", **declaration}
    with pytest.raises(ValueError, match=f"built-in `acme.f`: .*{said}"):
        declaring(entry)


@pytest.mark.parametrize("name", ["data.a.p", "input", "a b", "", "a.", "x\ny"])
def test_a_name_that_no_builtin_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name for a built-in"):
        declaring(DECLARED | {"name": name})


def test_a_set_of_anything_may_leave_its_type_out() -> None:
    entry = {"name": "acme.f", "decl": {"type": "function", "result": {"type": "set"}}}
    assert declaring(entry).declared[0].signature.result == types.set_(types.any_)


def test_a_declared_builtin_may_be_deprecated() -> None:
    assert problems("p := acme.price(input.x)", declaring(DECLARED | {"deprecated": True})) == [
        "3: rego_type_error: deprecated built-in function calls in expression: acme.price"
    ]
