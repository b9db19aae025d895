"""What programs mean where it would be easy to mean something else: `language.toml` holds them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from doorward.rego import UNDEFINED, Engine, RegoError
from doorward.rego.numbers import parse_number

CASES = tomllib.loads(Path(__file__).with_name("language.toml").read_text())["case"]
_decode = json.JSONDecoder(parse_int=parse_number, parse_float=parse_number).decode


def answer(case: dict[str, Any], *, traced: bool) -> Any:
    modules = {"t.rego": f"package t\n\n{case['policy']}", **case.get("modules", {})}
    input_ = _decode(case["input"]) if "input" in case else UNDEFINED
    data = _decode(case.get("data", "{}"))
    try:
        engine = Engine(modules, data, v0=case.get("v0", False), traced=traced)
        results = engine.prepare(case.get("query", "x := data.t.p")).results(input_)
    except RegoError as error:
        return str(error.diagnostics[0])
    if len(results) > 1:
        return [result["x"] for result in results]
    return results[0]["x"] if results else "undefined"


@pytest.mark.parametrize("traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_program_means_what_it_says(case: dict[str, Any], traced: bool) -> None:
    want = case["error"] if "error" in case else _decode(case["result"])
    assert answer(case, traced=traced) == want
