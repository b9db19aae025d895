"""A route without access does not type-check: mypy reads this file, nothing runs it.

mypy refuses an `ignore` that ignores nothing, so the second row fails as soon as it is accepted.
"""

from __future__ import annotations

from doorward.rest.endpoints import get_index
from doorward.rest.route import Route
from doorward.rest.rules import EVERYBODY

Route(
    path="/new",
    methods=("GET",),
    endpoint=get_index,
    name="new",
    access=EVERYBODY,
    body=None,
    summary="",
)
Route(  # type: ignore[call-arg]  # no access
    path="/new", methods=("GET",), endpoint=get_index, name="new", body=None, summary=""
)
