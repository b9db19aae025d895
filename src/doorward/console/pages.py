"""The static part of the console: the page, its files, and the security headers of all
responses.
"""

from __future__ import annotations

import gzip
import json
import mimetypes
import secrets
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any, Final

import orjson
from starlette.responses import PlainTextResponse, Response

from doorward import __version__

__all__ = [
    "NOT_BUILT",
    "PAGES",
    "compress",
    "headers",
    "is_built",
    "json_response",
    "notice",
    "page",
    "redirect",
    "refuse",
    "static",
    "to_bytes",
]

PAGES: Final = (
    "",
    "decisions",
    "log",
    "login",
    "playground",
    "policies",
    "request",
    "revisions",
    "shadow",
)
"""The views, by their path below `/console/`; "" is the first one."""
STATIC: Final = resources.files("doorward.console") / "static"
_TEXTS: Final = ("application/javascript", "application/json", "image/svg+xml")
NOT_BUILT: Final = "the console was not built: `make console` builds it"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="nonce" content="NONCE">
<title>Doorward</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/console/static/console.css">
<script type="module" src="/console/static/console.js"></script>
</head>
<body data-version="VERSION"HELPALONE>
<div id="app"><main><p class="state">Loading…</p></main></div>
</body>
</html>
"""


def is_built() -> bool:
    """Return True if the pages are installed."""
    return STATIC.joinpath("console.js").is_file()


def page(*, has_help: bool = False, is_alone: bool = False, status: int = 200) -> Response:
    """Return the page, whose script shows the view of its address; 503 if the console was not
    built. `has_help`: with a link to the documentation. `is_alone`: with the playground as its only
    view. The styles in it are allowed by a random nonce.
    """
    if not is_built():
        return refuse(NOT_BUILT, 503)
    nonce = secrets.token_urlsafe(16)
    text = _PAGE.replace("NONCE", nonce).replace("VERSION", __version__)
    text = text.replace("HELP", " data-help" if has_help else "")
    text = text.replace("ALONE", " data-alone" if is_alone else "")
    policy = _POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")
    return Response(text, status, headers(policy), "text/html; charset=utf-8")


def static(name: str) -> Response:
    """Return a file of the page; 404 for an unknown name, and if the console was not built."""
    # Only names that are there: nothing of a request becomes part of a path.
    files = STATIC.iterdir() if STATIC.is_dir() else ()
    file = next((each for each in files if each.name == name), None)
    if file is None:
        return PlainTextResponse("404 page not found\n", 404, headers())
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(file.read_bytes(), 200, headers(), kind)


def compress(answer: Response, accept: str) -> Response:
    """Compress the body of a text file with gzip, in place, if the Accept-Encoding `accept` allows
    that; return the response. Always sets `vary`.
    """
    answer.headers["vary"] = "accept-encoding"
    kind = (answer.media_type or "").partition(";")[0]
    if "gzip" in accept and (kind.startswith("text/") or kind in _TEXTS):
        answer.body = _gzip(bytes(answer.body))
        answer.headers["content-encoding"] = "gzip"
        answer.headers["content-length"] = str(len(answer.body))
    return answer


@lru_cache(128)
def _gzip(content: bytes) -> bytes:
    """Return a file compressed with gzip; cached."""
    return gzip.compress(content, compresslevel=6, mtime=0)


def headers(policy: str = _POLICY) -> dict[str, str]:
    """Return the security headers of every response; `policy` is its Content-Security-Policy."""
    return {
        "content-security-policy": policy,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }


def json_response(document: Any, status: int = 200) -> Response:
    """Return a response with a document as JSON."""
    return Response(to_bytes(document), status, headers(), "application/json")


def to_bytes(document: Any) -> bytes:
    """Encode a document as JSON, with orjson if it can represent the values, otherwise with the
    standard library.
    """
    try:
        return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # Numbers beyond 64 bits, or half a character.
        return json.dumps(document, ensure_ascii=True).encode()


def notice(text: str, status: int, *, goes_on: bool = False) -> Response:
    """Return a page with one line and a link to the login, or with `goes_on` one that opens the
    console at once; for a browser that returns from an issuer.
    """
    address, label = ("/console", "Open the console") if goes_on else ("/console/login", "Log in")
    refresh = f'<meta http-equiv="refresh" content="0;url={address}">' if goes_on else ""
    body = f'<p>{escape(text)}</p><p><a href="{address}">{label}</a></p>'
    whole = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{refresh}'
    whole += '<meta name="viewport" content="width=device-width"><title>Doorward</title>'
    whole += f'<link rel="stylesheet" href="/console/static/console.css"></head><body>{body}</body>'
    return Response(f"{whole}</html>\n", status, headers(), "text/html; charset=utf-8")


def redirect(url: str) -> Response:
    """Return a redirect (303) to a URL."""
    return Response(b"", 303, headers() | {"location": url})


def refuse(text: str, status: int = 403) -> Response:
    """Return a refusal as one line of plain text."""
    return PlainTextResponse(f"{text}\n", status, headers())
