"""`http.send`: a request object becomes a request, and the response an object.

Reading the request, caching and decoding live here; the network is the sender's. An answer is the
same throughout a decision. Failures are errors, or with `raise_error: false` an object with
status 0. Bounds: `timeout` (5 s unless told, never past the decision's deadline), the size of a
body (`http_sender.MAX_BODY`), redirects, retries, the capacity of the cache.
"""

from __future__ import annotations

import re
import time
from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from doorward.rego.builtins.http_client.cache import StoredResponse
from doorward.rego.builtins.http_client.freshness import keep, revalidate
from doorward.rego.builtins.http_client.message import (
    Certificates,
    HTTPRequest,
    HTTPResponse,
    SendError,
    Source,
)
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, object_, string
from doorward.rego.errors import (
    CANCEL_ERROR,
    BuiltinError,
    EvaluationAborted,
    LimitError,
    OperandError,
)
from doorward.rego.golang import json as go_json
from doorward.rego.golang.json_documents import read_json
from doorward.rego.golang.octets import from_bytes, to_bytes
from doorward.rego.golang.urls import parse as parse_url
from doorward.rego.numbers import exact
from doorward.rego.values import Key, Value, from_key, kind_name, make_set, to_key, to_rego

DEFAULT_TIMEOUT: Final = 5.0
"""The seconds for a request without a `timeout`, or with one of 0."""
MAX_TIMEOUT: Final = 600.0
"""The seconds to which a longer `timeout` is cut."""
MAX_RETRIES: Final = 20
"""The number to which more `max_retry_attempts` are cut."""

NETWORK_ERROR: Final = "eval_http_send_network_error"
INTERNAL_ERROR: Final = "eval_http_send_internal_error"

_STRINGS: Final = frozenset(
    {"method", "url", "raw_body", "tls_server_name"}
    | {
        f"tls_{what}{source}"
        for what in ("ca_cert", "client_cert", "client_key")
        for source in ("", "_file", "_env_variable")
    }
)
_BOOLEANS: Final = frozenset(
    {
        "cache",
        "enable_redirect",
        "force_cache",
        "force_json_decode",
        "force_yaml_decode",
        "raise_error",
        "tls_insecure_skip_verify",
        "tls_use_system_certs",
    }
)
_OTHERS: Final = frozenset(
    {
        "body",
        "cache_ignored_headers",
        "caching_mode",
        "force_cache_duration_seconds",
        "headers",
        "max_retry_attempts",
        "timeout",
    }
)
_KNOWN: Final = _STRINGS | _BOOLEANS | _OTHERS

Options = dict[str, Value]


@builtin(
    "http.send",
    object_(string, any_),
    returns=object_(any_, any_),
    context=True,
    pure=False,
)
def http_send(context: Context, request: dict[Key, Value]) -> Value:
    """The response to an HTTP request: status, status_code, headers, raw_body, and body decoded
    from JSON or YAML (null if it cannot be). Equal requests in one decision get the same response.
    A failure, or an invalid option, is an error; with `raise_error: false` in the request it gives
    status_code 0 and an `error` with code and message. In either case a passed deadline of the
    decision, a request nested too deeply, and a YAML body beyond the limits (LimitError) end the
    evaluation.
    """
    try:
        key = ("http.send", to_key(request))
    except RecursionError:
        raise LimitError("the request object is nested too deeply") from None
    if key in context.drawn:
        return context.drawn[key]
    raises = request.get("raise_error") is not False
    try:
        answer = _respond(context, _options(request))
    except SendError as error:
        if raises:
            raise BuiltinError(str(error)) from None
        answer = _failure(NETWORK_ERROR if error.is_network else INTERNAL_ERROR, error)
    except BuiltinError as error:
        if raises:
            raise
        answer = _failure(INTERNAL_ERROR, error)
    context.drawn[key] = answer
    return answer


def _failure(code: str, error: Exception) -> Value:
    """The response object that http.send returns for a failure with `raise_error: false`."""
    return {"status_code": 0, "error": {"code": code, "message": str(error)}}


def check_fields(request: dict[Key, Value]) -> dict[Key, Value]:
    """Return a request as it is. OperandError if `method` or `url` is missing, or if an option is
    unknown.
    """
    missing = {"method", "url"} - request.keys()
    if missing:
        names = to_rego(make_set(list(missing)))
        raise OperandError(f"operand 1 missing required request parameters(s): {names}")
    unknown = request.keys() - _KNOWN
    if unknown:
        names = to_rego(make_set([from_key(key) for key in unknown]))
        raise OperandError(f"operand 1 invalid request parameters(s): {names}")
    return request


