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
"""The largest number of `name=value` pairs in a query or form."""

_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse_target(target: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the path's segments and the query's values by name: `/a/b?c=1` -> `["a", "b"], {"c":
    ["1"]}`.

    Raise RequestParseError for an invalid percent escape, and for a query with a `;` or more than
    `MAX_FIELDS` pairs.
    """
    path, _, query = target.partition("?")
    if "%" in path:
        # Once: a second decoding would make `/` of `%252f`.
        path = _unescape(path)
    return path.lstrip("/").split("/"), parse_query(query) if query else {}


def parse_query(text: str) -> dict[str, list[str]]:
    """Return the values by name of a query or form body, in order. `+` is a space; a name without
    `=` has the value ""; empty pairs are left out.

    Raise RequestParseError for a `;`, an invalid percent escape or more than `MAX_FIELDS` pairs.
    """
    if ";" in text:
        raise RequestParseError("invalid semicolon separator in query")
    pairs = text.split("&")
    if len(pairs) > MAX_FIELDS:
        raise RequestParseError(f"query or form has more than {MAX_FIELDS} parameters")
    values: dict[str, list[str]] = {}
    for pair in pairs:
        if not pair:
            continue
        name, _, value = pair.partition("=")
        values.setdefault(_unescape_field(name), []).append(_unescape_field(value))
    return values


def _unescape_field(text: str) -> str:
    """Return a name or value of a query decoded: `+` is a space; raise RequestParseError if
    invalid.
    """
    if "+" in text:
        text = text.replace("+", " ")
    return _unescape(text) if "%" in text else text


def _unescape(text: str) -> str:
    """Return a text with its percent escapes decoded; raise RequestParseError for an invalid
    one.
    """
    bad = _BAD_ESCAPE.search(text)
    if bad:
        piece = text[bad.start() : bad.start() + 3].encode()[:3]
        raise RequestParseError(f"invalid URL escape {quote(piece)}")
    return to_text(unquote_to_bytes(text))
