"""Recorded events are decided by other policies, with the recorded time and answers of built-ins.

Values that the log lacks are never guessed: a decision that may read a masked value, or that calls
an impure built-in whose answer was not recorded, has an answer that names what is `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from doorward.bundles.loader import Loaded, LoadError
from doorward.bundles.sources import Sources
from doorward.config.limits import DEADLINE
from doorward.pdp.snapshot import PathKey, Settings, Snapshot, build
from doorward.rego import REGISTRY, Environment, EvalError, Query, Registry, RegoError
from doorward.rego.shared import (
    CANCEL_ERROR,
    Recorder,
    Trail,
    VerifiedTokens,
    definition_text,
    trail_of,
)
from doorward.rego.tools import Rule, walk
from doorward.replay.compare import Answer, allows
from doorward.replay.events import Event
from doorward.replay.lists import filter_lists, logged_lists
from doorward.replay.reading import ReplayError
from doorward.replay.recorded import Claims, Recorded

__all__ = ["Version", "comparable", "recorded_answer"]

REMEMBERED: Final = 4_096
"""The maximum number of entries in a cache of a `Version`, which is then cleared."""
_EMPTY: Final = Trail((), ())
_VERDICT: Final = frozenset({"allow", "stream"})


def recorded_answer(event: Event) -> Answer:
    """Return the answer that the log recorded.

    `missing` names the reason if the log does not have it, as for masked results; `error` is set if
    the decision failed.
    """
    response_record = _response_of(event)
    reason = response_record.get("reason")
    if event.is_error and response_record and not str(reason).startswith("eval_"):
        return Answer(
            missing=f"the policies' answer: the response was denied for another reason ({reason})"
        )
    hidden = next(
        (
            path
            for path in event.hidden
            if path.startswith("/result") and not _is_left_out(path, response_record)
        ),
        "",
    )
    if hidden:
        return Answer(missing=f"the recorded result, of which {hidden} is masked")
    answer = Answer(error="failed") if event.is_error else comparable(event, Answer(event.result))
    lists = logged_lists(response_record)
    return answer._replace(lists={name: count for name, (_, count) in lists.items()} or None)


def comparable(event: Event, answer: Answer) -> Answer:
    """Return the part of an answer that can be compared with the log.

    For a decision on a response, the log leaves out fields with parts of the body (`log-bodies`).
    """
    recorded, value = _response_of(event), answer.value
    names = {path.rpartition("/")[2] for path in event.hidden if _is_left_out(path, recorded)}
    if isinstance(value, dict) and names:
        return answer._replace(value={k: v for k, v in value.items() if k not in names})
    return answer


def _response_of(event: Event) -> Mapping[Any, Any]:
    """Return what the log has about the response; {} for other decisions."""
    recorded = event.custom.get("response")
    return recorded if isinstance(recorded, dict) else {}


def _is_left_out(path: str, recorded: Mapping[Any, Any]) -> bool:
    """Return True if the log left out the value at `path` because it is a part of a filtered
    response: a field of the result, other than the verdict. Always False for decisions that are not
    on a response, whose `recorded` is empty.
    """
    above, _, name = path.rpartition("/")
    return bool(recorded) and above == "/result" and name not in _VERDICT


class Version:
    """Compiled policies with data that decide events; used by one thread."""

    def __init__(self, snapshot: Snapshot, recorded: Recorded) -> None:
        self.snapshot = snapshot
        self._recorded = recorded
        self._missing: dict[tuple[str, tuple[str, ...]], str] = {}
        self._traced: dict[str, Query] = {}

    @classmethod
    def load(
        cls, sources: Sources, *, registry: Registry = REGISTRY, deadline: float | None = None
    ) -> Version:
        """Load and compile the policies in `sources`. `deadline`: seconds for each decision, None
        for the default. ReplayError on failure.
        """
        try:
            return cls.compile(sources.load(), v0=sources.v0, registry=registry, deadline=deadline)
        except (LoadError, RegoError) as error:
            raise ReplayError(str(error)) from None

    @classmethod
    def compile(
        cls,
        loaded: Loaded,
        *,
        v0: bool = False,
        registry: Registry = REGISTRY,
        deadline: float | None = None,
    ) -> Version:
        """Compile loaded policies with built-ins that give recorded answers. `deadline`: seconds
        for each decision, None for the default. CompileError on failure.
        """
        recorded = Recorded()
        settings = Settings(
            v0=v0,
            environment=Environment(tokens=VerifiedTokens()),
            registry=recorded.registry(registry),
            deadline=DEADLINE if deadline is None else deadline,
        )
        return cls(build(loaded, settings), recorded)

    def with_data(self, data: Any) -> Version:
        """Return a version with the same policies and other data, which is already parsed. Nothing
        is compiled again; both must be used by the same thread.
        """
        return Version(self.snapshot.with_data(data, self.snapshot.revision), self._recorded)

    def answer(self, event: Event) -> Answer:
        """Return these policies' answer to `event`.

        `missing` says what the log lacks for it, such as a masked value that the policies read. A
        failed evaluation is in `error`, and `is_late` is True if it took too long.
        """
        if not event.path and not event.query:
            return Answer(missing="the path of the decision")
        event, claims = with_claims(event)
        self._recorded.begin(event.builtins, claims, has_time=event.time_ns is not None)
        try:
            document: Any = self._document(event)
            if event.hidden:
                missing = self._masked_value_read(event, document)
                if missing:
                    return Answer(missing=missing)
            if not isinstance(document, Query):
                return self._with_lists(event, Answer(document.answer(event.input)))
            # Only a query of one expression has a single value to compare.
            if len(document.body) != 1:
                return Answer(missing="a query of a single expression")
            answer = Answer(document.answer(event.input, now_ns=self._now_ns(event)))
            return self._with_lists(event, answer)
        except RegoError as error:
            # A built-in ended the evaluation for lack of an answer, which is not an error of the
            # policies.
            if self._recorded.missing:
                return Answer(missing=self._recorded.missing)
            first = error.diagnostics[0]
            return Answer(error=str(first.message), is_late=first.code == CANCEL_ERROR)

    def _with_lists(self, event: Event, answer: Answer) -> Answer:
        """Return the answer with the counts of a response's lists, which these policies filter
        again; None for counts if the log has no body, or `missing` set if it lacks a part. An
        answer that refuses, or without lists, is unchanged. RegoError if filtering fails.
        """
        lists = logged_lists(_response_of(event))
        if not lists or not allows(answer):
            return answer
        filtered = filter_lists(
            self.snapshot, event, lists, answer.value, now_ns=self._now_ns(event)
        )
        if isinstance(filtered, str):
            return answer._replace(missing=filtered)
        return answer._replace(lists=filtered)

    def trail(self, event: Event) -> Trail:
        """Decide `event` again with tracing, and return the definitions that held and those that
        failed. The trail is empty if there is no such document or the query does not compile; if
        the evaluation fails, it has the definitions until then.
        """
        key = event.path or event.query
        query = self._traced.get(key)
        try:
            if query is None:
                document: Any = self._document(event)
                if not isinstance(document, Query):
                    return _EMPTY
                engine = self.snapshot.engine
                traced = engine.policies.traced().bind(engine.data, is_parsed=True)
                query = traced.prepare(document.text, deadline=document.deadline)
                if len(self._traced) >= REMEMBERED:
                    self._traced.clear()
                self._traced[key] = query
            event, claims = with_claims(event)
            self._recorded.begin(event.builtins, claims, has_time=event.time_ns is not None)
            evaluation = query.evaluation(event.input, now_ns=self._now_ns(event))
        except RegoError:
            return _EMPTY
        evaluation.tracer = recorder = Recorder()
        with suppress(EvalError):  # the trail until the error is still of use
            query.value_of(evaluation)
        return trail_of(recorder)

    @cached_property
    def definitions(self) -> frozenset[str]:
        """The texts of all definitions in the policies, as trails contain them."""
        trees = self.snapshot.engine.trees.values()
        return frozenset(
            definition_text(node) for tree in trees for node in walk(tree) if isinstance(node, Rule)
        )

    def _now_ns(self, event: Event) -> int | None:
        """The time of the event (ns since the epoch): that which the policy read, otherwise the
        timestamp; None if the log has neither.
        """
        return self._recorded.now_ns or event.time_ns

    def _document(self, event: Event) -> Any:
        """Return the prepared query whose value is the event's decision: its query if it has one,
        else the document at its path. RegoError for an invalid query.
        """
        if event.query:
            return self.snapshot.query(event.query)
        path: PathKey = event.path
        return self.snapshot.document(path)

    def _masked_value_read(self, event: Event, document: Any) -> str:
        """Return `PATH, which is masked` for a masked value that the decision may read; "" if there
        is none. Cached by document and hidden paths.
        """
        if not isinstance(document, Query):
            return ""
        key = (event.path or event.query, event.hidden)
        known = self._missing.get(key)
        if known is None:
            read = ["/".join(["/input", *map(str, path)]) for path in document.input_paths]
            known = self._missing[key] = _overlap(event.hidden, read)
            if len(self._missing) > REMEMBERED:
                self._missing.clear()
        return known


def with_claims(event: Event) -> tuple[Event, Mapping[str, Claims]]:
    """Return the event with new tokens in place of those that the log replaced by their claims, and
    the claims by token. The paths of these tokens are no longer among `hidden`. The same event and
    {} if there are no claims.
    """
    logged = event.custom.get("claims")
    if not isinstance(logged, dict) or not logged:
        return event, {}
    tokens: dict[str, Claims] = {}
    input: Any = event.input
    hidden = list(event.hidden)
    for fields in logged.values():
        if not isinstance(fields, dict):
            continue
        path, scheme, key = (fields.get(name) for name in ("path", "scheme", "key"))
        header, payload = fields.get("header"), fields.get("payload")
        if not isinstance(path, str) or path not in hidden or not isinstance(header, dict):
            continue
        claims = Claims(header, payload, str(key))
        token = claims.token()
        changed = _with_text(input, path.split("/")[2:], f"{scheme} {token}" if scheme else token)
        if changed is not None:
            input = changed
            hidden.remove(path)
            tokens[token] = claims
    return event._replace(input=input, hidden=tuple(hidden)), tokens


def _with_text(value: Any, path: Sequence[str], text: str) -> Any:
    """Return a copy of `value` with `text` at `path`, adding objects on the way; None if a value on
    the way is not an object.
    """
    if not path:
        return text
    if not isinstance(value, dict):
        return None
    inner = _with_text(value.get(path[0], {}), path[1:], text)
    return None if inner is None else {**value, path[0]: inner}


def _overlap(hidden: Sequence[str], read: Sequence[str]) -> str:
    """Return `PATH, which is masked` for the first hidden path that contains or is in a path that
    is read; `""` if there is none.
    """
    for path in hidden:
        for other in read:
            if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/"):
                return f"{path}, which is masked"
    return ""
