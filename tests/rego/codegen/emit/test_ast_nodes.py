"""Constructors of Python syntax, and positions."""

from __future__ import annotations

import ast

from doorward.rego.codegen.emit.ast_nodes import (
    all_of,
    declare_nonlocals,
    except_clause,
    is_undefined_test,
    load,
    locate,
    make_function,
    method,
    name_of,
    runtime,
    subscript,
)


def test_constructors_write_what_they_say() -> None:
    assert ast.unparse(method("items", load("x"))) == "ctx.items(x)"
    assert ast.unparse(subscript(load("x"), "a")) == "x['a']"
    assert ast.unparse(runtime("len")) == "rt.len"
    assert ast.unparse(all_of([load("a")])) == "a"
    assert ast.unparse(all_of([load("a"), load("b")])) == "a and b"
    assert name_of(load("a")) == "a"
    assert name_of(method("items")) is None
    clause = except_clause(load("Error"), "x", load("y"), "error")
    locate(clause, 1, 0)
    assert ast.unparse(clause).split() == ["except", "Error", "as", "error:", "x", "=", "y"]


def test_a_test_for_undefined_is_known() -> None:
    test = ast.parse("x is not y", mode="eval").body
    assert isinstance(test, ast.Compare)
    assert not is_undefined_test(test)
    test.comparators = [runtime("UNDEFINED")]
    assert is_undefined_test(test)
    assert not is_undefined_test(load("x"))


def test_a_position_is_given_once() -> None:
    inner = load("a")
    locate(inner, 3, 4)
    outer = ast.Expr(value=ast.List(elts=[inner, load("b")], ctx=ast.Load()))
    locate(outer, 5, 6)
    positions = {
        node.id: (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        for node in ast.walk(outer)
        if isinstance(node, ast.Name)
    }
    assert positions == {"a": (3, 3, 4, 4), "b": (5, 5, 6, 6)}


def test_everything_that_python_compiles_has_a_position() -> None:
    function = make_function("f", ["a", "b"])
    body = ast.parse(
        "try:\n  x = {a: -b, **{}}\nexcept E as e:\n  x = f'{a}' if a[1:2] else 1"
    ).body
    for node in ast.walk(ast.Module(body=body, type_ignores=[])):
        for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
            if hasattr(node, name):
                delattr(node, name)
    function.body = [*body, ast.While(test=load("a"), body=[ast.Break()], orelse=[])]
    locate(function, 1, 0)
    compile(ast.Module(body=[function], type_ignores=[]), "f", "exec")


def test_inner_functions_declare_only_what_they_share() -> None:
    text = (
        "def f():\n  x = 1\n  y = 1\n  def g():\n    for i in z:\n      if i:\n        x = y = 2\n"
    )
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    declare_nonlocals(function, {"x", "i"})
    assert ast.unparse(function).count("nonlocal x\n") == 1
