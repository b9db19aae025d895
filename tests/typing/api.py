"""The public types, pinned: mypy reads this file, nothing runs it.

A line that stops type-checking is a change that users of the library will notice.
"""

from __future__ import annotations

from typing import Any, assert_type

from doorward.rego import (
    UNDEFINED,
    CompileError,
    Engine,
    EvalError,
    parse_term,
)


def engine_and_query(source: str, data: dict[str, Any]) -> None:
    engine = Engine(modules={"authz.rego": source}, data=data)
    assert_type(engine, Engine)
    assert_type(engine.with_data({"roles": {}}), Engine)
    assert_type(engine.with_modules({"authz.rego": source}), Engine)
    Engine(modules={"old.rego": source}, data={}, v0=True)
    Engine(modules={"old.rego": source}, rego_versions={"old.rego": 0})
    engine = Engine(schemas={(): {"type": "object"}, ("user",): {"type": "string"}})
    assert_type(engine.check_data(), None)
    assert_type(engine.prepare("input").emit(), str)

    query = engine.prepare("data.envoy.authz.allow", strict_builtin_errors=True)
    value = query.value({"user": "ann"})
    if value is UNDEFINED:
        return
    assert_type(query.results({"user": "ann"}), list[dict[str, Any]])
    query.results(parse_term('{"a": {1, 2}}'))


def errors(source: str) -> list[str]:
    try:
        Engine(modules={"authz.rego": source}, data={}).prepare("data.p.q").value({})
    except CompileError as error:
        return [
            f"{diagnostic.code} {diagnostic.message} {diagnostic.span.row}"
            for diagnostic in error.diagnostics
        ]
    except EvalError as error:
        return [error.code, error.message, str(error.span.row)]
    return []
