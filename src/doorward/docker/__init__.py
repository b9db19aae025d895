"""The Docker daemon's authorization requests become an input, and a decision its reply.

What is here knows the daemon's plugin protocol and its engine API, and decides nothing: that is
for the decision point, in this process or behind a URL. The other adapters are not known here.
"""

from __future__ import annotations

__all__: list[str] = []
