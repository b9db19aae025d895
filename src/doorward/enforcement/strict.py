"""Strict mode: what an application could read otherwise than the policy did is refused, with why.

Each check raises `AmbiguousRequestError`, which is HTTP 400. docs/strict.md lists them with the
attack that each of them stops. What is merely unusual and has one reading passes.
Nothing here builds a value that a policy sees, except that JSON is read once, strictly.
"""

from __future__ import annotations

import base64
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from decimal import Decimal
from json.scanner import make_scanner
from typing import Any, Final, NoReturn, cast

from doorward.enforcement import bodies
from doorward.enforcement.bodies import Kind, kind_of
from doorward.enforcement.errors import AmbiguousRequestError, shown
from doorward.enforcement.multipart import MAX_VALUE, parse_media_type
from doorward.enforcement.names import MAX_FIELDS, check_names, check_pairs, variable_of
from doorward.enforcement.strict_multipart import CHARSETS, check_multipart
from doorward.rego import Number, Value, to_json
from doorward.rego.shared import parse_number

__all__ = [
    "check_body",
    "check_members",
    "check_parsed",
    "check_query",
    "check_request",
    "check_sources",
    "parse_json",
]


def _refuse(reason: str) -> NoReturn:
    """Raise AmbiguousRequestError with a reason; the request is answered with 400."""
    raise AmbiguousRequestError(reason)


_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_METHOD: Final = re.compile(r"[A-Z][A-Z0-9-]*\Z")
# INVARIANT: what it matches breaks none of the rules below, which `check_request` skips for it.
_PLAIN_TARGET: Final = re.compile(
    r"(?:/(?![./])[\x21\x22\x24\x26-\x2e\x30-\x3a\x3c-\x5b\x5d-\x7e]*+)++\Z"
)
"""Most targets match this and skip the single rules: ASCII without spaces, `#`, `%`, `;` and
backslash, and no `//` or `/.`."""

_TARGET_RULES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"[\x00-\x20\x7f]", "control character or space in the target"),
        (r"[^\x00-\x7f]", "character outside ASCII in the target"),
        (r"#", "fragment in the target"),
        (r"%00", "encoded NUL in the target"),
    )
)
_PATH_RULES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"\\|%5c", "backslash in the path"),
        (r"%2f", "encoded slash in the path"),
        (r"%(?:[01][0-9a-f]|7f)", "encoded control character in the path"),
        (r"%2e", "encoded dot in the path"),
        (
            # The unreserved characters of RFC 3986, but for the dot, which has a rule of its own.
            r"%(?:2d|5f|7e|3[0-9]|[46][1-9a-f]|[57][0-9a])",
            "needless encoding in the path",
        ),
        (r"%25[0-9a-f]{2}", "doubly encoded character in the path"),
        (r"//", "empty segment in the path"),
        (r"(?:^|/)\.\.?(?:/|\Z)", "dot segment in the path"),
        (r";|%3b", "path parameter (;) in the path"),
    )
)
_ENCODED_HIGH: Final = re.compile(r"(?:%[89a-f][0-9a-f])+", re.IGNORECASE)


def check_request(http: Mapping[str, Any], target: str, headers: Mapping[str, str]) -> None:
    """Raise AmbiguousRequestError for a method, target or header that servers read in different
    ways.
    """
    method = http.get("method", "")
    if method not in _METHODS and not _METHOD.match(method):
        _refuse("method is not in capitals")
    if not _PLAIN_TARGET.match(target):
        _check_target(method, target)
    _check_host(http.get("host", ""))
    _check_headers(method, target, headers)
    if "headerMap" in http:
        _check_headers(method, target, _read_header_map(http["headerMap"].get("headers", [])))


