"""What every decider gives: an answer, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from doorward.rego import Undefined, Value

__all__ = ["Answer", "Decider", "PdpError"]


class PdpError(Exception):
    """The decision point gave no decision; the message says how, and nothing of its answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided, and the id under which the decision point logged it."""

    result: Value | Undefined
    decision_id: str = ""


class Decider(Protocol):
    """Who decides: `remote.RemotePdp`, or the engine in this process (`embedded.EmbeddedPdp`)."""

    def decide(self, input: Any, /) -> Answer: ...
