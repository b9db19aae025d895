"""`strings.render_template`: a text with the values of an object put in."""

from __future__ import annotations

from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, object_, string
from doorward.rego.golang.templates import render
from doorward.rego.values import Key, Value

__all__: list[str] = []


@builtin("strings.render_template", string, object_(string, any_), returns=string, context=True)
def strings_render_template(context: Context, value: str, variables: dict[Key, Value]) -> str:
    """Go's `text/template` with `variables` as its dot; a missing key is `<undefined>`."""
    return render(value, variables, context.check_deadline)
