"""Lines of logs become `Access`: decision logs of ours and OPA's, access logs of Envoy, in JSON.

    document ─read_access─▶ Access, or the reason why nothing can be learned from it

A value that a log hides is not guessed, and a path that two readers could take for two is left
out: the reason is counted and reported. Lines of Docker's audit log are `doorward.learn.docker`'s.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from doorward.base.records import record
from doorward.enforcement.errors import RequestParseError
from doorward.enforcement.paths import parse_target
from doorward.learn.access import (
    ALLOWED,
    DENIED,
    ENVOY,
    FAILED,
    LIST,
    NO_PARAMETERS,
    TEXT,
    Access,
    Attribute,
    Location,
    Subject,
)
from doorward.learn.segments import LONGEST, is_plain
from doorward.rego import to_json
from doorward.replay.compare import allows
from doorward.replay.deciding import recorded_answer
from doorward.replay.events import Event, read_event

__all__ = ["MAX_LOCATION", "Options", "is_access_line", "read_access", "request_id_of", "status_of"]

CLAIMS: Final = (
    ("claims",),
    ("token", "payload"),
    ("jwt", "payload"),
    ("attributes", "metadataContext", "filterMetadata", "envoy.filters.http.jwt_authn"),
)
"""The paths at which claims are looked for in an input, unless the caller names others."""
USERS: Final = (("user",), ("user", "id"), ("subject", "id"), ("attributes", "source", "principal"))
MAX_LOCATION: Final = (4, 3)
"""The paths of claims and of the user may have at most this many names, which is what the policy
can follow.
"""
MAX_CLAIMS: Final = 32
MAX_FIELDS: Final = 1_000
"""At most this many fields of claims are read."""
REMEMBERED: Final = 4_096
"""At most this many subjects are kept for reuse, and claims of at most this length."""
MAX_VALUES: Final = 64
MAX_PARAMETERS: Final = 32
_OF_TOKENS: Final = frozenset(
    {"acr", "amr", "at_hash", "aud", "auth_time", "azp", "exp", "iat", "iss", "jti", "nbf"}
    | {"nonce", "sid", "session_state", "typ", "ver"}
)
"""Claims about the token and not about its subject, which are never conditions; times are among
them.
"""
_OF_WORDS: Final = frozenset({"scope", "scp"})
"""Claims that hold several values in one text, separated by spaces."""
_METHODS: Final = ("method", ":method", "request_method", "req_method")
_PATHS: Final = (":path", "path", "x-envoy-original-path", "uri", "request_path")
_STATUS: Final = ("response_code", "status", "response_status")
_TIMES: Final = ("start_time", "timestamp", "time")
_HOSTS: Final = ("authority", ":authority", "host")
_IDS: Final = ("request_id", "x-request-id", "x_request_id")
_HOST: Final = re.compile(r"[a-z0-9._-]{0,200}\Z")
_LOGGED_USERS: Final = ("user", "subject", "principal")


@record
class Options:
    """The options of reading events. `decisions`: the documents whose decisions count, all if
    empty; `claims` and `user`: the paths at which an input or a line has them; `ignored`: prefixes
    of paths to ignore.
    """

    decisions: frozenset[str] = frozenset()
    claims: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    failed: frozenset[int] = frozenset()
    """Hashes of the request ids that did not succeed according to an access log."""
    only: str | None = None
    """The name of the only subject whose events count; None for all."""


def is_access_line(document: Mapping[Any, Any]) -> bool:
    """Return True for a line of an access log: a method, a path and a status."""
    return all(_first(document, names) is not None for names in (_METHODS, _PATHS, _STATUS))


def read_access(document: Any, options: Options) -> Access | str | None:
    """Return the access that a JSON value describes, or the reason why it is not used; None if it
    is neither a decision nor a line of an access log.
    """
    if not isinstance(document, dict):
        return None
    event = read_event(document)
    if event is not None and (event.path or event.query):
        return _access_of_event(event, options)
    return _access_of_line(document, options) if is_access_line(document) else None


def _access_of_event(event: Event, options: Options) -> Access | str:
    """Return the access that an event of a decision log records, or the reason, as text for people,
    why nothing is learned from it: by `options`, or since the subject, the path or the result is
    hidden, missing or unclear.
    """
    if options.decisions and event.path not in options.decisions:
        return "another decision"
    input: Any = event.input
    if not isinstance(input, dict):
        return "no input"
    if "response" in input:
        return "a decision on a response"
    http = _at(input, ("attributes", "request", "http"))
    answer = recorded_answer(event)
    if answer.missing:
        return "the result is hidden"
    if answer.error:
        return "the decision failed"
    outcome = ALLOWED if allows(answer) else DENIED
    form = ENVOY if isinstance(http, dict) else TEXT if type(input.get("path")) is str else LIST
    subject = _subject_of(event, input, form, options)
    if isinstance(subject, str):
        return subject
    path: Any
    if isinstance(http, dict):
        method, path = http.get("method"), input.get("parsed_path")
        if not _is_written_plainly(http.get("path"), path):
            return "the path can be read in two ways"
        host = http.get("host", "")
        if outcome == ALLOWED and options.failed:
            identifier = request_id_of(_at(http, ("headers", "x-request-id")))
            outcome = FAILED if identifier in options.failed else outcome
    else:
        method, path, host = input.get("method"), input.get("path"), ""
        if type(path) is str:
            path = path.lstrip("/").split("/") if path.startswith("/") else None
    if any(each.startswith(("/input/parsed_path", "/input/path")) for each in event.hidden):
        return "the path is hidden"
    return _access(
        (subject, host, method, path, outcome),
        (event.time_ns or 0) // 1_000_000_000,
        event.decision_id,
        _parameters(input),
        options,
    )


def _access_of_line(line: Mapping[Any, Any], options: Options) -> Access | str:
    """Return the access in a line of an access log, or the reason, as text for people, why nothing
    is learned from it. A status below 400 counts as allowed, 403 as denied, any other as failed.
    """
    status = _status(_first(line, _STATUS))
    if status is None:
        return "no status"
    subject = _subject_of_line(line, options)
    if isinstance(subject, str):
        return subject
    target = _first(line, _PATHS)
    if type(target) is not str or not target.startswith("/"):
        return "no path"
    try:
        path, query = parse_target(target)
    except RequestParseError:
        return "the path can be read in two ways"
    if not _is_written_plainly(target, path):
        return "the path can be read in two ways"
    outcome = ALLOWED if status < 400 else DENIED if status == 403 else FAILED
    identifier = _first(line, _IDS)
    return _access(
        (subject, _first(line, _HOSTS) or "", _first(line, _METHODS), path, outcome),
        _seconds(_first(line, _TIMES)),
        identifier if type(identifier) is str else "",
        _of_fields("query", {name: values for name, values in query.items()}),
        options,
    )


def _access(
    row: tuple[Subject, Any, Any, Any, str],
    seconds: int,
    identifier: str,
    parameters: Mapping[tuple[str, str], str] | None,
    options: Options,
) -> Access | str:
    """Return the access, with the host in lower case and without its port, or the reason why it is
    not used. `row` has subject, host, method, path and outcome. `parameters` None: there are too
    many.
    """
    subject, host, method, path, outcome = row
    if type(method) is not str or not (method.isascii() and method.isalpha() and len(method) <= 20):
        return "no method"
    if type(path) is not list or not all([type(each) is str for each in path]):
        return "no path"
    if not is_plain(path):
        return "the path can be read in two ways"
    if parameters is None:
        return f"more than {MAX_PARAMETERS} parameters"
    if options.ignored and ("/" + "/".join(path)).startswith(options.ignored):
        return "ignored"
    if options.only is not None and subject.name != options.only:
        return "another subject"
    name, colon, port = (host.lower() if type(host) is str else "").partition(":")
    if not _HOST.match(name) or (colon and not (port.isascii() and port.isdecimal())):
        return "no host"
    return Access(
        subject,
        name,
        method,
        tuple(path),
        outcome,
        seconds,
        identifier[:LONGEST],
        parameters,
    )


def _is_written_plainly(target: Any, path: Any) -> bool:
    """Return True if the request target without its query is `/` and the segments of `path` joined
    by `/`, so that it had no escapes and no further slashes.
    """
    if type(target) is not str or type(path) is not list:
        return False
    return all(type(each) is str for each in path) and target.partition("?")[0] == "/" + "/".join(
        path
    )


# Who asked.


def _subject_of(
    event: Event, input: Mapping[Any, Any], form: str, options: Options
) -> Subject | str:
    """Return the subject of a decision, or the reason, as text for people, why it is not known.
    Claims that the log has beside the input (`custom.claims`) come first, unless `options` name
    paths; then those in the input, at the paths in `options` or else at the first of the usual
    paths.
    """
    logged = event.custom.get("claims")
    if isinstance(logged, dict) and logged and not options.claims and not options.user:
        tokens = list(logged.values())
        payload = tokens[0].get("payload") if isinstance(tokens[0], dict) else None
        if len(tokens) > 1 or not isinstance(payload, dict):
            return "more than one token"
        return _subject(payload, payload.get("sub"), form=form)
    locations = (options.claims,) if options.claims else CLAIMS
    location = next((each for each in locations if _is_object(_at(input, each))), ())
    claims: dict[Any, Any] = _at(input, location) if location else {}
    users = (options.user,) if options.user else USERS
    user_location = next((each for each in users if _is_text(_at(input, each))), ())
    user: str = _at(input, user_location) if user_location else ""
    if not claims and not user:
        hidden = any("authorization" in each.lower() for each in event.hidden)
        return "the subject is hidden" if hidden else "no subject"
    return _subject(claims, user or claims.get("sub"), user, (location, user_location), form)


def _is_object(value: Any) -> bool:
    return type(value) is dict


def _is_text(value: Any) -> bool:
    return type(value) is str and value != ""


def _subject_of_line(line: Mapping[Any, Any], options: Options) -> Subject | str:
    """Return the subject of an access log's line, or the reason why it is not known."""
    claims: Any = _at(line, options.claims or ("claims",))
    user = _at(line, options.user) if options.user else _first(line, _LOGGED_USERS)
    if isinstance(claims, dict):
        return _subject(claims, claims.get("sub") or user)
    if type(user) is str and user not in ("", "-"):
        return _subject({"sub": user}, user)
    return "no subject"


