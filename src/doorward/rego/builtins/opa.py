"""The process that evaluates: what it tells a policy about itself."""

from __future__ import annotations

from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, object_, string
from doorward.rego.conversion import from_python
from doorward.rego.values import Value

__all__: list[str] = []


@builtin("opa.runtime", returns=object_(string, any_), context=True, pure=False)
def opa_runtime(context: Context) -> Value:
    """The configuration, environment and version of the process, as far as the host program
    provides them.
    """
    return from_python(context.environment.runtime)
