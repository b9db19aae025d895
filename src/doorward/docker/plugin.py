"""The bytes of a call of the daemon become the bytes of the answer.

`Plugin.answer` knows no transport. Whatever the bytes are, it answers, and whatever fails is
denied: a reply that the daemon could take for "allow" is written in one place, for a verdict that
allows. Requests that ask only whether the daemon is alive are answered without a policy, because
clients that are refused them speak another version of the API.

`Plugin.begin` never waits: it answers from the call alone, or gives what has to be finished by a
thread, because files, the daemon or a decision point elsewhere are asked, or policies are slow.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import partial
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

from doorward.base.records import record
from doorward.docker.audit import AuditLog, Entry
from doorward.docker.decider.answer import Decider, PdpError
from doorward.docker.reply import ALLOWED, Verdict, to_reply, to_verdict
from doorward.docker.request.cached_paths import resolve_cached
from doorward.docker.request.call import AuthzRequest, parse_request
from doorward.docker.request.errors import RequestError, WaitError
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.host import HostFacts
from doorward.docker.request.input import (
    Draft,
    Input,
    InputOptions,
    begin_input,
    finish_input,
    is_rollback,
    refuse_to_wait,
    refused_input,
    resolve_path,
    roll_back,
)
from doorward.docker.request.known import KnownCalls
from doorward.docker.request.mounts import Resolve
from doorward.edge import FAULTS, Edge
from doorward.pdp.decision import new_decision_id
from doorward.transport.slow_calls import History

__all__ = [
    "FEW_PATHS",
    "PROBE_HEADER",
    "Judged",
    "Plugin",
    "PluginOptions",
    "Prepare",
    "Response",
    "Waiting",
]

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("docker-decision", "Decision failed: denied")

PROBE_HEADER: Final = "X-Doorward-Probe"
"""A request with this header is remembered, so that the installer can tell whether one arrived."""

# dockerd asks for it once in its life, and does not start with any other answer.
_ACTIVATION: Final = b'{"Implements":["authz"]}'
# On the path as it was sent: a ping in another spelling is decided like every request.
_PING: Final = re.compile(r"(?:/v[0-9.]+)?/_ping")
FEW_PATHS: Final = 16
"""Host paths that are followed without a thread."""
# Without it, 16,384 bind mounts with many links each took a thread for ten seconds.
RESOLVING: Final = 2.0
"""Seconds in which the links of all host paths of a request are followed; a path that is left then
counts as one that the system refuses."""
_MAX_PROBES: Final = 32
_MAX_PROBE: Final = 64


class Response(NamedTuple):
    """The response to a call of the plugin: HTTP status and JSON body."""

    status: int
    body: bytes


class Waiting(NamedTuple):
    """A call that cannot be answered without a wait: a thread must call `finish`, which returns the
    response. `history` measures how long the plugin's calls take.
    """

    finish: Callable[[], Response]
    history: History


Prepare: TypeAlias = Callable[[Draft], Draft]
"""Returns the draft of a parsed request with changes, such as pinned paths, that a proxy makes
before the decision."""


class Judged(NamedTuple):
    """A verdict with the parsed request and its input; both are None if no policy was asked."""

    verdict: Verdict
    draft: Draft | None
    input: Input | None
    decision_id: str


class _Call:
    """The state of one call while it is decided, perhaps first at once and then again in a
    thread.
    """

    __slots__ = (
        "body",
        "decision_id",
        "draft",
        "input",
        "is_keyed",
        "key",
        "known",
        "phase",
        "prepare",
        "request",
        "started",
    )

    def __init__(self, body: bytes, phase: str) -> None:
        self.body = body
        self.phase = phase
        self.started = perf_counter()
        self.decision_id = new_decision_id()
        self.request: AuthzRequest | None = None
        self.draft: Draft | None = None
        self.is_keyed = False
        self.key: bytes | None = None
        """The key of the input in the cache; None if these bytes were not seen lately."""
        self.known: Input | None = None
        """The input of an earlier call of the same bytes, which is not read again."""
        self.input: Input | None = None
        self.prepare: Prepare | None = None


@record
class PluginOptions:
    """Options of decisions: how input is built, and what happens if nothing decides or logging
    fails.
    """

    inputs: InputOptions = field(default_factory=InputOptions)
    authorize_responses: bool = False
    allow_on_failure: bool = False
    """Allow requests if the decision point gives no decision. Anyone who can stop it then has all
    rights."""
    deny_unlogged: bool = False
    """Deny an allowed request if its line cannot be written to the audit log."""
    instance: str = ""
    """The name that the installer gave this process, by which it recognizes the one that
    answers."""


class Plugin:
    """The authorization plugin: answers the Docker daemon's calls, and decides the requests that a
    proxy has read. Safe in any number of threads.
    """

    def __init__(
        self,
        decider: Decider,
        options: PluginOptions | None = None,
        *,
        audit: AuditLog | None = None,
        resolve: Resolve = resolve_path,
        facts: ContainerFacts | None = None,
        host: HostFacts | None = None,
        waits: bool = False,
    ) -> None:
        """Take the decider and the sources of input that a decision uses: `resolve` follows links
        of host paths, `facts` asks the daemon about objects, `host` reads the host's files; without
        `audit` no line is logged.

        `waits`: the decider asks another server, so that each decision runs in a thread of the
        pool.
        """
        self._decider = decider
        self._options = options or PluginOptions()
        self._audit = audit
        self._resolve = resolve
        # On another root file system, the kernel would start from the wrong one.
        self._resolve_now = resolve_cached if resolve is resolve_path else refuse_to_wait
        self._facts = facts
        self._host = host
        self._waits = waits
        self._probes: deque[str] = deque(maxlen=_MAX_PROBES)
        self._history = History()
        self._known = KnownCalls()
        self._calls: dict[str, Callable[[bytes], Response | Waiting]] = {
            "/Plugin.Activate": self._activate,
            "/AuthZPlugin.AuthZReq": self._answer_request,
            "/AuthZPlugin.AuthZRes": self._answer_response,
            "/Doorward.Probe": self._answer_probe,
            "/Doorward.Instance": self._answer_instance,
        }

    def answer(self, path: str, body: bytes) -> Response:
        """Return the answer to one call, however long that takes."""
        begun = self.begin(path, body)
        return begun if isinstance(begun, Response) else begun.finish()

    def begin(self, path: str, body: bytes) -> Response | Waiting:
        """Answer a call of the plugin API, or return the work that has to run in a thread for it.

        404 for an unknown `path`.
        """
        call = self._calls.get(path)
        if call is None:
            return Response(404, b'{"Err":"no such call"}')
        return call(body)

    def _activate(self, _body: bytes) -> Response:
        """Answer the daemon's question which APIs this plugin has."""
        return Response(200, _ACTIVATION)

    def _answer_probe(self, body: bytes) -> Response:
        """Answer `{"Seen": true}` if a ping with this nonce was among the last `_MAX_PROBES`,
        otherwise `{"Seen": false}`.
        """
        seen = body.decode("ascii", errors="replace") in self._probes
        return Response(200, b'{"Seen":true}' if seen else b'{"Seen":false}')

    def _answer_instance(self, _body: bytes) -> Response:
        """Answer with the name of this instance, in a member `Instance`."""
        return Response(200, json.dumps({"Instance": self._options.instance}).encode())

    def _answer_request(self, body: bytes) -> Response | Waiting:
        """Decide the daemon's call about a request; if that needs a wait, return the work for a
        thread.
        """
        return self._begin_decision(body, "request")

    def _answer_response(self, body: bytes) -> Response | Waiting:
        """Answer the call about a response: allowed, unless responses are authorized too; then as
        `_begin_decision`, which may return the work for a thread.
        """
        # Whatever was requested has happened: a denial would only hide the answer.
        if not self._options.authorize_responses:
            return Response(200, ALLOWED)
        return self._begin_decision(body, "response")

    def _begin_decision(self, body: bytes, phase: str) -> Response | Waiting:
        """Decide a call at once; if that needs a wait, return the work for a thread."""
        begun = self._history.begin()
        call = _Call(body, phase)
        try:
            response = self._reply(call, may_wait=False)
        except WaitError:
            # The same `call`: what was read of it is not read again, and its time counts from its
            # arrival.
            return Waiting(partial(self._reply, call, may_wait=True), self._history)
        self._history.end(begun)
        return response

    def _reply(self, call: _Call, *, may_wait: bool) -> Response:
        """Decide a call, as `_decide`, and return the answer; WaitError if it has to wait and
        `may_wait` is False.
        """
        # Always 200: dockerd takes any other status for a failure of the plugin (500 to the
        # client), and at 200 it ignores `Err` beside `Allow`.
        return Response(200, to_reply(self._decide(call, may_wait=may_wait)))

    def judge(
        self, request: AuthzRequest, *, may_wait: bool, prepare: Prepare | None = None
    ) -> Judged:
        """Decide a request that a proxy has read; `prepare` may change the draft of its input
        before.

        Raise WaitError if the decision has to wait and `may_wait` is False; the caller then calls
        again in a thread.
        """
        is_plain = request.body is None and prepare is None
        call = _Call(_text_of(request) if is_plain else b"", "request")
        call.request, call.prepare = request, prepare
        begun = self._history.begin()
        verdict = self._decide(call, may_wait=may_wait)
        if not may_wait:
            self._history.end(begun)
        return Judged(verdict, call.draft, call.input, call.decision_id)

    def _decide(self, call: _Call, *, may_wait: bool) -> Verdict:
        """Return the verdict on a call, and write its line of the audit log. Pings and this
        plugin's own requests are allowed at once: no policy is asked and no line is written.

        Malformed requests and internal faults are denied, and so is a request whose line cannot be
        written if `deny_unlogged` is set. Raise WaitError if a wait is needed and `may_wait` is
        False.
        """
        try:
            input_doc = self._input_of(call, may_wait=may_wait)
            if input_doc is None:
                return Verdict(True, decided=False)
            verdict = self._ask(call, input_doc)
        except WaitError:
            raise
        except RequestError as error:
            verdict = Verdict(False, str(error), f"doorward:{error.code}", decided=False)
        except FAULTS as fault:
            # The client gets the identifier only: the text of a fault may quote the request.
            _EDGE.report(fault, **{"decision-id": call.decision_id})
            verdict = Verdict(False, f"internal error ({call.decision_id})", "doorward:fault")
        if self._audit is not None:
            logged = self._audit.write(_entry(call, verdict))
            if not logged and self._options.deny_unlogged:
                verdict = Verdict(False, "the audit log cannot be written", "doorward:audit")
        return verdict

    def _input_of(self, call: _Call, *, may_wait: bool) -> Input | None:
        """Return the policy's input for a call, from the cache if the same bytes came before, with
        what the host and the daemon say added; it is stored as `call.input`.

        None for pings and this plugin's own requests, which are allowed without policies. Raise
        RequestError for a malformed request, and WaitError if a wait is needed, or calls have been
        slow, and `may_wait` is False.
        """
        if not call.is_keyed and call.body and call.phase == "request":
            call.is_keyed = True
            call.key = self._known.key(call.body)
            call.known = None if call.key is None else self._known.find(call.key)
        # Bytes that were seen are neither a ping nor our own: those never reach the cache.
        if call.known is None:
            request = call.request = call.request or parse_request(call.body)
            if self._is_ping(request) or (self._facts and self._facts.is_own(request)):
                return None
        # On the loop a slow decision would hold up every other call.
        if not may_wait and (self._waits or self._history.is_slow):
            raise WaitError
        input_doc = call.input = call.known or self._read(call, may_wait=may_wait)
        # What the host and the daemon say may change: it is asked for at each decision.
        if self._host is not None:
            # A copy: the cached input is shared by all calls of the same bytes.
            input_doc = call.input = dict(input_doc)
            self._host.join(input_doc)
        if self._facts is not None:
            input_doc = call.input = {**input_doc, "inspects": True}
            self._facts.join(input_doc, may_wait=may_wait)
        return input_doc

    def _read(self, call: _Call, *, may_wait: bool) -> Input:
        """Return the policy's input for a parsed call, built from the request and from the host's
        links of mounted paths. The draft is stored in `call`, and an input that depends on nothing
        else in the cache.

        Raise RequestError for a malformed request. Raise WaitError if `may_wait` is False and a
        link cannot be followed at once, or there are more than `FEW_PATHS`.
        """
        request = call.request
        assert request is not None
        resolve = _resolve_in_time(self._resolve) if may_wait else _limit_paths(self._resolve_now)
        # What was read before somebody had to wait need not be read again.
        draft = call.draft or begin_input(request, self._options.inputs)
        if call.draft is None and call.prepare is not None:
            draft = call.prepare(draft)
        call.draft = draft
        # What is forwarded stays the caller's; the daemon does not use its body.
        judged = self._roll_back(draft, may_wait=may_wait) if is_rollback(draft) else draft
        input_doc = finish_input(judged, resolve)
        if call.phase == "response":
            input_doc["phase"] = "response"
            input_doc["status"] = request.status
        # With mounts it depends on links of the host, which may change between two calls.
        # In a thread, also on the daemon's answer about a rollback.
        elif call.key is not None and not may_wait and not input_doc["mounts"]:
            self._known.add(call.key, input_doc)
        return input_doc

    def _roll_back(self, draft: Draft, *, may_wait: bool) -> Draft:
        """Return the draft of a service's rollback with the specification that it brings back;
        WaitError if the daemon has to be asked and `may_wait` is False.
        """
        if self._facts is None:
            return roll_back(draft, None)
        version = draft.target.query.get("version", [""])[0]
        return roll_back(draft, self._facts.previous_spec(draft.name, version, may_wait=may_wait))

    def _is_ping(self, request: AuthzRequest) -> bool:
        """Return True for Docker's ping, a GET or HEAD. The nonce of an installer's probe in it is
        stored if it has at most `_MAX_PROBE` characters, so that `_answer_probe` can tell that it
        came.
        """
        if request.method not in ("GET", "HEAD"):
            return False
        if not _PING.fullmatch(request.uri.partition("?")[0]):
            return False
        nonce = request.headers.get(PROBE_HEADER)
        # Anybody may send a ping with this header: its value must not cost memory.
        if nonce is not None and len(nonce) <= _MAX_PROBE:
            self._probes.append(nonce)
        return True

    def _ask(self, call: _Call, input_doc: Input) -> Verdict:
        """Return the decider's verdict; its failure is a denial, or with `allow_on_failure` allowed
        with a warning. The decision's id in `call` becomes the decider's, if it has one.
        """
        try:
            answer = self._decider.decide(input_doc)
        except PdpError as error:
            # For no answer only: a bad answer (`to_verdict`) is denied even then.
            if self._options.allow_on_failure:
                _log.warning(
                    "Policy server failed; request ALLOWED because of --allow-on-failure",
                    extra={"reason": str(error)},
                )
                return Verdict(True, str(error), "doorward:allow-on-failure")
            return Verdict(False, str(error), "doorward:pdp")
        # That of the decision point, if it has one, so that both logs name the same decision.
        call.decision_id = answer.decision_id or call.decision_id
        return to_verdict(answer.result)


