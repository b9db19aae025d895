"""In a replay, impure built-ins give the answers that the log recorded, and no others.

The time is the recorded time of the decision. The answers of `http.send`, `rand.intn` and the like
are in `nd_builtin_cache`. If one is not there, the evaluation ends and the event counts as not
replayable: a new answer would be a guess.

If the log has only the claims of a token (`custom.claims`), a new token with these claims takes its
place. `io.jwt.decode_verify` accepts it for the key that verified the original, and for no other.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from doorward.decision_log.claims import key_name
from doorward.pdp.builtin_answers import TIME_ALONE
from doorward.rego import Builtin, Registry, Value, from_json, to_json
from doorward.rego.shared import EvaluationAborted, Key

__all__ = ["Claims", "Recorded"]

_OF_TIME: Final = TIME_ALONE | {"time.now_ns"}
"""Built-ins whose answer depends only on the time, which is taken from the log."""


_TIME: Final = "the time of the decision, which {} needs"
"""What the log lacks, with the name of a built-in."""
_VERIFY: Final = "io.jwt.verify_"
_DECODE_VERIFY: Final = "io.jwt.decode_verify"
_SECRET: Final = os.urandom(32).hex()
"""The key that signs tokens made in place of logged ones, in this process only."""


class Claims(NamedTuple):
    """The claims of a token whose text the log does not have. `key`: the name of the key that
    verified it.
    """

    header: Mapping[Key, Value]
    payload: Value
    key: str

    def token(self) -> str:
        """Return a JWT with these claims, signed HS256 with our own secret: anyone may decode it,
        only `Recorded` verifies it.
        """
        parts = [to_json({"alg": "HS256", "typ": "JWT"}), to_json(self.payload)]
        signed = b".".join([_encode(part.encode()) for part in parts])
        signature = hmac.digest(_SECRET.encode(), signed, "sha256")
        return b".".join([signed, _encode(signature)]).decode()


def _encode(octets: bytes) -> bytes:
    return base64.urlsafe_b64encode(octets).rstrip(b"=")


class Recorded:
    """Gives the recorded answers of the event that is being decided; for one thread. `missing`: the
    value that the policies needed and the log does not have, "" if there is none.
    """

    def __init__(self) -> None:
        self.missing = ""
        self._has_time = True
        self._answers: Mapping[Key, Value] = {}
        self._claims: Mapping[str, Claims] = {}

    def begin(
        self,
        answers: Mapping[Key, Value],
        claims: Mapping[str, Claims],
        *,
        has_time: bool = True,
    ) -> None:
        """Use the recorded answers of another event from now on, and clear `missing`.

        `claims` replace its tokens, which the log hides. `has_time`: the log has the time of the
        decision.
        """
        self._answers = answers
        self._has_time = has_time or self.now_ns is not None
        self._claims = claims
        self.missing = ""

    @property
    def now_ns(self) -> int | None:
        """The time that the policy got, if it was recorded; else None."""
        times = self._answers.get("time.now_ns")
        now = next(iter(times.values()), None) if isinstance(times, dict) else None
        return now if type(now) is int else None

    def registry(self, registry: Registry) -> Registry:
        """Return `registry` with its impure built-ins replaced by ones that give the recorded
        answers of the event that `begin` was called for last. Built-ins that read the time or
        verify tokens still compute, but only from what the log has.
        """
        replaced: dict[str, Builtin] = {}
        for each in registry:
            if each.name == _DECODE_VERIFY:
                replaced[each.name] = each.answered_by(self._decode_verify(each), context=True)
            elif each.name.startswith(_VERIFY):
                replaced[each.name] = each.answered_by(self._verify(each), context=True)
            elif each.name in _OF_TIME:
                replaced[each.name] = each.answered_by(self._at_time(each), context=True)
            elif not each.pure:
                replaced[each.name] = each.answered_by(self._answer_of(each.name), context=False)
        unchanged = {each.name for each in registry} - replaced.keys()
        return registry.restricted(unchanged, replaced.values())

    def _at_time(self, original: Builtin) -> Callable[..., Any]:
        """Return a built-in that depends only on the time. It aborts the evaluation and sets
        `missing` if the log lacks the time of the decision.
        """

        def answer(context: Any, *operands: Value) -> Any:
            """Call the original built-in; if the time is not known, set `missing` and abort the
            evaluation.
            """
            if not self._has_time:
                raise self._lacking(_TIME.format(original.name))
            return original.call(context, *operands)

        return answer

    def _decode_verify(self, original: Builtin) -> Callable[..., Any]:
        """Return `io.jwt.decode_verify` that also accepts the tokens made of claims in the log
        (`Claims`), for the key that verified the originals. Called for another key, or where the
        time is needed and the log lacks it, it sets `missing` and ends the evaluation.
        """

        def decode_verify(context: Any, jwt: Value, constraints: Any) -> Any:
            """Return the answer of the original built-in. For a token made of logged claims the
            signature counts as valid if the constraints have its key and algorithm; they apply to
            the claims as usual. EvaluationAborted, with `missing` set, for another key, or if the
            log has no time.
            """
            claims = self._claims.get(jwt) if isinstance(jwt, str) else None
            if not self._has_time and not (isinstance(constraints, dict) and "time" in constraints):
                raise self._lacking(_TIME.format(_DECODE_VERIFY))
            if claims is None or not isinstance(constraints, dict):
                return original.call(context, jwt, constraints)
            # The claims are as good as the recorded verification, which says nothing of another
            # key.
            if key_name(constraints) != claims.key:
                raise self._lacking(
                    "the signed token, which the policy now verifies with another key (only its "
                    "claims)"
                )
            if constraints.get("alg", claims.header.get("alg")) != claims.header.get("alg"):
                return [False, {}, {}]
            options = {k: v for k, v in constraints.items() if k not in ("alg", "cert", "secret")}
            answer = original.call(context, jwt, {**options, "secret": _SECRET})
            return [True, claims.header, answer[2]] if answer[0] is True else answer

        return decode_verify

    def _verify(self, original: Builtin) -> Callable[..., Any]:
        """Return a built-in that verifies signatures. It aborts the evaluation and sets `missing`
        for a token of which the log has only the claims.
        """

        def verify(context: Any, jwt: Value, key: Value) -> Any:
            """Call the original built-in for tokens that the log has. EvaluationAborted, with
            `missing` set, for one of which it has only the claims.
            """
            if isinstance(jwt, str) and jwt in self._claims:
                raise self._lacking("the signed token, which a built-in verifies (only its claims)")
            return original.call(context, jwt, key)

        return verify

    def _lacking(self, what: str) -> EvaluationAborted:
        """Set `missing`, and return the error that ends the evaluation, for the caller to raise."""
        self.missing = what
        return EvaluationAborted(f"the log does not contain {what}")

    def _answer_of(self, name: str) -> Callable[..., Any]:
        """Return a built-in that gives its recorded answers. It aborts the evaluation and sets
        `missing` if none is recorded for its operands.
        """

        def answer(*operands: Value) -> Value:
            """Return the answer recorded for these operands. EvaluationAborted if there is none,
            and sets `missing`.
            """
            recorded = self._answers.get(name)
            if isinstance(recorded, dict):
                operands_text = to_json(list(operands))
                for key, value in recorded.items():
                    if key == operands_text or _canonical(key) == operands_text:
                        return value
            raise self._lacking(f"the answer of {name}")

        return answer


def _canonical(key: Key) -> str:
    """Return recorded operands as Doorward writes them, since OPA writes some numbers and
    characters differently; "" if they are not JSON.
    """
    if not isinstance(key, str):
        return ""
    try:
        return to_json(from_json(key))
    except ValueError:
        return ""
