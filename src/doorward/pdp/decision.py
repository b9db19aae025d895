"""The result of a decision: an immutable record with its own id.

A `Decision` says what was decided, not how a protocol responds: each adapter turns an error or an
undefined result into its denial.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from doorward.pdp.error_documents import diagnostic_document
from doorward.pdp.snapshot import Snapshot, document_ref
from doorward.rego import UNDEFINED, CompileError, Policies, RegoError, Undefined, Value
from doorward.rego.shared import Key, Mark, Marks

if TYPE_CHECKING:
    from doorward.rego import Explanation
from doorward.verdicts import is_allowed

__all__ = [
    "Answered",
    "Decision",
    "DecisionError",
    "RecordedMarks",
    "RequestContext",
    "UndefinedDocumentError",
    "error_document",
    "new_decision_id",
]


class DecisionError(Exception):
    """A decision that failed outside of the policy, such as a query with several values or an
    internal fault. It has a message but no code.
    """


class RecordedMarks(NamedTuple):
    """The outcomes of the definitions that one decision evaluated (answered, or the row of the
    condition that failed), and the decision's policies, which tell what each outcome is about:
    other policies may be active when the outcomes are read.
    """

    policies: Policies
    outcomes: Marks

    def read(self) -> list[Mark]:
        """Return the outcomes in the order of the policies."""
        return self.policies.read_marks(self.outcomes)


class Decision(NamedTuple):
    """The result of one evaluation. `result` is `UNDEFINED` if the document is undefined, or if
    `error` is set.

    An adapter that cannot use the result replaces it by an error with `decision._replace(error=…)`,
    and passes the new decision to the decision log.
    """

    decision_id: str
    path: str
    """The path of the document as OPA logs it, without a leading slash; empty for a query."""
    result: Value | Undefined = UNDEFINED
    error: Exception | None = None
    revision: str = ""
    """The revision of the policies and data that decided."""
    eval_ns: int = 0
    query: str | None = None
    """The query, if one was evaluated instead of a path."""
    batch_decision_id: str = ""
    """The id of the batch that the decision belongs to; empty without a batch."""
    builtins: dict[str, dict[Key, Value]] | None = None
    """The answers of impure built-ins by name, and then by the operands as JSON; None if answers
    are not noted.
    """
    marks: RecordedMarks | None = None
    """The definitions that answered, and where others failed; None if the policies are not compiled
    with marks.
    """
    custom: Mapping[str, Any] | None = None
    """Fields that the adapter adds to the event, under `custom`."""
    erased: tuple[str, ...] = ()
    """Paths in the event of values that the adapter left out, such as the body of a response."""

    @property
    def allowed(self) -> bool:
        """True if there is no error and the result is `true`, or an object whose `allowed` is
        `true` and whose other fields adapters can apply (`doorward.verdicts`).
        """
        return self.error is None and is_allowed(self.result)

    @property
    def metrics(self) -> dict[str, int]:
        """The time of the evaluation under OPA's name, in nanoseconds."""
        return {"timer_rego_query_eval_ns": self.eval_ns}

    def explain(
        self,
        snapshot: Snapshot,
        input: Value | Undefined = UNDEFINED,
        *,
        now_ns: int | None = None,
    ) -> Explanation:
        """Evaluate the same query once more, traced, and return the reasons of its result. A failed
        evaluation is `error` in the explanation; raise CompileError if the query does not compile.

        `snapshot` and `input` are those of the decision; `now_ns` is the time of the decision since
        the epoch, for policies that read the clock. Credentials in the input are masked. The
        snapshot's deadline applies again.
        """
        # No decision needs it, and every start would pay for it.
        from doorward.rego import explain

        query = self.query if self.query is not None else document_ref(self.path)
        return explain(snapshot.engine, query, input, now_ns=now_ns, deadline=snapshot.deadline)


class UndefinedDocumentError(DecisionError):
    """The error of a decision whose document is undefined, for callers that treat this as an
    error.
    """

    code = "undefined_document"


class RequestContext(NamedTuple):
    """The fields of a request that the decision log writes beside the decision."""

    headers: Value | None = None
    """The event's `request_context`; None unless the configuration lists headers to log."""
    number: int = 0
    """The number of the request in the request log; 0 without one."""
    client: Any = None
    """The address of the client's socket; None if it is not known."""
    timers: Mapping[str, int] | None = None
    """OPA's metrics of the request by name: nanoseconds for timers, and counters."""


class Answered(NamedTuple):
    """A decision with the circumstances of its response, for the decision log and for observers."""

    decision: Decision
    input: Value | Undefined
    snapshot: Snapshot
    handler_ns: int | None = None
    """Nanoseconds from the request to the response; None if not measured."""
    request_context: RequestContext | None = None
    size: int = 0
    """The approximate memory of input and result, in bytes."""
    time_ns: int = 0
    """The time of the response in nanoseconds since the epoch."""
    trace: tuple[str, str] | None = None
    """The ids of the trace and the span of the request; None without tracing."""


def error_document(error: Exception) -> Any:
    """Return the error as OPA's logs and API write it: a list of the findings for a CompileError,
    or for several findings; else one object.

    Errors that are not of Rego have only a `message`, an UndefinedDocumentError a `code` too.
    """
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
"""For each id of a batch: where its digits begin in the random digits, and its last two digits."""

_ready: Final[deque[str]] = deque()
# A child process must not hand out the ids that its parent has ready.
os.register_at_fork(after_in_child=_ready.clear)


def new_decision_id() -> str:
    """Return a random UUID (version 4). Ids are generated in batches of 64 that share their first
    74 random bits, since a system call for each id would cost more than the rest; 40 random bits
    and the id's number in the batch differ.
    """
    try:
        # Without a lock: `pop` and `extend` of a deque are atomic, and threads that find it empty
        # make a batch each.
        return _ready.pop()
    except IndexError:
        digits = os.urandom(16 + 5 * _BATCH).hex()
    # The 74 random bits in front are the batch's; 40 more and the number in it are the id's own.
    variant = "89ab"[int(digits[15], 16) % 4]
    front = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-{variant}{digits[16:19]}-"
    ids = [front + digits[at : at + 10] + number for at, number in _PLACES]
    _ready.extend(ids[1:])
    return ids[0]
