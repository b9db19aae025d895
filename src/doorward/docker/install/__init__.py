"""The plugin is activated on a machine, looked after, and taken out again.

`installer` has the order that is safe, `daemon` and `units` are what it changes, `doctor` looks at
the whole, `certificates` makes users. The running plugin needs nothing of this.
"""

from __future__ import annotations

__all__: list[str] = []
