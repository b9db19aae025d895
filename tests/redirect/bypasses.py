"""The bypasses: requests that should not get past, each with what is expected and why.

Data only. `{guest}` and the like stand for tokens. A status of 0 is a connection on which no
answer comes. What `arrives` is everything that the application counts, in its own words.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from tests.redirect.pod import Origin

from acceptance.row import person

APPLICATION: Final = 8080
ADMIN_INTERFACE: Final = 8001
DECISION_POINT: Final = 9191
REST: Final = 8181
DIAGNOSTIC: Final = 8282
EVERYONE: Final[tuple[Origin, ...]] = ("client", "client6", "neighbour", "neighbour6")
OUTSIDE: Final[tuple[Origin, ...]] = ("client", "client6")
INSIDE: Final[tuple[Origin, ...]] = ("neighbour", "neighbour6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bypass:
    """One connection, what is sent on it, and what must come of it."""

    name: str
    why: str
    parts: tuple[bytes, ...] = (b"GET /people HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",)
    """Sent one after the other, with a pause between them."""
    http2: Mapping[str, str] = field(default_factory=dict)
    """Headers of a request over HTTP/2, instead of the parts."""
    bytewise: bool = False
    """Whether each byte is sent alone."""
    origin: Origin = "client"
    port: int = APPLICATION
    statuses: tuple[int, ...] = (403,)
    """Of the answers, in their order."""
    arrives: tuple[str, ...] = ()


def request(
    line: str | bytes, *headers: str | bytes, body: bytes = b"", last: bool = True
) -> bytes:
    """A request with these lines as they are; with a body, its length is said."""
    lines = [line, "host: people", *headers]
    if body:
        lines.append(f"content-length: {len(body)}")
    if last:
        lines.append("connection: close")
    return b"\r\n".join(_to_bytes([*lines, "", ""])) + body


def _to_bytes(lines: Iterable[str | bytes]) -> list[bytes]:
    return [line if isinstance(line, bytes) else line.encode() for line in lines]


GUEST: Final = "authorization: Bearer {guest}"
ADMIN: Final = "authorization: Bearer {admin}"
JSON: Final = "content-type: application/json"
READ: Final = "GET /people HTTP/1.1"
READ_ARRIVES: Final = ("GET /people 200",)
NOBODY: Final = request(READ)
ANYBODY: Final = request(READ, GUEST)

# ---- every port, from everywhere, with the redirect and the capture of loopback in force


def _at(port: int, origin: Origin, what: str, why: str) -> tuple[Bypass, Bypass]:
    bypass = Bypass(
        name=f"{origin}: {what}, no token", why=why, origin=origin, port=port, parts=(NOBODY,)
    )
    return bypass, replace(
        bypass, name=f"{origin}: {what}, guest", parts=(ANYBODY,), statuses=(200,),
        arrives=READ_ARRIVES,
    )  # fmt: skip


_PORTS: Final = {
    APPLICATION: ("the application", "its port leads to Envoy"),
    ADMIN_INTERFACE: ("Envoy's administration", "its port leads to Envoy's listener"),
    DECISION_POINT: ("the decision point", "its port leads to Envoy"),
    REST: ("the decision point's API", "its port leads to Envoy"),
    8000: ("Envoy itself", "where clients are meant to go"),
    65000: ("a port where nobody listens", "every port leads to Envoy"),
}
PORTS: Final = tuple(
    bypass
    for origin, (port, (what, why)) in product(EVERYONE, _PORTS.items())
    for bypass in _at(port, origin, what, why)
) + tuple(
    Bypass(
        name=f"{origin}: health", origin=origin, port=DIAGNOSTIC, statuses=(200,),
        parts=(request("GET /health HTTP/1.1"),),
        why="-w keeps the port open: health and metrics, and nothing else is served there",
    )
    for origin in OUTSIDE
) + tuple(
    Bypass(
        name=f"{origin}: data by the health port", origin=origin, port=DIAGNOSTIC, statuses=(404,),
        parts=(request("GET /v1/data/secrets HTTP/1.1"),),
        why="health and metrics only: the secret is not to be had",
    )
    for origin in OUTSIDE
) + (
    Bypass(
        name="neighbour: change the policy's data", origin="neighbour", port=REST,
        parts=(request("PUT /v1/data/secrets HTTP/1.1", JSON, body=b'{"jwt":""}'),),
        why="the API of the decision point is reached through Envoy only, and so not at all",
    ),
    Bypass(
        name="neighbour: end Envoy", origin="neighbour", port=ADMIN_INTERFACE,
        parts=(request("POST /quitquitquit HTTP/1.1"),),
        why="the administration interface is out of reach of neighbours",
    ),
)  # fmt: skip

# ---- how a request is sent


def _h2c(name: str, plain: bytes, status: int, why: str) -> Bypass:
    upgrade = (
        b"upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\nconnection: upgrade, http2-settings"
    )
    return Bypass(
        name=f"h2c upgrade, {name}", why=why, statuses=(status,),
        parts=(plain.replace(b"connection: close", upgrade),),
        arrives=READ_ARRIVES if status == 200 else (),
    )  # fmt: skip


HTTP2: Final = (
    Bypass(
        name="HTTP/2 prior knowledge, no token", statuses=(403,),
        http2={":method": "GET", ":path": "/people"},
        why="Envoy speaks HTTP/2 on the same port, and asks there as well",
    ),
    Bypass(
        name="HTTP/2 prior knowledge, guest", statuses=(200,), arrives=READ_ARRIVES,
        http2={":method": "GET", ":path": "/people", "authorization": "Bearer {guest}"},
        why="a good request stays good",
    ),
    Bypass(
        name="HTTP/2 to the port of the decision point", port=DECISION_POINT, statuses=(200,),
        http2={
                    ":method": "POST",
                    ":path": "/envoy.service.auth.v3.Authorization/Check",
                    "content-type": "application/grpc",
                },
        why="this goes to Envoy, and is denied: for gRPC that is grpc-status 7 in an answer of 200",
    ),
    Bypass(
        name="HTTP/2 CONNECT", statuses=(404,),
        http2={":method": "CONNECT", ":authority": "127.0.0.1:8080"},
        why="no route opens tunnels",
    ),
    _h2c("no token", NOBODY, 403, "upgrades are not configured: it is not looked at"),
    _h2c("guest", ANYBODY, 200, "the upgrade is taken away, and the request decided without it"),
    _h2c(
        "POST of Bob",
        request("POST /people HTTP/1.1", ADMIN, JSON, body=person("Bob")), 403,
        "the body is looked at all the same",
    ),
    Bypass(
        name="WebSocket, no token",
        parts=(request(READ, "upgrade: websocket", "connection: upgrade", last=False),),
        why="after an upgrade nothing would be decided any more",
    ),
    Bypass(
        name="WebSocket, guest",
        parts=(
            request(
                READ, GUEST, "upgrade: websocket", "connection: upgrade",
                "sec-websocket-version: 13",
                "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==", last=False,
            ),
        ),
        why="upgrades are not configured for any client",
    ),
    Bypass(
        name="CONNECT to the application", statuses=(404,),
        parts=(b"CONNECT 127.0.0.1:8080 HTTP/1.1\r\nhost: 127.0.0.1:8080\r\n\r\n" + NOBODY,),
        why="no route opens tunnels, and what comes after is not read as a request",
    ),
)  # fmt: skip

_SMUGGLED: Final = b"0\r\n\r\nDELETE /people/1 HTTP/1.1\r\nhost: x\r\n\r\n"


def _smuggled(name: str, why: str, *framing: str, statuses: tuple[int, ...] = (400,)) -> Bypass:
    head = request("POST /people HTTP/1.1", ADMIN, JSON, *framing, last=False)
    return Bypass(name=name, why=why, statuses=statuses, parts=(head + _SMUGGLED,))


STREAM: Final = (
    Bypass(
        name="pipelined: allowed, then denied", statuses=(200, 403), arrives=READ_ARRIVES,
        parts=(request(READ, GUEST, last=False) + request("DELETE /people/1 HTTP/1.1"),),
        why="each request of a connection is decided alone",
    ),
    Bypass(
        name="pipelined: denied, then allowed", statuses=(403, 200), arrives=READ_ARRIVES,
        parts=(request("DELETE /people/1 HTTP/1.1", last=False) + ANYBODY,),
        why="each request of a connection is decided alone",
    ),
    _smuggled(
        "smuggled: length and chunks", "which of both ends the body is not for guessing",
        "content-length: 4", "transfer-encoding: chunked",
    ),
    _smuggled("smuggled: two lengths", "they differ", "content-length: 4", "content-length: 40"),
    _smuggled(
        "smuggled: chunks by another name", "no other transfer encoding is known",
        "transfer-encoding: xchunked", statuses=(501,),
    ),
    _smuggled(
        "smuggled: a space before the colon", "no header has a name like that",
        "transfer-encoding : chunked",
    ),
    _smuggled("smuggled: a signed length", "a length is digits", "content-length: +4"),
    Bypass(
        name="smuggled: a header behind a bare CR",
        parts=(request(READ, "x-a: b\rauthorization: Bearer {admin}"),),
        why="Envoy takes the CR out of the value: it ends no line, for anybody",
    ),
    Bypass(
        name="one byte at a time, no token", parts=(NOBODY,), bytewise=True,
        why="a request is decided when its head is whole, however it came",
    ),
    Bypass(
        name="one byte at a time, guest", parts=(ANYBODY,), bytewise=True, statuses=(200,),
        arrives=READ_ARRIVES, why="a good request stays good",
    ),
    Bypass(
        name="HTTP/1.0", statuses=(426,), parts=(b"GET /people HTTP/1.0\r\nhost: x\r\n\r\n",),
        why="nobody needs it any more",
    ),
    Bypass(
        name="HTTP/0.9", statuses=(426,), parts=(b"GET /people\r\n\r\n",),
        why="nobody needs it any more",
    ),
    Bypass(
        name="not HTTP at all", statuses=(400,), parts=(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",),
        why="what is not HTTP reaches nobody",
    ),
)  # fmt: skip

# ---- what is asked for


def _target(target: str | bytes, why: str, *statuses: int, arrives: tuple[str, ...] = ()) -> Bypass:
    raw = target if isinstance(target, bytes) else target.encode()
    return Bypass(
        name=f"target {raw!r}", why=why, arrives=arrives, statuses=statuses or (400,),
        parts=(request(b"GET " + raw + b" HTTP/1.1", GUEST),),
    )  # fmt: skip


TARGETS: Final = (
    _target(
        "http://elsewhere/people", "HTTP allows the whole address; its path is /people", 200,
        arrives=READ_ARRIVES,
    ),
    _target("http://elsewhere/admin", "the path of the address is /admin", 403),
    _target("http://elsewhere", "the path of the address is /", 403),
    _target("https://user@elsewhere/people", "a scheme that the connection has not", 403),
    _target("/people;x=1", "some applications cut parameters off"),
    _target("/admin;/people", "some applications cut parameters off"),
    _target("/people/..;/admin", "Envoy reads `..;` as dots: the policy sees /admin", 403),
    _target("/..;/people", "Envoy reads `..;` as dots: both see /people", 200,
        arrives=READ_ARRIVES),
    _target("/people/../admin", "Envoy resolves dots: the policy sees /admin", 403),
    _target("/people/%2e%2e/admin", "encoded dots are dots", 403),
    _target("/people/..%2fadmin", "an encoded slash is a slash to some"),
    _target("/people%5c..%5cadmin", "an encoded backslash is a slash to some"),
    _target("/people\\..\\admin", "Envoy reads backslashes as slashes", 403),
    _target("/people%252f", "some applications decode twice"),
    _target("//people", "Envoy merges slashes", 200, arrives=READ_ARRIVES),
    _target("//elsewhere/people", "what looks like a host is a path, and the policy says so", 403),
    _target("/people#/admin", "a fragment is nothing to send"),
    _target("/admin#/people", "a fragment is nothing to send"),
    _target("/people%00", "an encoded NUL ends the path for some"),
    _target(b"/people\x00", "a NUL is not part of a request"),
    _target(b"/people\xff", "bytes outside ASCII are not a path"),
    _target(b"/people\tx", "a tab does not end a target"),
    _target("people", "a path begins with a slash"),
    _target("*", "no path, and only OPTIONS may ask for it"),
    _target(
        "/people?id=1&id=2", "a query is part of the path that is decided on", 200,
        arrives=("GET /people?id=1&id=2 200",),
    ),
)  # fmt: skip

# ---- what is said in headers


def _headers(
    name: str, why: str, *headers: str | bytes, statuses: tuple[int, ...] = (403,),
    arrives: tuple[str, ...] = (), line: str = READ,
) -> Bypass:  # fmt: skip
    parts = (request(line, *headers),)
    return Bypass(name=name, why=why, statuses=statuses, arrives=arrives, parts=parts)


def _spoofed(header: str, why: str) -> tuple[Bypass, Bypass]:
    name = header.partition(":")[0]
    return (
        _headers(f"{name}, no token", why, header),
        _headers(f"{name}, guest", why, GUEST, header, statuses=(200,), arrives=READ_ARRIVES),
    )


HEADERS: Final = (
    _headers(
        "authorization twice", "which of them counts is not for guessing", GUEST, ADMIN,
        statuses=(400,),
    ),
    _headers(
        "authorization joined by a comma", "the same, joined before it was sent",
        "authorization: Bearer {guest}, Bearer {admin}", statuses=(400,),
    ),
    Bypass(
        name="content-type twice", why="the body could be read in two ways", statuses=(400,),
        parts=(
            request(
                "POST /people HTTP/1.1", ADMIN, JSON, "content-type: text/plain",
                body=person("Charlie"),
            ),
        ),
    ),
    _headers("host twice, no token", "RFC 9112, section 3.2: 400", "host: elsewhere",
             statuses=(400,)),
    _headers("host twice, guest", "Envoy joins both by a comma, and no host has one", GUEST,
             "host: elsewhere", statuses=(400,)),
    _headers("a header that is not UTF-8, no token", "it never makes a check fail open",
             b"x-name: \xff\xfe\xfd"),
    _headers("a header that is not UTF-8, guest", "the policy does not read it", GUEST,
             b"x-name: \xff\xfe\xfd", statuses=(200,), arrives=READ_ARRIVES),
    _headers("a token that is not UTF-8", "no token", b"authorization: Bearer \xff\xfe\xfd"),
    _headers("a NUL in a header", "no header holds one", GUEST, b"x-a: b\x00c", statuses=(400,)),
    _headers("a header continued on the next line", "Envoy joins the lines before anybody reads",
             b"authorization: Bearer\r\n {guest}", statuses=(200,), arrives=READ_ARRIVES),
    _headers("a header with an underscore", "some applications read _ as -", GUEST,
             "x_forwarded_user: bob", statuses=(400,)),
    _headers("200 headers", "there is a limit", GUEST, *[f"x-{n}: y" for n in range(200)],
             statuses=(431,)),
    _headers("a header of 40 kB", "there is a limit", GUEST, "x-a: " + "y" * 40_000,
             statuses=(431,)),
    *_spoofed("x-envoy-original-path: /admin", "Envoy takes it away"),
    *_spoofed("x-envoy-internal: true", "nobody is internal"),
    *_spoofed("x-envoy-decorator-operation: allow", "Envoy takes it away"),
    *_spoofed("x-envoy-auth-failure-mode-allowed: true", "only Envoy could say that"),
    *_spoofed("x-envoy-upstream-rq-timeout-ms: 1", "clients do not set time limits"),
    *_spoofed("x-envoy-expected-rq-timeout-ms: 1", "clients do not set time limits"),
    *_spoofed("x-forwarded-for: 127.0.0.1", "no proxy in front is believed"),
    *_spoofed("x-forwarded-host: localhost", "no proxy in front is believed"),
    *_spoofed("x-forwarded-proto: https", "no proxy in front is believed"),
    *_spoofed("x-forwarded-client-cert: By=spiffe://x", "there is no certificate"),
    *_spoofed("x-forwarded-user: bob", "who somebody is stands in the token"),
    *_spoofed("x-original-url: /admin", "the path is the one that was asked for"),
    *_spoofed("x-http-method-override: DELETE", "the method is the one that was sent"),
    _headers("HEAD for GET", "no rule knows HEAD, although many applications answer it as GET",
             GUEST, line="HEAD /people HTTP/1.1"),
    _headers("an unknown method", "the application would decide what it means", GUEST,
             line="PEEK /people HTTP/1.1", statuses=(400,)),
)  # fmt: skip

# ---- bodies


def _body(name: str, why: str, body: bytes, *headers: str, status: int = 400) -> Bypass:
    return Bypass(
        name=name, why=why, statuses=(status,),
        arrives=("POST /people 200",) if status == 200 else (),
        parts=(request("POST /people HTTP/1.1", ADMIN, JSON, *headers, body=body),),
    )  # fmt: skip


CHARLIE: Final = person("Charlie")
BODIES: Final = (
    _body("8 kB", "the policy sees them whole", CHARLIE.ljust(8192), status=200),
    _body("8 kB and a byte", "the policy would see them cut", CHARLIE.ljust(8193)),
    _body("1 MB", "the policy would see it cut", CHARLIE.ljust(1 << 20)),
    _body("1 MB, Bob at the end", "what the policy does not see may be anything",
          CHARLIE[:-1].ljust(1 << 20) + b',"firstname":"Bob"}'),
    _body("Bob", "rule 6", person("Bob"), status=403),
    _body("compressed", "nobody here unpacks it", gzip.compress(CHARLIE, mtime=0),
          "content-encoding: gzip"),
    Bypass(
        name="100 and no more", statuses=(),
        parts=(request("POST /people HTTP/1.1", ADMIN, JSON, "content-length: 100"), b"{"),
        why="without its body a request is not decided, and does not arrive",
    ),
    Bypass(
        name="1 MB without a token", statuses=(400,),
        parts=(request("POST /people HTTP/1.1", JSON, body=CHARLIE.ljust(1 << 20)),),
        why="the body is cut, and nobody asks further",
    ),
)  # fmt: skip

REQUESTS: Final = HTTP2 + STREAM + TARGETS + HEADERS + BODIES
