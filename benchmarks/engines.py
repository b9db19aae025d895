"""Engine + case -> a function that takes the input and gives the decision.

Each contender is given the input as Python values every time, as a program has it, and gives the
answer as a Python value. What is done once for many decisions is done before the clock runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.cases import Case

__all__ = ["Decide", "Missing", "engines"]

Decide = Callable[[Any], object]


class Missing(Exception):
    """This contender cannot take part, and why."""


def doorward(case: Case, *, remember_tokens: bool = False) -> Decide:
    from doorward.rego import CompileError, Engine, Environment
    from doorward.rego.shared import VerifiedTokens

    environment = Environment(tokens=VerifiedTokens() if remember_tokens else None)
    modules = {f"{case.name}.rego": case.source}
    try:
        engine = Engine(modules=modules, data=dict(case.data), environment=environment)
    except CompileError as error:
        raise Missing(str(error.diagnostics[0])) from error
    return engine.prepare(case.query).answer


def _interpreter(case: Case) -> Any:
    if case.too_much_for_regopy:
        raise Missing(case.too_much_for_regopy)
    import regopy

    interpreter = regopy.Interpreter()
    interpreter.add_module(f"{case.name}.rego", case.source)
    interpreter.add_data_json(json.dumps(case.data))
    return interpreter


def regopy_query(case: Case) -> Decide:
    import regopy

    interpreter = _interpreter(case)

    def decide(value: Any) -> object:
        interpreter.set_input(regopy.Input(value))
        return interpreter.query(case.query)[0][0]

    return decide


def regopy_bundle(case: Case) -> Decide:
    import regopy

    interpreter = _interpreter(case)
    bundle = interpreter.build(case.query)

    def decide(value: Any) -> object:
        interpreter.set_input(regopy.Input(value))
        return interpreter.query_bundle(bundle)[0][0]

    return decide


def regopy_bundle_known_input(case: Case) -> Decide:
    """The bundle alone: the input was handed over before the clock ran."""
    import regopy

    interpreter = _interpreter(case)
    bundle = interpreter.build(case.query)
    interpreter.set_input(regopy.Input(case.input))

    def decide(_: Any) -> object:
        return interpreter.query_bundle(bundle)[0][0]

    return decide


def engines(case: Case) -> Iterator[tuple[str, Callable[[], Decide]]]:
    """Name and maker of everything that can decide this case."""
    yield "doorward", lambda: doorward(case)
    if case.has_token:
        yield "doorward, token cached", lambda: doorward(case, remember_tokens=True)
    for label, baseline in case.baselines.items():
        yield label, lambda baseline=baseline: baseline(case.data)  # type: ignore[misc]  # a bound default
    yield "regopy bundle", lambda: regopy_bundle(case)
    yield "regopy bundle, input known", lambda: regopy_bundle_known_input(case)
    yield "regopy query", lambda: regopy_query(case)
