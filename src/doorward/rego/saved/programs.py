"""A checked program to bytes and back, under a key that names everything it was made from.

Parsed modules are not saved: few need them behind the check, and they are parsed again then.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.analysis.dependencies import Dependencies
from doorward.rego.analysis.environment import Globals
from doorward.rego.analysis.passes import CheckOptions, Program, modules_in_order
from doorward.rego.analysis.readers import Readers
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.code import Code
from doorward.rego.codegen.saved import SavedFunctions, save_functions
from doorward.rego.modules import ParsedLater, Policy, Preparation, parse_modules
from doorward.rego.options import Options
from doorward.rego.saved.folder import SavedFolder
from doorward.rego.saved.keys import name_of
from doorward.rego.syntax.nodes import Module

__all__ = ["Saved", "SavedPrograms"]


@record
class Saved:
    """A program with its modules, and the code of its functions if that was saved too."""

    modules: Mapping[str, Module]
    program: Program
    functions: SavedFunctions | None
    notes: object
    """The notes that `prepare` returned beside the modules."""


class SavedPrograms:
    """The programs that earlier runs saved in a folder. `with_code`: the code of all rules is saved
    too, as servers generate it before they are ready.
    """

    def __init__(self, folder: SavedFolder, *, with_code: bool = False) -> None:
        self.folder = folder
        self.with_code = with_code
        self._kind = "code" if with_code else "program"

    def read(
        self,
        key: str,
        policies: Mapping[str, Policy],
        options: Options,
        prepare: Preparation | None = None,
    ) -> Saved | None:
        """Return the saved program of `policies` under `key`; None if there is none or it cannot be
        read, so that it must be compiled. Modules are parsed, and changed by `prepare`, when they
        are first accessed.
        """
        content = self.folder.read(name_of(key, self._kind))
        if content is None:
            return None
        try:
            # INVARIANT: unpickling runs code, so `folder` reads only what this user wrote.
            state, functions, notes = pickle.loads(content)
            program = _restore(state, options)
        except _UNREADABLE:
            return None  # written by other code: compiled again

        def parse() -> dict[str, Module]:
            """Parse the modules, which are needed after all; `program.sources` is set from them."""
            parsed = parse_modules(policies, options)
            if prepare is not None:
                parsed, _ = prepare(parsed)
            program.sources = modules_in_order(parsed.values())
            return parsed

        modules = ParsedLater(policies, parse)
        return Saved(modules, program, functions, notes)

    def write(self, key: str, program: Program, code: Code, notes: object) -> bool:
        """Save a program under `key`, and its code if `with_code` is set. Return False, and save
        nothing, if it holds objects that exist only in this process, if the folder cannot be
        written, or if the code is to be saved and is exact or was generated as a whole.
        """
        try:
            functions = None
            if self.with_code:
                if code.units or code.plan.exact:
                    return False
                functions = save_functions(code.plan, code.linked)
            content = pickle.dumps((_state(program), functions, notes), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
            return False  # something in it belongs to this process
        return self.folder.write(name_of(key, self._kind), content)


_UNREADABLE: Final = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The errors that unpickling raises for content that another version wrote."""


@record
class _State:
    """A program without the objects that belong to one process. Nodes are named by their
    numbers.
    """

    modules: list[Module]
    root: RuleNode
    reads: dict[int, list[RuleNode]]
    own: tuple[int, ...]
    circular: tuple[int, ...]
    constant: tuple[int, ...]
    mocked: frozenset[str]
    called: frozenset[str]
    rules: Any
    signatures: dict[str, Any]
    names: dict[tuple[str, ...], frozenset[str]]
    arities: dict[Any, int]
    max_errors: int
    strict: bool


def _state(program: Program) -> _State:
    """Return the parts of a program that can be saved and are needed to restore it, with numbers in
    place of the ids of nodes.
    """
    numbers = program.root.numbers()
    graph, types = program.graph, program.types
    return _State(
        modules=program.modules,
        root=program.root,
        reads={numbers[node]: targets for node, targets in graph.reads.items()},
        own=tuple(sorted(numbers[node] for node in graph.own)),
        circular=tuple(sorted(numbers[node] for node in graph.circular)),
        constant=tuple(sorted(numbers[node] for node in program.constant)),
        mocked=program.mocked,
        called=types.called,
        rules=types.rules,
        signatures=types.signatures,
        names=program.names,
        arities=program.arities,
        max_errors=program.options.max_errors,
        strict=program.options.strict,
    )


def _restore(state: _State, options: Options) -> Program:
    """Return the program for a saved state, which becomes part of it; the registry is that of
    `options`. LookupError, AttributeError or TypeError for a state that another version saved.
    """
    # INVARIANT: in the order of `RuleNode.numbers`, from which `_state` has its numbers.
    nodes = [id(node) for node in state.root.walk()]
    program = Program(
        state.modules, options.registry, CheckOptions(state.strict, state.max_errors, None)
    )
    program.root = state.root
    program.graph = Dependencies(
        {nodes[n]: targets for n, targets in state.reads.items()},
        {nodes[n] for n in state.own},
        frozenset([nodes[n] for n in state.circular]),
    )
    program.constant = frozenset([nodes[n] for n in state.constant])
    program.mocked = state.mocked
    program.types = Globals(
        options.registry,
        state.called,
        state.rules,
        state.signatures,
        Readers(program.root, program.graph).of,
    )
    program.names = state.names
    program.arities = state.arities
    return program
