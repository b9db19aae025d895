"""The result of a decision: an immutable record that carries its own id.

A `Decision` says what was decided, never what to answer: that an error or an undefined result is a
denial is for the adapter to say on its wire.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from doorward.pdp.error_documents import diagnostic_document
from doorward.pdp.snapshot import Snapshot, document_ref
from doorward.rego import UNDEFINED, CompileError, RegoError, Undefined, Value
from doorward.rego.shared import Key, Marks

if TYPE_CHECKING:
    from doorward.rego import Explanation
from doorward.verdicts import is_allowed

__all__ = [
    "Answered",
    "Decision",
    "DecisionError",
    "RequestContext",
    "UndefinedDocumentError",
    "error_document",
    "new_decision_id",
]


class DecisionError(Exception):
    """A decision that failed before or after the policy: no code, only a message."""


class Decision(NamedTuple):
    """One answered question. `result` is `UNDEFINED` where there is none, or where `error` is.

    An adapter that cannot use the result says so with `decision._replace(error=…)`, and hands that
    to the decision log.
    """

    decision_id: str
    path: str
    """As OPA logs it: no leading slash."""
    result: Value | Undefined = UNDEFINED
    error: Exception | None = None
    revision: str = ""
    """Which policies and data decided."""
    eval_ns: int = 0
    query: str | None = None
    """The query, where no path was requested."""
    batch_decision_id: str = ""
    """The id of the batch that it is one of."""
    builtins: dict[str, dict[Key, Value]] | None = None
    """What built-ins that ask the world answered: by name, and operands as JSON; None where nobody
    notes it."""
    marks: Marks | None = None
    """Which definitions answered, and where others failed, for `Engine.read_marks`; None where
    policies do not note it."""
    custom: Mapping[str, Any] | None = None
    """What the adapter adds to the event, under `custom`."""
    erased: tuple[str, ...] = ()
    """Paths of what the adapter left out of the event, such as the body of a response."""

    @property
    def allowed(self) -> bool:
        """True if the result is `true`, or an object whose `allowed` is and whose other fields are
        what adapters can apply (`doorward.verdicts`)."""
        return self.error is None and is_allowed(self.result)

    @property
    def metrics(self) -> dict[str, int]:
        """Timers under OPA's names, in nanoseconds."""
        return {"timer_rego_query_eval_ns": self.eval_ns}

    def explain(
        self,
        snapshot: Snapshot,
        input: Value | Undefined = UNDEFINED,
        *,
        now_ns: int | None = None,
    ) -> Explanation:
        """Why it was decided so: the same question is put to the policies once more, and traced.

        `snapshot` and `input` are those of the decision, `now_ns` the time it was made at, where
        policies look at the clock. Credentials of the input are masked.
        """
        # No decision needs it, and every start would pay for it.
        from doorward.rego import explain

        query = self.query if self.query is not None else document_ref(self.path)
        return explain(snapshot.engine, query, input, now_ns=now_ns, deadline=snapshot.deadline)


class UndefinedDocumentError(DecisionError):
    """A document that has no value, where that is an error: `undefined`, or `missing`."""

    code = "undefined_document"


class RequestContext(NamedTuple):
    """The request that a decision answers, as far as the log shows it."""

    headers: Value | None = None
    """`request_context`, where the configuration asks for headers."""
    number: int = 0
    """That of the request in the log of requests; 0 without one."""
    client: Any = None
    """The address of its socket."""
    timers: Mapping[str, int] | None = None
    """How long parts of it took, in nanoseconds, by OPA's names, and what it counts."""


class Answered(NamedTuple):
    """A decision that was answered, for those who write it down or look at it."""

    decision: Decision
    input: Value | Undefined
    snapshot: Snapshot
    handler_ns: int | None = None
    """How long the adapter took for it."""
    request_context: RequestContext | None = None
    size: int = 0
    """Bytes that input and result take in memory, about."""
    time_ns: int = 0
    """When it was answered, since the epoch."""
    trace: tuple[str, str] | None = None
    """The ids of the trace and the span that it was made in."""


def error_document(error: Exception) -> Any:
    """The error as OPA's logs and API write it: an object, or a list of them."""
    if isinstance(error, UndefinedDocumentError):
        return {"code": error.code, "message": str(error)}
    if not isinstance(error, RegoError):
        return {"message": str(error)}
    documents = [diagnostic_document(diagnostic) for diagnostic in error.diagnostics]
    if len(documents) == 1 and not isinstance(error, CompileError):
        return documents[0]
    return documents


_BATCH: Final = 64
_PLACES: Final = [(32 + 10 * number, f"{number:02x}") for number in range(_BATCH)]
"""Where the random digits of each id begin, and its last two."""

_ready: Final[deque[str]] = deque()
# A child process must not hand out the ids that its parent has ready.
os.register_at_fork(after_in_child=_ready.clear)


def new_decision_id() -> str:
    """A random UUID (version 4). Made in batches: one call to the system for each would cost more
    than all the rest."""
    try:
        return _ready.pop()
    except IndexError:
        digits = os.urandom(16 + 5 * _BATCH).hex()
    # The 74 random bits in front are the batch's; 40 more and the number in it are the id's own.
    variant = "89ab"[int(digits[15], 16) % 4]
    front = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-{variant}{digits[16:19]}-"
    ids = [front + digits[at : at + 10] + number for at, number in _PLACES]
    _ready.extend(ids[1:])
    return ids[0]
