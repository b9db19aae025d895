"""One request and its answer: read, decided, written in one spelling, and streamed both ways.

The coroutine of a client's connection calls `Exchange.run` for each head. A request is decided
before the first byte of it reaches the daemon; a refusal is answered here. A side that waits for a
slow peer reads nothing meanwhile, and a client that leaves ends the other side.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, Protocol

from doorward.docker.plugin import Judged
from doorward.docker.proxy.answers import (
    MOST_ANSWER,
    Edit,
    View,
    ViewError,
    editor,
    read_view,
)
from doorward.docker.proxy.daemon import Daemon, DaemonGoneError
from doorward.docker.proxy.http2 import Relay, method_of, read_preface
from doorward.docker.proxy.messages import (
    Fields,
    HeadError,
    RequestHead,
    ResponseHead,
    parse_response_head,
    write_head,
)
from doorward.docker.proxy.peers import PeerError
from doorward.docker.proxy.recordings import RECORDED, Recording, RecordingError, Recordings
from doorward.docker.proxy.requests import (
    Reading,
    UpstreamHead,
    read_request,
    to_authz,
    write_request,
)
from doorward.docker.proxy.uploads import Upload, inspect_upload
from doorward.docker.proxy.wire import LAST_CHUNK, Body, CutError, TooLargeError, Wire, chunk
from doorward.docker.reply import ADMIN
from doorward.docker.request.archives import PENDING, Archive, has_archive
from doorward.docker.request.call import AuthzRequest, Caller, parse_target
from doorward.docker.request.solves import Solve

__all__ = ["Budget", "Decisions", "Exchange", "RefusedError", "Sides"]

_log: Final = logging.getLogger(__name__)

MOST_JSON: Final = 4 << 20
"""Bytes of a JSON body, as newer daemons limit them."""
INSPECTED: Final = 1 << 20
"""Bytes that the inspection of an archive may hold."""
MOST_INTERIM: Final = 16
"""Answers with a status below 200 before the one that counts."""
_HOP: Final = frozenset(
    {"connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Fields of an answer that are about its connection."""
LONG: Final = 256 * 1024
"""Bytes of an answer from which on a thread edits it."""
TRANSLATED: Final = frozenset(
    {"container.inspect", "container.list", "system.df", "volume.inspect", "volume.list"}
)
"""The documents in which paths of the host stand."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY: Final = frozenset({b"", b"null", b"{}"})
_NO_ANSWER: Final = (
    "the Docker daemon closed the connection without an answer; it may have carried out the request"
)


class RefusedError(Exception):
    """A request that the proxy answers itself, with `status` and the message, instead of the
    daemon.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Decisions(Protocol):
    """The interface of the decisions on requests."""

    async def judge(self, request: AuthzRequest, /) -> Judged:
        """Return the verdict on a request with the request as it goes to the daemon (`draft`)."""


class Budget:
    """Bytes that may be held at the same time, by all exchanges."""

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def reservation(self) -> Iterator[Callable[[int], None]]:
        """Context whose function reserves bytes of the budget; they are given back at the end. The
        function raises RefusedError 503 if too few are left.
        """
        reserved = 0

        def reserve(size: int) -> None:
            """Reserve bytes of the budget; RefusedError 503 if too few are left."""
            nonlocal reserved
            # Before the next piece is read: bodies that are held must not add up to all memory.
            if size > self._left:
                raise RefusedError(
                    503, "the requests that are being read take too much memory: try again later"
                )
            self._left -= size
            reserved += size

        try:
            yield reserve
        finally:
            self._left += reserved


class Sides(NamedTuple):
    """The parts that an exchange uses besides its client: the daemon, the decisions, and the limits
    and recordings that all exchanges share.
    """

    daemon: Daemon
    decisions: Decisions
    identify: Callable[[Wire], Awaitable[Caller]]
    """Returns the caller at the other end of a connection; raises PeerError if it cannot be
    determined."""
    budget: Budget
    translate: Edit | None = None
    """Applied to documents about containers and volumes: the paths of the host in place of pins."""
    recordings: Recordings | None = None
    """Where streams of `exec` and `attach` are written down."""


