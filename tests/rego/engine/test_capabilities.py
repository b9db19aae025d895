"""A capabilities file takes away what it does not name: built-ins, keywords, features, hosts."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import REGISTRY, Capabilities, CompileError, Engine, Environment, EvalError
from doorward.rego.capabilities import FEATURES, future_keywords

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
