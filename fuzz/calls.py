"""Calls of built-ins with random operands, answered by Doorward and by OPA 1.20.2.

`campaign` asks both for each call that a generator writes from a seed, and prints the differences.
A call at which OPA ends in a fault, does not answer in time, or answers by chance, is not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from doorward.rego import UNDEFINED, Engine, EvalError, from_python
from doorward.rego.errors import LIMIT_ERROR
from fuzz.opa import as_json, canonical
from fuzz.opa_engine import OpaEngine, library

__all__ = ["JsonText", "ask_opa", "ask_ours", "campaign", "is_random"]

QUERY: Final = "data.t.p"
UNCOMPARED: Final = frozenset({"RawSignatureAlgorithm"})
"""Members that objects have by the release of Go with which OPA is built."""
_TOKEN: Final = """{
	"parts": array.slice(split(answer, "."), 0, 2),
	"size": count(split(answer, ".")[2]),
	"token": [answer |
		json.unmarshal(base64url.decode(split(answer, ".")[0])).alg in {
			"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "EdDSA",
		}],
}"""
COMPARED: Final[dict[str, str]] = {
    # OPA lists errors of properties in the order of a Go map.
    "json.match_schema": "[answer[0], sort(answer[1])]",
    # Of several errors OPA names the first in the order of a Go map.
    "json.verify_schema": "answer[0]",
    # A signature by PSS or ECDSA is made by chance.
    "io.jwt.encode_sign": _TOKEN,
    "io.jwt.encode_sign_raw": _TOKEN,
}
"""What is compared of the answer of a built-in, as a Rego term; the whole answer of others."""
LONGEST: Final = 2_000
"""How many characters of an answer are printed."""
_QUERIES: Final[dict[str, Any]] = {}


class JsonText(str):
    """An operand as JSON: its numbers come to the built-in as they are written."""


def ask_ours(name: str, operands: list[Any]) -> str:
    """Doorward's answer as text: a value, `undefined`, or the code of an error."""
    modules = _modules(name, operands)
    key = modules["t.rego"]
    if key not in _QUERIES:
        engine = Engine(modules)
        _QUERIES[key] = engine.prepare(QUERY, strict_builtin_errors=True)
    try:
        value = _QUERIES[key].value(from_python({"o": operands}))
    except EvalError as error:
        return error.code
    return "undefined" if value is UNDEFINED else canonical(_without(as_json(value)))


def ask_opa(opa: OpaEngine, name: str, operands: list[Any]) -> str | None:
    """OPA's answer in the same form; None where it ends in a fault, or has none in time."""
    modules = _modules(name, operands)
    answer = opa.ask({"modules": modules, "data": {}, "query": QUERY, "input": {"o": operands}})
    if answer is None:
        return None
    if "error" in answer:
        code = str(answer["error"]["code"])
        return None if code == "panic" else code
    rows = answer["result"] or []
    return canonical(_without(rows[0]["expressions"][-1]["value"])) if rows else "undefined"


def is_random(opa: OpaEngine, name: str, operands: list[Any], answer: str | None) -> bool:
    """Return True if OPA has another answer when it is asked again: it then depends on the order
    of a map of Go.
    """
    return any(ask_opa(opa, name, operands) != answer for _ in range(8))


def _without(value: Any) -> Any:
    """An answer without the members in `UNCOMPARED`."""
    if isinstance(value, dict):
        return {name: _without(each) for name, each in value.items() if name not in UNCOMPARED}
    return [_without(each) for each in value] if isinstance(value, list) else value


def _modules(name: str, operands: list[Any]) -> dict[str, str]:
    """A policy with the call."""
    texts = [
        f"json.unmarshal(input.o[{n}])" if isinstance(operand, JsonText) else f"input.o[{n}]"
        for n, operand in enumerate(operands)
    ]
    compared = COMPARED.get(name, "answer")
    call = f"{name}({', '.join(texts)})"
    return {"t.rego": f"package t\n\np := {compared} if answer := {call}\n"}


def campaign(
    description: str | None,
    call_of: Callable[[str], tuple[str, list[Any]]],
    *,
    allow_limits: bool = False,
) -> int:
    """Run the command line of a fuzzer whose calls `call_of` writes; return its exit code, 1 if
    there was a difference. `allow_limits`: a limit of Doorward is not a difference.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="of time")
    parser.add_argument("--calls", type=int, help="how many, in place of a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=20, help="differences after which to stop")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    opa = OpaEngine(library())
    answers: Counter[str] = Counter()
    differences = 0
    slowest = (0.0, "")
    try:
        for number in count():
            if number == options.calls or (options.calls is None and time.monotonic() >= end):
                break
            name, operands = call_of(f"{options.seed}-{number}")
            begun = time.monotonic()
            got = ask_ours(name, operands)
            slowest = max(slowest, (time.monotonic() - begun, f"{options.seed}-{number} {name}"))
            wanted = ask_opa(opa, name, operands)
            if allow_limits and got == LIMIT_ERROR:
                wanted = got
            answers[got if len(got) < 25 else "a value"] += 1
            answers["a fault in OPA"] += wanted is None
            if wanted not in (None, got) and not is_random(opa, name, operands, wanted):
                differences += 1
                sys.stdout.write(f"{options.seed}-{number} {name}\n")
                sys.stdout.write(f"  got  {got[:LONGEST]}\n  want {wanted[:LONGEST]}\n")
                sys.stdout.write(f"  {json.dumps(operands)}\n")
                if differences >= options.most:
                    break
    finally:
        opa.close()
    sys.stdout.write(f"{dict(answers.most_common())}, {differences} differences\n")
    sys.stdout.write(f"the longest answer took {slowest[0]:.2f} s: {slowest[1]}\n")
    return 1 if differences else 0
