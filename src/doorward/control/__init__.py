"""The control plane: the downloads and reports of a decision point.

Bundles come from services, so may the configuration (discovery), and the status goes to one. Each
part is a thread that waits most of the time. The store activates a download completely or not at
all; a download that fails changes nothing.
"""

from __future__ import annotations
