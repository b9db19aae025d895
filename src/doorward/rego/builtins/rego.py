"""Rego about Rego: modules as objects, the annotations of a rule.

`rego.metadata.chain` and `rego.metadata.rule` are only declared here: what they give is known when
a policy is compiled, and the compiler puts it in their place.
"""

from __future__ import annotations

from typing import Final

from doorward.rego.builtins.registry import builtin, refuse_as_first
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, array, object_, string
from doorward.rego.conversion import from_python
from doorward.rego.errors import BuiltinError, Diagnostic, LimitError, ParseError
from doorward.rego.golang.octets import scrub
from doorward.rego.source import Source
from doorward.rego.syntax.opa_json import module_to_json
from doorward.rego.syntax.parser import parse_module
from doorward.rego.values import Value

MAX_TEXT: Final = 1024 * 1024
"""The most characters of a module that rego.parse_module parses; more is a LimitError."""

_OUTSIDE: Final = "the rego.metadata.{} function must only be called within the scope of a rule"
_REPEATED: Final = ("illegal", "unexpected", "var cannot", "invalid")
"""The prefixes of messages after which OPA shows the line and a caret."""


@builtin(
    "rego.parse_module",
    string,
    string,
    returns=object_(string, any_),
    context=True,
    refuse=refuse_as_first,
)
def rego_parse_module(context: Context, filename: str, rego: str) -> Value:
    """The AST of the Rego module in `rego` as an object, as OPA has it; `filename` is used in
    errors. A module that cannot be parsed is an error; LimitError above `MAX_TEXT` characters or
    for one nested too deeply.
    """
    if len(rego) > MAX_TEXT:
        raise LimitError(f"module is longer than {MAX_TEXT} characters")
    try:
        with context.enforce_deadline(len(rego)):
            return from_python(module_to_json(parse_module(Source(filename, scrub(rego)))))
    except ParseError as error:
        raise BuiltinError(_show(error.diagnostics)) from None
    except RecursionError:
        raise LimitError("module is nested too deeply") from None


def _show(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Write diagnostics as OPA does: the number of errors, then each of them, but for an empty
    module only its error. There is at least one.
    """
    lines = [_with_line(diagnostic) for diagnostic in diagnostics]
    if len(lines) > 1:
        return f"{len(lines)} errors occurred:\n" + "\n".join(lines)
    if diagnostics[0].message == "empty module":
        return lines[0]
    return f"1 error occurred: {lines[0]}"


def _with_line(diagnostic: Diagnostic) -> str:
    """Write a diagnostic. For messages with a prefix in `_REPEATED` the line and a caret follow, as
    in OPA.
    """
    span = diagnostic.span
    text = span.source.line(span.row)
    if not diagnostic.message.startswith(_REPEATED) or not text:
        return str(diagnostic)
    column = min(span.col, len(text.rstrip()))
    return f"{diagnostic}\n\t{text}\n\t{' ' * (column - 1)}^"


@builtin("rego.metadata.chain", returns=array(any_))
def rego_metadata_chain() -> Value:
    """The annotations of the rule that contains the call, of its document, package and subpackages,
    nearest first; an entry without annotations has only its `path`. The compiler puts them in place
    of the call; outside of a rule, the call is an error.
    """
    raise BuiltinError(_OUTSIDE.format("chain"))


@builtin("rego.metadata.rule", returns=any_)
def rego_metadata_rule() -> Value:
    """The annotations of the rule that contains the call; {} if it has none, and in an `else`
    branch. The compiler puts them in place of the call; outside of a rule, the call is an error.
    """
    raise BuiltinError(_OUTSIDE.format("rule"))
