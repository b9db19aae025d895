"""Bodies of forms, mutated, and what the readers of web frameworks see in them.

Each reader answers the fields and the files by name, in order; None where it refuses the body.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Iterator
from typing import Any, Final, TypeAlias

import django
import python_multipart
from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.files.uploadhandler import MemoryFileUploadHandler
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException
from starlette.formparsers import MultiPartParser as StarletteParser
from werkzeug.exceptions import HTTPException
from werkzeug.formparser import FormDataParser

from doorward.enforcement.strict_multipart import StrictPart

__all__ = ["content_type", "disagreeing", "mutated"]

Form: TypeAlias = dict[str, list[tuple[str | None, bytes]]]
"""File name (None for a field) and content of each part, by name."""

BOUNDARY: Final = "BB"


def content_type(boundary: str = BOUNDARY) -> str:
    return f"multipart/form-data; boundary={boundary}"


def to_form(parts: Iterable[tuple[str, str | None, bytes]]) -> Form:
    form: Form = {}
    for name, filename, content in parts:
        form.setdefault(name, []).append((filename, content))
    # The frameworks keep fields and files apart: their order among each other is lost.
    return {name: sorted(form[name], key=lambda part: part[0] is not None) for name in form}


def without_empty_files(form: Form, names: Container[str]) -> Form:
    """A file input that was left empty is nothing to some, an empty field or file to others."""
    kept = {
        name: [part for part in form[name] if name not in names or part[0] or part[1]]
        for name in form
    }
    return {name: parts for name, parts in kept.items() if parts}


def by_werkzeug(body: bytes) -> Form | None:
    parser = FormDataParser(silent=False, max_form_parts=None)
    try:
        _, form, files = parser.parse(
            io.BytesIO(body), "multipart/form-data", len(body), {"boundary": BOUNDARY}
        )
    except (ValueError, HTTPException):
        return None
    fields = [(name, None, value.encode()) for name, value in form.items(multi=True)]
    uploads = [
        (name, file.filename or "", file.stream.read()) for name, file in files.items(multi=True)
    ]
    return to_form([*fields, *uploads])


def by_django(body: bytes) -> Form | None:
    if not settings.configured:
        settings.configure(DATA_UPLOAD_MAX_NUMBER_FIELDS=None)
        django.setup()
    meta = {"CONTENT_TYPE": content_type(), "CONTENT_LENGTH": str(len(body))}
    try:
        parser = MultiPartParser(meta, io.BytesIO(body), [MemoryFileUploadHandler()], "utf-8")
        form, files = parser.parse()
    except (MultiPartParserError, SuspiciousOperation, TypeError):
        # TypeError: Python's `email` cannot sort `name*` beside `name*0`. Django answers 500 then.
        return None
    fields = [(name, None, value.encode()) for name, values in form.lists() for value in values]
    uploads = [(name, file.name, file.read()) for name, values in files.lists() for file in values]
    return to_form([*fields, *uploads])


def by_starlette(body: bytes) -> Form | None:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    async def read() -> Form:
        parser = StarletteParser(Headers({"content-type": content_type()}), stream())
        parts: list[tuple[str, str | None, bytes]] = []
        for name, value in (await parser.parse()).multi_items():
            if isinstance(value, UploadFile):
                parts.append((name, value.filename or "", await value.read()))
            else:
                parts.append((name, None, value.encode()))
        return to_form(parts)

    try:
        return asyncio.run(read())
    except (MultiPartException, FormParserError, KeyError, UnicodeDecodeError):
        return None


def by_python_multipart(body: bytes) -> Form | None:
    parts: list[tuple[str, str | None, bytes]] = []

    def on_field(field: Any) -> None:
        parts.append((field.field_name.decode(), None, field.value or b""))

    def on_file(file: Any) -> None:
        file.file_object.seek(0)
        name = (file.file_name or b"").decode()
        parts.append((file.field_name.decode(), name, file.file_object.read()))
        file.close()

    headers = {"Content-Type": content_type().encode(), "Content-Length": str(len(body)).encode()}
    try:
        python_multipart.parse_form(headers, io.BytesIO(body), on_field, on_file)
    except (FormParserError, UnicodeDecodeError, ValueError, KeyError, AttributeError):
        return None
    return to_form(parts)


READERS: Final[dict[str, Callable[[bytes], Form | None]]] = {
    "Werkzeug": by_werkzeug,
    "Django": by_django,
    "Starlette": by_starlette,
    "python-multipart": by_python_multipart,
}


def disagreeing(parts: Iterable[StrictPart], body: bytes) -> list[str]:
    """The readers that see other parts in the body than these."""
    listed = list(parts)
    left_empty = {part.name for part in listed if part.filename == ""}
    expected = without_empty_files(to_form(listed), left_empty)
    answers = {reader: read(body) for reader, read in READERS.items()}
    return [
        reader
        for reader, form in answers.items()
        if form is not None and without_empty_files(form, left_empty) != expected
    ]


_HEAD: Final = b'--BB\r\nContent-Disposition: form-data; name="%s"'
_SEEDS: Final = (
    _HEAD % b"role" + b"\r\n\r\nuser\r\n--BB--\r\n",
    _HEAD % b"a" + b"\r\n\r\n1\r\n" + _HEAD % b"b" + b"\r\n\r\n\r\n--BB--",
    _HEAD % b"f" + b'; filename="a b.txt"\r\nContent-Type: text/plain\r\n\r\nx\xff\r\n--BB--\r\n',
    _HEAD % b"f" + b'; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--BB--\r\n',
    _HEAD % "é[1]".encode() + b"\r\nContent-Length: 2\r\n\r\n\r\n\r\n--BB--\r\n",
    b"--BB\r\ncontent-disposition:form-data;name=a;filename=b\r\n\r\n1\r\n--BB--\r\n",
)
_TOKENS: Final = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\n\n", b"--", b"--BB", b"--BB--", b"\r\n--BB\r\n",
    b"\r\n--BB--\r\n", b"\n--BB\n", b"\r\n--BB \r\n", b'"', b"\\", b'\\"', b";", b" ", b"\t", b"\0",
    b"=", b",", b":", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0", b"\xc2\x85", b"\xc2\xa0",
    b"\xff", b"%22", b"%0d%0a", b"&quot;", b"&#47;", b"/", b"..", b"a", b"*", b"'", b"\xef\xbb\xbf",
    b'; name="admin"', b"; name*=UTF-8''admin", b"; name*0=ad; name*1=min", b'; filename="x"',
    b"; filename*=UTF-8''x", b'; filename="C:\\x"', b'name="admin"', b"form-data",
    b'\r\nContent-Disposition: form-data; name="admin"', b"\r\n continued",
    b"\r\nContent-Type: text/plain; charset=utf-16", b"\r\nContent-Transfer-Encoding: base64",
    b"\r\nContent-Transfer-Encoding: quoted-printable", b"\r\nContent-Type: application/json",
    b"\r\nContent-Type: multipart/mixed; boundary=CC", b"\r\nX: y", b"_charset_",
    b'--BB\r\nContent-Disposition: form-data; name="role"\r\n\r\nadmin\r\n',
)  # fmt: skip


def mutated(seed: int) -> Iterator[bytes]:
    """Bodies without end, always the same for one seed."""
    source = random.Random(seed)
    yield from _SEEDS
    while True:
        body = source.choice(_SEEDS)
        for _ in range(source.choice((1, 1, 1, 2, 3))):
            body = _mutate(source, body)
        yield body


def _mutate(source: random.Random, body: bytes) -> bytes:
    at = source.randrange(len(body) + 1)
    end = min(len(body), at + source.choice((0, 0, 0, 1, 2, 8)))
    kind = source.randrange(4)
    if kind == 0:  # a piece of another one, or of itself
        other = source.choice((body, *_SEEDS))
        begin = source.randrange(len(other) + 1)
        return body[:at] + other[begin : begin + source.randrange(80)] + body[end:]
    if kind == 1:
        return body[:at] + bytes([source.randrange(256)]) + body[end:]
    if kind == 2:  # where it matters most: at the ends of quotes and lines
        marks = [n + 1 for n, byte in enumerate(body) if byte in b'"\r\n;=']
        at = end = source.choice(marks or [at])
    return body[:at] + source.choice(_TOKENS) + body[end:]
