"""The configuration of proxies that ask a decision point by HTTP, with what each must strip.

    Site -> `to_files` -> file name to text

What a client may not say is taken away in the question and in the request to the application, and
what the policy sets is copied from the answer. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from doorward.base.records import record
from doorward.enforcement.headers import IDENTITIES, OAUTH2_PROXY, ORIGINS, OVERRIDES, ROOTS
from doorward.forward.request import CODING, LENGTH, SECRET

__all__ = ["OAUTH2_PROXY", "PROXY_FILES", "Site", "to_files"]

# INVARIANT: what these three match needs no escape in any of the files, and has no `@`, with which
# the marks of the Lua script begin.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}")
_SECRET: Final = re.compile(r"[A-Za-z0-9_.~-]{16,512}")
_HEADER: Final = re.compile(r"[a-z0-9-]{1,64}")

METHODS: Final = ("x-original-method", "x-forwarded-method", "x-forwarded-uri")
FORGED: Final = tuple(dict.fromkeys((*OVERRIDES, *IDENTITIES, *METHODS, LENGTH, CODING, SECRET)))
"""Headers that no client may send to the decision point or the application."""
_SET_BY_ALL: Final = frozenset({"x-forwarded-for", "x-forwarded-host"})
"""The headers of `ORIGINS` that every proxy here replaces itself."""


@record(kw_only=True)
class Site:
    """A proxy, the application behind it and the decision point; addresses are `HOST:PORT`.

    Raise ValueError for a value that a configuration cannot hold.
    """

    listen: str = "127.0.0.1:8000"
    upstream: str = "127.0.0.1:8080"
    pdp: str = "127.0.0.1:9292"
    secret: str = ""
    response_headers: tuple[str, ...] = ()
    """Request headers that the policy sets, as in `response-headers` of the decision point."""
    max_body: int = 8192
    """The bytes of a body that the decision point sees, if the proxy can send bodies."""

    def __post_init__(self) -> None:
        """Raise ValueError for a malformed address, secret or header name."""
        for address in (self.listen, self.upstream, self.pdp):
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"`{address}` is not an address of the form HOST:PORT")
        if self.secret and not _SECRET.fullmatch(self.secret):
            raise ValueError("the secret must be 16 to 512 letters, digits, `_`, `.`, `~` or `-`")
        for name in self.response_headers:
            if not _HEADER.fullmatch(name):
                raise ValueError(f"`{name}` is not a header name in lower case, such as x-user")

    @property
    def stripped(self) -> tuple[str, ...]:
        """The headers, in lower case, that are removed from what clients send."""
        origins = [name for name in ORIGINS if name not in _SET_BY_ALL]
        return tuple(dict.fromkeys((*FORGED, *origins, *ROOTS, *self.response_headers)))


def to_files(proxy: str, site: Site) -> dict[str, str]:
    """Return the configuration of a proxy, one of the keys of `PROXY_FILES`: text by file name."""
    return PROXY_FILES[proxy](site)


def _nginx(site: Site) -> dict[str, str]:
    """Return the configuration of an nginx that asks the decision point about each request."""
    proxy_headers = ("x-original-method", "x-original-uri")
    forwarded = {LENGTH, CODING, *([SECRET] if site.secret else [])}
    removed = [name for name in site.stripped if name not in proxy_headers]
    questioned = [f'      proxy_set_header {name} "";' for name in removed if name not in forwarded]
    secret = [f"      proxy_set_header {SECRET} {site.secret};"] if site.secret else []
    variables = {name: name.replace("-", "_") for name in site.response_headers}
    taken = [
        f"      auth_request_set $decided_{variable} $upstream_http_{variable};"
        for variable in variables.values()
    ]
    copied = [
        f"      proxy_set_header {name} $decided_{variable};"
        for name, variable in variables.items()
    ]
    passed = [f'      proxy_set_header {name} "";' for name in removed if name not in variables]
    lines = [
        "# Made by `doorward kit forward`: nginx asks the decision point about each request.",
        "# A proxy_set_header in a location cancels those above it: keep them together.",
        f"upstream doorward {{ server {site.pdp}; keepalive 16; }}",
        "server {",
        f"  listen {site.listen};",
        "  # Headers with _ are dropped: some applications read _ as -.",
        "  underscores_in_headers off;",
        "  ignore_invalid_headers on;",
        # The policy decides on `$request_uri`, in which nginx merges no slashes.
        "  merge_slashes off;",
        "  # An HTTP/1.0 request may have no host; the policy could not decide on it.",
        '  if ($http_host = "") { return 403; }',
        "  location / {",
        "      auth_request /.doorward;",
        *taken,
        f"      proxy_pass http://{site.upstream};",
        "      proxy_set_header Host $http_host;",
        "      proxy_set_header X-Forwarded-For $remote_addr;",
        "      proxy_set_header X-Forwarded-Proto $scheme;",
        "      proxy_set_header X-Forwarded-Host $http_host;",
        '      proxy_set_header x-original-method "";',
        '      proxy_set_header x-original-uri "";',
        *passed,
        *copied,
        "  }",
        "  location = /.doorward {",
        "      internal;",
        "      proxy_pass http://doorward/auth/nginx;",
        "      proxy_http_version 1.1;",
        '      proxy_set_header Connection "";',
        "      proxy_pass_request_body off;",
        '      proxy_set_header Content-Length "";',
        "      # Method and URI as the client sent them, which is how the application gets them.",
        "      proxy_set_header X-Original-Method $request_method;",
        "      proxy_set_header X-Original-URI $request_uri;",
        f"      proxy_set_header {LENGTH} $http_content_length;",
        f"      proxy_set_header {CODING} $http_transfer_encoding;",
        "      proxy_set_header Host $http_host;",
        "      proxy_set_header X-Forwarded-For $remote_addr;",
        "      proxy_set_header X-Forwarded-Proto $scheme;",
        *secret,
        *questioned,
        "  }",
        "}",
    ]
    return {"doorward.nginx.conf": "\n".join(lines) + "\n"}


def _caddy(site: Site) -> dict[str, str]:
    """Return the configuration of a Caddy that asks the decision point about each request."""
    proxy_headers = ("x-forwarded-method", "x-forwarded-uri", LENGTH, CODING, SECRET)
    # The copied headers are among them: Caddy 2.10.0 to 2.11.1 keeps a client's one that the answer
    # does not have (GHSA-7r4p-vjf4-gxv4).
    removed = [f"\trequest_header -{name}" for name in site.stripped if name not in proxy_headers]
    secret = [f"\t\theader_up {SECRET} {site.secret}"] if site.secret else []
    copied = (
        [f"\t\tcopy_headers {' '.join(site.response_headers)}"] if site.response_headers else []
    )
    host, _, port = site.listen.rpartition(":")
    lines = [
        "# Made by `doorward kit forward`: Caddy (2.11.2 or newer) asks about each request.",
        "{",
        "\tadmin off",
        "\tauto_https off",
        "\tpersist_config off",
        "}",
        f"http://:{port} {{",
        f"\tbind {host}",
        "\troute {",
        *[f"\t{line}" for line in removed],
        *[f"\t\trequest_header -{name}" for name in proxy_headers],
        # Caddy's Go takes Transfer-Encoding out of the headers: it cannot be copied as the length
        # is.
        "\t\t# The question has no body: this tells of one that is chunked.",
        "\t\t@chunked header Transfer-Encoding *",
        f"\t\trequest_header @chunked {CODING} chunked",
        "\t\t# Headers with _ are dropped: many applications read _ as -.",
        "\t\trequest_header -*_*",
        "\t\t# Caddy removes the headers that Connection names: clients could remove the policy's.",
        "\t\t@upgrade header Upgrade *",
        "\t\t@plain not header Upgrade *",
        "\t\trequest_header @upgrade Connection Upgrade",
        "\t\trequest_header @plain -Connection",
        f"\t\tforward_auth {site.pdp} {{",
        # Without the `?` Caddy would add the client's query.
        "\t\t\turi /auth/caddy?",
        f"\t\t\theader_up {LENGTH} {{http.request.header.Content-Length}}",
        *[f"\t{line}" for line in secret],
        *[f"\t{line}" for line in copied],
        "\t\t}",
        f"\t\trequest_header -{CODING}",
        f"\t\treverse_proxy {site.upstream}",
        "\t}",
        "}",
    ]
    return {"Caddyfile": "\n".join(lines) + "\n"}


def _traefik(site: Site) -> dict[str, str]:
    """Return the two configurations of a Traefik that asks the decision point about each
    request.
    """
    # It replaces these itself, too.
    replaced = {"x-forwarded-port", "x-forwarded-server", "x-real-ip"}
    removed = {name: "" for name in site.stripped if name not in replaced}
    auth: dict[str, Any] = {
        "address": f"http://{site.pdp}/auth/traefik",
        # The five headers are deleted, in any spelling, and set again.
        "trustForwardHeader": False,
        "forwardBody": True,
        # Traefik holds a body in memory, of any size by default, and answers a larger one with 401.
        "maxBodySize": site.max_body,
        "maxResponseBodySize": 65536,
        "preserveRequestMethod": False,
    }
    if site.response_headers:
        auth["authResponseHeaders"] = list(site.response_headers)
    # In this order: `strip` takes away a client's secret, and `unsecret` ours, which is not for the
    # application.
    asking = ["strip", "secret", "doorward", "unsecret"] if site.secret else ["strip", "doorward"]
    middlewares: dict[str, Any] = {
        "strip": {"headers": {"customRequestHeaders": removed}},
        "doorward": {"forwardAuth": auth},
    }
    if site.secret:
        middlewares["secret"] = {"headers": {"customRequestHeaders": {SECRET: site.secret}}}
        middlewares["unsecret"] = {"headers": {"customRequestHeaders": {SECRET: ""}}}
    static = {
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "entryPoints": {
            "web": {"address": site.listen, "http": {"aliasHeadersStrategy": "reject"}}
        },
        "providers": {"file": {"filename": "dynamic.yaml"}},
    }
    dynamic = {
        "http": {
            "routers": {
                "application": {
                    "rule": "PathPrefix(`/`)",
                    "service": "application",
                    "middlewares": asking,
                }
            },
            "services": {
                "application": {"loadBalancer": {"servers": [{"url": f"http://{site.upstream}"}]}}
            },
            "middlewares": middlewares,
        }
    }
    head = "# Made by `doorward kit forward`: Traefik (3.6.14 or newer) asks about each request.\n"
    return {
        "traefik.yaml": head + json.dumps(static, indent=2) + "\n",
        "dynamic.yaml": head + json.dumps(dynamic, indent=2) + "\n",
    }


_LUA: Final = """-- Made by `doorward kit forward`: asks the decision point about a request.
-- HAProxy's own HTTP client (2.6 or newer) is used, so that there is nothing else to install.
-- If anything fails, doorward_allowed stays false, and a rule in haproxy.cfg denies the request.
core.register_action("doorward", { "http-req" }, function(txn)
    txn:set_var("txn.doorward_allowed", false)
    txn:set_var("txn.doorward_status", 403)
    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if name ~= "host" and name ~= "content-length" and name ~= "transfer-encoding"
           and name ~= "connection" then
            headers[name] = {}
            for index, value in pairs(values) do
                headers[name][#headers[name] + 1] = value
            end
        end
    end
    local function first(name)
        local values = txn.http:req_get_headers()[name]
        return values and values[0]
    end
    headers["x-forwarded-method"] = { txn.sf:method() }
    headers["x-forwarded-uri"] = { txn.sf:pathq() }
    headers["x-forwarded-host"] = { first("host") }
    headers["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
    headers["x-forwarded-for"] = { txn.sf:src() }
    headers["@LENGTH@"] = first("content-length") and { first("content-length") } or nil
    headers["@CODING@"] = first("transfer-encoding") and { first("transfer-encoding") } or nil
    -- HTTP/2 needs neither header for a body.
    if not headers["@LENGTH@"] and not headers["@CODING@"] and txn.sf:req_body() ~= "" then
        headers["@CODING@"] = { "chunked" }
    end
    @SECRET@
    local question = { url = "http://@PDP@/auth/haproxy", headers = headers, timeout = 500 }
    local answer
    -- The body is sent if it is complete; otherwise only the headers tell that there is one.
    local length, body = first("content-length"), txn.sf:req_body()
    if body ~= "" and length == tostring(#body) and not first("transfer-encoding") then
        question.body = body
        headers["content-length"] = { length }
        answer = core.httpclient():post(question)
    else
        answer = core.httpclient():get(question)
    end
    if answer == nil or answer.status == nil or answer.status == 0 then return end
    if answer.status == 200 then
        for _, name in ipairs({ @COPIED@ }) do
            local values = answer.headers and answer.headers[name]
            local value = values and values[0] or ""
            txn.http:req_del_header(name)
            if value ~= "" then txn.http:req_set_header(name, value) end
        end
        txn:set_var("txn.doorward_allowed", true)
    elseif answer.status >= 300 then
        txn:set_var("txn.doorward_status", answer.status)
    end
end)
"""


def _haproxy(site: Site) -> dict[str, str]:
    """Return the configuration and Lua script of an HAProxy that asks about each request."""
    secret = f'headers["{SECRET}"] = {{ "{site.secret}" }}' if site.secret else ""
    lua = _LUA
    for name, text in {
        "@LENGTH@": LENGTH,
        "@CODING@": CODING,
        "@SECRET@": secret,
        "@PDP@": site.pdp,
        "@COPIED@": ", ".join(f'"{name}"' for name in site.response_headers),
    }.items():
        lua = lua.replace(name, text)
    removed = [f"  http-request del-header {name}" for name in site.stripped]
    replaced = (*sorted(_SET_BY_ALL), "x-forwarded-proto")
    removed += [f"  http-request del-header {name}" for name in replaced]
    lines = [
        "# Made by `doorward kit forward`: HAProxy (2.6 or newer) asks about each request.",
        "global",
        "  # Relative paths start from the folder of this file.",
        "  default-path config",
        "  lua-load doorward.lua",
        "defaults",
        "  mode http",
        "  timeout connect 1s",
        "  timeout client 30s",
        "  timeout server 30s",
        "  timeout http-request 10s",
        "frontend ingress",
        f"  bind {site.listen}",
        "  # Wait for the body, up to the size of one buffer (tune.bufsize: 16 kB).",
        "  option http-buffer-request",
        "  # Requests with _ in the name of a header are refused: some applications read _ as -.",
        "  http-request deny deny_status 400 if { req.hdr_names -m sub _ }",
        "  # A later proxy removes the headers that Connection names, even those of the policy.",
        "  http-request del-header connection unless { req.hdr(upgrade) -m found }",
        "  http-request set-header connection upgrade if { req.hdr(upgrade) -m found }",
        *removed,
        "  http-request lua.doorward",
        "  http-request deny deny_status 401 if !{ var(txn.doorward_allowed) -m bool }"
        " { var(txn.doorward_status) -m int 401 }",
        "  http-request deny deny_status 400 if !{ var(txn.doorward_allowed) -m bool }"
        " { var(txn.doorward_status) -m int 400 }",
        "  # This rule denies: without it, HAProxy passes every request.",
        "  http-request deny deny_status 403 if !{ var(txn.doorward_allowed) -m bool }",
        "  default_backend application",
        "backend application",
        f"  server application {site.upstream}",
    ]
    return {"haproxy.cfg": "\n".join(lines) + "\n", "doorward.lua": lua}


PROXY_FILES: Final[Mapping[str, Callable[[Site], dict[str, str]]]] = {
    "caddy": _caddy,
    "haproxy": _haproxy,
    "nginx": _nginx,
    "traefik": _traefik,
}
"""The function that writes the configuration of each proxy."""
