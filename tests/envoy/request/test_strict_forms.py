"""Every reader of urlencoded forms sees what the policy sees, or strict mode refuses the form."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from django.conf import settings
from django.http import QueryDict
from starlette.datastructures import Headers
from starlette.formparsers import FormParser
from tests.envoy.request.test_strict import FORM, post
from werkzeug.formparser import FormDataParser

from doorward.enforcement.errors import RequestError
from doorward.envoy.options import Options
from doorward.envoy.request.input import to_input

STRICT = Options(strict=True)
FORMS = 12_000
PIECES = (
    "a", "b", "=", "=", "&", "&", "+", " ", "%20", "%26", "%3D", "%3B", "%25", "%2B", "%C3%A9", "é",
    ";", "%", "%2", "%zz", "%0a", "%00", "%7F", "%FF", "%C2%85", "%EF%BB%BF", "%E2%80%A8", "\u2028",
    "[", "]", ".", "_", "#", "?", "\x7f", "\n",
)  # fmt: skip


def by_django(body: bytes) -> dict[str, list[str]]:
    if not settings.configured:
        settings.configure(DATA_UPLOAD_MAX_NUMBER_FIELDS=None)
    return dict(QueryDict(body, encoding="utf-8").lists())


def by_werkzeug(body: bytes) -> dict[str, list[str]]:
    _, form, _ = FormDataParser(silent=False).parse(io.BytesIO(body), FORM, len(body), {})
    return form.to_dict(flat=False)


def by_starlette(body: bytes) -> dict[str, list[Any]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    async def read() -> dict[str, list[Any]]:
        form = await FormParser(Headers({"content-type": FORM}), stream()).parse()
        return {name: form.getlist(name) for name in form}

    return asyncio.run(read())


@pytest.mark.long
def test_all_readers_agree_on_what_passes() -> None:
    source = random.Random(1)
    passed = 0
    for _ in range(FORMS):
        body = "".join(source.choices(PIECES, k=source.randrange(1, 9))).encode()
        try:
            seen = to_input(post(body, FORM), STRICT)["parsed_body"]
        except RequestError:
            continue
        passed += 1
        for read in (by_django, by_werkzeug, by_starlette):
            assert read(body) == seen, (read, body)
    assert passed > FORMS / 20
