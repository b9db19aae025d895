"""CPU of policies as filters of rows: what is left of a policy of 200 rules, and its SQL.

    python -m benchmarks.filters

Each rule names a role and conditions on a document; the user and the documents are unknown. Each
figure is the least of several runs, in milliseconds of CPU; the first query after a change of the
policies is measured once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time_ns
from typing import Any, Final

from doorward.filters import Clause, Columns, to_conditions, to_sql
from doorward.pdp import from_modules
from doorward.pdp.residuals import residual_of_rows
from doorward.rego import Engine, Partial

RULES: Final = 200
RUNS: Final = 15
UNKNOWNS: Final = ("input.docs", "input.user")
COLUMNS: Final[Columns] = {
    "docs": {"kind": "text", "level": "number", "secret": "boolean"},
    "user": {"role": "text"},
}
_RULE: Final = """
include if {{
    input.user.role == "role{number}"
    input.docs.kind == "kind{number}"
    input.docs.level <= {level}
    not input.docs.secret == true
}}
"""


def policy(rules: int = RULES) -> str:
    """A policy with that many roles."""
    texts = [_RULE.format(number=number, level=number % 10) for number in range(rules)]
    return "package documents\n" + "".join(texts)


def least(
    run: Callable[[Any], Any], runs: int = RUNS, given: Callable[[], Any] = lambda: None
) -> float:
    """Milliseconds of CPU of the best run; each gets what `given` makes, which is not counted."""
    times = []
    for _ in range(runs):
        argument = given()
        gc.collect()
        started = process_time_ns()
        run(argument)
        times.append(process_time_ns() - started)
    return min(times) / 1e6


def measured(rules: int = RULES, runs: int = RUNS) -> dict[str, float]:
    """Milliseconds by what is done."""
    text = policy(rules)
    engine = Engine({"documents.rego": text})
    point = from_modules({"documents.rego": text})
    known: Any = {"user": {"role": "role7"}}

    def left(_: object = None) -> Partial:
        return engine.partial("data.documents.include", UNKNOWNS, only_truth=True)

    def for_user(_: object) -> Partial:
        return engine.partial("data.documents.include", UNKNOWNS[:1], known, only_truth=True)

    def kept(_: object = None) -> Partial:
        pdp = point.pdp
        return residual_of_rows(
            pdp.snapshot, pdp.build_gate, "documents/include", list(UNKNOWNS[:1]), known
        )

    def sql(residual: Partial) -> Clause:
        return to_sql(to_conditions(residual), COLUMNS, "postgresql")

    first = least(left, 1)
    if len(left().queries) != rules:
        raise RuntimeError("a rule has no query in the residual")
    kept()
    result = {
        f"what is left of {rules} rules, user and documents unknown": least(left, runs),
        "its SQL": least(sql, runs, left),
        "what is left, the first time": first,
        "what is left for one user": least(for_user, runs),
        "the same once more, kept for the revision of the policies": least(kept, runs),
    }
    point.close()
    return result


def main() -> None:
    """Print the figures."""
    for name, milliseconds in measured().items():
        print(f"{name:60} {milliseconds:9.3f} ms")


if __name__ == "__main__":
    main()
