"""What is written is XML, whatever a test prints."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest

from doorward.testing.xml_text import attribute, text

AWKWARD = [
    "",
    "a < b & c > d",
    "\"quoted\" and 'quoted'",
    "line\n\ttab",
    "]]>",
    "é ☃ 😀",
]


@pytest.mark.parametrize("content", AWKWARD)
def test_what_is_written_is_read_back(content: str) -> None:
    actual = fromstring(f"<a b={attribute(content)}>{text(content)}</a>")
    assert (actual.text or "", actual.get("b")) == (content, content)


@pytest.mark.parametrize("content", ["\0", "\x1b[31m", "\ud800", "\uffff", "a\x08b"])
def test_what_xml_cannot_hold_is_marked(content: str) -> None:
    actual = fromstring(f"<a b={attribute(content)}>{text(content)}</a>")
    assert "�" in (actual.text or "")
