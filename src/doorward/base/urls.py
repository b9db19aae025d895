"""URLs from outside, split into their parts."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

__all__ = ["split_url"]


def split_url(text: str) -> SplitResult:
    """Split a URL into its parts. All are empty if Python refuses it, as it does `http://[`, hosts
    that Unicode normalization would change, and ports that are not numbers up to 65535.
    """
    try:
        parts = urlsplit(text)
        _ = parts.port  # Python checks it only when it is read
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts
