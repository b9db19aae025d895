"""A `multipart/form-data` body becomes its named parts, read as Go's `mime/multipart` reads them.

What Go refuses is refused in Go's words; what is odd but accepted (a preamble, a missing final
boundary, an unnamed part) is accepted here and left to strict mode.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from doorward.base.records import record
from doorward.enforcement.errors import RequestParseError
from doorward.rego.golang import quote, to_text

__all__ = ["MAX_PARTS", "Part", "parse_media_type", "parse_parts"]

MAX_PARTS: Final = 1_000
MAX_PART_HEADERS: Final = 100
MAX_VALUE: Final = 8192
"""The largest number of characters in a header with parameters."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Go's tokens in `mime`, which are more than those in header names, and its white space.
_WORD: Final = re.compile(r"""[^\x00-\x20\x7f-\U0010ffff()<>@,;:\\"/\[\]?=]+""")
_SPACE: Final = r"[^\S\x1c-\x1f]"
_SPACES: Final = "".join(
    each for each in map(chr, range(0x3001)) if each.isspace() and each not in "\x1c\x1d\x1e\x1f"
)
_PARAMETER: Final = re.compile(
    rf"{_SPACE}*+;{_SPACE}*+({_WORD.pattern}+){_SPACE}*+={_SPACE}*+"
    rf'(?:"((?:[^"\\\r\n]|\\[^\r\n])*+)"|({_WORD.pattern}+))'
)
_ESCAPE: Final = re.compile(r'\\([()<>@,;:\\"/\[\]?=])')
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# The buffer with which Go's mime/multipart reads (`peekBufferSize`).
_LINE_LIMIT: Final = 4096


@record
class Part:
    """A part of a form: its headers by lower-case name (the first of each counts) and decoded
    content.
    """

    headers: dict[str, str]
    content: bytes

    @property
    def name(self) -> str:
        """The name of the form field; "" if the part has none or its disposition is malformed."""
        try:
            kind, parameters = parse_media_type(self.headers.get("content-disposition", ""))
        except ValueError:
            return ""
        return parameters.get("name", "") if kind == "form-data" else ""


def parse_media_type(text: str) -> tuple[str, dict[str, str]]:
    """Return the lower-case media type and its parameters, those of RFC 2231 decoded.

    `a/b; c=d` -> `("a/b", {"c": "d"})`. Raise ValueError in Go's words if it is malformed or longer
    than `MAX_VALUE` characters.
    """
    if len(text) > MAX_VALUE:
        raise ValueError(f"mime: more than {MAX_VALUE} characters")
    kind, semicolon, rest = text.partition(";")
    kind = kind.lower().strip(_SPACES)
    main = _WORD.match(kind)
    if main is None:
        raise ValueError("mime: no media type")
    slash, sub = kind[main.end() : main.end() + 1], kind[main.end() + 1 :]
    if slash not in ("", "/"):
        raise ValueError("mime: expected slash after first token")
    if slash and not _WORD.match(sub):
        raise ValueError("mime: expected token after slash")
    if slash and not _WORD.fullmatch(sub):
        raise ValueError("mime: unexpected content after media subtype")
    return kind, _join_continuations(_parameters(semicolon + rest))


def _parameters(text: str) -> dict[str, str]:
    """Return the parameters of a media type by lower-case name. One semicolon may follow them.

    Raise ValueError in Go's words if one is malformed or repeated.
    """
    parameters: dict[str, str] = {}
    at, end = 0, len(text.rstrip(_SPACES).removesuffix(";").rstrip(_SPACES))
    while at < end:
        parameter = _PARAMETER.match(text, at)
        if parameter is None:
            raise ValueError("mime: invalid media parameter")
        name, quoted, plain = parameter.groups()
        name = name.lower()
        if name in parameters:
            raise ValueError("mime: duplicate parameter name")
        parameters[name] = plain if quoted is None else _ESCAPE.sub(r"\1", quoted)
        at = parameter.end()
    return parameters