def _subject(
    claims: Mapping[Any, Any],
    name: Any,
    user: str = "",
    location: Location = (),
    form: str = ENVOY,
) -> Subject | str:
    """Return the subject with these claims, or the reason, as text for people, why it is not used.
    `name` identifies it: a text or number; `user` is its name in the input, "" if it has none;
    `location` are the paths of both there. Equal subjects share one object (a cache).
    """
    if len(claims) > MAX_FIELDS:
        return f"more than {MAX_FIELDS} claims"
    try:
        # As text: dicts that are equal to Python may differ in types (1, 1.0, true), and so in the
        # texts of attributes.
        text = repr(claims)
    except RecursionError:
        return "the claims are nested too deeply"
    key = text, name if type(name) is str else "", user, location, form
    known = _SUBJECTS.get(key)
    if known is None:
        known = _new_subject(claims, name, user, location, form)
        if len(_SUBJECTS) >= REMEMBERED:
            _SUBJECTS.clear()
        if len(text) <= REMEMBERED:
            _SUBJECTS[key] = known
    return known


_SUBJECTS: Final[dict[tuple[Any, ...], Subject | str]] = {}


def _new_subject(
    claims: Mapping[Any, Any], name: Any, user: str, location: Location, form: str
) -> Subject | str:
    """Return a new subject with at most `MAX_CLAIMS` attributes, sorted, or the reason, as text for
    people, why it is not used: the name is missing or too long, or there are more. Left out are
    claims about the token itself (`exp`), with long names, and in objects inside objects.
    """
    attributes: dict[Attribute, tuple[str, ...]] = {}
    lists: set[Attribute] = set()
    scalars: set[Attribute] = set()
    kinds = lists, scalars
    for key, value in claims.items():
        if type(key) is not str or len(key) > LONGEST or key in _OF_TOKENS:
            continue
        if type(value) is dict:
            for inner, item in value.items():
                if type(inner) is str and len(inner) <= LONGEST and type(item) is not dict:
                    _add(attributes, kinds, ("claims", key, inner), item)
        else:
            _add(attributes, kinds, ("claims", key), value)
    if user:
        attributes["user",] = (user[:LONGEST],)
    text = _scalar(name)
    if not text or len(text) > LONGEST:
        return "no subject"
    if len(attributes) > MAX_CLAIMS:
        return f"more than {MAX_CLAIMS} claims"
    values = tuple(sorted(attributes.items()))
    return Subject(text, values, frozenset(lists), frozenset(scalars), location, form)


