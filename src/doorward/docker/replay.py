"""Requests of the past, decided again: what would another policy have said?

Reads the plugin's own audit log (written with `--audit-input`), lines of AuthZReq as the daemon
sends them, and captured runs of the command line with the calls in `plugin_calls`.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from doorward.base.os_errors import describe_os_error
from doorward.docker.decider.answer import Decider, PdpError
from doorward.docker.reply import Verdict, to_verdict
from doorward.docker.request.call import parse_request
from doorward.docker.request.errors import RequestError
from doorward.docker.request.facts import NO_CONTAINER
from doorward.docker.request.input import Input, InputOptions, to_input
from doorward.rego import from_json, to_json

__all__ = ["ReplayError", "Replayed", "read_requests", "replay"]

_log: Final = logging.getLogger(__name__)
MAX_FILE: Final = 256 << 20


_FIELDS: Final = {
    "RequestMethod": "Method",
    "RequestUri": "Path",
    "User": "User",
    "UserAuthNMethod": "AuthMethod",
    "RequestHeaders": "Headers",
}
"""The field of an input for each field of an AuthZReq, but the body."""


class ReplayError(Exception):
    """A file that holds no requests; the message says where."""


class Past(NamedTuple):
    """One recorded request: its input, or the raw AuthZReq, and the decision at that time."""

    location: str
    input: Input | None
    raw: bytes | None
    decision: str
    """The recorded decision, `allow` or `deny`; "" if the file does not have it."""


class Replayed(NamedTuple):
    """A recorded request with the verdict that it gets now."""

    past: Past
    input: Input | None
    verdict: Verdict

    @property
    def decision(self) -> str:
        """The decision of today, `allow` or `deny`."""
        return "allow" if self.verdict.allow else "deny"

    @property
    def changed(self) -> bool:
        """True if the decision of today is another than the recorded one; False without a recorded
        one.
        """
        return bool(self.past.decision) and self.past.decision != self.decision


def _read_again(before: Input, options: InputOptions | None) -> Input:
    """Return the input of a request that an earlier version logged, with the views that its log
    lacks. Raise RequestError if it cannot be read.
    """
    call: dict[Any, Any] = {
        name: before[field] for name, field in _FIELDS.items() if field in before
    }
    if (body := before.get("Body")) is not None:
        call["RequestBody"] = base64.b64encode(to_json(body).encode()).decode()
    request = parse_request(to_json(call).encode())
    return {**to_input(request, options), "container": before.get("container") or NO_CONTAINER}


def replay(
    files: Sequence[Path], decider: Decider, options: InputOptions | None = None
) -> Iterator[Replayed]:
    """Yield each request in the files with the verdict that `decider` gives now.

    A request that cannot be read, or on which the decider fails, is denied with that reason. Raise
    ReplayError for files that cannot be read. `options`: by default `InputOptions()`.
    """
    for past in read_requests(files):
        input_doc = past.input
        try:
            if input_doc is None:
                input_doc = to_input(parse_request(past.raw or b""), options)
            elif "untyped" not in input_doc:
                input_doc = _read_again(input_doc, options)
            verdict = to_verdict(decider.decide(input_doc).result)
        except RequestError as error:
            verdict = Verdict(False, str(error), f"doorward:{error.code}")
        except PdpError as error:
            verdict = Verdict(False, str(error), "doorward:pdp")
        yield Replayed(past, input_doc, verdict)


def read_requests(files: Sequence[Path]) -> Iterator[Past]:
    """Yield the requests in logs and captures, file by file; each is read when it is reached.

    Other lines of logs are skipped, cut-off ones of the audit log with a warning. Raise
    ReplayError, also after some requests, if a file is larger than `MAX_FILE` bytes or cannot be
    read, or if a document or line is anything else.
    """
    for path in files:
        try:
            if path.stat().st_size > MAX_FILE:
                raise ReplayError(f"{path} is larger than {MAX_FILE} bytes: split it")
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ReplayError(f"{path}: {describe_os_error(error)}") from None
        except UnicodeDecodeError as error:
            raise ReplayError(f"{path}: the file is not UTF-8 at byte {error.start}") from None
        yield from _read(path, text)


def _read(path: Path, text: str) -> Iterator[Past]:
    """Yield the requests in the text of a file: one JSON document, or one on each line.

    Other lines of logs are skipped; a line of the audit log that is cut off, unless it is the
    first, with a warning. Raise ReplayError for lines that are not JSON objects, and for objects
    without a request.
    """
    try:
        line_document = from_json(text)
    except ValueError:
        line_document = None
    if isinstance(line_document, dict):
        yield from _of_document(str(path), line_document)
        return
    read = 0
    # Not `splitlines`: JSON may have other line separators in its strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = from_json(line)
        except ValueError:
            if read and line.startswith('{"time"'):
                # A full disk cuts a line of the log off; the rest of it can be read all the same.
                _log.warning("Line skipped: it is cut off", extra={"line": f"{path}:{number}"})
                continue
            raise ReplayError(
                f"{path}:{number}: line is not JSON: each line of a log must be an object"
            ) from None
        read += 1
        if not isinstance(document, dict):
            raise ReplayError(f"{path}:{number}: line is not a JSON object, as in an audit log")
        yield from _of_document(f"{path}:{number}", document)


def _of_document(location: str, document: dict[Any, Any]) -> Iterator[Past]:
    """Yield the requests in one JSON document: each AuthZReq of a capture, the request of a
    plugin's call, or that of an audit log line with `input`. Other lines of audit and program logs
    yield nothing. Raise ReplayError, with `location`, for any other document, also after some
    requests.
    """
    if "plugin_calls" in document:
        decision = _recorded_answer(document)
        for number, call in enumerate(_calls(location, document["plugin_calls"])):
            if call.get("phase") == "AuthZReq":
                at = f"{location}#{number}"
                yield Past(at, None, _captured_request(at, call), decision)
    elif "RequestMethod" in document:
        yield Past(location, None, to_json(document).encode(), "")
    elif "input" in document:
        if not isinstance(document["input"], dict):
            raise ReplayError(f"{location}: `input` is not an object")
        yield Past(location, document["input"], None, str(document.get("decision", "")))
    elif "decision_id" not in document and "level" not in document:
        raise ReplayError(
            f"{location}: document has no request to the daemon: expected a line of an audit log, "
            "an AuthZReq or a recorded call"
        )


def _calls(location: str, calls: Any) -> list[dict[Any, Any]]:
    """Return the calls in a capture; ReplayError unless they are an array of objects."""
    if not isinstance(calls, list) or not all(isinstance(each, dict) for each in calls):
        raise ReplayError(f"{location}: `plugin_calls` is not an array of objects")
    return calls


def _recorded_answer(document: dict[Any, Any]) -> str:
    """Return the answer that each request of a captured run got: `allow`, or "" for unknown if the
    run's output reports a denial, which may be that of any request.
    """
    return "" if "authorization denied" in str(document.get("stderr")) else "allow"


def _captured_request(location: str, call: dict[Any, Any]) -> bytes:
    """Return the bytes of a captured AuthZReq, with the body that was decoded in the capture
    encoded again. Raise ReplayError if the call has no object `sent`.
    """
    if not isinstance(call.get("sent"), dict):
        raise ReplayError(f"{location}: `sent` is not an object")
    sent = dict(call["sent"])
    if "RequestBody" in sent and "RequestBody_decoded" in call:
        body = call["RequestBody_decoded"]
        text = body if isinstance(body, str) else to_json(body)
        sent["RequestBody"] = base64.b64encode(text.encode()).decode()
    return to_json(sent).encode()
