"""OPA's HTTP API over a decision point: requests to inputs, decisions to answers.

`app` routes a request to the module of its topic: `data`, `writes`, `policies`, `query`,
`compile` and `filters`, `batch`, `authzen`, `health`. `short_path` answers plain requests for
documents before the framework sees them, `authorization` decides who may call, and `server`
listens. No other adapter is imported here.
"""

from __future__ import annotations

__all__: list[str] = []
