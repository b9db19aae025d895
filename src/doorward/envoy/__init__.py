"""Envoy's external authorization: a CheckRequest becomes an input, a Decision a CheckResponse.

    wire -> `request.to_input` -> input -> PDP -> Decision -> `response.to_response` -> wire

`check.make_check` is that whole line as one function of bytes, and `server` puts it on a socket.
Nothing here evaluates a policy, and no other adapter is known here.
"""

from __future__ import annotations

__all__: list[str] = []
