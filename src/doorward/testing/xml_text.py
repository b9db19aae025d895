"""Texts and attributes of XML 1.0, for JUnit reports.

Written here since the standard library's module imports its HTTP client, which costs each command
17 ms.
"""

from __future__ import annotations

__all__ = ["attribute", "text"]


def text(content: str) -> str:
    """Escape text for use between two tags; a character that XML 1.0 forbids becomes U+FFFD."""
    escaped = content.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(map(_printable, escaped))


def attribute(content: str) -> str:
    """Return the value of an attribute, escaped and in quotes; line breaks and tabs become
    character references, so that they are kept.
    """
    escaped = text(content).replace('"', "&quot;")
    return (
        f'"{escaped.replace(chr(10), "&#10;").replace(chr(13), "&#13;").replace(chr(9), "&#9;")}"'
    )


def _printable(char: str) -> str:
    """Return the character if XML 1.0 allows it, otherwise U+FFFD."""
    if char in "\t\n\r" or " " <= char < "\ud800" or char > "\udfff":
        return "\ufffd" if char in "\ufffe\uffff" else char
    return "\ufffd"
