"""URLs from outside, split into their parts."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

__all__ = ["split_url"]


def split_url(text: str) -> SplitResult:
    """Split a URL into its parts. All are empty if Python refuses it, as it does `http://[` and
    hosts that Unicode normalization would change.
    """
    try:
        return urlsplit(text)
    except ValueError:
        return SplitResult("", "", "", "", "")
