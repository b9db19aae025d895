"""METADATA of a rule that filters: which documents are unknown, and which rule masks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from doorward.base.records import record
from doorward.filters.conditions import FilterError
from doorward.rego import Diagnostic, Engine
from doorward.rego.shared import ParseError, Span
from doorward.rego.tools import Module, Rule, Scalar, Var, parse_module, path_text

__all__ = ["FilterMetadata", "Unreadable", "read_annotations"]

_UNKNOWN_ERROR: Final = "invalid_unknown"


class Unreadable(FilterError):
    """METADATA of a policy cannot be parsed, or names an unknown that is not a document."""


@record
class FilterMetadata:
    """The METADATA of a filter: its unknown documents, and the mask rule as a reference below
    `data` ("" for none).
    """

    unknowns: tuple[str, ...] = ()
    mask_rule: str = ""


def read_annotations(engine: Engine, path: Sequence[object]) -> FilterMetadata:
    """Return the unknowns and the mask rule from the METADATA of the rule at `path` (of several
    definitions, the first), its document and its packages; of several mask rules the first in this
    order, one without a path being of the rule's package.

    Empty if there is no such rule. Parses all policies again; raise Unreadable if a METADATA block
    of any of them is invalid, or an unknown does not begin with `input` or `data`.
    """
    modules = _with_annotations(engine)
    first = next((m for m in modules if any(_path(r, m) == list(path) for r in m.rules)), None)
    if first is None:
        return FilterMetadata()
    rule = next(rule for rule in first.rules if _path(rule, first) == list(path))
    unknowns: list[str] = []
    faults: list[Diagnostic] = []
    mask = ""
    for fields, span in _chain(rule, first, modules):
        for name in fields.get("unknowns", ()):
            if name.split(".")[0].split("[")[0] in ("input", "data"):
                unknowns.append(name)
            else:
                message = f"unknowns must be prefixed with `input` or `data`: {name}"
                faults.append(Diagnostic(_UNKNOWN_ERROR, message, span))
        mask = mask or _absolute(fields.get("mask_rule", ""), first)
    if faults:
        raise Unreadable(faults)
    return FilterMetadata(tuple(unknowns), mask)


def _absolute(mask: str, module: Module) -> str:
    """Return a mask rule as a path below `data`; a relative one is in the module's package, and ""
    stays as it is.
    """
    if not mask or mask == "data" or mask.startswith(("data.", "data[")):
        return mask
    return f"{path_text(module.package.path)}.{mask}"


def _with_annotations(engine: Engine) -> list[Module]:
    """Return all policies parsed with their METADATA; raise Unreadable with all errors if some is
    invalid.
    """
    modules: list[Module] = []
    faults: list[Diagnostic] = []
    for name, module in engine.trees.items():
        version = engine.options.rego_versions.get(name)
        v0 = engine.options.v0 if version is None else version == 0
        try:
            modules.append(parse_module(module.span.source, v0=v0, annotations=True))
        except ParseError as error:
            span = error.diagnostics[0].span
            line = span.source.line(span.row)
            message = (
                f"failed to parse module for annotation set: {error}\n\t{line}\n\t"
                f"{' ' * (span.col - 1)}^"
            )
            faults.append(Diagnostic(_UNKNOWN_ERROR, message))
    if faults:
        raise Unreadable(faults)
    return modules


def _path(rule: Rule, module: Module) -> list[object]:
    """Return a rule's path, the package's path included but not `data`, without the parts that are
    not constant.
    """
    ref = rule.head.ref
    head = [ref.head.name] if isinstance(ref.head, Var) else []
    return [*module.package.path, *head, *(a.value for a in ref.args if isinstance(a, Scalar))]


def _chain(
    rule: Rule, module: Module, modules: Iterable[Module]
) -> Iterator[tuple[Mapping[str, Any], Span]]:
    """Yield the `compile` fields of the METADATA that applies to a rule, with their positions.

    Those of the rule come first, then its document's, its package's and those of packages above.
    """
    path, package = _path(rule, module), list(module.package.path)
    of_rule = [a for a in rule.annotations if a.scope == "rule"]
    siblings = [(r, m) for m in modules for r in m.rules if _path(r, m) == path]
    document = {a.span: a for r, _ in siblings for a in r.annotations if a.scope == "document"}
    around = [
        (scope, package[:length])
        for scope, lengths in (
            ("package", [len(package)]),
            ("subpackages", range(len(package), 0, -1)),
        )
        for length in lengths
    ]
    outer = [
        block
        for scope, where in around
        for other in modules
        if list(other.package.path) == where
        for block in other.annotations
        if block.scope == scope
    ]
    for block in [*of_rule, *document.values(), *outer]:
        fields = block.fields.get("compile")
        if isinstance(fields, dict):
            yield fields, block.span