class Exchange:
    """Carries the requests of one client, one after the other."""

    def __init__(self, client: Wire, sides: Sides) -> None:
        self._client = client
        self._sides = sides
        self._daemon = sides.daemon
        self._upstream: Wire | None = None
        self._request: Body | None = None
        self._may_half_close = False
        self._recording: Recording | None = None
        self._archived: AuthzRequest | None = None
        """The current request if its body is an archive that is inspected, else None."""
        self._refusal: RefusedError | None = None
        """The refusal of a request by the inspection of its body during the upload; None if there
        is none."""
        self.has_arrived = False
        """True from when the current request has arrived, as far as it is decided: its client is no
        longer late."""

    def client_left(self) -> None:
        """Handle the end of the client's bytes: abort the daemon's connection of the present
        request, unless the client may still receive an answer, as with `attach`.
        """
        if self._upstream is not None and not self._may_half_close:
            self._upstream.abort()

    def abort(self) -> None:
        """Abort the daemon's connection of the current request, if it has one."""
        if self._upstream is not None:
            self._upstream.abort()

    async def run_http2(self) -> None:
        """Relay a connection of HTTP/2, which only BuildKit's clients may use, until one side ends.

        The request line of the preface was read already. If the caller is refused or the daemon
        cannot be reached, the relay runs without a daemon and refuses each call. Raise CutError if
        the rest of the preface or, without a daemon, a frame of the client is malformed.
        """
        self._may_half_close = True
        # The head of the preface went through `ClientConnection._next` as if it were HTTP/1.
        await read_preface(self._client, with_head=False)
        self.has_arrived = True
        # The caller alone, before a connection to the daemon is opened for it.
        reason = await self._why_refused(b"", None)
        try:
            daemon = None if reason else await self._daemon.connect()
        except DaemonGoneError:
            daemon = None
        self._upstream = daemon
        try:
            await Relay(self._client, daemon, self._why_refused).run()
        finally:
            if daemon is not None:
                daemon.abort()
            self._upstream = None

    async def _why_refused(self, path: bytes, message: bytes | None) -> str:
        """Return the reason why the BuildKit method at `path` may not be called, "" if it may. Path
        b"" stands for the connection itself. `message`: the request, None if it is not read.
        """
        method, uri = method_of(path)
        name = path.decode("ascii", errors="replace")
        solve = None if message is None else Solve(name, message)
        try:
            caller = await self._sides.identify(self._client)
        except PeerError as error:
            return str(error)
        headers = {"content-length": "0", "grpc-method": name}
        request = AuthzRequest(
            method, uri, caller.name, caller.method, headers, caller=caller, solve=solve
        )
        verdict = (await self._sides.decisions.judge(request)).verdict
        return "" if verdict.allow is True else verdict.reason or "denied by policy"

    async def run(self, head: RequestHead) -> bool:
        """Answer one request; return True if the client's connection can carry another one.

        A RefusedError becomes the response to the client. The recording and the daemon's connection
        that this request still has are closed in any case. Raise CutError if the client has left,
        or if an answer that has begun is cut.
        """
        body = self._request = Body(self._client, head.length)
        self._may_half_close = False
        self._archived = self._refusal = None
        try:
            return await self._run(head, body)
        except RefusedError as error:
            # A body that was not read would be taken for the next request.
            keeps = head.keeps_alive and body.ended
            self._answer(error.status, str(error), head, keeps=keeps)
            return keeps
        finally:
            self.has_arrived = False
            if self._recording is not None:
                self._recording.close()
                self._recording = None
            if self._upstream is not None:
                self._upstream.abort()
                self._upstream = None

    async def _run(self, head: RequestHead, body: Body) -> bool:
        """Judge one request, pass it to the daemon, and relay the response; return True if the
        connection can carry another one.

        Raise RefusedError if the request is malformed, denied or cannot be recorded, or if the
        daemon gives no response that can be relayed; CutError if the client has left or a response
        that has begun is cut. A body that is still on its way is uploaded by a task, which is
        cancelled when the response has been relayed.
        """
        reading = read_request(head)
        self._may_half_close = reading.is_taken_over
        if head.single.get("expect", "100-continue").lower() != "100-continue":
            raise RefusedError(417, "header expect must be 100-continue")
        content = await self._content(reading, body)
        # A decision has limits of its own, and its client waits for the answer.
        self.has_arrived = True
        judged = await self._judge(reading, content)
        try:
            view = read_view(judged.verdict.answers)
            upstream = write_request(reading, judged.draft, content, view)
        except ViewError as error:
            raise RefusedError(403, f"authorization denied by Doorward's proxy: {error}") from None
        # After the decision and before the first byte: what cannot be recorded must not begin.
        await self._begin_recording(reading, judged)
        answer = await self._send(reading, upstream)
        upload: asyncio.Task[None] | None = None
        try:
            if not body.ended:
                self._continue(reading)
                inspection = self._inspect(reading, judged)
                upload = self._client.loop.create_task(self._upload(body, inspection))
            response = await self._response(answer)
            keeps = await self._pass_on(reading, response, view)
        finally:
            # A daemon may answer before it has the whole body; nobody reads the rest of it.
            if upload is not None:
                upload.cancel()
                with suppress(asyncio.CancelledError):
                    await upload
        return keeps and head.keeps_alive and body.ended

    # What is decided

    async def _content(self, reading: Reading, body: Body) -> bytes | None:
        """Return the JSON body of a request; None if it is empty, or if it is a stream, which stays
        unread. For a route without a body, `null` and `{}` are empty as well.

        Sends `100 Continue` if the client waits for it. Raise RefusedError 413 for a body of more
        than `MOST_JSON` bytes, 400 for one that cannot be read or that the route does not have, and
        503 if the budget has no room; CutError if the client ended.
        """
        if reading.kind == "stream" and not reading.is_taken_over:
            return None
        if body.ended:
            return None
        # Before `100 Continue`: a client that waits for it need not send the body at all.
        if reading.head.length > MOST_JSON:
            raise RefusedError(413, f"request body is larger than {MOST_JSON} bytes")
        self._continue(reading)
        try:
            with self._sides.budget.reservation() as reserve:
                content = await body.all(MOST_JSON, reserve)
        except TooLargeError:
            raise RefusedError(413, f"request body is larger than {MOST_JSON} bytes") from None
        except CutError:
            # Cut by the client itself: there is nobody to answer.
            if self._client.at_end:
                raise
            raise RefusedError(400, "request body is malformed") from None
        if reading.kind in ("json", "optional", "withheld"):
            return content or None
        # The daemon acts on none, and gets none.
        if content.strip() not in _NO_BODY:
            raise RefusedError(400, "this request must not have a body")
        return None

    def _continue(self, reading: Reading) -> None:
        """Send 100 (Continue) if the client waits for it before it sends the body."""
        if "expect" in reading.head.single:
            self._client.write(_CONTINUE)

    async def _judge(self, reading: Reading, content: bytes | None) -> Judged:
        """Identify the caller and judge the request. `content` is the JSON body; None if there is
        none or the body is a stream. RefusedError 403 if the caller is unknown or the request is
        denied.

        If the body is an archive that is inspected while it is passed on, the request is judged
        with the archive marked as pending, and that request is stored as `_archived` for the
        inspection.
        """
        try:
            caller = await self._sides.identify(self._client)
        except PeerError as error:
            raise RefusedError(403, f"authorization denied by Doorward's proxy: {error}") from None
        request = to_authz(reading, caller, content)
        body = self._request
        if reading.kind == "stream" and body is not None and not body.ended:
            self._archived = _with_archive(request, reading.action)
            request = self._archived or request
        return await self._decide(request)

    async def _decide(self, request: AuthzRequest) -> Judged:
        """Return the verdict on a request that the policy allows, with the parsed request and its
        input; raise RefusedError 403 with the policy's reason for any other verdict.
        """
        judged = await self._sides.decisions.judge(request)
        if judged.verdict.allow is not True:
            reason = judged.verdict.reason or "denied by policy"
            raise RefusedError(403, f"authorization denied by Doorward's proxy: {reason}")
        return judged

    def _inspect(self, reading: Reading, judged: Judged) -> Upload | None:
        """Return the inspection of an archive; None for other requests, and for admins, whom no
        archive is forbidden."""
        request = self._archived
        if request is None or judged.verdict.rule == ADMIN:
            return None

        async def decide(archive: Archive) -> None:
            await self._decide(request._replace(archive=archive))

        return inspect_upload(reading.action, parse_target(request.uri).query, decide)

    async def _begin_recording(self, reading: Reading, judged: Judged) -> None:
        """Open `self._recording` for a stream whose action is recorded; do nothing for other
        requests.

        Raise RefusedError 503 if the recording cannot be begun: such a stream must not run
        unrecorded.
        """
        recordings = self._sides.recordings
        if recordings is None or not reading.is_taken_over or reading.action not in RECORDED:
            return
        document = judged.input or {}
        about = {
            "user": document.get("User", ""),
            "action": reading.action,
            "target": document.get("target", ""),
        }
        begin = partial(recordings.begin, judged.decision_id, about)
        try:
            self._recording = await self._client.loop.run_in_executor(recordings.threads, begin)
        except RecordingError as error:
            _log.error("A stream of exec or attach cannot be recorded", extra={"why": str(error)})
            raise RefusedError(
                503,
                "the session is refused because it cannot be recorded: see Doorward's log, or ask"
                " its operator",
            ) from None

    # To the daemon

    async def _send(self, reading: Reading, request: UpstreamHead) -> Wire:
        """Send the head of the request, and what was read of its body, to the daemon; return the
        connection on which the response will come, and store it as `_upstream`.

        A request without more to send is first sent on an idle connection of the pool. If the
        daemon closes that without a response, GET and HEAD are sent again on a new connection;
        other methods are refused with 502, since the daemon may have acted on them. Raise
        RefusedError 502 if the daemon cannot be reached, CutError if the client has left.
        """
        content = request.head + request.body
        self._check_client()
        # The daemon may be closing an idle connection: a body that is still to come from the client
        # could not be sent a second time.
        is_short = self._request is not None and self._request.ended and not reading.is_taken_over
        idle = self._daemon.take_idle() if is_short else None
        if idle is not None:
            self._upstream = idle
            idle.write(content)
            while not idle.data and await idle.wait():
                pass
            # The first byte of an answer: from here on the connection has not ended unnoticed.
            if idle.data:
                return idle
            idle.abort()
            self._check_client()
            if reading.head.method not in ("GET", "HEAD"):
                raise RefusedError(502, _NO_ANSWER)
        try:
            wire = self._upstream = await self._daemon.connect()
        except DaemonGoneError as error:
            raise RefusedError(502, str(error)) from None
        self._check_client()
        wire.write(content)
        return wire

    def _check_client(self) -> None:
        """Raise CutError if the client has ended its side, and may not do so this early."""
        if self._client.at_end and not self._may_half_close:
            raise CutError

    async def _upload(self, body: Body, inspection: Upload | None) -> None:
        """Carry a body to the daemon as it arrives.

        If the body is cut or its inspection refuses it, the daemon's connection is aborted without
        the last chunk, so that the daemon never sees a complete body. A refusal is stored in
        `self._refusal`.
        """
        upstream = self._upstream
        assert upstream is not None
        try:
            with self._sides.budget.reservation() as reserve:
                reserve(INSPECTED if inspection is not None else 0)
                async for piece in _pieces(body, inspection):
                    upstream.write(chunk(piece) if body.is_chunked else piece)
                    await upstream.drained()
            if body.is_chunked:
                upstream.write(LAST_CHUNK)
        except CutError:
            upstream.abort()
        except RefusedError as error:
            self._refusal = error
            upstream.abort()

    # From the daemon

    async def _response(self, upstream: Wire) -> ResponseHead:
        """Return the head of the daemon's final response. Raise the refusal of the body's
        inspection if there was one, CutError if the client has left, and RefusedError 502 if no
        valid response comes.
        """
        try:
            for _ in range(MOST_INTERIM):
                response = parse_response_head(await upstream.head())
                # RFC 9110, 15.2: interim answers may come before; 101 is the last of its protocol.
                if response.status >= 200 or response.status == 101:
                    return response
        except CutError:
            if self._refusal is not None:
                raise self._refusal from None
            self._check_client()
            raise RefusedError(502, _NO_ANSWER) from None
        except HeadError as error:
            raise RefusedError(502, f"the Docker daemon's response is invalid: {error}") from None
        raise RefusedError(502, "the Docker daemon sent too many interim answers (status 1xx)")

    async def _pass_on(self, reading: Reading, response: ResponseHead, view: View) -> bool:
        """Relay the daemon's response to the client; return True if the client's connection can be
        kept. After a complete response the daemon's connection goes back to the pool, or is closed.

        A response that takes the connection over is carried until one side ends, and then the
        result is False. Raise RefusedError if the daemon upgrades without being asked (502) or a
        response that must be filtered cannot be, and CutError if the response is cut or the client
        has left.
        """
        upstream = self._upstream
        assert upstream is not None
        # RFC 9110, 7.6.1: fields of one connection are not those of the next.
        fields = [pair for pair in response.fields if pair[0] not in _HOP]
        if response.status == 101:
            # Nobody would read what follows as the protocol that it is, or decide about it.
            if not reading.upgrade:
                raise RefusedError(
                    502,
                    "the Docker daemon switched to another protocol than HTTP without being asked",
                )
            fields += [("Connection", "Upgrade"), ("Upgrade", reading.upgrade)]
            self._client.write(write_head(101, fields))
            await self._carry(reading)
            return False
        length = response.length
        if reading.head.method == "HEAD" or response.status in (204, 304):
            fields += [pair for pair in response.fields if pair[0] == "content-length"]
            self._client.write(write_head(response.status, fields))
            self._keep(response, upstream)
            return True
        if length is None and reading.is_taken_over:
            self._client.write(write_head(response.status, [*fields, ("Connection", "close")]))
            await self._carry(reading)
            return False
        body = Body(upstream, length)
        edit = self._edit(reading, response, view)
        if edit is None:
            await self._relay_body(response, body, fields)
        else:
            await self._rewrite(response, body, fields, edit)
        self._keep(response, upstream)
        return True

    def _edit(self, reading: Reading, response: ResponseHead, view: View) -> Edit | None:
        """Return the edit of an answer; None if it passes as it comes, as every answer with a
        status other than 200 does.
        """
        if response.status != 200:
            return None
        edit = editor(reading.action, view)
        translate = self._sides.translate if reading.action in TRANSLATED else None
        if edit is None or translate is None:
            return edit or translate
        first, then = translate, edit
        return lambda content: then(first(content))

    async def _rewrite(
        self, response: ResponseHead, body: Body, fields: Fields, edit: Edit
    ) -> None:
        """Relay a JSON response after `edit` has filtered and masked it, with its new length, which
        is added to `fields`.

        Raise RefusedError 502 if the response does not have the form that `edit` expects, is cut,
        or is too large, and 503 if the budget has no room; CutError if the client has left.
        """
        try:
            content = await self._edit_answer(body, edit)
        # The edits take the daemon's form for granted. An answer of another one must not pass
        # without them.
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RefusedError(
                502, "the Docker daemon's answer has a form that cannot be filtered"
            ) from None
        except CutError as error:
            self._check_client()
            why = "ended early or is malformed"
            if isinstance(error, TooLargeError):
                why = f"is too large to be filtered: more than {MOST_ANSWER} bytes"
            raise RefusedError(502, f"the Docker daemon's answer {why}") from None
        fields.append(("Content-Length", str(len(content))))
        self._client.write(write_head(response.status, fields) + content)
        await self._client.drained()

    async def _edit_answer(self, body: Body, edit: Edit) -> bytes:
        """Return the result of `edit` on a complete body. Raise CutError if the body is cut or
        longer than `MOST_ANSWER`, RefusedError 503 if the budget has no room; errors of `edit` pass
        through.
        """
        with self._sides.budget.reservation() as reserve:
            content = await body.all(MOST_ANSWER, reserve)
            if len(content) < LONG:
                return edit(content)
            return await self._client.loop.run_in_executor(None, edit, content)

    async def _relay_body(self, response: ResponseHead, body: Body, fields: Fields) -> None:
        """Relay a response that is not edited, with the header `fields` and its body piece by
        piece, chunked if its length is unknown. Waits while the client reads slowly. If the
        daemon's body is cut, abort the client's connection and raise CutError.
        """
        client, length = self._client, response.length
        is_chunked = length is None or length < 0
        fields.append(
            ("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", str(length))
        )
        waiting = write_head(response.status, fields)
        try:
            if not body.ended and self._upstream is not None and not self._upstream.data:
                client.write(waiting)  # a stream that has begun, and has nothing to say yet
                waiting = b""
            while piece := await body.next():
                part = chunk(piece) if is_chunked else piece
                if body.ended and is_chunked:
                    part += LAST_CHUNK
                client.write(waiting + part if waiting else part)
                waiting = b""
                await client.drained()
                if body.ended:
                    return
        except CutError:
            client.abort()  # what is cut must not look like the whole
            raise
        client.write(waiting + LAST_CHUNK if is_chunked else waiting)

    def _keep(self, response: ResponseHead, upstream: Wire) -> None:
        """Return the daemon's connection to the pool if the daemon keeps it open and request and
        answer have both ended.
        """
        request = self._request
        # A request that is still uploaded would be continued on the next one's connection.
        if response.keeps_alive and response.length is not None and request and request.ended:
            self._upstream = None
            self._daemon.keep(upstream)

    # What was taken over

    async def _carry(self, reading: Reading) -> None:
        """Carry bytes both ways until the daemon ends, the client is lost or recording fails; the
        end of the client's bytes is passed on. For `build.grpc` each call is decided before it
        passes; CutError if the client does not begin with the HTTP/2 preface.
        """
        client, upstream = self._client, self._upstream
        assert upstream is not None
        if reading.action == "build.grpc":
            await read_preface(client, with_head=True)
            await Relay(client, upstream, self._why_refused).run()
            return
        up = client.loop.create_task(self._pump(client, upstream, "client"))
        try:
            await self._pump(upstream, client, "daemon")
        finally:
            up.cancel()
            with suppress(asyncio.CancelledError):
                await up

    async def _pump(self, source: Wire, sink: Wire, name: str) -> None:
        """Carry bytes from `source` to `sink` until one of them ends, and pass the end on. Each
        piece is recorded as bytes of `name` before it is sent, if the stream is recorded; if that
        fails, both sides are aborted.
        """
        while piece := await source.piece():
            # Recorded before it passes, so that nothing was seen that is not in the file.
            if self._recording is not None and not await self._record(name, piece):
                source.abort()
                sink.abort()
                return
            sink.write(piece)
            await sink.drained()
            if sink.lost:
                return
        sink.end()

    async def _record(self, source: str, piece: bytes) -> bool:
        """Write a piece of the stream to the recording, in a thread of the recordings. Return False
        if that fails, which is logged; then the stream must end.
        """
        recording, recordings = self._recording, self._sides.recordings
        assert recording is not None
        assert recordings is not None
        write = partial(recording.write, source, piece)
        try:
            await self._client.loop.run_in_executor(recordings.threads, write)
        except (RecordingError, RuntimeError) as error:  # RuntimeError: the proxy ends
            _log.error(
                "A stream of exec or attach is ended because it cannot be recorded",
                extra={"why": str(error)},
            )
            return False
        return True

    def _answer(self, status: int, message: str, head: RequestHead, *, keeps: bool) -> None:
        """Write an answer of the proxy itself, with a message in Docker's form; without its body
        for HEAD. Unless `keeps`, it says that the connection closes.
        """
        content = json.dumps({"message": message}).encode() + b"\n"
        fields: Fields = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(content))),
        ]
        if not keeps:
            fields.append(("Connection", "close"))
        body = b"" if head.method == "HEAD" else content
        self._client.write(write_head(status, fields) + body)


def _with_archive(request: AuthzRequest, action: str) -> AuthzRequest | None:
    """Return the request with its archive marked as pending; None if its body is not inspected."""
    if not has_archive(action, parse_target(request.uri).query):
        return None
    return request._replace(archive=PENDING)


async def _pieces(body: Body, inspection: Upload | None) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, each after the inspection has passed it.

    The inspection may hold pieces back and release them later. Its errors, such as RefusedError,
    end the iteration. Without an inspection the pieces pass as they are.
    """
    while piece := await body.next():
        if inspection is None:
            yield piece
        else:
            for each in await inspection.pass_on(piece, is_last=body.ended):
                yield each
    if inspection is not None:
        for each in await inspection.end():
            yield each
