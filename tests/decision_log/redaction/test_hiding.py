"""Credentials do not get into the decision log, by whatever name, at whatever depth."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tests.growth import grows

from doorward.config.configuration import parse_config
from doorward.decision_log.redaction import hiding
from doorward.decision_log.redaction.hiding import LISTED, hide_credentials
from doorward.rego.credentials import MASKED
from doorward.rego.values import make_set

SECRET = "hunter2"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJlLW9mLWl0"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"


def hidden(event: dict[str, Any]) -> dict[str, Any]:
    """The event without credentials; what was given stays as it was."""
    before = copy.deepcopy(event)
    changed = hide_credentials(event)
    assert event == before
    text = str(changed)
    assert SECRET not in text
    assert TOKEN not in text
    assert "MIIE" not in text
    return changed


NAMES = [
    "authorization",
    "Authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "X-Registry-Auth",
    "x-registry-config",
    "password",
    "Password",
    "db_password",
    "userPassword",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "client_secret",
    "clientSecret",
    "secrets",
    "credentials",
    "token",
    "access_token",
    "accessToken",
    "refresh-token",
    "tokens",
    "jwt",
    "api_key",
    "apiKey",
    "x-api-key",
    "apikey",
    "access_key",
    "private_key",
    "privateKey",
    "session_id",
    "sessionId",
    "signature",
    "X-Amz-Signature",
    "auth",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [SECRET, [SECRET], 4711])
def test_what_is_called_a_credential_is_removed(name: str, value: Any) -> None:
    event = hidden({"input": {"a": [{name: value, "kept": 1}]}, "result": {name: value}})
    assert event["input"] == {"a": [{"kept": 1}]}
    assert event["result"] == {}
    assert sorted(event["erased"]) == [f"/input/a/0/{name}", f"/result/{name}"]


@pytest.mark.parametrize(
    "document",
    [
        {"user": "ann", "method": "GET", "path": "/people?page=2", "tokens_left": 3},
        {"key": "x", "keys": ["a"], "author": "ann", "token_valid": True, "password": None},
        {"password": False, "host": "productpage.namespace1.example-com", "secretary": {"a": 1}},
        {"token": {"payload": {"sub": "ann", "role": "admin"}}},
        {"name": "PATH", "value": "/bin"},
        {"set": make_set([1, 2])},
        {"numbers": {1: "x", 2.5: {"a": "y"}}},
    ],
)
def test_what_is_not_one_is_left_as_it_is(document: Any) -> None:
    event = {"input": document, "result": True}
    assert hide_credentials(event) is event


def test_under_some_names_all_is_secret() -> None:
    event = hidden(
        {"result": {"secrets": {"db": {"a": SECRET}}, "credentials": {"x": 1}, "cookies": {"a": 1}}}
    )
    assert event["result"] == {}


@pytest.mark.parametrize(
    "path", ["secrets", "secrets/db", "a/passwords/ann", "login/token", "app/api_key"]
)
def test_a_result_is_secret_by_the_path_that_was_asked(path: str) -> None:
    event = hidden({"path": path, "input": {"a": 1}, "result": SECRET})
    assert "result" not in event
    assert event["erased"] == ["/result"]
    assert hidden({"query": f"data.{path.replace('/', '.')}", "result": SECRET}).keys() == {
        "query",
        "erased",
    }


def test_a_result_that_is_a_token_is_masked() -> None:
    event = hidden({"path": "a/allow", "result": TOKEN})
    assert (event["result"], event["masked"]) == (MASKED, ["/result"])


TEXTS = [
    (f"Bearer {TOKEN}", f"Bearer {MASKED}"),
    ("sent Bearer 3f9a77c0d1e2 to it", f"sent Bearer {MASKED} to it"),
    ("basic YW5uOmh1bnRlcjI=", f"basic {MASKED}"),
    (
        "at https://ann:hunter2@db.test/x, http://b:c@d",
        f"at https://{MASKED}@db.test/x, http://{MASKED}@d",
    ),
    (f"/login?user=ann&token={SECRET}&x=1", f"/login?user=ann&token={MASKED}&x=1"),
    (f"password={SECRET}", f"password={MASKED}"),
    (f"user=ann&pass%77ord={SECRET}", f"user=ann&pass%77ord={MASKED}"),
    (f"DB_PASSWORD={SECRET}", f"DB_PASSWORD={MASKED}"),
    (f"a=b; session_id={SECRET}", f"a=b; session_id={MASKED}"),
    (json.dumps({"user": "ann", "password": SECRET}), MASKED),
    (json.dumps(json.dumps({"password": SECRET})), MASKED),
    (f"password: {SECRET}", f"password: {MASKED}"),
    (f"user: ann\npassword: {SECRET}\nid: 1", f"user: ann\npassword: {MASKED}\nid: 1"),
    (f"db:\n  - api key : '{SECRET}'\n", f"db:\n  - api key : {MASKED}\n"),
    (f"{{user: ann, 'token': {SECRET}}}", f"{{user: ann, 'token': {MASKED}}}"),
    (f'{{"p\\u0061ssword": "{SECRET}"}}', MASKED),
    (f'{{"\\u0074\\u006Fken": "{SECRET}"}}', MASKED),
    (f"x{KEY}y", None),
    (f'PASSWORD="{SECRET} {SECRET}"', f"PASSWORD={MASKED}"),
    *(
        (text, MASKED)
        for text in (
            f'user: ann\n"p\\x61ssword": {SECRET}\n',
            f'"\\U00000070assword" : {SECRET}',
            f"password: |\n  {SECRET}\n",
            f"db:\n- password: >-\n    ann\n    {SECRET}\n",
            f"passwords:\n- {SECRET}\n",
            f"passwords: [ann, {SECRET}]",
            f"? password\n: {SECRET}",
            f"[db]\npassword = {SECRET}\n",
            f"<login><password>{SECRET}</password></login>",
            f"<a b='&#112;assword' password = '{SECRET}'/>",
            f"user=ann&note=pass%2577ord%3D{SECRET}",
            f"psql --user ann --password {SECRET}",
            f'--x\r\nContent-Disposition: form-data; name="password"\r\n\r\n{SECRET}\r\n--x--',
        )
    ),
]
BODIES = [
    f"user,password\nann,{SECRET}\n",
    f"(login ann password {SECRET})",
    f'mutation {{ login(user: "ann", pass\\u0077ord:"{SECRET}") {{ id }} }}',
    f"ann\ttoken\t{SECRET}",
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_of_an_unknown_kind_that_names_a_credential_is_masked(body: str) -> None:
    raw = base64.b64encode(body.encode()).decode()
    event = hidden({"input": {"body": body, "raw_body": raw, "note": "kept"}})
    assert event["input"] == {"body": MASKED, "raw_body": MASKED, "note": "kept"}


@pytest.mark.parametrize(
    "body", ["note=my+password+is+lost&author=ann", '{"author": "ann", "about": "a password"}', "x"]
)
def test_a_form_or_json_that_only_mentions_a_credential_is_shown(body: str) -> None:
    raw = base64.b64encode(body.encode()).decode()
    event = {"input": {"body": body, "raw_body": raw}}
    assert hidden(copy.deepcopy(event)) == event


@pytest.mark.parametrize("body", ["user,colour\nann,red\n", "<a>b</a>", "(query people)"])
def test_a_body_of_an_unknown_kind_that_names_no_credential_is_shown(body: str) -> None:
    raw = base64.b64encode(body.encode()).decode()
    event = {"input": {"body": body, "raw_body": raw}}
    assert hidden(copy.deepcopy(event)) == event


@pytest.mark.parametrize("name", ["raw_body", "rawBody"])
@pytest.mark.parametrize("text", [f"password={SECRET}", f'{{"token": "{SECRET}"}}', BODIES[0]])
def test_an_encoded_body_is_looked_into_where_the_last_event_had_none(name: str, text: str) -> None:
    http = {"headers": {"authorization": SECRET}, "path": "/a"}
    hidden({"input": {"attributes": {"request": {"http": http}}}})
    raw = base64.b64encode(text.encode()).decode()
    event = hidden({"input": {"attributes": {"request": {"http": {**http, name: raw}}}}})
    assert event["input"]["attributes"]["request"]["http"][name] == MASKED
    assert event["masked"] == [f"/input/attributes/request/http/{name}"]


@pytest.mark.parametrize(("text", "shown"), TEXTS)
def test_what_a_text_holds_is_masked(text: str, shown: str | None) -> None:
    event = hidden({"input": {"x": text, "list": ["a", text]}})
    assert event["masked"] == ["/input/list/1", "/input/x"]
    if shown is not None:
        assert event["input"] == {"x": shown, "list": ["a", shown]}


@pytest.mark.parametrize(
    "text",
    [
        "basic authentication is the bearer authorization of old",
        "https://db.test:443/ann@b:c@d https://ann@db.test",
        "mail ann:bob@db.test",
        "Bearer",
        "designs: many, see: below",
        '{"us\\u0065r": "ann"}',
        "the password has expired",
        "secrets:read tokens:write openid",
        "arn:aws:secretsmanager:eu:1:secret:db",
        "input.password == x",
        "author: ann\n  and bob",
        "C:\\users\\ann 100% of 20%25",
    ],
)
def test_what_only_looks_alike_is_shown(text: str) -> None:
    assert hidden({"input": {"x": text}})["input"] == {"x": text}


def test_the_input_of_envoy_holds_none_of_a_login() -> None:
    body = json.dumps({"user": "ann", "password": SECRET})
    http = {
        "method": "POST",
        "path": f"/login?token={SECRET}",
        "headers": {"authorization": f"Bearer {TOKEN}", "cookie": SECRET, "accept": "kept"},
        "headerMap": {
            "headers": [
                {"key": "accept", "value": "kept"},
                {"key": "Authorization", "rawValue": SECRET},
            ]
        },
        "body": body,
        "rawBody": base64.b64encode(body.encode()).decode(),
        "raw_body": base64.b64encode(body.encode()).decode(),
    }
    event = hidden(
        {
            "input": {
                "attributes": {"request": {"http": http}},
                "parsed_body": json.loads(body),
                "parsed_query": {"token": [SECRET], "page": ["2"]},
            },
            "result": {"allowed": True, "headers": {"x-user": "ann", "set-cookie": SECRET}},
        }
    )
    text = str(event)
    assert base64.b64encode(body.encode()).decode() not in text
    assert text.count("kept") == 2
    assert event["input"]["parsed_body"] == {"user": "ann"}
    assert event["input"]["parsed_query"] == {"page": ["2"]}
    assert "/input/attributes/request/http/headerMap/headers/1/rawValue" in event["erased"]
    assert event["result"]["headers"] == {"x-user": "ann"}


def test_a_value_is_secret_by_the_name_beside_it() -> None:
    env = [{"name": "DB_PASSWORD", "value": SECRET}, {"Name": "PATH", "Value": "/bin"}]
    event = hidden({"input": {"env": env, "jwk": {"kty": "oct", "k": SECRET, "kid": "1"}}})
    assert event["input"] == {
        "env": [{"name": "DB_PASSWORD"}, {"Name": "PATH", "Value": "/bin"}],
        "jwk": {"kty": "oct", "kid": "1"},
    }


def test_members_of_a_set_are_looked_at() -> None:
    members = make_set([{"user": "ann", "password": SECRET}, f"Bearer {TOKEN}"])
    event = hidden({"result": {"people": members}})
    assert event["result"] == {"people": [f"Bearer {MASKED}", {"user": "ann"}]}


def test_depth_and_number_do_not_matter() -> None:
    deep: Any = {"password": SECRET}
    for _ in range(50_000):
        deep = [deep]
    changed = hide_credentials({"input": deep})
    assert changed["erased"][0].endswith("/0/password")
    inner = changed["input"]
    while isinstance(inner, list):
        inner = inner[0]
    assert inner == {}
    while deep:  # else Python would take it apart by recursion
        deep = deep.pop() if isinstance(deep, list) else None


@pytest.mark.long
def test_many_credentials_take_time_in_proportion() -> None:
    def make(count: int) -> dict[str, Any]:
        many: dict[str, Any] = {f"password{number}": 1 for number in range(count)}
        return many | {f"token_{number}_token": SECRET for number in range(count)}

    # Where each was taken out by itself all would be copied each time. More names than are kept.
    assert not grows(lambda many: hide_credentials({"input": many}), make, 20_000)
    event = hide_credentials({"input": make(20_000)})
    assert SECRET not in str(event["input"])
    assert len(event["erased"]) == LISTED


@pytest.mark.parametrize("name", ["mask_credentials", "mask_authorization"])
def test_it_can_be_turned_off(name: str) -> None:
    assert parse_config("", environment={}).decision_logs.mask_credentials
    config = parse_config(f"decision_logs: {{{name}: false}}", environment={})
    assert not config.decision_logs.mask_credentials


BODY = {"body": "text", "raw_body": "dGV4dA==", "path": "/a"}


@pytest.mark.parametrize(
    "parsed", [{"password": [SECRET]}, {"a": [{"b": {"clientSecret": SECRET}}]}]
)
def test_a_body_of_which_a_credential_was_read_is_removed(parsed: Any) -> None:
    # As text it may be escaped, in a part of a form, in base64.
    event = {"input": {"attributes": {"request": {"http": dict(BODY)}}, "parsed_body": parsed}}
    before = copy.deepcopy(event)
    changed = hide_credentials(event)
    assert changed["input"]["attributes"]["request"]["http"] == {"path": "/a"}
    http = "/input/attributes/request/http"
    assert changed["erased"][:2] == [f"{http}/body", f"{http}/raw_body"]
    assert event == before


def test_a_body_without_credentials_stays() -> None:
    event = {"input": {"attributes": {"request": {"http": dict(BODY)}}, "parsed_body": {"a": 1}}}
    assert hide_credentials(event) is event
    odd = {"input": {"attributes": [1], "parsed_body": {"password": SECRET}}}
    assert hide_credentials(odd)["input"] == {"attributes": [1], "parsed_body": {}}


@pytest.mark.parametrize(
    "name",
    ["sig", "otp", "client_assertion", "SAMLResponse", "x-hub-signature-256", "Authentication"],
)
def test_further_names_of_credentials(name: str) -> None:
    assert SECRET not in str(
        hide_credentials({"input": {name: SECRET, "path": f"/p?{name}={SECRET}"}})
    )


@pytest.mark.parametrize("name", ["design", "compass", "bypass", "signal", "pin", "code"])
def test_names_that_only_look_like_credentials_stay(name: str) -> None:
    event = {"input": {name: "x"}}
    assert hide_credentials(event) is event


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (f'io.jwt.decode("{TOKEN}", x)', f'io.jwt.decode("{MASKED}", x)'),
        (f'data.p.f({{"password": "{SECRET}"}}, x)', MASKED),
        (f'http.send({{"url": "https://ann:{SECRET}@a"}})', None),
        ("x := data.p.users[_]", "x := data.p.users[_]"),
    ],
)
def test_credentials_in_what_was_asked_are_masked(query: str, shown: str | None) -> None:
    event = hidden({"query": query, "input": {}})
    assert SECRET not in event["query"]
    assert TOKEN not in event["query"]
    if shown is not None:
        assert event["query"] == shown
    assert ("/query" in event.get("masked", [])) is (event["query"] != query)
    path = hidden({"path": f"tokens/{TOKEN}/owner", "input": {"a": 1}})
    assert (path["path"], path["masked"]) == (f"tokens/{MASKED}/owner", ["/path"])


PIECES = [
    *("password: x", "token :\ty", "p\\u0061ssword", '"t\\u006fken": '),
    *("password", "secret", "Cookie", "my-secret-x", "token", "jwts", "auth", "author", "pwd"),
    *("otp", "x.sig", "design", "api_key", "api+key", "session id", "signature-256", "key", "name"),
    *("value", "Value", "rawValue", "kty", "k", "raw_body", "rawBody", "body", "path", "plain"),
    *("= x", " = x", ">x", "\n\nx", "\n  x", "\n: x", "--", "%3D", "%25", "\\x61", "&#112;", "- "),
    *("p\\x61ssword", "p&#97;ssword", "[masked]", "|", "{", "}", ","),
    *("=", "&", "?", ";", " ", "\n", "\t", '"', "\\", '":', '": ', "'", "%77", "%", "+", "/", ":"),
    *("://", "@", ".", "Bearer ", "basic ", "eyJhbGciOi", "3f9A", "abcdefgh", "abcdefgh.ijklmnop."),
    *("-----BEGIN PRIVATE KEY-----", "ı", "K", "ſ", "é", "\u2003", "\x1f", "\x7f", "٣", "x", "1"),
]


def texts(random: Random) -> str:
    text = "".join(random.choices(PIECES, k=random.choice((0, 1, 1, 2, 3, 4))))
    wrapped = random.random()
    if wrapped < 0.1:
        text = json.dumps({text: "x"}, ensure_ascii=random.random() < 0.5)
    return json.dumps(text) if wrapped < 0.05 else text


def values(random: Random, depth: int = 0) -> Any:
    kind = random.randint(0, 9)
    if depth < 3 and kind < 4:
        return {texts(random): values(random, depth + 1) for _ in range(random.randint(0, 3))}
    if depth < 3 and kind == 4:
        return [values(random, depth + 1) for _ in range(random.randint(0, 3))]
    if kind == 5:
        return random.choice([None, True, False, 0, -1.5, 10**30, make_set(["x", texts(random)])])
    return texts(random)


def events(random: Random) -> Iterator[dict[str, Any]]:
    """Inputs with members at the same places, and much else."""
    names = random.sample(PIECES, 6)
    for _ in range(40):
        http = {random.choice(names): values(random, 2) for _ in range(random.randint(0, 3))}
        document = {"attributes": {"request": {"http": {**http, "headers": dict(http)}}}}
        document |= {random.choice(names): values(random) for _ in range(random.randint(0, 2))}
        if random.random() < 0.1:
            document["parsed_body"] = values(random)
        yield {"path": "a/b", "input": document, "result": values(random)}


@pytest.mark.parametrize("seed", range(80))
def test_what_is_shown_at_a_glance_is_what_a_walk_shows(seed: int) -> None:
    known = hiding._Known()
    for event in events(Random(seed)):
        walk = hiding._Walk({name: event[name] for name in ("input", "result")})
        shown, erased, masked = hiding._mask_event(copy.deepcopy(event), is_secret=False)
        quick = known.hide(event)
        if quick is not None:
            assert (quick[0], sorted(quick[1]), sorted(quick[2])) == (
                shown,
                sorted(erased),
                sorted(masked),
            )
        if not walk.is_below_body:
            known.learn(walk.locations)


def test_an_event_like_the_last_one_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "cookie": SECRET, "accept": "text/html;q=0.9"}
    body = json.dumps({"firstname": "Bob", "url": "/a?page=1"})
    http = {"headers": headers, "path": f"/a?token={SECRET}", "body": body}
    event = {"input": {"attributes": {"request": {"http": http}}}, "result": {"allowed": True}}
    first = hidden(event)
    monkeypatch.delattr(hiding, "_mask_event")
    again = hidden(event)
    assert again == first
    raw = base64.b64encode(body.encode()).decode()
    assert hidden({"input": {"attributes": {"request": {"http": {**http, "rawBody": raw}}}}})


def test_the_oldest_places_are_forgotten() -> None:
    known = hiding._Known()
    for number in range(3 * hiding.LOCATIONS):
        known.learn([("input", f"password{number}")])
    event = {"input": {f"password{number}": SECRET for number in range(3 * hiding.LOCATIONS)}}
    assert known.hide(event) is None
    newest = f"password{3 * hiding.LOCATIONS - 1}"
    result = known.hide({"input": {newest: SECRET, "a": 1}})
    assert result == ({"input": {"a": 1}}, [f"/input/{newest}"], [])
    assert known.hide({"input": {"password0": SECRET}}) is None