def _join_continuations(parameters: dict[str, str]) -> dict[str, str]:
    """Return the parameters with `name*`, or the pieces `name*0`, `name*1*`, …, joined and decoded
    as `name` (RFC 2231), in place of a plain `name`. A `name*` that cannot be decoded and pieces
    behind a missing one are dropped.
    """
    plain = {name: value for name, value in parameters.items() if "*" not in name}
    for base in dict.fromkeys(name.partition("*")[0] for name in parameters if "*" in name):
        if base + "*" in parameters:
            decoded = _decode_extended(parameters[base + "*"])
            if decoded is not None:
                plain[base] = decoded
            continue
        pieces = []
        for n in range(len(parameters)):
            piece = parameters.get(f"{base}*{n}")
            if piece is None:
                extended = parameters.get(f"{base}*{n}*")
                if extended is None:
                    break
                piece = (_unescape(extended) if n else _decode_extended(extended)) or ""
            pieces.append(piece)
        if pieces:
            plain[base] = "".join(pieces)
    return plain


def _decode_extended(text: str) -> str | None:
    """Return the decoded value of `charset'language'value`; None if the text is not of this form or
    the charset is not UTF-8 or ASCII.
    """
    charset, _, rest = text.partition("'")
    _, mark, value = rest.partition("'")
    if not mark or charset.lower() not in ("utf-8", "us-ascii"):
        return None
    return _unescape(value)


def _unescape(text: str) -> str | None:
    """Return a text with its `%XX` decoded; None if a `%` is not followed by two hex digits."""
    return None if _BAD_PERCENT.search(text) else to_text(unquote_to_bytes(text))


def parse_parts(body: bytes, boundary: str) -> Iterator[Part]:
    """Yield the parts of a form in order.

    Raise RequestParseError for what Go's reader refuses, and for more than `MAX_PARTS` parts.
    """
    if not boundary:
        raise RequestParseError("multipart: boundary is empty")
    reader = _Reader(body, boundary.encode())
    for _ in range(MAX_PARTS):
        part = reader.next_part()
        if part is None:
            return
        yield part
    if reader.next_part() is not None:
        raise RequestParseError(f"multipart: more than {MAX_PARTS} parts")


