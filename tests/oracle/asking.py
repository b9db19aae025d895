"""The oracle as a whole: modules, data, input and a query in; bindings or an error out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle.evaluate import Evaluation, World
from tests.oracle.order import UnsafeError
from tests.oracle.plain import OutOfScopeError
from tests.oracle.program import Program, RecursiveError

from doorward.rego import REGISTRY, UNDEFINED, Environment, Registry
from doorward.rego.builtins.registry.context import Context

__all__ = ["Oracle", "OutOfScopeError", "RecursiveError", "UnsafeError"]


class Oracle:
    """Modules on base data, to be asked.

    CompileError where a variable is unsafe or a rule recursive, the parser's own error, and
    OutOfScopeError. Other errors of compiling are not found.
    """

    def __init__(
        self,
        modules: Mapping[str, str],
        data: Any = None,
        *,
        v0: bool = False,
        registry: Registry = REGISTRY,
        metadata: bool = False,
    ) -> None:
        self.data = {} if data is None else data
        self.program = Program(modules, registry, v0=v0, metadata=metadata)

    def answers(
        self,
        query: str,
        input: Any = UNDEFINED,
        *,
        strict: bool = False,
        now_ns: int | None = None,
        environment: Environment | None = None,
        steps: int | None = None,
    ) -> list[dict[str, Any]]:
        """The bindings of each answer; of a query without variables, its value under "".

        OutOfScopeError if more than so many `steps` are needed.
        """
        body, shown, captured = self.program.query(query)
        context = Context(environment or Environment(), now_ns)
        evaluation = Evaluation(self.program, self.data, context, strict=strict, steps=steps)
        answers = []
        for env in evaluation.solve(body, {}, World(input)):
            answer = {
                shown.get(name, name): evaluation.plug(value, env)
                for name, value in env.items()
                if name in shown or not ("#" in name or name.startswith("$"))
            }
            if captured is None:
                answers.append(answer)
            else:
                answers.append({"": evaluation.plug(captured, env)})
        return answers
