"""A request target becomes `parsed_path` and `parsed_query`, as opa-envoy-plugin 1.13.2-2 does.

The target is cut at the first `?`, the path is percent-decoded once and as a whole, all leading
slashes go, and the rest is split. No URL parser reads it: a target is not a URL, and older plugins
that thought so let `//admin/x` through as `/x` (CVE-2026-26205).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from doorward.enforcement.errors import RequestParseError
from doorward.rego.golang import quote, to_text

__all__ = ["MAX_FIELDS", "parse_query", "parse_target"]

MAX_FIELDS: Final = 10_000
"""Most `name=value` pairs that a query or a form may have."""

_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse_target(target: str) -> tuple[list[str], dict[str, list[str]]]:
    """The path's segments and the query's values by name; `RequestParseError` for a bad escape."""
    path, _, query = target.partition("?")
    if "%" in path:
        path = _unescape(path)
    return path.lstrip("/").split("/"), parse_query(query) if query else {}


def parse_query(text: str) -> dict[str, list[str]]:
    """The values by name of a query or of a form body; `;` does not separate and is an error."""
    if ";" in text:
        raise RequestParseError("invalid semicolon separator in query")
    pairs = text.split("&")
    if len(pairs) > MAX_FIELDS:
        raise RequestParseError(f"more than {MAX_FIELDS} parameters")
    values: dict[str, list[str]] = {}
    for pair in pairs:
        if not pair:
            continue
        name, _, value = pair.partition("=")
        values.setdefault(_unescape_field(name), []).append(_unescape_field(value))
    return values


def _unescape_field(text: str) -> str:
    if "+" in text:
        text = text.replace("+", " ")
    return _unescape(text) if "%" in text else text


def _unescape(text: str) -> str:
    """Return a path with its percent escapes decoded; RequestParseError in Go's words for an
    invalid one.
    """
    bad = _BAD_ESCAPE.search(text)
    if bad:
        piece = text[bad.start() : bad.start() + 3].encode()[:3]
        raise RequestParseError(f"invalid URL escape {quote(piece)}")
    return to_text(unquote_to_bytes(text))
