"""Built-ins that ask the world answer in a replay what the log recorded, and nothing else.

The time is the recorded time of the decision. What `http.send`, `rand.intn` and the like answered
stands in `nd_builtin_cache`; where it does not, the evaluation ends, and the event counts as not
replayable: an answer of today would be a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from doorward.rego import (
    Builtin,
    EvaluationAborted,
    Key,
    Registry,
    Value,
    from_json,
    to_json,
)

__all__ = ["Recorded"]

_AS_EVER: Final = frozenset(
    {
        "crypto.x509.parse_and_verify_certificates",
        "crypto.x509.parse_and_verify_certificates_with_options",
        "io.jwt.decode_verify",
        "time.now_ns",
    }
)
"""Built-ins that depend on the time alone, which is the recorded one."""


class Recorded:
    """The answers of the event that is decided now, in this process. `missing`: the built-in
    whose answer was needed and is not among them."""

    def __init__(self) -> None:
        self.missing = ""
        self._answers: Mapping[Key, Value] = {}

    def begin(self, answers: Mapping[Key, Value]) -> None:
        """Answer for another event."""
        self._answers = answers
        self.missing = ""

    @property
    def now_ns(self) -> int | None:
        """The time that the policy was told, where that was recorded."""
        times = self._answers.get("time.now_ns")
        now = next(iter(times.values()), None) if isinstance(times, dict) else None
        return now if type(now) is int else None

    def registry(self, registry: Registry) -> Registry:
        """`registry` with the built-ins replaced that ask the world."""
        replaced = {
            each.name: self._recorded(each)
            for each in registry
            if not each.pure and each.name not in _AS_EVER
        }
        kept = {each.name for each in registry} - replaced.keys()
        return registry.restricted(kept, replaced.values())

    def _recorded(self, builtin: Builtin) -> Builtin:
        call = self._answer_of(builtin.name)
        return Builtin(
            name=builtin.name,
            signature=builtin.signature,
            body=call,
            call=call,
            category=builtin.category,
            pure=False,
        )

    def _answer_of(self, name: str) -> Callable[..., Any]:
        def answer(*operands: Value) -> Value:
            recorded = self._answers.get(name)
            if isinstance(recorded, dict):
                wanted = to_json(list(operands))
                for key, value in recorded.items():
                    if key == wanted or _canonical(key) == wanted:
                        return value
            self.missing = name
            raise EvaluationAborted(f"the answer of {name} was not recorded")

        return answer


def _canonical(key: Key) -> str:
    """Operands as we would write them: OPA spells some numbers and characters otherwise."""
    if not isinstance(key, str):
        return ""
    try:
        return to_json(from_json(key))
    except ValueError:
        return ""