def _add(
    attributes: dict[Attribute, tuple[str, ...]],
    kinds: tuple[set[Attribute], set[Attribute]],
    attribute: Attribute,
    value: Any,
) -> None:
    """Add the values of an attribute of the subject to `attributes`, and the attribute to the first
    of `kinds` for a list or a string of words (`scope`), to the second for a number or a boolean.
    Dropped: other values, empty or long texts, items that are not texts, and lists without a text
    or with more than `MAX_VALUES`.
    """
    if type(value) is list or (type(value) is str and attribute[-1] in _OF_WORDS):
        items = value.split() if type(value) is str else value
        texts = {each for each in items if type(each) is str and 0 < len(each) <= LONGEST}
        if texts and len(texts) <= MAX_VALUES:
            attributes[attribute] = tuple(sorted(texts))
            kinds[0].add(attribute)
    elif (text := _scalar(value)) and len(text) <= LONGEST:
        attributes[attribute] = (text,)
        if type(value) is not str:
            kinds[1].add(attribute)


def _scalar(value: Any) -> str:
    """Return a string, number or boolean as text; "" for other values."""
    if type(value) is str:
        return value
    return to_json(value) if isinstance(value, (bool, int, float)) else ""


# Parameters, statuses, times.


def _parameters(input: Mapping[Any, Any]) -> Mapping[tuple[str, str], str] | None:
    """Return the scalar values of query and body by part and name; None for too many."""
    query, body = input.get("parsed_query"), input.get("parsed_body")
    if not query and not body:
        return NO_PARAMETERS
    values = _of_fields("query", query if isinstance(query, dict) else {})
    fields = _of_fields("body", body) if isinstance(body, dict) else {}
    return None if values is None or fields is None else {**values, **fields}