def _check_headers(method: str, target: str, headers: Mapping[str, str]) -> None:
    """Raise AmbiguousRequestError for headers, by lower-case name, that servers read in different
    ways or that contradict the method or target of the request line.
    """
    if not _right_names.issuperset(headers):
        _check_header_names(headers)
    for name in _CREDENTIALS:
        value = headers.get(name)
        if value and "," in value:
            _check_authorization(name, value)
    if headers.get(":path", target) != target or headers.get(":method", method) != method:
        _refuse("headers and request line differ")
    host = headers.get("host")
    authority = headers.get(":authority")
    if host is not None and authority is not None and authority != host:
        _refuse("host and :authority differ")
    _check_host(host or authority or "")
    upgrade = headers.get("upgrade")
    if upgrade and (method != "GET" or "h2c" in upgrade.lower()):
        _refuse("upgrade whose body or further requests nobody checks")


_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\Z")


MAX_HOST: Final = 256
"""The length of the longest host to remember."""
_right_hosts: Final[set[str]] = set()
"""Hosts that passed the check, since clients ask for the same ones again."""


def _check_host(host: str) -> None:
    """Raise AmbiguousRequestError for a host that is not a name or an address, with or without a
    port: who puts it in front of the path to parse a URL finds another host or path in it.
    """
    if host in _right_hosts:
        return
    if not _HOST.match(host):
        _refuse(f"host {shown(host)} is not a name or an address")
    if len(host) <= MAX_HOST:
        if len(_right_hosts) > MAX_REMEMBERED:
            _right_hosts.clear()
        _right_hosts.add(host)


def _check_target(method: str, target: str) -> None:
    """Raise AmbiguousRequestError for a target that servers read in different ways: one without a
    slash at its start, except `*` for OPTIONS, one with a sequence of `_TARGET_RULES` or
    `_PATH_RULES`, or one whose path is not UTF-8.
    """
    path = target.partition("?")[0]
    if not path.startswith("/") and not (path == "*" and method == "OPTIONS"):
        _refuse("path does not start with a slash")
    for rule, reason in _TARGET_RULES:
        if rule.search(target):
            _refuse(reason)
    for rule, reason in _PATH_RULES:
        if rule.search(path):
            _refuse(reason)
    for run in _ENCODED_HIGH.findall(path):
        try:
            bytes.fromhex(run.replace("%", "")).decode()
        except UnicodeDecodeError:
            _refuse("path is not UTF-8")


def check_query(query: Mapping[str, list[str]], text: str) -> None:
    """Raise AmbiguousRequestError for parsed query parameters that applications could read in
    another way, or that override the method.

    `text` is the raw query.
    """
    check_pairs(text, "query parameter")
    if not _METHOD_FIELDS.isdisjoint(map(variable_of, _check_fields(query, "query parameter"))):
        _refuse("method override in the query")


