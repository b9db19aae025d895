"""Random operands for the built-ins that `tests/oracle/builtins.py` has models of.

    python fuzz/builtins.py [--seconds 60] [--seed 1]

Prints every difference between a built-in and its model and how many calls were made in so many
seconds of processor time; the exit code is 1 if there was a difference.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.oracle.builtins import FAILED, MODELS

from doorward.rego import REGISTRY, UNDEFINED, Environment, from_python, to_json, to_python
from doorward.rego.builtins.registry.context import Context
from doorward.rego.errors import BuiltinError

__all__ = ["OPERANDS", "difference", "operands"]

KEYS: Final = ("a", "b", "", "a/b", "m~n", "0", "1")
VALUES: Final[tuple[Any, ...]] = (1, "x", None, True, [], {}, [1, 2], {"a": 1})


OPERATIONS: Final = ("add", "remove", "replace", "copy", "move", "test")


def _document(r: Random, depth: int = 2) -> Any:
    if depth == 0 or r.random() < 0.2:
        return r.choice(VALUES)
    if r.random() < 0.4:
        return [_document(r, depth - 1) for _ in range(r.randrange(4))]
    return {key: _document(r, depth - 1) for key in r.sample(KEYS, r.randrange(1, 4))}


def _path(r: Random) -> Any:
    keys = [r.choice([*KEYS, "2", "-"]) for _ in range(r.choice([0, 1, 1, 1, 2, 2]))]
    if r.random() < 0.15:
        return keys
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def _patch(r: Random) -> tuple[Any, ...]:
    operations = []
    for _ in range(r.randrange(1, 4)):
        operation: dict[str, Any] = {
            "op": r.choice(["add", "remove", "replace", "copy", "move", "test"])
        }
        operation["path"] = _path(r)
        if operation["op"] in ("copy", "move"):
            operation["from"] = _path(r) if r.random() < 0.8 else operation["path"]
        elif operation["op"] != "remove":
            operation["value"] = r.choice(VALUES)
        operations.append(operation)
    return _document(r), operations


def _glob(r: Random) -> tuple[Any, ...]:
    parts = ("a", "b", "c", "*", "**", "?", "[a-c]", "[!a-c]", "[ab]", "[!b]", "{a,b}", ".", "/")
    pattern = "".join(r.choice(parts) for _ in range(r.randrange(5)))
    text = "".join(r.choice("aabcd./") for _ in range(r.randrange(6)))
    return pattern, r.choice([[], None, ["/"], [".", "/"]]), text


def _time(r: Random) -> tuple[Any, ...]:
    ns = r.randrange(-(1 << 60), 1 << 60)
    return (r.choice([ns, ns, [ns, "UTC"], [ns, "UTC", 5], [ns, ""], [ns], "x", None]),)


def _number(r: Random) -> int:
    return r.choice([0, 1, 5, -3, 100, r.randrange(-50, 50)])


OPERANDS: Final[dict[str, Callable[[Random], tuple[Any, ...]]]] = {
    "json.patch": _patch,
    "glob.match": _glob,
    "time.clock": _time,
    "time.date": _time,
    "time.weekday": _time,
    "numbers.range": lambda r: (_number(r), _number(r)),
    "concat": lambda r: (r.choice(["", "-"]), [r.choice(["a", "b", 1]) for _ in range(3)]),
    "sum": lambda r: ([r.choice([1, 2, -1, "a"]) for _ in range(r.randrange(4))],),
}


def operands(name: str, seed: int | str) -> tuple[Any, ...]:
    """Operands of the built-in `name`, as JSON."""
    return OPERANDS[name](Random(f"{name}-{seed}"))


def difference(name: str, given: tuple[Any, ...]) -> str:
    """How the built-in's answer differs from its model's; "" if it does not."""
    declared = REGISTRY[name]
    values = [from_python(value) for value in given]
    context = [Context(Environment())] if declared.context else []
    try:
        got = declared.call(*context, *values)
    except BuiltinError:
        got = UNDEFINED
    want = MODELS[name](*given)
    got_text = "failed" if got is UNDEFINED else to_json(from_python(to_python(got)))
    want_text = "failed" if want is FAILED else to_json(from_python(want))
    return "" if got_text == want_text else f"{name}{given}: got {got_text}, want {want_text}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="of processor time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    calls = differences = 0
    for number in count():
        if time.process_time() >= options.seconds:
            break
        for name in OPERANDS:
            calls += 1
            text = difference(name, operands(name, f"{options.seed}-{number}"))
            if text:
                differences += 1
                sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"{calls} calls of seed {options.seed}, {differences} differences\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