def _of_fields(part: str, fields: Mapping[Any, Any]) -> Mapping[tuple[str, str], str] | None:
    """Return the scalar values of `fields` by (`part`, name), each cut to `LONGEST` characters, and
    of these the first `MAX_PARAMETERS` by name. A list of one value counts as that value; other
    lists and values are "" in a query and left out in a body, as are names there that are too long.
    None for a query with too many parameters or with a name that is too long.
    """
    if part == "query" and len(fields) > MAX_PARAMETERS:
        return None
    texts: dict[tuple[str, str], str] = {}
    for name, value in fields.items():
        if type(name) is not str or len(name) > LONGEST:
            if part == "query":
                return None
            continue
        values = value if type(value) is list else [value]
        text = _scalar(values[0]) if len(values) == 1 else ""
        if part == "query" or text:
            texts[part, name] = text[:LONGEST]
    # A body may have many fields; those that come first in order are enough to find an owner.
    return {key: texts[key] for key in sorted(texts)[:MAX_PARAMETERS]}


def request_id_of(text: Any) -> int:
    """Return a digest of a request's id, by which logs are joined; 0 if there is none."""
    if type(text) is not str or not text:
        return 0
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def status_of(document: Any) -> tuple[int, int] | None:
    """Return the digest of the id, and the status, in a line about the end of a request; None for
    other lines.
    """
    if not isinstance(document, dict):
        return None
    input = document.get("input")
    if isinstance(input, dict):
        status = _status(_at(input, ("response", "status")))
        identifier = _at(input, ("attributes", "request", "http", "headers", "x-request-id"))
    else:
        status, identifier = _status(_first(document, _STATUS)), _first(document, _IDS)
    digest = request_id_of(identifier)
    return (digest, status) if digest and status is not None else None


def _status(value: Any) -> int | None:
    """Return an HTTP status, 100 to 599, from an integer or a text of three digits; None for other
    values.
    """
    if type(value) is str and value.isascii() and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if type(value) is int and 100 <= value < 600 else None


def _seconds(text: Any) -> int:
    """Return the seconds since the epoch of an ISO time, in local time if it has no zone; 0 if it
    is not one.
    """
    if type(text) is not str:
        return 0
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return 0


def _first(document: Mapping[Any, Any], names: Sequence[str]) -> Any:
    """Return the first value in a document, other than null, under one of the names; None if there
    is none.
    """
    for name in names:
        value = document.get(name)
        if value is not None:
            return value
    return None


def _at(document: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of names; None if there is none."""
    value = document
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