_OVERRIDES: Final = frozenset(
    {
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-original-uri",
        "x-rewrite-url",
    }
)
_CREDENTIALS: Final = ("authorization", "proxy-authorization")
_SINGLE: Final = (*_CREDENTIALS, "content-length", "content-type", "host")
# A token may end with one or two `=`, which makes no parameter of it: that has a value.
_AUTH_PARAM: Final = re.compile(r"\s*[!#$%&'*+\-.^_`|~0-9A-Za-z]+\s*=\s*[^\s=]")
_SCHEME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ +")
# One without an end takes all the rest, or it would be read again from each of its quotes.
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*+(")?', re.DOTALL)


def _check_header_names(headers: Mapping[str, str]) -> None:
    """Raise AmbiguousRequestError for header names that servers read in different ways, and for
    those of headers that override the method or the path.

    Accepted names are remembered up to a limit, so that the caller need not check them again.
    """
    names = "\n".join(headers)
    if names != names.lower():
        _refuse("header name is not in small letters")
    if "_" in names:
        _refuse("underscore in a header name")
    if not _HEADER_NAMES.fullmatch(names):
        _refuse("header name with a character that CGI makes an underscore of")
    if not _OVERRIDES.isdisjoint(names.split("\n")):
        _refuse("header that overrides the method or the path")
    if len(names) <= MAX_REMEMBERED:
        if len(_right_names) > MAX_REMEMBERED:
            _right_names.clear()
        # Threads may add and clear at once. A name is here only after its check, so that at worst
        # it is checked again.
        _right_names.update(headers)


MAX_REMEMBERED: Final = 2048
"""The largest number of header names to remember, and of characters in one request's names."""

_HEADER_NAMES: Final = re.compile(r"[a-z0-9:\n-]*", re.ASCII)
_right_names: Final[set[str]] = set()
"""Header names that passed the checks, since clients send the same names again."""


def _check_authorization(name: str, value: str) -> None:
    """Raise AmbiguousRequestError for a credentials header, with a comma in it, that may be two
    headers, is too long or has a quote without an end.

    A comma between parameters, as in `Digest a=1, b=2`, is accepted.
    """
    if len(value) > MAX_VALUE:
        _refuse(f"{name} header with parameters is too long")
    scheme = _SCHEME.match(value)
    # A closed quoted string becomes `""`, with the commas in it; one without an end leaves a
    # single quote.
    rest = _QUOTED.sub(r'"\1', value[scheme.end() :]) if scheme else ""
    if rest.count('"') % 2:
        _refuse(f"quote without an end in the {name} header")
    if not scheme or not all(map(_AUTH_PARAM.match, rest.split(","))):
        _refuse(f"more than one {name} header")


def _read_header_map(entries: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the headers of a header map, repeated ones joined by commas.

    Raise AmbiguousRequestError if a header that must be unique is repeated.
    """
    headers: dict[str, str] = {}
    for entry in entries:
        name = entry.get("key", "")
        raw = base64.b64decode(entry.get("rawValue", ""))
        value = entry.get("value") or raw.decode("utf-8", "replace")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    keys = [entry.get("key", "").lower() for entry in entries]
    for name in _SINGLE:
        if keys.count(name) > 1:
            _refuse(f"more than one {name} header")
    return headers


_LOOKS_JSON: Final = re.compile(r"[\ufeff\s]*[\[{]")
_ENCODED: Final = re.compile(rb"[^\x00-\x7f]|%[89a-f]", re.IGNORECASE)
"""A byte beyond ASCII, plain or percent-encoded as in forms."""
_FORM: Final = re.compile(rb"[\x20-\x7e]*+")
_PLAIN_JSON: Final = "application/json"
# It refuses nothing that some reader takes: Python's `int` has a limit of digits, and others read a
# line end in a text.
_FIRST_VALUE: Final = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)


def check_body(
    headers: Mapping[str, str], body: str, raw_body: bytes, *, reads_grpc: bool = False
) -> bool:
    """Raise AmbiguousRequestError for a body that does not fit its headers, before it is parsed.

    Return True for plain JSON of the announced length, which `parse_json` checks further; False for
    an empty body and for other kinds, whose content type is checked here. `reads_grpc`: the body of
    a gRPC request will be decoded and so must not be compressed.
    """
    if headers.get("x-envoy-auth-partial-body", "false") != "false":
        _refuse("body is cut")
    length = headers.get("content-length")
    if not body and not raw_body:
        # A chunked body is announced by the other header; one of no bytes has no use.
        if (length is not None and length != "0") or "transfer-encoding" in headers:
            _refuse("body was not passed on by the proxy")
        return False
    if body and raw_body:
        _refuse("two bodies")
    encoding = headers.get("content-encoding")
    if encoding and encoding.lower() != "identity":
        _refuse("body is compressed")
    if length is not None:
        received = len(raw_body) or (len(body) if body.isascii() else len(body.encode()))
        if length != str(received):
            _refuse("content-length is not the body's")
    content_type = headers.get("content-type")
    if content_type is None:
        _refuse("body without a content type")
    if content_type == _PLAIN_JSON and length is not None:
        return True
    if kind_of(content_type) == "grpc":
        if reads_grpc and raw_body[:1] != b"\0":
            _refuse("body is compressed")
    # Envoy 1.40 does not mark a chunked body as cut when its first `max_request_bytes` arrive
    # alone: the policy would see them, the application what follows as well.
    elif length is None:
        _refuse("body of undeclared length")
    _check_content_type(content_type, body, raw_body)
    return False


def _check_content_type(content_type: str, body: str, raw_body: bytes) -> None:
    """Raise AmbiguousRequestError for a content type that is ambiguous, malformed or longer than
    `MAX_VALUE`, another character set than UTF-8, or a body that other readers take for another
    kind or divide differently.
    """
    if len(content_type) > MAX_VALUE:
        _refuse("content type cannot be read")
    if "," in _QUOTED.sub("", content_type):
        _refuse("more than one content type")
    try:
        media_type, parameters = parse_media_type(content_type)
    except ValueError:
        _refuse("content type cannot be read")
    kind = kind_of(content_type)
    # Not everybody knows `boundary*=` (RFC 2231): Rack reads such a body as an urlencoded form.
    extended = "*" in content_type.partition(";")[2]
    lower = content_type.lower()
    is_form_elsewhere = any([word in lower and kind != its for word, its in _WORDS_OF_FORMS])
    if kind != _kind_by_type(media_type) or extended or is_form_elsewhere:
        _refuse(f"content type {shown(content_type)} can be read in two ways")
    charset = parameters.get("charset", "").lower()
    if kind and charset not in CHARSETS:
        _refuse("body is not in UTF-8")
    if kind and charset == "us-ascii" and _ENCODED.search(raw_body or body.encode()):
        _refuse("body is not in ASCII")
    if kind == "multipart":
        check_multipart(parameters.get("boundary", ""), raw_body or body.encode())
    elif kind != "json" and _is_json(raw_body or body.encode()):
        _refuse("JSON under another content type")
    elif kind == "form" and not _FORM.fullmatch(raw_body or body.encode()):
        _refuse("character in the form that must be encoded")


def _kind_by_type(media_type: str) -> Kind | None:
    """Return the kind of body that an application reads for a media type; "" for kinds nobody
    parses.

    None for a type of JSON or of forms that the policy cannot parse.
    """
    if media_type in (_PLAIN_JSON, "application/json-patch+json"):
        return "json"
    if media_type == "application/grpc" or media_type.startswith(
        ("application/grpc+", "application/grpc-")
    ):
        return "grpc"
    if media_type == "application/x-www-form-urlencoded":
        return "form"
    if media_type == "multipart/form-data":
        return "multipart"
    return None if "json" in media_type else ""


# Rack reads every multipart body as a form, whatever the second half of its type is, and formidable
# what has one of these words anywhere in it.
_WORDS_OF_FORMS: Final[tuple[tuple[str, Kind], ...]] = (
    ("urlencoded", "form"),
    ("multipart", "multipart"),
)


def _is_json(raw: bytes) -> bool:
    """Return True if a body begins with a JSON object or array in any encoding that readers guess.

    The beginning is enough, since Go's decoder reads no further.
    """
    # Envoy writes "!" for a byte that is not UTF-8, which the marks of UTF-16 are.
    encoding = "utf-8" if b"\0" not in raw[:8] else json.detect_encoding(raw.lstrip(b"!"))
    text = raw.lstrip(b"!" if encoding != "utf-8" else b"").decode(encoding, "replace")
    if not _LOOKS_JSON.match(text):
        return False
    try:
        _FIRST_VALUE.raw_decode(text.lstrip("\ufeff \t\r\n"))
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def check_parsed(
    headers: Mapping[str, str], value: Value, text: str | bytes, *, truncated: bool
) -> None:
    """Raise AmbiguousRequestError for a body that was cut off (`truncated`), and for form fields
    that could be read in another way or that override the method.

    `text` is the body before parsing, `value` after it.
    """
    if truncated:
        _refuse("body is cut")
    kind = kind_of(headers.get("content-type", ""))
    if kind == "json":
        check_members(value)
    if kind == "form":
        check_pairs(text if isinstance(text, str) else text.decode("latin-1"), "form field")
    fields = value if isinstance(value, dict) and kind in ("form", "multipart") else {}
    folded = _check_fields(cast(Mapping[str, Any], fields), "form field")
    if not _METHOD_FIELDS.isdisjoint(map(variable_of, folded)):
        _refuse("method override in the body")


def check_sources(query: Mapping[str, list[str]], headers: Mapping[str, str], body: Value) -> None:
    """Raise AmbiguousRequestError for a form or a JSON object that gives a variable of the query
    another value.

    Many readers have one list for both, in which the query counts to some and the body to others.
    """
    kind = kind_of(headers.get("content-type", ""))
    if kind not in ("form", "multipart", "json") or not isinstance(body, dict):
        return
    what = "JSON key" if kind == "json" else "form field"
    of_query = _by_variable(query, "query parameter")
    fields = cast(Mapping[str, Any], body)
    if kind == "json":
        fields = {
            name: _texts(each) for name, each in fields.items() if _fold(name, what) in of_query
        }
    for variable, values in _by_variable(fields, what).items():
        if of_query.get(variable, values) != values:
            _refuse(f"{what} that has another value in the query: {shown(variable)}")


def _texts(value: Value) -> list[str]:
    """Return a member of a JSON object as the values that a query could give it."""
    items = value if isinstance(value, list) else [value]
    return [each if isinstance(each, str) else to_json(each) for each in items]


def _by_variable(fields: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Return the values by name, in one case, of each variable of a query or form."""
    variables: dict[str, dict[str, Any]] = {}
    for name, values in fields.items():
        folded = _fold(name, kind)
        variables.setdefault(variable_of(folded), {})[folded] = values
    return variables


def check_members(value: Value) -> None:
    """Raise AmbiguousRequestError for the value of a JSON body that overrides the method: Laravel
    and Slim read the members of its object as they read the fields of a form.
    """
    if isinstance(value, dict):
        names = cast(dict[str, Value], value)
        if not _METHOD_FIELDS.isdisjoint(map(str.lower, names)):
            _refuse("method override in the body")


MAX_NAME: Final = 256
"""The largest length of a name beyond ASCII: normalization of n combining characters takes n * n
steps."""


def _fold(name: str, kind: str) -> str:
    """Return one text for all names that some application treats as equal: NFKC, without case.

    Raise AmbiguousRequestError for a long name outside ASCII; `kind` names it in the error.
    """
    if len(name) > MAX_NAME and not name.isascii():
        _refuse(f"name of a {kind} is too long to compare")
    return name.casefold() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()


_METHOD_FIELDS: Final = frozenset(
    {
        "_method",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-tunneled-method",
    }
)
"""Fields that frameworks take for the method, in any case: `_method` of Ruby, PHP and Java,
`x-tunneled-method` of Perl, and ASP.NET MVC and ServiceStack also read a field by the name of the
header."""


def _check_fields(fields: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of a query or form, folded to one case.

    Raise AmbiguousRequestError for names or values that applications trim, drop or decode
    differently, or for too many.
    """
    _check_names(fields, kind)
    folded = [_fold(name, kind) for name in fields]
    check_names(folded, kind)
    if sum(map(len, fields.values())) > MAX_FIELDS:
        _refuse(f"more than {MAX_FIELDS} {kind}s")
    for name, values in fields.items():
        # URLSearchParams of WHATWG drops a question mark at the beginning of the whole text.
        is_trimmed = name != name.strip() or name.startswith("?")
        if is_trimmed or not (name.isprintable() or name.isascii()):
            _refuse(f"name of a {kind} that can be read in two ways: {shown(name)}")
        if "\ufffd" in name or any(isinstance(v, str) and "\ufffd" in v for v in values):
            _refuse(f"{kind} is not UTF-8")
    return folded


def _check_names(names: Iterable[str], kind: str) -> None:
    """Raise AmbiguousRequestError for names that contain NUL or that differ only in case."""
    seen: dict[str, str] = {}
    for name in names:
        if "\0" in name:
            _refuse(f"NUL in the name of a {kind}")
        if seen.setdefault(_fold(name, kind), name) != name:
            _refuse(f"{kind}s that differ only in case: {shown(name)}")


def _read_object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """Return a JSON object from its pairs.

    Raise AmbiguousRequestError for duplicate keys, keys that differ only in case, and `__proto__`.
    """
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                _refuse(f"duplicate JSON key {shown(name)}")
            seen.add(name)
    # To a copy by `Object.assign` its members are those of the object; others refuse or drop it.
    if "__proto__" in result:
        _refuse("JSON key that is the prototype to JavaScript")
    # Names without capitals and without NUL cannot be told apart by case alone: most objects.
    joined = "".join(result)
    if not joined.isascii() or not joined.islower():
        _check_names(result, "JSON key")
    return result


def _read_number(text: str) -> int | Number:
    """Return a JSON number with its digits; raise AmbiguousRequestError if a double would round
    it.
    """
    number = parse_number(text)
    if len(text) > 4:
        _check_double(text)
    return number


def _check_double(text: str) -> None:
    """Raise AmbiguousRequestError for a number that readers with doubles would round, that is too
    large for one, or that has more than `MAX_NUMBER` characters.
    """
    double = float(text)
    if math.isinf(double):
        _refuse("number that no double can hold")
    # Fifteen digits always come back from a double; an exponent may leave its range.
    mantissa = text.lower().partition("e")[0]
    if len(text) <= 15 and mantissa == text:
        return
    if not mantissa.strip("-.0"):
        return  # zero, with an exponent that `Decimal` may not take
    if len(text) > MAX_NUMBER or Decimal(repr(double)) != Decimal(text):
        _refuse("number with more digits than a double has")


MAX_NUMBER: Final = 800
"""The largest length of a number: the exact decimal form of any double is shorter."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(
    parse_int=_read_number,
    parse_float=_read_number,
    parse_constant=_refuse_constant,
    object_pairs_hook=_read_object,
)
# typeshed says that a scanner is made of a scanner; it is made of a decoder.
_scan: Final = make_scanner(_DECODER)  # type: ignore[arg-type]
_BLANKS: Final = frozenset(" \t\n\r")
"""Characters that a JSON text may begin with, which the scanner does not skip."""
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def parse_json(text: str | bytes) -> Value:
    """Return the value of a JSON text that every reader understands in the same way.

    Raise RequestParseError if it is malformed or nests deeper than `MAX_DEPTH`,
    AmbiguousRequestError if readers differ or it is not in UTF-8.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            _refuse("JSON is not in UTF-8")
    # Each level takes a character: a shorter text cannot nest deeper.
    if len(text) > bodies.MAX_DEPTH:
        bodies.check_depth(text)
    if "\\u" in text:
        _check_escapes(text)
    try:
        value, end = _scan(text, 0) if text[:1] not in _BLANKS else (None, 0)
        return value if end == len(text) else _DECODER.decode(text)
    except (StopIteration, ValueError):
        bodies.parse_json(text)  # raises with OPA's words, unless OPA lets it pass
        _refuse("more than one JSON value")


def _check_escapes(text: str) -> None:
    r"""Raise AmbiguousRequestError if a JSON text has the escape `\u0000`, which ends a name in
    some readers, or half a surrogate pair as an escape.
    """
    high_ends_at = -1
    for match in _ESCAPE.finditer(text):
        # An escape such as `\n` counts as a blank: it ends a pair as any character does.
        code = int(match[1] or "20", 16)
        if code == 0:
            _refuse("escaped NUL in JSON")
        if 0xDC00 <= code <= 0xDFFF:
            if high_ends_at != match.start():
                _refuse("half a surrogate pair in JSON")
            high_ends_at = -1
        elif high_ends_at >= 0:
            _refuse("half a surrogate pair in JSON")
        if 0xD800 <= code <= 0xDBFF:
            high_ends_at = match.end()
    if high_ends_at >= 0:
        _refuse("half a surrogate pair in JSON")
