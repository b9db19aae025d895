"""The Docker daemon's authorization requests become an input, and a decision its reply.

`server` takes a call of the daemon, `request` makes the input of its bytes, `decider` decides,
`reply` says so, `audit` writes it down, and `plugin` is that path as one. `service` runs it,
`watch` keeps it running, `install` activates it. `proxy` is a socket in front of the daemon's,
which decides by the same path. What is here knows the daemon's plugin protocol and its engine API,
and decides nothing: that is for the decision point, in this process or behind a URL. The other
adapters are not known here.
"""

from __future__ import annotations

__all__: list[str] = []