def _options(request: dict[Key, Value]) -> Options:
    """The request's options by name; 0 and 1 of some boolean options become false and true, as in
    OPA. OperandError if `method` or `url` is missing, or if an option is unknown or of the wrong
    kind.
    """
    options = {str(key): value for key, value in check_fields(request).items()}
    for name, value in options.items():
        if name in _SWITCHES and type(value) is int and value in (0, 1):
            options[name] = value == 1
            continue
        expected = (
            "string" if name in _STRINGS else "boolean" if name in _BOOLEANS else _KIND.get(name)
        )
        if expected is not None and kind_name(value) != expected:
            raise OperandError(f"operand 1 `{name}` must be {expected} but got {kind_name(value)}")
    return options


_SWITCHES: Final = frozenset(
    {"enable_redirect", "tls_insecure_skip_verify", "tls_use_system_certs"}
)
"""Boolean fields of a request that may be 0 and 1, as in OPA."""

_KIND: Final = {
    "headers": "object",
    "max_retry_attempts": "number",
}


def _respond(context: Context, options: Options) -> Value:
    """Return the response object of a request. If `force_cache`, or `cache` of a GET or HEAD, is
    set, a fresh entry of the cache that outlives decisions answers; otherwise the request is sent,
    and its response replaces the entry, or only removes it if it must not be stored. Counts hits
    and misses of that cache. SendError if no response comes, BuiltinError for an invalid option,
    EvaluationAborted if the decision's deadline has passed, LimitError for a YAML body beyond the
    limits.
    """
    request = _request(context, options)
    forced = _forced_seconds(options)
    cached = forced is not None or (
        options.get("cache") is True and request.method in {"GET", "HEAD"}
    )
    if not cached:
        return _answer(_send(context, request), options)
    key = _cache_key(options)
    responses = context.environment.responses
    stored = responses.get(key)
    is_fresh = stored is not None and stored.fresh_until > context.now_ns
    responses.note_use(was_fresh=is_fresh)
    if stored is None or not is_fresh:
        stored = _refresh(context, request, stored if forced is None else None, forced)
        if stored.fresh_until > context.now_ns or stored.validators:
            responses.put(key, stored)
        else:
            responses.remove(key)
    return _answer(stored.response, options)


def _refresh(
    context: Context, request: HTTPRequest, stale: StoredResponse | None, forced: int | None
) -> StoredResponse:
    """Send a request and return the entry for its response. If `stale` has validators, the request
    is conditional, and a 304 renews that entry. An entry for a response that must not be stored has
    `fresh_until` 0. `forced`, which may be set only if `stale` is None, is the lifetime in seconds
    that replaces the one that the server states; None to use the server's.
    """
    if stale is None or not stale.validators:
        response = _send(context, request)
        return keep(response, context.now_ns, forced) or StoredResponse(response, 0)
    names = {name for name, _ in request.headers}
    conditions = tuple(pair for pair in stale.validators if pair[0] not in names)
    response = _send(context, replace(request, headers=request.headers + conditions))
    if response.status_code == 304:
        return revalidate(stale, response, context.now_ns)
    return keep(response, context.now_ns, None) or StoredResponse(response, 0)


def _forced_seconds(options: Options) -> int | None:
    """The seconds of `force_cache_duration_seconds`, None if `force_cache` is not true.
    BuiltinError if the duration is missing, negative or not an integer.
    """
    if options.get("force_cache") is not True:
        return None
    seconds = options.get("force_cache_duration_seconds")
    if seconds is None:
        raise BuiltinError(
            "'force_cache' set but 'force_cache_duration_seconds' parameter is missing"
        )
    return _to_integer("force_cache_duration_seconds", seconds)


def _to_integer(name: str, value: Value) -> int:
    """Return the value of the option `name` as an integer; BuiltinError, with the name, if it is
    negative or not an integer.
    """
    number = exact(value) if isinstance(value, (int, float)) else None
    if not isinstance(number, int) or number < 0:
        raise BuiltinError(f"`{name}` must be an integer of 0 or more")
    return number


def _cache_key(options: Options) -> Hashable:
    """The key of the request in the cache: its options without those that do not change the
    response and without the headers in `cache_ignored_headers`.
    """
    names = {name.lower() for name in _ignored_headers(options)}
    headers = options.get("headers")
    if names and isinstance(headers, dict):
        remaining = {k: v for k, v in headers.items() if str(k).lower() not in names}
        options = {**options, "headers": remaining}
    # Credentials in the headers belong to the key: the response for one user must not answer
    # another.
    return to_key({k: v for k, v in options.items() if k not in _NOT_IN_KEY})


