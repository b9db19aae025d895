"""The control plane: what a decision point fetches from services and reports to them.

Bundles come from services, the configuration may (discovery), and status goes there. Each part is a
thread that waits most of the time; what one fetches is put into force by the store, as a whole or
not at all, and what cannot be fetched leaves everything as it is.
"""

from __future__ import annotations
