"""Authorization of clients: tokens of clients, and the system policy that allows or refuses each
request.

`system.authz` sees what OPA gives it: method, path, parameters, headers, identity, and the body of
requests that are decided. What it does not allow is refused, and what it cannot decide is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from doorward.base.records import record
from doorward.pdp.decision import Decision
from doorward.pdp.pdp import PDP
from doorward.rego import Engine, Undefined, Value
from doorward.rego.shared import Key
from doorward.rest.answers import bad_request, failed, internal_error, unauthorized
from doorward.rest.body import Body
from doorward.rest.requests import BadRequest, Parameters, segments

__all__ = ["TOKEN", "Access", "allows_token", "authorize", "path_of"]

TOKEN: Final = "doorward.token"
"""The key under which the scope of a request has the token of its session."""

Authentication = Literal["off", "token", "tls"]


@record
class Access:
    """The options of access to the API: how clients are authenticated (`--authentication`), and if
    the system policy decides on each request (`--authorization`).
    """

    authentication: Authentication = "off"
    authorizes: bool = False
    """True if the system policy decides on each request."""


def authorize(
    pdp: PDP,
    decision_path: str,
    access: Access,
    request: Request,
    parameters: Parameters,
    body: Body | None,
) -> Response | None:
    """Return the refusal of the system policy for a request, or None if it is allowed.

    A policy that fails or is undefined refuses with 500; a path or body that cannot be parsed is
    refused with 400, without asking the policy. `body` is None if the policy does not see it.
    """
    try:
        input = _input(access, request, parameters, body)
    except BadRequest as error:
        return bad_request(str(error))
    decision = pdp.decide(tuple(decision_path.split("/")), input, is_parsed=True)
    return _refusal(decision)


def allows_token(pdp: PDP, decision_path: str, path: list[Value], token: str) -> bool:
    """Return True if the system policy lets the bearer of `token` GET `path`; False if it fails."""
    input: dict[Key, Value] = {
        "method": "GET",
        "path": path,
        "params": {},
        "headers": {"Authorization": [f"Bearer {token}"]},
        "identity": token,
    }
    decision = pdp.decide(tuple(decision_path.split("/")), input, is_parsed=True)
    return decision.error is None and _refusal(decision) is None


def _refusal(decision: Decision) -> Response | None:
    """Return None if the system policy allows the request; else the response that refuses it: 401,
    or 500 if the policy fails, is undefined, or answers with an object without `allowed`.
    """
    if decision.error is not None:
        return failed(decision.error)
    result = decision.result
    if isinstance(result, Undefined):
        return internal_error("authorization policy missing or undefined")
    # Exactly true: any other value that is not an object with `allowed` refuses.
    if result is True:
        return None
    if not isinstance(result, dict):
        return unauthorized()
    if "allowed" not in result:
        return internal_error("document missing or undefined")
    if result["allowed"] is True:
        return None
    reason = result.get("reason")
    return unauthorized(reason) if isinstance(reason, str) else unauthorized()


def _input(
    access: Access, request: Request, parameters: Parameters, body: Body | None
) -> dict[Key, Value]:
    """Return the input of the system policy as OPA makes it: the request with its parameters and
    headers (without `host`), the caller's identity and, unless `body` is None or empty, the body.
    Raise BadRequest if path or body cannot be parsed.
    """
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    headers: dict[Key, Value] = {}
    for name, value in request.headers.items():
        # Go takes `Host` out of a request's headers, and so OPA's policies never see it there.
        if name != "host":
            values = headers.setdefault(_canonical(name), [])
            assert isinstance(values, list)
            values.append(value)
    params: dict[Key, Value] = {name: list(parameters.values(name)) for name in parameters.names}
    input: dict[Key, Value] = {
        "method": request.method,
        "path": list(path_of(raw)),
        "params": params,
        "headers": headers,
    }
    input |= _identity(access, request)
    if body is not None:
        document = body.authorize()
        if not isinstance(document, Undefined):
            input["body"] = document
    return input


def path_of(raw: bytes) -> list[str]:
    """Return the segments of a request's path for the input of the system policy; raise BadRequest
    if the path is malformed.

    They are the segments that the endpoint uses, so that a policy cannot be evaded by `%2F`: OPA
    shows its policy `/v1/data/a%2Fb` as two segments and then answers for `data["a/b"]`.
    """
    path = segments(raw if raw.startswith(b"/") else b"/" + raw)[1:]
    if path[:2] == ("v1", "policies"):
        # The endpoint joins the segments to one id, so `a%2Fb` and `a/b` are the same policy.
        return "/".join(path).split("/")
    if path[:2] == ("v1", "compile"):
        # As `post_filter` splits it, which drops empty names.
        return [name for name in "/".join(path).split("/") if name]
    return [*path]


def _identity(access: Access, request: Request) -> Mapping[Key, Value]:
    """Return the members of the input that identify the caller, by `access.authentication`: its
    bearer token, or without a header that of its console session; or its client certificate. {} if
    there is none, or more than one `authorization` header.
    """
    if access.authentication == "token":
        # Of several headers nobody can say which one another server would read.
        values = request.headers.getlist("authorization")
        if not values and (token := request.scope.get(TOKEN)):
            return {"identity": token}
        # OPA's pattern is `^Bearer\s+(\S+)$`: the scheme in this case only, and nothing after the
        # token.
        parts = values[0].split() if len(values) == 1 else []
        return {"identity": parts[1]} if len(parts) == 2 and parts[0] == "Bearer" else {}
    if access.authentication == "tls":
        chain = request.scope.get("extensions", {}).get("tls", {}).get("client_cert_chain", ())
        # The handshake has verified the chain; its first certificate is the client's own.
        return _of_certificate(chain[0]) if chain else {}
    return {}


@lru_cache(maxsize=256)
def _of_certificate(pem: str) -> Mapping[Key, Value]:
    """Return the input members for a client certificate in PEM: its subject, and the parsed
    certificate.
    """
    # Few servers ask their clients for certificates, and it brings 6 MB.
    from cryptography.x509 import load_pem_x509_certificate

    certificate = load_pem_x509_certificate(pem.encode())
    parse = Engine().prepare("crypto.x509.parse_certificates(input)")
    return {
        "identity": certificate.subject.rfc4514_string(),
        "client_certificates": parse.answer(pem),
    }


def _canonical(name: str) -> str:
    """Return a header name as Go writes it: `x-foo` -> `X-Foo`."""
    # ASGI has names in lower case already, which Go would make of the rest of each part.
    return "-".join([part[:1].upper() + part[1:] for part in name.split("-")])
