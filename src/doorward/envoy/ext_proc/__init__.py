"""Envoy's external processing: a response becomes an input, a result what is left of it.

    stream -> `exchange` -> input with the response -> PDP -> `verdict` -> `changes` -> stream

`bodies` says which bodies are read, `changes` what is taken out of one, and
`doorward.enforcement.lists` which items stay. A response that cannot be read passes only where the
policy lets it pass unread. Only `server` knows sockets, only `messages` Envoy's types.
"""

from __future__ import annotations

__all__: list[str] = []
