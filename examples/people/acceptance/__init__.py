"""The whole example as running parts, and what must hold when they run together.

`stack` starts the parts, `matrix` says what each request must get, `check` sends them and compares.
The demo prints the outcome and the tests assert it; both read the same rows.
"""

from __future__ import annotations
