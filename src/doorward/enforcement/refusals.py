"""Why a request was refused that no policy denied: one line for operators.

    Decision -> "the document shop/alow is undefined: did you mean shop/allow?"

A policy that says false has said why; one that is misspelled, contradicts itself or gives something
that is not an answer refuses everyone, and only this line tells. It names no values of the input.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from doorward.pdp.decision import Decision
from doorward.pdp.snapshot import Snapshot
from doorward.rego import InputError, RegoError, Undefined
from doorward.rego.tools import Scalar, Var, near_name
from doorward.telemetry.rate_limited_log import RateLimitedLog
from doorward.verdicts import ResultError, read_verdict

__all__ = ["REASON_HEADER", "failure_of", "log_failure"]

REASON_HEADER: Final = "x-doorward-reason"
"""The header of a denial that holds the reason, in debug mode."""
MAX_LENGTH: Final = 300
"""The largest number of characters in a reason."""

_log: Final = logging.getLogger(__name__)
_quiet: Final = RateLimitedLog()


def failure_of(decision: Decision, snapshot: Snapshot) -> str:
    """Return why a decision cannot be used, in one line of printable ASCII: its error, an undefined
    document (`snapshot` tells what is missing), or a result of the wrong shape. "" if the policy
    decided.
    """
    error = decision.error
    if isinstance(error, InputError):
        return _line(f"the input is not a value of Rego: {error}")
    if isinstance(error, RegoError) and error.diagnostics:
        first = error.diagnostics[0]
        location = f"{first.span.file}:{first.span.row}: " if first.span.row else ""
        return _line(f"{location}{first.code}: {first.message}")
    if error is not None:
        return _line(str(error))
    if isinstance(decision.result, Undefined):
        return _line(_explain_undefined(decision.path, snapshot))
    try:
        read_verdict(decision.result)
    except ResultError as wrong:
        return _line(f"the result cannot be used as an answer: {wrong}")
    return ""


def log_failure(decision: Decision, snapshot: Snapshot) -> str:
    """Log why a decision cannot be used, rate-limited for each reason, and return the reason.

    "" and no line in the log if the policy decided.
    """
    reason = failure_of(decision, snapshot)
    if reason:
        more = _quiet.suppressed(f"{decision.path} {reason}")
        if more is not None:
            text = "request refused: decision %s of %s: %s"
            extra = {"decision-id": decision.decision_id, "more": more}
            _log.warning(text, decision.decision_id, decision.path, reason, extra=extra)
    return reason


def _line(text: str) -> str:
    """Return a text that a header can hold: printable ASCII, at most `MAX_LENGTH` characters."""
    plain = "".join([each if " " <= each <= "~" else " " for each in text])
    return plain[:MAX_LENGTH]


def _explain_undefined(path: str, snapshot: Snapshot) -> str:
    """Return why a document is undefined: for this input only, or since no document has that path.

    In the second case a similar path is suggested if there is one.
    """
    if not snapshot.is_nowhere(path):
        return "the document is undefined for this input"
    near = near_name(path, _paths(snapshot))
    return "the path names no rule or data" + (f": did you mean {near}?" if near else "")


def _paths(snapshot: Snapshot) -> Iterator[str]:
    """Yield the paths of all rules, such as `shop/allow`, up to their first part that is not
    constant.
    """
    for module in snapshot.engine.trees.values():
        package = [str(each) for each in module.package.path if each != "data"]
        for rule in module.rules:
            ref = rule.head.ref
            names = [ref.head.name] if isinstance(ref.head, Var) else []
            for part in ref.args:
                if not isinstance(part, Scalar):
                    break
                names.append(str(part.value))
            yield "/".join([*package, *names])
