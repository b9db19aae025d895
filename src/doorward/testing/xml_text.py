"""Texts and attributes of XML 1.0, as JUnit reports hold them.

By hand: the standard library's own brings in its HTTP client, which costs each command 17 ms.
"""

from __future__ import annotations

__all__ = ["attribute", "text"]


def text(content: str) -> str:
    """Escape text for use between two tags."""
    escaped = content.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(map(_printable, escaped))


def attribute(content: str) -> str:
    """Return the quoted and escaped value of an attribute."""
    escaped = text(content).replace('"', "&quot;")
    return (
        f'"{escaped.replace(chr(10), "&#10;").replace(chr(13), "&#13;").replace(chr(9), "&#9;")}"'
    )


def _printable(char: str) -> str:
    """Return a character that XML 1.0 allows; a replacement for others."""
    if char in "\t\n\r" or " " <= char < "\ud800" or char > "\udfff":
        return "\ufffd" if char in "\ufffe\uffff" else char
    return "\ufffd"
