"""The bytes of the daemon's call become the canonical input: one reading of a request.

`call` reads the bytes, `routes` finds the action, `schema` the fields of the body, `model` the type
of each value, the views (`mounts`, `security`, `networks`, …) what they mean, `facts` what only the
daemon knows and `host` what only the host, and `input` puts the document together. Nothing here
decides.
"""

from __future__ import annotations

__all__: list[str] = []