def _ignored_headers(options: Options) -> list[str]:
    """The header names in the option `cache_ignored_headers`; [] if it is absent or null, or if
    there are no `headers`. BuiltinError if it is not an array of strings.
    """
    names = options.get("cache_ignored_headers")
    if names is None or "headers" not in options:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BuiltinError("cache_ignored_headers must be an array of strings")
    return [str(name) for name in names]


_NOT_IN_KEY: Final = frozenset({"cache_ignored_headers", "caching_mode", "raise_error"})


def _send(context: Context, request: HTTPRequest) -> HTTPResponse:
    """Send with the environment's sender, or over the network if it has none. Blocks until the
    response, the request's timeout, or the decision's deadline. SendError if no response comes;
    EvaluationAborted, which `raise_error: false` does not catch, if the decision's deadline has
    passed.
    """
    deadline = time.monotonic() + request.timeout
    if context.deadline is not None:
        deadline = min(deadline, context.deadline)
    sender = context.environment.http
    if sender is None:
        from doorward.rego.builtins.http_client.sender import default_sender  # loads httpx

        sender = default_sender()
    try:
        return sender.send(request, deadline)
    except SendError as error:
        # The decision itself is out of time: a policy with `raise_error: false` must not go on.
        if error.timed_out and context.deadline is not None and deadline == context.deadline:
            halt = EvaluationAborted("http.send: timed out (context deadline exceeded)")
            halt.code = CANCEL_ERROR
            raise halt from None
        raise


def _request(context: Context, options: Options) -> HTTPRequest:
    """Build the HTTP request from the options; retries are cut to `MAX_RETRIES`, the timeout to
    `MAX_TIMEOUT`. BuiltinError for an invalid option or a host that the capabilities do not allow;
    SendError for an invalid URL or header.
    """
    url, method = str(options["url"]), str(options["method"]).upper() or "GET"
    headers = _headers(options.get("headers", {}))
    _ignored_headers(options)
    hosts = context.environment.allow_net
    if not _TOKEN.match(method):
        raise BuiltinError(f"net/http: invalid method {go_json.quote(method)}")
    check_host(_host(url), hosts)
    if "raw_body" in options:
        body = to_bytes(str(options["raw_body"]))
    else:
        body = to_bytes(go_json.marshal(options["body"])) if "body" in options else b""
    host = next((value for name, value in headers if name == "host"), "")
    return HTTPRequest(
        method=method,
        url=url,
        headers=headers,
        body=body,
        timeout=_timeout(options["timeout"]) if "timeout" in options else DEFAULT_TIMEOUT,
        follow_redirects=options.get("enable_redirect") is True,
        retries=min(
            _to_integer("max_retry_attempts", options.get("max_retry_attempts", 0)), MAX_RETRIES
        ),
        allowed_hosts=hosts,
        certificates=_certificates(options, host),
    )


def _host(url: str) -> str:
    """Return the host of a URL as Go reads it, without the port; "" if there is none. SendError for
    a URL that Go does not accept.
    """
    try:
        return parse_url(url).get("hostname", "")
    except BuiltinError as error:
        raise SendError(str(error)) from None


def check_host(host: str, allowed: frozenset[str] | None) -> None:
    """Raise BuiltinError unless `allowed`, the capabilities' `allow_net` in lower case, contains
    `host`; None allows every host.
    """
    if allowed is not None and host.lower() not in allowed:
        raise BuiltinError(f"unallowed host: {host}")


_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")


def _headers(operand: Value) -> tuple[tuple[str, str], ...]:
    """The headers as pairs with lower-case names, spaces around values removed; () for a value that
    is not an object. SendError for a name that is not an HTTP token or a value with a line break or
    NUL; BuiltinError for a value that is not a string.
    """
    headers: list[tuple[str, str]] = []
    for key, value in operand.items() if isinstance(operand, dict) else ():
        if type(key) is not str or not _TOKEN.match(key):
            raise SendError(f"net/http: invalid header field name {to_rego(from_key(key))}")
        if not isinstance(value, str):
            raise BuiltinError(f"the value of the request header `{key}` must be a string")
        if "\r" in value or "\n" in value or "\0" in value:
            raise SendError(f"net/http: invalid header field value for {to_rego(key)}")
        headers.append((key.lower(), value.strip(" \t")))  # as Go writes them
    return tuple(headers)


