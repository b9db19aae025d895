"""OPA's HTTP API over a decision point: requests to inputs, decisions to answers.

Of that API: the Data API's reading side, health and metrics. It never imports another adapter.
"""

from __future__ import annotations

__all__: list[str] = []
