"""Everything that is wrong with policies: also what OPA's commands hide behind the first error.

A statement that cannot be read is left out, and so is a rule that something is wrong with; the rest
is checked without them. What may be wrong only because of that is not reported: errors that name
something which was left out. This is for authors; an engine takes all of its policies or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from doorward.rego.analysis.passes import CheckOptions, check
from doorward.rego.builtins.registry import Registry
from doorward.rego.errors import CompileError, Diagnostic
from doorward.rego.syntax.nodes import Module
from doorward.rego.syntax.parser import Parsed

__all__ = ["find_errors"]

MAX_ROUNDS: Final = 5
"""Policies are checked at most this often, each time without the rules in which errors were
found.
"""

_WORD: Final = re.compile(r"\w+")


def find_errors(
    parsed: Mapping[str, Parsed], registry: Registry, options: CheckOptions
) -> list[Diagnostic]:
    """Return the errors of all files, by position; [] if there are none. `parsed` holds the results
    of parsing with recovery, by file name. The rest of a file with errors is checked too, at most
    `MAX_ROUNDS` times, each time without the rules with errors and with at most
    `options.max_errors` of them; without strict mode if a file has syntax errors. Errors that may
    only follow from a part left out are not reported.
    """
    errors = [error for each in parsed.values() for error in each.errors]
    errors += _check_in_rounds(list(parsed.values()), registry, options)
    return sorted(errors, key=lambda error: (error.span.file, error.span.row, error.span.col))


def _check_in_rounds(
    parsed: Sequence[Parsed], registry: Registry, options: CheckOptions
) -> Sequence[Diagnostic]:
    """Check the modules up to `MAX_ROUNDS` times, each time without the rules in which errors were
    found, and return the errors of these rounds. Errors that name something left out or unreadable
    are dropped. Strict mode is off if a file could not be read completely.
    """
    modules = [each.module for each in parsed if each.module is not None]
    lost = set[str]().union(*(each.lost for each in parsed))
    if any(each.errors for each in parsed):
        # What strict mode finds unused may be used where nothing could be read.
        options = replace(options, strict=False)
    errors: dict[Diagnostic, None] = {}
    for _ in range(MAX_ROUNDS):
        try:
            check(modules, registry, options)
        except CompileError as error:
            errors |= dict.fromkeys(e for e in error.diagnostics if not _names_any(e, lost))
            rest = [_without(module, error.diagnostics, lost) for module in modules]
            if rest == modules:
                break
            modules = rest
        else:
            break
    return list(errors)


def _names_any(error: Diagnostic, lost: set[str]) -> bool:
    """Return True if the message of an error contains one of the names in `lost`."""
    # `argument(s)` does not name a rule `s`.
    return not lost.isdisjoint(_WORD.findall(error.message.replace("(s)", "")))


def _without(module: Module, errors: Sequence[Diagnostic], lost: set[str]) -> Module:
    """Return a module without the rules in whose text one of `errors` lies. The words of their
    names are added to `lost` in place.
    """
    spans = [error.span for error in errors if error.span.source is module.span.source]
    remaining = []
    for rule in module.rules:
        if any(rule.span.start <= span.start <= rule.span.end for span in spans):
            lost |= set(_WORD.findall(rule.head.ref.span.text))
        else:
            remaining.append(rule)
    return replace(module, rules=tuple(remaining))