_DURATION: Final = re.compile(r"(?<![\d.])(\d++(?:\.\d*+)?|\.\d++)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATIONS: Final = re.compile(rf"(?:{_DURATION.pattern})*+0?", re.ASCII)
_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}

_WRONG_TIMEOUT: Final = "`timeout` must be a duration such as `1m30s`, or a number of nanoseconds"


def _timeout(operand: Value) -> float:
    """Return the timeout in seconds. A number means nanoseconds; a string is a duration of Go such
    as `1m30s` (90.0). 0 means `DEFAULT_TIMEOUT`; more than `MAX_TIMEOUT` is that. BuiltinError for
    another or a negative one.
    """
    seconds = 0.0
    if isinstance(operand, str):
        if not operand or not _DURATIONS.fullmatch(operand):
            raise BuiltinError(_WRONG_TIMEOUT)
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(operand))
    elif isinstance(operand, (int, float)) and not isinstance(operand, bool):
        # Bounded first: a number of thousands of digits has no float.
        seconds = min(exact(operand), 10**18) / 1e9
    else:
        raise BuiltinError(_WRONG_TIMEOUT)
    if seconds < 0:
        raise BuiltinError("`timeout` must not be negative")
    return min(seconds, MAX_TIMEOUT) if seconds else DEFAULT_TIMEOUT


def _sources(options: Options, name: str) -> tuple[Source, ...]:
    """The sources that the options give for the PEM text `name`, in this order: the text, a file,
    an environment variable. Empty options are ignored.
    """
    places = (("text", name), ("file", f"{name}_file"), ("variable", f"{name}_env_variable"))
    return tuple(Source(kind, str(options[key])) for kind, key in places if options.get(key))


def _certificates(options: Options, host: str) -> Certificates:
    """The TLS settings in the options. The system's authorities are used unless others are given;
    of several sources for the client's certificate or key the last one counts. The server's name is
    by default that of `host`, the Host header, without its port. BuiltinError for a certificate
    without a key, or a key without a certificate.
    """
    authorities = _sources(options, "tls_ca_cert")
    certificate = _sources(options, "tls_client_cert")
    key = _sources(options, "tls_client_key")
    if bool(certificate) != bool(key):
        raise BuiltinError("the options `tls_client_…` must give both a certificate and its key")
    return Certificates(
        authorities=authorities,
        system_authorities=options.get("tls_use_system_certs", not authorities) is True,
        client_certificate=certificate[-1] if certificate else None,
        client_key=key[-1] if key else None,
        server_name=str(options.get("tls_server_name", host.partition(":")[0])),
        verify=options.get("tls_insecure_skip_verify") is not True,
    )


def _answer(response: HTTPResponse, options: Options) -> Value:
    """The object that http.send returns for a response: status, headers (each an array of its
    values), the decoded body, and the raw body as text.
    """
    headers: dict[Key, list[Value]] = {}
    for name, value in response.headers:
        headers.setdefault(name, []).append(value)
    return {
        "status": response.status,
        "status_code": response.status_code,
        "body": _body(response, options),
        "raw_body": from_bytes(response.body),
        "headers": dict[Key, Value](headers),
    }


def _body(response: HTTPResponse, options: Options) -> Value:
    """The body decoded as JSON or YAML, as the content type or the `force_…` options say; of JSON
    the first document. null for another type or a body that cannot be decoded. LimitError for YAML
    beyond the limits of `golang.yaml`.
    """
    kind = next((value for name, value in response.headers if name == "content-type"), "")
    try:
        if options.get("force_json_decode") is True or _JSON.fullmatch(kind):
            return read_json(response.body, trailing=True)
        if options.get("force_yaml_decode") is True or _YAML.search(kind):
            from doorward.rego.golang import yaml as go_yaml

            return go_yaml.unmarshal(from_bytes(response.body))
    except (ValueError, BuiltinError):
        return None
    return None


_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_JSON: Final = re.compile(
    rf"\s*+application/(?:{_WORD}\+)?json"
    rf"(?:\s*+;\s*+{_WORD}=(?:{_WORD}|\"(?:[^\"\\]|\\.)*+\"))*+\s*+;?\s*+",
    re.ASCII | re.IGNORECASE,
)
"""Matches a JSON media type, with parameters that can be parsed."""
_YAML: Final = re.compile("application/(x-)?yaml")