class _Reader:
    """The position in a form, and the line ending that its first boundary used."""

    def __init__(self, body: bytes, boundary: bytes) -> None:
        self.body = body
        self.at = 0
        self.dash = b"--" + boundary
        self.line_end = b"\r\n"
        self.started = False

    def next_part(self) -> Part | None:
        """Read and return the next part, or None after the boundary that ends the form; text before
        the first boundary is skipped. Raise RequestParseError, in Go's words, if the form is
        malformed or cut off.
        """
        expecting = False
        if not self.started:
            self._skip_preamble()
        while True:
            line, complete = self._line()
            if self._is_final(line):
                return None
            if not complete:
                raise RequestParseError("multipart: NextPart: EOF")
            if self._is_delimiter(line):
                self.started = True
                return self._part()
            if expecting:
                raise RequestParseError(
                    f"multipart: expecting a new Part; got line {quote(line[:100])}"
                )
            if not self.started:
                continue
            if line != self.line_end:
                raise RequestParseError(
                    f"multipart: unexpected line in Next(): {quote(line[:100])}"
                )
            expecting = True

    def _skip_preamble(self) -> None:
        """Move to the first line that begins like a boundary, or to the end of the body.

        Raise RequestParseError if a line before it is longer than Go's buffer.
        """
        if self.body.startswith(self.dash):
            return
        end = self.body.find(b"\n" + self.dash) + 1 or len(self.body)
        # `>=`, where `_line` has `>`: these lines are without their `\n`.
        if max(map(len, self.body[:end].split(b"\n"))) >= _LINE_LIMIT:
            raise RequestParseError("multipart: NextPart: bufio: buffer full")
        self.at = end

    def _line(self) -> tuple[bytes, bool]:
        """Read and return the next line with its line ending, and False if the body ends without
        one.

        Raise RequestParseError if the line is longer than Go's buffer.
        """
        end = self.body.find(b"\n", self.at)
        complete = end >= 0
        end = end + 1 if complete else len(self.body)
        line, self.at = self.body[self.at : end], end
        if len(line) > _LINE_LIMIT:
            raise RequestParseError("multipart: NextPart: bufio: buffer full")
        return line, complete

    def _is_final(self, line: bytes) -> bool:
        """Return True if a line is the boundary that ends the form."""
        if not line.startswith(self.dash + b"--"):
            return False
        return line[len(self.dash) + 2 :].lstrip(b" \t") in (b"", self.line_end)

    def _is_delimiter(self, line: bytes) -> bool:
        """Return True if a line is a boundary between parts.

        The first boundary decides if lines end in LF or CRLF, and sets `line_end`.
        """
        if not line.startswith(self.dash):
            return False
        rest = line[len(self.dash) :].lstrip(b" \t")
        if not self.started and rest == b"\n":
            self.line_end = b"\n"
        return rest == self.line_end

    def _part(self) -> Part | None:
        """Read and return the part at this position, with quoted-printable content decoded.

        None at the end of the body. Raise RequestParseError if the part is malformed or cut off.
        """
        if self.at == len(self.body):
            return None  # Go takes a boundary with nothing behind it for the end of the form
        headers = self._headers()
        content = self._content()
        if headers.get("content-transfer-encoding", "").lower() == "quoted-printable":
            del headers["content-transfer-encoding"]
            content = binascii.a2b_qp(content)
        return Part(headers, content)

    def _headers(self) -> dict[str, str]:
        """Read and return the headers of a part by lower-case name, the first value of each; moves
        behind the blank line.

        Raise RequestParseError if a line is malformed, too long or missing, or if there are
        `MAX_PART_HEADERS` lines without a blank one.
        """
        headers: dict[str, str] = {}
        for text in self._unfolded_lines():
            name, _, value = text.partition(":")
            if not _TOKEN.fullmatch(name):
                raise RequestParseError(f"malformed MIME header line: {text[:100]}")
            if len(value) > MAX_VALUE:
                raise RequestParseError("multipart: message too large")
            # Go's `Header.Get` returns the first of repeated headers.
            headers.setdefault(name.lower(), value.lstrip(" \t"))
        return headers

    def _unfolded_lines(self) -> Iterator[str]:
        """Read the lines up to the blank one, and yield each joined with its continuation lines.

        A line of spaces alone is a continuation line too. Raise RequestParseError if a line is too
        long, missing or without a colon, and for `MAX_PART_HEADERS` lines without a blank one.
        """
        unfolded = ""
        for _ in range(MAX_PART_HEADERS):
            line, complete = self._line()
            if not complete and not line:
                # OPA denies a head that is cut off.
                raise RequestParseError("multipart: NextPart: EOF")
            text = to_text(line).removesuffix("\n").removesuffix("\r")
            if text.startswith((" ", "\t")):
                if not unfolded:
                    raise RequestParseError(f"malformed MIME header initial line: {text[:100]}")
                unfolded += " " + text.strip(" \t")
                continue
            if unfolded:
                yield unfolded
            if not text:
                return
            if ":" not in text:
                raise RequestParseError(
                    f"malformed MIME header: missing colon: {quote(text[:100])}"
                )
            unfolded = text.rstrip(" \t")
        raise RequestParseError("multipart: message too large")

    def _content(self) -> bytes:
        """Return the bytes up to the line end before the next boundary, and move there; raise
        RequestParseError if no boundary follows.
        """
        start = self.at
        if self.body.startswith(self.dash, start) and self._ends(start + len(self.dash)):
            return b""
        mark = self.line_end + self.dash
        end = self.body.find(mark, start)
        while end >= 0 and not self._ends(end + len(mark)):
            end = self.body.find(mark, end + len(mark))
        if end < 0:
            raise RequestParseError("unexpected EOF")
        self.at = end
        return self.body[start:end]

    def _ends(self, at: int) -> bool:
        """Return True if a boundary ends at `at` instead of going on as a longer word."""
        following = self.body[at : at + 2]
        return not following or following[:1] in (b" ", b"\t", b"\r", b"\n") or following == b"--"
