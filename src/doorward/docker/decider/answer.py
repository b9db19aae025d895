"""The result of every decider: an answer, or the reason why there is none."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from doorward.rego import Undefined, Value

__all__ = ["Answer", "Decider", "PdpError"]


class PdpError(Exception):
    """The decision point gave no decision; the message says how, and nothing of its answer."""


class Answer(NamedTuple):
    """The decision, and the id under which the decision point logged it."""

    result: Value | Undefined
    decision_id: str = ""


class Decider(Protocol):
    """The interface of deciders: `remote.RemotePdp`, or the engine in this process
    (`embedded.EmbeddedPdp`)."""

    def decide(self, input: Any, /) -> Answer:
        """Return the decision on `input`, UNDEFINED as its result if the policies define none.
        PdpError if there is no decision.
        """
