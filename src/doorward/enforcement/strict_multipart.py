"""Strict mode for `multipart/form-data`: one grammar, within which every known reader agrees.

Readers differ in where a boundary counts, how a line ends, which of two headers counts, how names
are quoted and what a file is. So a body is not read in several ways and compared: what lies outside
the plain form that browsers and HTTP clients send is refused. That the readers of Django, Werkzeug,
Starlette and python-multipart agree with the policy on what is left is tested on mutated bodies.
"""

from __future__ import annotations

import html
import re
from typing import Final, NamedTuple, NoReturn

from doorward.enforcement.errors import AmbiguousRequestError, shown
from doorward.enforcement.multipart import MAX_PART_HEADERS, MAX_VALUE, parse_media_type

__all__ = ["CHARSETS", "StrictPart", "check_multipart"]

CHARSETS: Final = frozenset({"", "utf-8", "utf8", "us-ascii"})

_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=?-]{1,70}")
_HEADER: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]++): ?([^\x00-\x1f\x7f]*+)")
_VALUE: Final = r'(?:"([^"\\]*+)"|([0-9A-Za-z_.-]++))'
_DISPOSITION: Final = re.compile(rf"form-data; ?name={_VALUE}(?:; ?filename={_VALUE})?")
# What browsers write for a quote and line ends, and the beginning of a word encoded for mail.
_DECODED_BY_SOME: Final = re.compile(r"%22|%0[ad]|=\?", re.IGNORECASE)
_TRANSFERS: Final = frozenset({"7bit", "8bit", "binary"})


class StrictPart(NamedTuple):
    """A part of a form on which all readers agree; `filename` is None for a field."""

    name: str
    filename: str | None
    content: bytes


def _refuse(reason: str) -> NoReturn:
    """Raise AmbiguousRequestError with a reason; the request is answered with 400."""
    raise AmbiguousRequestError(reason)


def check_multipart(boundary: str, body: bytes) -> list[StrictPart]:
    """Return the parts of a form; raise AmbiguousRequestError if some reader may divide it
    differently.
    """
    if not boundary:
        _refuse("multipart body without a boundary")
    if not _BOUNDARY.fullmatch(boundary):
        _refuse("boundary of unusual characters")
    # Some readers take a boundary wherever it stands: it must be nowhere but between parts.
    before, *pieces = body.split(b"--" + boundary.encode())
    if before:
        _refuse("text in front of the first part")
    if not pieces or pieces[-1] not in (b"--", b"--\r\n"):
        _refuse("multipart body does not end with its boundary")
    parts = [_read_part(piece) for piece in pieces[:-1]]
    _check_names(parts)
    return parts


def _check_names(parts: list[StrictPart]) -> None:
    """Raise AmbiguousRequestError for a name of both a field and a file, and a field that sets the
    character set.
    """
    fields = {part.name for part in parts if part.filename is None}
    if not fields.isdisjoint(part.name for part in parts if part.filename is not None):
        _refuse("name of both a field and a file")
    if "_charset_" in fields:
        _refuse("form that names its charset in a field")


def _read_part(piece: bytes) -> StrictPart:
    """Return one part of a form, given the bytes between two boundaries; raise
    AmbiguousRequestError if readers could divide or decode it differently.
    """
    if len(piece) < 4 or not piece.startswith(b"\r\n") or not piece.endswith(b"\r\n"):
        _refuse("boundary that is not on a line of its own")
    head, blank, content = piece[2:-2].partition(b"\r\n\r\n")
    if not blank:
        _refuse("part without a head and a blank line")
    headers = _read_headers(head)
    name, filename = _read_disposition(headers.get("content-disposition", ""))
    if filename is None:
        _check_text(content)
    elif not filename and content:
        _refuse("part whose file name can be read in two ways")
    if headers.get("content-transfer-encoding", "binary").lower() not in _TRANSFERS:
        _refuse("encoded part")
    if headers.get("content-length", str(len(content))) != str(len(content)):
        _refuse("content-length of a part is not its length")
    _check_type(headers.get("content-type", ""))
    return StrictPart(name, filename, content)


def _read_headers(head: bytes) -> dict[str, str]:
    """Return the headers of a part by lower-case name.

    Raise AmbiguousRequestError for duplicates, for lines that can be read in two ways or are longer
    than `MAX_VALUE`, and for more than `MAX_PART_HEADERS` lines.
    """
    headers: dict[str, str] = {}
    lines = head.split(b"\r\n")
    if len(lines) > MAX_PART_HEADERS:
        _refuse("head of a part that can be read in two ways")
    for line in lines:
        header = _HEADER.fullmatch(line) if len(line) <= MAX_VALUE else None
        if header is None:
            _refuse("head of a part that can be read in two ways")
        name = header[1].decode().lower()
        if name in headers:
            _refuse("header twice in a part")
        try:
            headers[name] = header[2].decode()
        except UnicodeDecodeError:
            _refuse("head of a part that can be read in two ways")
    return headers


def _read_disposition(value: str) -> tuple[str, str | None]:
    """Return the name and file name (None for a field) of a part.

    Raise AmbiguousRequestError for unusual quoting or characters.
    """
    disposition = _DISPOSITION.fullmatch(value)
    if disposition is None:
        _refuse("part whose name can be read in two ways")
    quoted, plain, quoted_file, plain_file = disposition.groups()
    name: str = quoted if plain is None else plain
    filename: str | None = quoted_file if plain_file is None else plain_file
    if not name or ";" in name or not _is_plain(name):
        _refuse("part whose name can be read in two ways")
    if filename and not _is_file_name(filename):
        _refuse("part whose file name can be read in two ways")
    return name, filename


def _is_plain(text: str) -> bool:
    """Return True for a printable text without outer spaces that no reader decodes further."""
    return text.isprintable() and text == text.strip() and not _DECODED_BY_SOME.search(text)


def _is_file_name(text: str) -> bool:
    """Return True if every reader sees the same file name: no folder, entity or further
    parameter.
    """
    if "/" in text or text in (".", "..") or (";" in text and "=" in text):
        return False
    return _is_plain(text) and html.unescape(text) == text


def _check_text(content: bytes) -> None:
    """Raise AmbiguousRequestError for a form field that is not UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        _refuse("form field is not UTF-8")


def _check_type(text: str) -> None:
    """Raise AmbiguousRequestError for a part's content type that is malformed, ambiguous, nested or
    not in UTF-8.

    "" is accepted.
    """
    if not text:
        return
    try:
        kind, parameters = parse_media_type(text)
    except ValueError:
        _refuse("content type cannot be read")
    if kind.startswith("multipart/"):
        _refuse("parts within a part")
    if parameters.get("charset", "").lower() not in CHARSETS:
        _refuse("body is not in UTF-8")
    if "json" in text.lower() and kind != "application/json":
        _refuse(f"content type {shown(text)} can be read in two ways")
