"""Policies: compiled once, and bound to data by many engines.

A compiled program has no data. What follows from policies alone is computed here and shared by all
engines: the code, variants of it for `with`, labels, and what partial evaluation needs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from doorward.base.collector import gc_paused
from doorward.rego.analysis.passes import CheckOptions, Program, check, check_query
from doorward.rego.analysis.resolve import resolve_query
from doorward.rego.analysis.tree import RuleNode, insert_rules
from doorward.rego.builtins import Registry
from doorward.rego.code import Code, generate_code
from doorward.rego.codegen.marks import Mark, Marks
from doorward.rego.errors import CompileError, ParseError
from doorward.rego.modules import (
    Policy,
    Preparation,
    are_same,
    parse_modules,
    texts_of,
    unchanged_modules,
)
from doorward.rego.options import Options
from doorward.rego.partial.options import PartialOptions
from doorward.rego.query_text import parse_query_text, parse_surroundings
from doorward.rego.syntax.nodes import Body, Module
from doorward.rego.syntax.parser import parse_module

if TYPE_CHECKING:
    from doorward.rego.codegen.saved import SavedFunctions
    from doorward.rego.engine import Engine
    from doorward.rego.partial.evaluate import Lowered, Question

__all__ = ["Policies", "compile"]

_UNSAFE_VALUE: Final = "var _ is unsafe"
_LABELS: Final = "labels:"
MAX_VARIANTS: Final = 16
"""The most codes that are cached for queries that replace functions; each is a copy of the whole
program.
"""
MAX_QUESTIONS: Final = 64
LONGEST_QUESTION: Final = 1_024
"""The most prepared queries kept for partial evaluation, and the most characters of one with its
unknowns.
"""


@gc_paused()
def compile(
    modules: Mapping[str, Policy],
    options: Options | None = None,
    *,
    before: Policies | None = None,
    prepare: Preparation | None = None,
) -> Policies:
    """Compile policies: `modules` maps file names to Rego text, a `Source`, or parsed modules.
    Raise CompileError with all parse errors, or the errors of the first failed check, also if
    Python's compiler refuses a rule.

    `options`: by default `Options()`. `before`: policies compiled earlier, whose results for
    unchanged modules are reused unless a preparation changed them; they are returned if nothing
    changed. `prepare`: a function that returns the modules to compile in place of the parsed ones,
    and notes for `Policies.notes`; it must depend on nothing else. With `Options.saved` and without
    `before`, a program that an earlier run saved is loaded instead, and a new one is saved, by
    `Policies.warm` if it includes code.
    """
    options = options or Options()
    if before is not None and prepare is None and before.is_from(modules, options):
        return before
    saved = options.saved if before is None else None
    key = None
    if saved is not None:
        from doorward.rego.saved.keys import key_of  # commands have such a folder, few others

        with options.measure("rego_module_parse"):
            key = key_of(modules, options, prepare)
    if saved is not None and key is not None:
        with options.measure("rego_module_compile"):
            known = saved.read(key, modules, options, prepare)
            if known is not None:
                return Policies(
                    known.modules,
                    options,
                    known.program,
                    functions=known.functions,
                    notes=known.notes,
                )
    with options.measure("rego_module_parse"):
        same: dict[str, Module] = {}
        # A preparation has changed the modules: they are no longer those of their texts.
        if before is not None and before.notes is None:
            same = unchanged_modules(modules, options, before.modules, before.options)
        parsed = parse_modules({**modules, **same}, options)
        notes: object = None
        if prepare is not None:
            parsed, notes = prepare(parsed)
    with options.measure("rego_module_compile"):
        checked = CheckOptions(options.strict, options.max_errors, options.schemas)
        earlier = before.program if before is not None and same else None
        program = check(list(parsed.values()), options.allowed_registry(), checked, earlier)
        return Policies(parsed, options, program, key=key, notes=notes)


class Policies:
    """Compiled policies without data; thread-safe. `modules` are the policies as they were parsed,
    by file name.
    """

    def __init__(
        self,
        modules: Mapping[str, Module],
        options: Options,
        program: Program,
        *,
        functions: SavedFunctions | None = None,
        key: str | None = None,
        notes: Any = None,
    ) -> None:
        """Combine parsed modules with their checked program; the code is generated here, and the
        program saved if `Options.saved` does not include code. `functions`: code that an earlier
        run saved. `key`: the key under which this program is saved; None if it is not. `notes`:
        those of `prepare`.
        """
        self.modules = modules
        self.options = options
        self.program = program
        self.code = generate_code(program, options, saved=functions)
        self.notes = notes
        self._key = key
        self._variants: dict[frozenset[str], Code] = {}
        self._traced: dict[bool, Policies] = {}
        if options.traced:
            self._traced[options.indexed] = self
        self._rule_tree: RuleNode | None = None
        self._lowered: Lowered | None = None
        self._labels: dict[int, dict[str, Any]] = {}
        self._questions: dict[tuple[str, tuple[str, ...], PartialOptions], Question] = {}
        self._lock = threading.Lock()
        if options.saved is not None and not options.saved.with_code:
            self._save()

    @property
    def registry(self) -> Registry:
        """The built-ins that the policies may call."""
        return self.program.registry

    def is_from(self, modules: Mapping[str, Policy], options: Options) -> bool:
        """Return True if `modules` are the texts from which these policies were compiled, with the
        same names in the same order, equal options and the same timers. False for parsed modules,
        which may have been changed, and after a preparation.
        """
        if self.notes is not None or options != self.options:
            return False
        return options.timers is self.options.timers and are_same(modules, self.modules)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the policies by file name."""
        return texts_of(self.modules)

    @property
    def rule_tree(self) -> RuleNode:
        """The tree of rules below `data`, each at its constant prefix; built at the first
        access.
        """
        if self._rule_tree is None:
            self._rule_tree = insert_rules(self.program.modules)
        return self._rule_tree

    def question(self, query: str, unknowns: tuple[str, ...], options: PartialOptions) -> Question:
        """Return a query prepared for partial evaluation, from a cache of at most `MAX_QUESTIONS`.
        CompileError if it cannot be compiled, ParseError for an invalid `package` or import in the
        options; ValueError if an unknown, a path of `disable_inlining`, the namespace or the name
        for helpers is invalid.
        """
        key = query, unknowns, options
        question = self._questions.get(key)
        if question is None:
            from doorward.rego.partial.evaluate import settings  # few ask for it

            resolved = self._resolve(query, options.package, options.imports)
            question = self.lowered.prepare(resolved, settings(unknowns, options))
            # Emptied instead of an LRU: callers ask a few queries again and again.
            if len(self._questions) >= MAX_QUESTIONS:
                self._questions.clear()
            if len(query) + sum(map(len, unknowns)) <= LONGEST_QUESTION:
                self._questions[key] = question
        return question

    def _resolve(self, query: str, package: str, imports: tuple[str, ...]) -> Body:
        """Return the body of a query, parsed, checked and with names resolved in `package` with
        `imports`, for partial evaluation. A value that is unsafe only because nobody reads it is
        not an error. CompileError if the query is invalid, ParseError if its text, `package` or an
        import is.
        """
        v0 = self.options.v0
        path, imported = parse_surroundings(package, imports, v0=v0)
        body = parse_query_text(query, v0=v0, imports=imported)
        try:
            check_query(body, self.program, path, imported)
        except CompileError as error:
            # An expression's value is not asked for: it cannot be unsafe.
            remaining = [each for each in error.diagnostics if each.message != _UNSAFE_VALUE]
            raise CompileError(remaining or error.diagnostics) from None
        node = self.program.root.find(path) if path else None
        exports = () if node is None else tuple(map(str, node.children))
        resolved, _ = resolve_query(body, path, exports, imported)
        return resolved

    @property
    def lowered(self) -> Lowered:
        """The rules in the form for partial evaluation; computed at the first access."""
        from doorward.rego.partial.evaluate import Lowered  # few ask for it

        with self._lock:
            if self._lowered is None:
                self._lowered = Lowered(self.program, self.modules.values())
            return self._lowered

    @property
    def definitions(self) -> list[Mark]:
        """The definitions whose outcomes marked code records, by their numbers, in a new list; []
        if the policies were compiled without `Options.marked`.
        """
        return [] if self.code.plan.marks is None else list(self.code.plan.marks.definitions)

    def read_marks(self, marks: Marks) -> list[Mark]:
        """Return the outcomes recorded in `marks`, which `Query.marked_answer` returned, in the
        order of the policies; [] if the code is not marked. The marks must be of these policies.
        """
        table = self.code.plan.marks
        return [] if table is None else list(table.read(marks))

    def labels(self, mark: Mark) -> dict[str, Any]:
        """Return the `labels` that METADATA gives to a definition, its package and the packages
        above; of equal names the nearest wins. {} if there are none.
        """
        labels = self._labels.get(mark.number)
        if labels is None:
            from doorward.rego.analysis.metadata import labels_at  # few policies have labels

            modules = self._modules_with_labels
            labels = labels_at(mark.rule.span, modules) if modules else {}
            self._labels[mark.number] = labels
        return labels

    @cached_property
    def _modules_with_labels(self) -> list[Module]:
        """The modules parsed with their METADATA; [] if no policy contains `labels:`."""
        text = self.texts
        if not any(_LABELS in each for each in text.values()):
            return []
        return [self._parse_annotated(name, module) for name, module in self.modules.items()]

    def _parse_annotated(self, name: str, module: Module) -> Module:
        """Return the module parsed again with its METADATA; the module as it is if its METADATA is
        invalid.
        """
        try:
            return parse_module(
                module.span.source,
                v0=self.options.is_v0(name),
                annotations=True,
                builtins=self.registry,
            )
        except ParseError:
            return module  # its METADATA is broken: a comment, as for everybody else

    def bind(self, data: Any, *, is_parsed: bool = False) -> Engine:
        """Return an engine for these policies with `data`; nothing is compiled. `is_parsed`: the
        data is parsed JSON or was converted before, and is neither checked nor converted. Otherwise
        InputError for data that is not a Rego value.
        """
        from doorward.rego.engine import Engine  # which is made of policies

        return Engine(data=data, policies=self, is_parsed=is_parsed)

    def traced(self, *, indexed: bool = False) -> Policies:
        """Return the same policies with code that reports to an evaluation's tracer; they are not
        checked again, and the result is cached. `indexed`: rules that OPA's index excludes are not
        evaluated.
        """
        with self._lock:
            if indexed not in self._traced:
                options = replace(self.options, traced=True, indexed=indexed)
                self._traced[indexed] = Policies(
                    self.modules, options, self.program, notes=self.notes
                )
            return self._traced[indexed]

    def code_for(self, mocked: frozenset[str]) -> Code:
        """Return code in which calls of the functions in `mocked`, perhaps of others too, can be
        replaced by `with`. Up to `MAX_VARIANTS` such codes are cached; a further one takes the
        place of the oldest.
        """
        # Policies that use `with` themselves have code that checks for these replacements already.
        if mocked <= self.code.plan.mocked:
            return self.code
        with self._lock:
            code = self._variants.get(mocked)
            if code is None:
                if len(self._variants) >= MAX_VARIANTS:
                    self._variants.pop(next(iter(self._variants)))
                code = generate_code(self.program, self.options, mocked)
                self._variants[mocked] = code
            return code

    def warm(self) -> None:
        """Generate the code of every rule now, so that the first decision is not slower. A
        definition that a table selects by value is left to its first call. The program is then
        saved, if `Options.saved` includes code. CompileError if Python's compiler refuses a rule.
        """
        self.code.warm(node for node in self.program.root.walk() if node.definitions)
        if self.options.saved is not None and self.options.saved.with_code:
            self._save()

    def _save(self) -> None:
        """Save the program for the next run, once. Nothing is saved if it was loaded, or if it has
        no key.
        """
        if self.options.saved is not None and self._key is not None:
            self.options.saved.write(self._key, self.program, self.code, self.notes)
            self._key = None

    def emit(self) -> dict[str, str]:
        """Return the generated Python of each file as text, by file name. CompileError if Python's
        compiler refuses a rule, or if the code nests too deeply to be printed.
        """
        code = self.whole_code()
        return {item.file: item.text(code.linked.namespace) for item in code.units}

    def whole_code(self, mocked: frozenset[str] = frozenset()) -> Code:
        """Return code in which calls of `mocked` can be replaced by `with`, with the functions of
        all files generated.
        """
        code = self.code_for(mocked)
        return code if code.units else generate_code(self.program, self.options, mocked, whole=True)
