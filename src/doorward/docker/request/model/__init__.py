"""The model of what may pass: every route, parameter and field of the engine API, with the type of
its value.

`table.toml` is the model. `values` has the types of single values, `objects` those of values that
mean something only together, `table` reads the three into what `routes` and `input` use. A value
that is of no type is in the input as `untyped`. What a well-typed value may be for whom is a matter
of policies and not known here.
"""

from __future__ import annotations

__all__: list[str] = []
