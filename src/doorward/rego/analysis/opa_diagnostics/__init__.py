"""OPA's diagnostics of bodies, found in the way in which OPA finds them.

OPA's compiler takes terms apart (`flattening`) before it looks for variables that nothing binds
(`unsafe_variables`) and checks types, and its texts and positions show that. These modules decide
what is reported.
"""

from __future__ import annotations

__all__: list[str] = []
