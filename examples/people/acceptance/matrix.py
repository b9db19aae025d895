"""The acceptance matrix: what each request through Envoy must get, and why.

Data only. Rows run in their order against one stack; a row about the decision point leaves it in
the state that the next row says it needs. `{guest}` and the like are tokens of `tokens`.

Where the specification leaves a choice, `why` says what was chosen. A 403 is always empty and
never reaches the application. A 400 is a request that could be read in two ways: Envoy refuses it
for its path, the decision point's strict mode for the rest, with the reason in the body.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from itertools import product
from typing import Final

from acceptance.row import Row, person

JSON: Final = ("content-type", "application/json")
TEXT: Final = ("content-type", "text/plain")
BYTES: Final = ("content-type", "application/octet-stream")
GZIP: Final = ("content-encoding", "gzip")
FORM: Final = ("content-type", "application/x-www-form-urlencoded")
GUEST: Final = ("authorization", "Bearer {guest}")
ADMIN: Final = ("authorization", "Bearer {admin}")


CHARLIE: Final = person("Charlie")


def _post(name: str, body: bytes | None, status: int, why: str = "", shows: str = "") -> Row:
    return Row(
        name=name, why=why, method="POST", headers=(ADMIN, JSON), body=body, status=status,
        shows=shows,
    )  # fmt: skip


def _stored(row: Row, first: str = "Charlie") -> Row:
    return replace(row, status=200, arrives="POST /people 200", stores=first, shows=f'"{first}"')


def _read(name: str, *headers: tuple[str, str], why: str = "", target: str = "/people") -> Row:
    return Row(
        name=name, why=why, headers=headers, target=target, status=200,
        arrives=f"GET {target} 200",
    )  # fmt: skip


def _refused(name: str, body: bytes, shows: str, why: str = "", *headers: tuple[str, str]) -> Row:
    row = _post(name, body, 400, why, shows)
    return replace(row, headers=(ADMIN, *headers)) if headers else row


def _group(group: str, *rows: Row) -> tuple[Row, ...]:
    return tuple(replace(row, group=group) for row in rows)


NO_TOKEN: Final = _group(
    "no Authorization header",
    *(
        Row(name=f"{method} {target}", method=method, target=target)
        for method, target in product(
            ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"),
            ("/people", "/people/1", "/", "/elsewhere?x=1"),
        )
    ),
    Row(name="POST /people with a body", method="POST", headers=(JSON,), body=CHARLIE),
    Row(
        name="CONNECT", method="CONNECT", target="people:80", status=404,
        why="Envoy has no route that opens tunnels, so there is nothing to decide",
    ),
    Row(name="OPTIONS *", method="OPTIONS", target="*", status=404, why="`*` is not a path"),
)  # fmt: skip

HEADER: Final = _group(
    "form of the header",
    _read("Bearer and the token", ("authorization", "Bearer {guest}")),
    _read(
        "another scheme word, good token", ("authorization", "Basic {guest}"),
        why="by rule 3 the second of two parts is the token; the first is not looked at",
    ),
    Row(
        name="the token alone", headers=(("authorization", "{guest}"),),
        why="without a space there is one part, and no second",
    ),
    Row(
        name="two spaces", headers=(("authorization", "Bearer  {guest}"),),
        why="split on a single space gives three parts, the second of them empty",
    ),
    Row(
        name="a third part", headers=(("authorization", "Bearer {guest} x"),),
        why="three parts are not two",
    ),
    Row(
        name="a tab for the space", headers=(("authorization", "Bearer\t{guest}"),),
        why="a tab is not a space: one part",
    ),
    Row(
        name="Bearer, a space, nothing", headers=(("authorization", "Bearer "),),
        why="HTTP takes the last space off: one part",
    ),
    Row(
        name="an empty header", headers=(("authorization", ""),),
        why="an empty text has one part, itself",
    ),
    Row(
        name="the header twice", headers=(GUEST, ADMIN), status=400,
        shows="more than one authorization header",
        why="Envoy joins both with a comma; which of them counts is not for guessing",
    ),
    Row(
        name="the token as another header", headers=(("x-authorization", "Bearer {elsewhere}"),),
        why="nothing else is read",
    ),
)  # fmt: skip

_BAD_TOKENS: Final = {
    "wrong_secret": "signed with another secret",
    "empty_secret": "signed with no secret",
    "cut_signature": "the signature is cut",
    "no_signature": "the signature is gone",
    "other_claims": "the claims were exchanged under a guest's signature",
    "alg_none": "`alg: none` asks for no verification",
    "alg_none_signed": "`alg: none` although signed with the secret",
    "hs512": "the policy names HS256, and no other algorithm counts",
    "rs256": "RS256 against a shared secret",
    "expired": "exp is one second ago",
    "not_yet_valid": "nbf is tomorrow",
    "nbf_missing": "nbf is required",
    "nbf_string": "nbf must be an integer, not text",
    "nbf_float": "nbf must be an integer, not a fraction",
    "nbf_whole_float": "nbf must be written as an integer, not as 1.0",
    "exp_missing": "exp is required",
    "exp_string": "exp must be an integer, not text",
    "exp_float": "exp must be an integer, not a fraction",
    "exp_whole_float": "exp must be written as an integer, not as 1.0",
    "exp_null": "exp must be an integer, not null",
    "garbage": "no token at all",
    "garbage_in_three_parts": "three parts of nothing",
}
TOKEN: Final = _group(
    "token",
    *(
        Row(
            name=name.replace("_", " "), why=why, headers=(("authorization", f"Bearer {{{name}}}"),)
        )
        for name, why in _BAD_TOKENS.items()
    ),
)

GUESTS: Final = _group(
    "guest",
    replace(_read("GET /people", GUEST), shows='"firstname":"John"'),
    replace(_read("GET /people/1", GUEST, target="/people/1"), shows='"id":"1"'),
    _read("GET /people?x=1", GUEST, target="/people?x=1"),
    replace(
        _read("GET /people/999", GUEST, target="/people/999", why="allowed; nobody is there"),
        status=404,
        arrives="GET /people/999 404",
    ),
    replace(
        _read("GET /peoples", GUEST, target="/peoples", why="by rule 5, /people* matches it"),
        status=404,
        arrives="GET /peoples 404",
    ),
    Row(name="GET /people.json", target="/people.json", headers=(GUEST,), why="* stops at a dot"),
    Row(name="GET /", target="/", headers=(GUEST,)),
    Row(name="GET /PEOPLE", target="/PEOPLE", headers=(GUEST,)),
    Row(name="POST", method="POST", headers=(GUEST, JSON), body=CHARLIE),
    _read(
        "GET that claims to be a DELETE", GUEST, ("x-http-method-override", "DELETE"),
        why="Envoy takes such headers away",
    ),
)  # fmt: skip

OTHER_METHODS: Final = _group(
    "methods without a rule",
    *(
        Row(name=f"{role} {method} {target}", method=method, target=target, headers=(header,))
        for (role, header), method, target in product(
            (("guest", GUEST), ("admin", ADMIN)),
            ("PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"),
            ("/people", "/people/1"),
        )
    ),
    Row(
        name="admin DELETE /people?id=1", method="DELETE", target="/people?id=1", headers=(ADMIN,),
        why="policy_delete.rego allows it where it is loaded",
    ),
    Row(
        name="a method in small letters", method="get", headers=(ADMIN,), status=400,
        why="Envoy knows the methods of HTTP only",
    ),
)  # fmt: skip

ADMINS: Final = _group(
    "admin",
    _read("GET /people", ADMIN),
    _read("GET /people/2", ADMIN, target="/people/2"),
    _stored(_post("POST Charlie", CHARLIE, 200)),
    replace(_read("GET shows Charlie", ADMIN), shows='"firstname":"Charlie"'),
    _post("POST bob", person("bob"), 403, "the lower-case first name is the decoded sub"),
    _post("POST Bob", person("Bob"), 403, "in any case"),
    _post("POST BOB", person("BOB"), 403, "in any case"),
    Row(
        name="POST bob, sub is Bob", method="POST", body=person("bob"),
        headers=(("authorization", "Bearer {sub_capital}"), JSON),
        why="in any case: the sub is lowered, too",
    ),
    _stored(_post("POST Bobby", person("Bobby"), 200, "another name"), "Bobby"),
    _stored(
        replace(
            _post("POST Dana, sub with padding", person("Dana"), 200, "= at the end is base64url"),
            headers=(("authorization", "Bearer {sub_padded}"), JSON),
        ),
        "Dana",
    ),
    replace(
        _post("POST without a lastname", b'{"firstname":"Eve"}', 400, "the policy reads firstname"),
        arrives="POST /people 400", shows="`lastname` is required",
    ),
    replace(
        _post(
            "POST with a further field", b'{"firstname":"Eve","lastname":"x","id":"1"}', 400,
            "allowed; the application refuses the field",
        ),
        arrives="POST /people 400", shows="unknown field",
    ),
)  # fmt: skip

ROLES: Final = _group(
    "claims",
    *(
        Row(
            name=f"{name.replace('_', ' ')}, {method}", why=why, method=method,
            headers=(("authorization", f"Bearer {{{name}}}"), JSON),
            body=CHARLIE if method == "POST" else None,
        )
        for (name, why), method in product(
            {
                "role_capital": "`Admin` is not `admin`",
                "role_list": "a list that holds a role is not a role",
                "role_missing": "no role, no rule",
                "role_unknown": "no rule knows the role",
            }.items(),
            ("GET", "POST"),
        )
    ),
    *(
        Row(
            name=f"{name.replace('_', ' ')}, POST", why=why, method="POST", body=CHARLIE,
            headers=(("authorization", f"Bearer {{{name}}}"), JSON),
        )
        for name, why in {
            "sub_missing": "the first name cannot be compared with nothing",
            "sub_no_base64": "a sub that cannot be decoded compares with nothing",
            "sub_number": "a number is not base64url",
        }.items()
    ),
    _read(
        "sub missing, GET", ("authorization", "Bearer {sub_missing}"),
        why="the rules for GET do not read the sub",
    ),
)  # fmt: skip

_GZIP: Final = gzip.compress(CHARLIE, mtime=0)
_LONG: Final = b'{"firstname":"Charlie","lastname":"Rego"' + b" " * 9000
BODIES: Final = _group(
    "bodies",
    _post("no body", None, 403, "there is no firstname to compare"),
    _post("an empty body", b"", 403, "there is no firstname to compare"),
    _post("a list", b'["Charlie"]', 403, "a list has no firstname"),
    _post("firstname is a number", b'{"firstname":7,"lastname":"Rego"}', 403, "lower of a number"),
    _post("firstname is null", b'{"firstname":null,"lastname":"Rego"}', 403, "lower of null"),
    _post("firstname is missing", b'{"lastname":"Rego"}', 403, "nothing to compare"),
    _refused("malformed JSON", b'{"firstname":"Charlie"', "request_parse_error"),
    _refused("two JSON values", CHARLIE + CHARLIE, "after top-level value"),
    _refused(
        "firstname twice", b'{"firstname":"Charlie","firstname":"Bob","lastname":"Rego"}',
        "duplicate JSON key", "which one counts is for each parser to say",
    ),
    _refused(
        "firstname twice, once escaped",
        b'{"firstname":"Charlie","first\\u006eame":"Bob","lastname":"Rego"}',
        "duplicate JSON key", "another spelling of the same key",
    ),
    _refused(
        "FIRSTNAME as well", b'{"firstname":"Charlie","FIRSTNAME":"Bob","lastname":"Rego"}',
        "differ only in case", "some applications fold the case of keys",
    ),
    _refused(
        "JSON under a form type", CHARLIE, "JSON under another content type",
        "the content type lies", FORM,
    ),
    _refused("JSON as text/plain", CHARLIE, "JSON under another content type", "it lies", TEXT),
    _refused(
        "a form under a JSON type", b"firstname=Charlie&lastname=Rego", "request_parse_error",
        "it lies the other way round",
    ),
    replace(
        _refused("no content type", CHARLIE, "body without a content type", "readers may guess"),
        headers=(ADMIN,),
    ),
    _refused(
        "JSON in UTF-16", CHARLIE.decode().encode("utf-16"), "UTF-8",
        "readers differ in what they guess",
    ),
    _stored(
        replace(
            _post("JSON with a charset", CHARLIE, 200, "UTF-8 is what JSON is written in"),
            headers=(ADMIN, ("content-type", "application/json; charset=utf-8")),
        )
    ),
    _refused(
        "over the limit", _LONG + b"}", "body is cut", "the policy sees the first 8192 bytes only"
    ),
    _refused(
        "over the limit, Bob at the end", _LONG + b',"firstname":"Bob"}', "body is cut",
        "what the policy does not see may be anything",
    ),
    _stored(
        _post("exactly the limit", _LONG[:8191] + b"}", 200, "8192 bytes are seen whole")
    ),
    replace(
        _refused(
            "chunked", CHARLIE, "body of undeclared length", "it may go on after what was seen"
        ),
        chunked=True,
    ),
    _refused("gzip", _GZIP, "body is compressed", "nobody here unpacks it", JSON, GZIP),
    _refused("gzip as bytes", _GZIP, "body is compressed", "under whatever type", BYTES, GZIP),
    _refused("gzip that does not say so", _GZIP, "UTF-8", "the content type lies"),
    Row(
        name="a GET with a body over the limit", headers=(GUEST, JSON), body=_LONG + b"}",
        status=400, shows="body is cut", why="no body that is not seen whole, whatever the method",
    ),
)  # fmt: skip


PATHS: Final = _group(
    "paths",
    *(
        Row(
            name=f"POST {target}", why=why, method="POST", target=target, headers=(ADMIN, JSON),
            body=CHARLIE,
        )
        for target, why in {
            "/people/1": "the glob /people matches itself only",
            "/people?x=1": "the path includes the query, and so does not match",
            "/people?": "and an empty query is a query",
            "/people/": "another path than /people",
            "/peoplE": "paths have case",
            "/people/../admin": "the policy sees /admin",
        }.items()
    ),
    *(
        _stored(
            Row(
                name=f"POST {target}", why=why, method="POST", target=target,
                headers=(ADMIN, JSON), body=CHARLIE,
            )
        )
        for target, why in {
            "//people": "Envoy merges slashes: policy and application both see /people",
            "/./people": "Envoy resolves dots: both see /people",
            "/x/../people": "Envoy resolves dots: both see /people",
            "/%2e/people": "an encoded dot is a dot: both see /people",
            "/%70eople": "Envoy undoes needless encoding: both see /people",
            "/\\people": "Envoy reads a backslash as a slash, and merges: both see /people",
            "http://elsewhere/people": "HTTP allows the whole address; its path is /people",
        }.items()
    ),
    *(
        Row(
            name=f"POST {target}", why=why, method="POST", target=target, headers=(ADMIN, JSON),
            body=CHARLIE, status=400,
        )
        for target, why in {
            "/people%2f": "an encoded slash (Envoy)",
            "/people%2F1": "an encoded slash (Envoy)",
            "/people%5c1": "an encoded backslash (Envoy)",
            "/people%00": "an encoded NUL (Envoy)",
            "/people#x": "a fragment (Envoy)",
            "\\people": "a path begins with a slash (Envoy)",
            "/people;x=1": "some applications cut parameters off (decision point)",
            "/%2570eople": "some applications decode twice (decision point)",
        }.items()
    ),
    replace(
        _read("GET //people", GUEST, target="/people", why="Envoy merges slashes"),
        target="//people",
    ),
    Row(
        name="GET /people/..%2fadmin", target="/people/..%2fadmin", headers=(GUEST,), status=400,
        why="an encoded slash is refused by Envoy",
    ),
    Row(
        name="GET /people/%2e%2e/admin", target="/people/%2e%2e/admin", headers=(GUEST,),
        why="Envoy resolves it: the policy sees /admin",
    ),
    Row(
        name="a header with an underscore", headers=(GUEST, ("x_user", "bob")), status=400,
        why="some applications read _ as -",
    ),
)  # fmt: skip

DECISION_POINT: Final = _group(
    "decision point",
    Row(
        name="stopped: GET", pdp="stop", headers=(ADMIN,),
        why="no decision, no access",
    ),
    _post("stopped: POST", CHARLIE, 403),
    replace(_read("started again: GET", ADMIN, why="by itself"), pdp="start"),
    Row(
        name="hanging: GET", pdp="freeze", headers=(ADMIN,),
        why="no decision in half a second, no access",
    ),
    _post("hanging: POST", CHARLIE, 403),
    replace(_read("going on: GET", ADMIN, why="by itself"), pdp="thaw"),
    Row(
        name="killed: GET", pdp="kill", headers=(ADMIN,),
        why="its socket is still there, nobody answers",
    ),
    replace(_read("started after that: GET", ADMIN, why="by itself"), pdp="start"),
    _stored(_post("and POST", CHARLIE, 200)),
)  # fmt: skip

ROWS: Final = (
    NO_TOKEN + HEADER + TOKEN + GUESTS + OTHER_METHODS + ADMINS + ROLES + BODIES + PATHS
    + DECISION_POINT
)  # fmt: skip
