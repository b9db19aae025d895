"""Modules to a checked program: the passes, in order, each with its reason to be there.

A failed pass stops the later ones, which rely on what it promised; its errors are all reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Final

from doorward.base.records import mutable, record, replace
from doorward.rego.analysis import (
    dependencies,
    existence,
    replacements,
    rule_types,
    schemas,
    tree,
)
from doorward.rego.analysis.body_order import order_modules, order_query
from doorward.rego.analysis.calls import Callees, replaced_names
from doorward.rego.analysis.dependencies import (
    Dependencies,
    build_dependencies,
    constant_nodes,
)
from doorward.rego.analysis.environment import Globals
from doorward.rego.analysis.existence import (
    Sites,
    all_calls,
    called_builtins,
    check_values,
    sites_of,
)
from doorward.rego.analysis.metadata import answer_metadata
from doorward.rego.analysis.operator_chains import split_chains
from doorward.rego.analysis.resolve import (
    import_name,
    names_of_packages,
    resolve_modules,
    resolve_query,
)
from doorward.rego.analysis.rule_types import check_body_types
from doorward.rego.analysis.schemas import Schemas
from doorward.rego.analysis.shapes import Shapes
from doorward.rego.analysis.tree import RuleNode, build_tree
from doorward.rego.builtins.registry import Registry
from doorward.rego.clock import CLOCK
from doorward.rego.errors import COMPILE_ERROR, CompileError, Diagnostic
from doorward.rego.syntax.nodes import Body, Import, Module, With
from doorward.rego.values import Key

__all__ = [
    "CheckOptions",
    "Program",
    "Query",
    "check",
    "check_query",
    "modules_in_order",
    "report",
    "resolved_modules",
]


@record
class CheckOptions:
    """The options of a check. `strict` adds OPA's strict-mode errors. `max_errors` limits the
    reported errors; 0 or less means no limit. `schemas` are the schemas that METADATA can name; the
    schema of the whole input has the name ().
    """

    strict: bool = False
    max_errors: int = 10
    schemas: Schemas | None = None


@mutable
class Program:
    """The results of the passes, each of which uses the results of those before it."""

    modules: list[Module]
    registry: Registry
    options: CheckOptions
    root: RuleNode = field(default_factory=lambda: RuleNode(()))
    graph: Dependencies = field(default_factory=Dependencies)
    constant: frozenset[int] = frozenset()
    mocked: frozenset[str] = frozenset()
    types: Globals = field(init=False)
    shapes: Shapes = field(default_factory=Shapes)
    """The shapes of the rules, during the check."""
    sites: list[Sites] = field(default_factory=list)
    """The calls and `with` replacements of each module, during the check; of the rules of one
    shape, those of the first.
    """
    listed: list[Module] = field(default_factory=list)
    """The modules whose calls are in `sites`, during the check."""
    sources: list[Module] = field(default_factory=list)
    """The modules as they were parsed, in the order of `modules`."""
    resolved: list[Module] = field(default_factory=list)
    """The modules with resolved names, their bodies still in written order; [] if the program was
    restored from an earlier run (see `resolved_modules`).
    """
    names: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    """The names of the rules of each package."""
    arities: dict[tuple[Key, ...], int] = field(default_factory=dict)
    """The number of operands of each function."""
    known: dict[int, Module] = field(default_factory=dict)
    """During the check, the checked modules that an earlier check made of unchanged ones, by the
    `id` of the parsed module.
    """
    known_resolved: dict[int, Module] = field(default_factory=dict)
    """The resolved modules that an earlier check made of unchanged ones, by the `id` of the parsed
    module; empty if that program was restored.
    """

    def __post_init__(self) -> None:
        self.types = Globals(self.registry)
        self.sources = self.modules
        self.names = names_of_packages(self.modules)

    @property
    def callees(self) -> Callees:
        return Callees(self.registry, self.root)

    def check_sites(self, check: Callable[[list[Sites]], list[Diagnostic]]) -> list[Diagnostic]:
        """Return the errors that `check` finds in the calls of each module. Rules of one shape have
        the same errors, so `check` gets one rule of each shape first, and all rules only if there
        is an error.
        """
        return check(self.sites) and check([sites_of(module) for module in self.listed])

    @property
    def withs(self) -> list[With]:
        """All `with` replacements, from `build_rule_tree` to `check_deprecated`; [] before and
        after.
        """
        return [item for each in self.sites for item in each.withs]  # in no rule with a shape

    @property
    def called(self) -> frozenset[str]:
        """The names without a dot of the built-ins that are called, during the check."""
        return called_builtins(all_calls(self.sites))

    def reuse(self, before: Program) -> None:
        """Take over the results of an earlier check for the modules that are the same objects and
        whose packages have the same rule names. They go into `known` and `known_resolved`.
        """
        numbers = {id(source): n for n, source in enumerate(before.sources)}
        for module in self.sources:
            package, number = module.package.path, numbers.get(id(module))
            # A name in a module may be a rule of another file of its package: if the names of the
            # package changed, `x` may be a rule where it was a variable.
            if number is not None and self.names[package] == before.names.get(package):
                self.known[id(module)] = before.modules[number]
                if before.resolved:
                    self.known_resolved[id(module)] = before.resolved[number]

    @property
    def new(self) -> list[Module]:
        """The modules, as they are after the passes so far, of which an earlier check has no
        results.
        """
        pairs = zip(self.sources, self.modules, strict=True)
        return [module for source, module in pairs if id(source) not in self.known]

    def with_known(
        self, modules: Sequence[Module], known: Mapping[int, Module] | None = None
    ) -> list[Module]:
        """Combine new and reused results: return one module for each of `sources`, in their order.
        The reused modules come from `known`, by the `id` of the parsed module (default:
        `self.known`, whose keys it must have), the others in order from `modules`.
        """
        rest, known = iter(modules), self.known if known is None else known
        return [known[id(s)] if id(s) in self.known else next(rest) for s in self.sources]


@record
class Query:
    """A checked query: its body in evaluation order, and the functions that its `with` clauses
    replace.
    """

    body: Body
    mocked: frozenset[str]


Pass = Callable[[Program], list[Diagnostic]]


def split_operator_chains(program: Program) -> list[Diagnostic]:
    """Split long chains of operators in `program.modules`; never an error. First, since every later
    pass recurses into terms.
    """
    program.modules = [split_chains(module) for module in program.modules]
    return []


def resolve_names(program: Program) -> list[Diagnostic]:
    """Resolve names; if modules call functions of `rego.metadata`, the calls are replaced by their
    answers first. Early, since every later pass expects `data.…` paths and unique variables.
    """
    strict = program.options.strict
    builtins = program.registry
    resolved = resolve_modules(program.new, program.names, strict=strict, builtins=builtins)
    if resolved.ask_metadata and not program.known:  # what is known asks none
        # Answered where a rule's path is still the one that its author wrote.
        answered = answer_metadata(program.modules)
        resolved = resolve_modules(answered, program.names, strict=strict, builtins=builtins)
    program.modules = program.with_known(resolved.modules)
    # Otherwise some module is reused without its resolved form; `resolved_modules` makes it where
    # it is needed.
    if len(program.known_resolved) == len(program.known):
        program.resolved = program.with_known(resolved.modules, program.known_resolved)
    return resolved.errors


def build_rule_tree(program: Program) -> list[Diagnostic]:
    """Build the tree of rules, store the arities of functions, and list all calls and `with`;
    report calls without a result that are used as values. Before every pass that looks up rules by
    their paths.
    """
    program.root = build_tree(program.modules)
    program.arities = {
        node.path: len(node.definitions[0].rule.head.args or ())
        for node in program.root.walk()
        if node.is_function
    }
    program.shapes.add(program.root)
    program.listed = program.modules
    program.sites = [
        sites_of(replace(module, rules=tuple(program.shapes.first(module.rules))))
        for module in program.modules
    ]
    callees = program.callees
    return program.check_sites(lambda sites: check_values(all_calls(sites), callees))


def check_annotations(program: Program) -> list[Diagnostic]:
    """Report METADATA that is declared twice. Any time before types, which rely on it."""
    return schemas.check_annotations(program.modules)


def check_replacements(program: Program) -> list[Diagnostic]:
    """Report `with` targets that cannot be replaced, and record in `mocked` the functions and rules
    that are. Before the check of calls, since a `with` may change which function a call means.
    """
    withs = program.withs
    program.mocked = _find_mocked(withs, program.callees)
    return replacements.check_replacements(withs, program.callees)


def check_conflicts(program: Program) -> list[Diagnostic]:
    """Report conflicting rules, before anything relies on a name being one thing only."""
    return tree.check_conflicts(program.modules)


def check_calls(program: Program) -> list[Diagnostic]:
    """Report calls of unknown functions or with a wrong number of operands. Before safety, which
    needs to know the output of each call.
    """
    callees, modules = program.callees, program.modules
    return program.check_sites(
        lambda sites: existence.check_calls(all_calls(sites), callees, modules)
    )


def order_bodies(program: Program) -> list[Diagnostic]:
    """Put bodies in safe order and rebuild the tree of rules from them; or report unsafe variables,
    and change nothing.
    """
    ordered, errors = order_modules(program.new, program.callees, program.shapes)
    if not errors:
        program.modules = program.with_known(ordered)
        program.root = build_tree(program.modules)
        program.shapes.add(program.root)
    return errors


def check_recursion(program: Program) -> list[Diagnostic]:
    """Set `program.graph`, the dependencies, and `program.constant`; return the errors about
    recursive rules. Before types, which are inferred in the order of the graph.
    """
    program.graph = build_dependencies(program.root, program.callees, program.shapes)
    program.constant = constant_nodes(program.root, program.graph)
    return dependencies.check_recursion(program.root, program.graph, program.callees)


def check_types(program: Program) -> list[Diagnostic]:
    """Infer and check types, and the arity of functions that replace others. Late, since a
    variable's type comes from what binds it, so bodies must be in order.
    """
    program.types, errors = rule_types.check_types(
        program.modules,
        program.root,
        program.graph,
        program.callees,
        program.options.schemas,
        program.called,
        program.shapes,
    )
    return errors or replacements.check_arities(program.withs, program.callees)


def check_deprecated(program: Program) -> list[Diagnostic]:
    """Report deprecated built-ins, for modules of v0 only in strict mode, and drop what only the
    check needs. After types, as in OPA: a wrong call is reported as wrong.
    """
    strict, callees = program.options.strict, program.callees

    def check(sites: list[Sites]) -> list[Diagnostic]:
        """Return the errors for calls of deprecated built-ins in the modules of v1, in strict mode
        in all modules.
        """
        pairs = zip(program.listed, sites, strict=True)
        chosen = [own for module, own in pairs if module.v1 or strict]
        return existence.check_deprecated(all_calls(chosen), callees)

    errors = program.check_sites(check)
    program.shapes, program.sites, program.listed = Shapes(), [], []
    return errors


# INVARIANT: each pass relies on those before it; its docstring says on what.
PASSES: Final[tuple[Pass, ...]] = (
    split_operator_chains,
    resolve_names,
    build_rule_tree,
    check_annotations,
    check_replacements,
    check_conflicts,
    check_calls,
    order_bodies,
    check_recursion,
    check_types,
    check_deprecated,
)


def check(
    modules: Sequence[Module],
    registry: Registry,
    options: CheckOptions,
    before: Program | None = None,
) -> Program:
    """Compile `modules` to a checked program. Raise CompileError with the errors of the first pass
    that fails, at most `max_errors`, with hints; also if a policy is nested too deeply. The
    deadline of `CLOCK` is checked before each pass.

    `before`: an earlier program, checked with the same options, whose results for unchanged modules
    are reused. It may be given only if neither the old nor the new policies use METADATA.
    """
    if before is not None:
        program = _check_again(Program(modules_in_order(modules), registry, options), before)
        if program is not None:
            return program
    program = Program(modules_in_order(modules), registry, options)
    for run in PASSES:
        if CLOCK.check_deadline is not None:
            CLOCK.check_deadline()
        try:
            errors = run(program)
        except RecursionError:
            # The passes recurse into terms; the parser's limit is on text, not on Python's stack.
            raise CompileError([Diagnostic(COMPILE_ERROR, _TOO_DEEP)]) from None
        if errors:
            errors_to_report = report(errors, options.max_errors, is_ordered=run is check_calls)
            from doorward.rego.analysis.hints import add_hints, names_of_modules

            raise CompileError(
                add_hints(errors_to_report, partial(names_of_modules, modules), registry)
            )
    return program


def resolved_modules(program: Program) -> list[Module]:
    """Return the modules of a checked program with names resolved and bodies as written. If the
    program was restored without them, they are computed again and kept in it.
    """
    if not program.resolved:
        again = Program(program.sources, program.registry, program.options)
        split_operator_chains(again)
        resolve_names(again)
        program.resolved = again.resolved
    return program.resolved


def modules_in_order(modules: Iterable[Module]) -> list[Module]:
    """Return modules sorted by name, as OPA checks them: of two rules that conflict the later is
    reported.
    """
    return sorted(modules, key=lambda module: module.span.file)


def _check_again(program: Program, before: Program) -> Program | None:
    """Check `program` with the results of `before`, and return it. Return None, with `program`
    partly checked, if everything must be checked again: no module is unchanged, there is an error,
    a module is nested too deeply, or an earlier function is missing or has another arity.
    """
    program.reuse(before)
    if not program.known:
        return None
    for run in PASSES:
        # The order of a body depends on which operand of a call is its output. A function that
        # is new is called in no unchanged module: its call would have been an error.
        if run is order_bodies and not before.arities.items() <= program.arities.items():
            return None
        if CLOCK.check_deadline is not None:
            CLOCK.check_deadline()
        try:
            # The errors are dropped: the full check, which follows, finds those of all modules.
            if run(program):
                return None
        except RecursionError:
            return None
    program.known, program.known_resolved = {}, {}
    return program


_TOO_DEEP: Final = "the policy is nested too deeply"


def check_query(
    body: Body,
    program: Program,
    package: tuple[str, ...] = (),
    imports: Sequence[Import] = (),
) -> Query:
    """Compile a query against `program`, with the names that are visible in `package` and by
    `imports`. Raise CompileError with the errors of the first failed stage, at most `max_errors` of
    the program's options, with hints; also if the query is nested too deeply.
    """
    try:
        return _check_query(body, program, package, imports)
    except RecursionError:
        message = "the query is nested too deeply"
        raise CompileError([Diagnostic(COMPILE_ERROR, message)]) from None


def _check_query(
    body: Body, program: Program, package: tuple[str, ...], imports: Sequence[Import]
) -> Query:
    """Compile a query against `program`, with the names that are visible in `package` and by
    `imports`. CompileError with the errors of the first failed stage, at most `max_errors` of the
    program's options; RecursionError if the query is nested too deeply.
    """
    exports: set[str] = set()
    node = program.root.find(package) if package else None
    if node is not None:
        exports = {str(key) for key in node.children}
    callees = program.callees
    resolved, errors = resolve_query(body, package, exports, imports)
    sites = sites_of(resolved)
    calls, withs = sites.calls, sites.withs
    errors = errors or check_values(calls, callees)
    errors = errors or replacements.check_replacements(withs, callees)
    of_calls = [] if errors else existence.check_calls(calls, callees, [resolved])
    errors = errors or of_calls
    if not errors:
        resolved, errors = order_query(resolved, callees)
    if not errors:
        errors = check_body_types(resolved, program.types, callees, called_builtins(calls))
        errors = errors or replacements.check_arities(withs, callees)
    if errors:
        from doorward.rego.analysis.hints import add_hints

        errors_to_report = report(errors, program.options.max_errors, is_ordered=bool(of_calls))
        names = [*exports, *map(import_name, imports), "input", "data"]
        raise CompileError(add_hints(errors_to_report, lambda _: names, program.registry))
    return Query(resolved, _find_mocked(withs, callees))


def report(
    errors: Sequence[Diagnostic], limit: int, *, is_ordered: bool = False
) -> list[Diagnostic]:
    """Return the errors to report: without repetitions, sorted by position unless `is_ordered`. If
    there are `limit` or more, the first `limit` and the error "error limit reached"; a `limit` of
    0 or less means no limit.
    """
    unique = list(dict.fromkeys(errors))
    if not is_ordered:
        unique.sort(key=lambda d: (d.span.file, d.span.row, d.span.col))
    if 0 < limit <= len(unique):
        return [*unique[:limit], Diagnostic(COMPILE_ERROR, "error limit reached")]
    return unique


def _find_mocked(withs: Iterable[With], callees: Callees) -> frozenset[str]:
    return frozenset(name for item in withs for name in replaced_names(item, callees))