def _limit_paths(resolve: Resolve) -> Resolve:
    """Return a function like `resolve` for the first `FEW_PATHS` paths, enough for a usual request;
    it raises WaitError for any further one.
    """
    left = FEW_PATHS

    def resolve_one(path: str) -> str | None:
        """Resolve a path, None if that fails; raise WaitError after `FEW_PATHS` paths."""
        nonlocal left
        left -= 1
        if left < 0:
            raise WaitError
        return resolve(path)

    return resolve_one


def _resolve_in_time(resolve: Resolve) -> Resolve:
    """Return a function like `resolve` for the next `RESOLVING` seconds, and None after that."""
    until = monotonic() + RESOLVING

    def resolve_one(path: str) -> str | None:
        """Resolve a path; None if that fails or no time is left."""
        return resolve(path) if monotonic() < until else None

    return resolve_one


def _text_of(request: AuthzRequest) -> bytes:
    """Return the text of a request without a body, the key under which its input is cached."""
    # INVARIANT: every field is in it, the caller too: the input of one caller must never be found
    # for another.
    return repr(request).encode()


def _entry(call: _Call, verdict: Verdict) -> Entry:
    """Return the entry of the audit log for an answered call."""
    seconds = perf_counter() - call.started
    method = user = ""
    refused: dict[str, Any] | None = None
    if call.input is not None:
        method, user = call.input["Method"], call.input["User"]
    elif call.request is not None:
        method = call.request.method
        user = call.request.user if call.request.identified else ""
        refused = refused_input(call.request)
    return Entry(verdict, call.input, call.decision_id, call.phase, method, user, seconds, refused)
