"""Code is generated from a checked program, which it leaves as it was."""

from __future__ import annotations

from doorward.rego import Options, compile
from doorward.rego.code import generate_code

POLICY = "package a\n\np if f(input.x)\n\nf(x) if x > 1\n"


def test_one_program_gives_several_codes() -> None:
    policies = compile({"a.rego": POLICY})
    before = policies.emit()
    mocked_whole = policies.whole_code(frozenset({"data.a.f"}))
    traced = generate_code(policies.program, Options(traced=True), whole=True)
    mocked = generate_code(policies.program, Options(), frozenset({"data.a.f"}))
    assert not policies.code.plan.traced
    assert traced.plan.traced
    assert mocked.plan.mocked == {"data.a.f"}
    codes = (policies.whole_code(), traced, mocked_whole)
    texts = {unit.text(code.linked.namespace) for code in codes for unit in code.units}
    assert len(texts) == 3
    assert policies.emit() == before
