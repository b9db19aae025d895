"""A first query for a file, and an input for which it is true.

So the first click of a user who opens a policy gives a result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from doorward.console.play_requests import Request, file_of, options_of, value_of
from doorward.rego import UNDEFINED, RegoError, compile, to_python
from doorward.rego.tools import Head, Module, Var
from doorward.search.changes import smallest_change

__all__ = ["begin"]

SECONDS: Final = 0.5
"""The seconds of the search for an input."""
_FIRST: Final = ("allow", "allowed", "authz", "deny", "response", "main", "result")
"""The names of rules that are preferred, in this order."""


def begin(files: Mapping[str, str], request: Request) -> dict[str, Any]:
    """Return a `query` for a rule in the `file` of a request, and an `input` for which it is true.
    The input is {} if none is found within `SECONDS`; the query is "" if the files do not compile.
    PlaygroundError for an invalid request.
    """
    name = file_of(files, request)
    try:
        policies = compile(files, options_of(request))
    except RegoError:
        return {"query": "", "input": {}}
    module = policies.modules[name]
    package = [str(each) for each in module.package.path]
    rule = _rule(module)
    query = ".".join(["data", *package, *([rule] if rule else [])])
    data = value_of(request, "data")
    engine = policies.bind({} if data is UNDEFINED else data)
    if not rule:
        return {"query": query, "input": {}}
    try:
        change = smallest_change(
            engine, [*package, rule], {}, now_ns=time.time_ns(), seconds=SECONDS
        )
    except RegoError:
        return {"query": query, "input": {}}
    return {"query": query, "input": to_python(change.input) if change.is_found else {}}


def _rule(module: Module) -> str:
    """Return the name of the rule to query: the first of `_FIRST` that the module has, otherwise
    its first rule that is not a function; "" if there is none.
    """
    names = [_name(rule.head) for rule in module.rules if rule.head.args is None]
    return next((each for each in _FIRST if each in names), next(iter(names), ""))


def _name(head: Head) -> str:
    return head.ref.head.name if isinstance(head.ref.head, Var) else ""
