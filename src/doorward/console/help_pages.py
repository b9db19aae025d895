"""The documentation, as `make site` built it: files of the package, below `/console/help`.

The pages come from the site's generator, which writes a few scripts into each page. Those are
allowed by their digests; no other inline script may run, and no other host is contacted. Inline
styles are allowed, since the site's search inserts its own by a script. Without the pages, a view
of the console says how to build them.
"""

from __future__ import annotations

import hashlib
import mimetypes
from base64 import b64encode
from functools import lru_cache
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Final

from starlette.responses import PlainTextResponse, Response

from doorward.console.pages import headers, redirect

__all__ = ["FIRST_PAGE", "has_help", "help_page"]

FOLDER: Final = Path(str(resources.files("doorward.console"))) / "help"
FIRST_PAGE: Final = "/console/help/index.html"
CHECKOUT: Final = FOLDER.parents[3]
"""The clone that contains the package; another folder if it is installed."""
NOT_BUILT: Final = "the documentation is not part of this installation: `make site` builds it\n"
_END: Final = b"</body>"
_WAY_BACK: Final = (
    b'<nav aria-label="Console" style="position:fixed;left:1rem;bottom:1rem;z-index:9">'
    b'<a href="/console" style="display:block;padding:.4rem .8rem;border-radius:6px;'
    b'background:#1f4fd8;color:#fff;font:600 14px sans-serif;text-decoration:none">'
    b"\xe2\x86\x90 Console</a></nav>"
)
"""A link from the documentation, which is a site of its own, to the console. It is inserted at the
end of a page, since the first link of a page skips its navigation.
"""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'SCRIPTS; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; "
    "img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def has_help() -> bool:
    """Return True if the documentation is installed, or built in this clone."""
    return _folder() is not None


def _folder() -> Path | None:
    """The folder with the built documentation, of the package or of this clone; None if it is not
    built.
    """
    site = CHECKOUT / "build/site"
    folders = [FOLDER, site] if (CHECKOUT / "mkdocs.yml").is_file() else [FOLDER]
    return next((each for each in folders if (each / "index.html").is_file()), None)


def help_page(names: tuple[str, ...]) -> Response:
    """Return a file of the documentation, a page with a link back to the console; a redirect to the
    first page without a name; 404 for an unknown name or without documentation.
    """
    folder = _folder()
    if folder is None:
        return PlainTextResponse(NOT_BUILT, 404, headers())
    if not any(names):
        return redirect(FIRST_PAGE)
    # Only names that are there: nothing of a request becomes part of a path.
    name = "/".join(names)
    if name not in _names(folder):
        return PlainTextResponse("404 page not found\n", 404, headers())
    content = (folder / name).read_bytes()
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind != "text/html":
        return Response(content, 200, headers(), kind)
    policy = _POLICY.replace("SCRIPTS", "".join(_digests(content.decode())))
    content = content.replace(_END, _WAY_BACK + _END)
    return Response(content, 200, headers(policy), "text/html; charset=utf-8")


@lru_cache(1)
def _names(folder: Path) -> frozenset[str]:
    """Return the files of the documentation by their paths below the folder; listed once."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return frozenset(path.relative_to(folder).as_posix() for path in files)


def _digests(page: str) -> list[str]:
    """Return the sources of a Content-Security-Policy that allow the inline scripts of a page, each
    after a space.
    """
    scripts = _Scripts()
    scripts.feed(page)
    digests = [hashlib.sha256(text.encode()).digest() for text in scripts.texts]
    return [f" 'sha256-{b64encode(digest).decode()}'" for digest in digests]


class _Scripts(HTMLParser):
    """Collects the inline scripts of a page in `texts`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.texts: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an inline script: append an empty text for it to `texts`. Scripts with `src` are
        ignored.
        """
        if tag == "script" and "src" not in dict(attrs):
            self._is_inside = True
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._is_inside = False

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.texts[-1] += data
