"""Declaring built-ins: what the registry checks, and how signatures read."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego import builtins
from doorward.rego.builtins import REGISTRY, Context, Environment, Registry
from doorward.rego.builtins.registry.signature import (
    any_,
    any_of,
    array,
    boolean,
    kinds,
    number,
    object_,
    set_,
    signature_text,
    string,
    tuple_,
    type_text,
)
from doorward.rego.errors import BuiltinError, OperandError


def test_the_table_names_what_the_modules_declare() -> None:
    folder = Path(builtins.__path__[0])
    assert {file.stem for file in folder.glob("*.py")} - {"__init__"} == set(builtins.DECLARED)
    # To iterate imports all modules. A built-in that the table lacks stands in the registry, too.
    declared = defaultdict(set)
    for builtin in REGISTRY:
        declared[builtin.category].add(builtin.name)
    listed = {module: names.split() for module, names in builtins.DECLARED.items()}
    assert listed == {module: sorted(names) for module, names in declared.items()}
    assert list(listed) == sorted(listed)


def test_a_module_is_imported_when_a_built_in_is_read_from_any_registry() -> None:
    module = "tests.rego.builtins.registry.declared_late"
    first = Registry()
    first.declare_in("tests.rego.builtins.registry", {"declared_late": "late.one late.two"})
    second = Registry(first)
    cut = second.restricted({"late.one"})
    assert "late.two" in second
    assert (len(first), len(cut)) == (2, 1)
    assert module not in sys.modules
    LATE.append(first)
    try:
        assert cut["late.one"] is first["late.one"]
        assert [each.name for each in second] == ["late.one", "late.two"]
        with pytest.raises(ValueError, match=r"`late\.one` is declared twice"):
            first.builtin("late.one", returns=number)(lambda: 1)
        assert len(Registry(first, second)) == 2
    finally:
        sys.modules.pop(module, None)
        LATE.clear()


LATE: list[Registry] = []
"""The registry into which `declared_late` declares."""


def test_a_name_in_the_table_is_declared_by_no_other_module() -> None:
    registry = Registry()
    registry.declare_in("doorward.rego.builtins", {"numbers": "abs"})
    with pytest.raises(ValueError, match="`abs` is one of OPA's; choose another name"):
        registry.builtin("abs", number, returns=number)(lambda x: x)


def test_a_name_is_declared_once() -> None:
    registry = Registry()
    registry.builtin("a", returns=number)(lambda: 1)
    with pytest.raises(ValueError, match="built-in `a` is declared twice"):
        registry.builtin("a", returns=number)(lambda: 2)


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (lambda: 1, {}),
        (lambda a, b: 1, {}),
        (lambda a: 1, {"context": True}),
        (lambda *a: 1, {}),
        (lambda a: 1, {"variadic": number, "returns": None}),
    ],
)
def test_a_body_takes_the_operands_that_are_declared(body: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"built-in `a` needs a function with \d parameters?\b"):
        Registry().builtin("a", number, **{"returns": number, **options})(body)


@pytest.mark.parametrize(
    ("operand", "result", "role"),
    [
        ("string", number, "operand 1"),
        (array, number, "operand 1"),
        (array("string"), number, "operand 1"),  # type: ignore[arg-type]
        (any_of(number, str), number, "operand 1"),  # type: ignore[arg-type]
        (object_(string, number, a="number"), number, "operand 1"),  # type: ignore[arg-type]
        (number, "string", "result"),
        (number, set_(int), "result"),  # type: ignore[arg-type]
    ],
)
def test_a_declaration_names_types(operand: Any, result: Any, role: str) -> None:
    with pytest.raises(ValueError, match=f"built-in `a`: the type of its {role} is "):
        Registry().builtin("a", operand, returns=result)(lambda a: a)


def test_what_takes_any_number_of_operands_returns_nothing() -> None:
    with pytest.raises(ValueError, match="has `variadic`: use `returns=None`"):
        Registry().builtin("a", variadic=number, returns=number)(lambda *a: 1)


@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("context", [False, True])
def test_operands_of_the_wrong_kind_never_reach_the_body(count: int, context: bool) -> None:
    registry = Registry()
    names = [f"x{n}" for n in range(count)]
    body = eval(f"lambda {', '.join(['ctx'] * context + names)}: [{', '.join(names)}]")
    registry.builtin("a", *[number] * count, returns=any_, context=context)(body)
    call = registry["a"].call
    first = [Context(Environment())] if context else []
    assert call(*first, *range(count)) == list(range(count))
    for wrong in range(count):
        operands: list[Any] = list(range(count))
        operands[wrong] = "x"
        with pytest.raises(OperandError) as caught:
            call(*first, *operands)
        assert str(caught.value) == f"operand {wrong + 1} must be number but got string"


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (any_, "any", ()),
        (any_of(string, any_), "string or any", ()),
        (any_of(string, number), "string or number", ("string", "number")),
        (array(string), "array of string", ("array",)),
        (tuple_(boolean, set_(number)), "[boolean, set of number]", ("array",)),
        (REGISTRY["object.keys"].signature.args[0], "object", ("object",)),
    ],
)
def test_types_in_words(type_: Any, text: str, expected: tuple[str, ...]) -> None:
    assert type_text(type_) == text
    assert kinds(type_) == expected


def test_signatures_in_words() -> None:
    shown = {name: signature_text(REGISTRY[name].signature) for name in ("concat", "print", "abs")}
    assert shown == {
        "abs": "(number) → number",
        "concat": "(string, set of string or array of string) → string",
        "print": "(any …)",
    }


@pytest.mark.parametrize(
    ("name", "operands", "said"),
    [
        ("net.cidr_contains", ["x", 1], "invalid CIDR address: x"),
        ("net.cidr_contains", ["10.0.0.0/8", 1], "operand 1 must be string but got number"),
        ("net.cidr_intersects", [1, "x"], "operand 1 must be string but got number"),
        ("io.jwt.verify_es256", ["x", 1], "encoded JWT had no period separators"),
        ("io.jwt.verify_es256", ["a.b.c", 1], "operand 2 must be string but got number"),
        ("io.jwt.decode_verify", [1, {"a": 1}], "unknown token validation constraint: a"),
        ("io.jwt.decode_verify", [1, {"secret": "x"}], "operand 1 must be string"),
        ("io.jwt.encode_sign", [1, {}, []], "jwk.Parse"),
        ("graphql.parse", ["1.0", 1], "Unexpected Float"),
        ("graphql.parse", ["{ a }", 1], "operand 2 must be one of"),
        ("providers.aws.sign_req", [{}, 1, 1], "operand 1 must be object but got number"),
        ("providers.aws.sign_req", [{}, {}, "x"], "operand 2 missing required"),
        ("providers.aws.sign_req", [1, {}, 1], "operand 1 must be object but got number"),
        ("rego.parse_module", ["a", 1], "operand 1 must be string but got number"),
        ("crypto.x509.parse_keypair", ["a", 1], "operand 1 must be string but got number"),
    ],
)
def test_operands_are_refused_in_the_order_in_which_opa_reads_them(
    name: str, operands: list[Any], said: str
) -> None:
    with pytest.raises(BuiltinError, match=said):
        invoke(name, *operands)
