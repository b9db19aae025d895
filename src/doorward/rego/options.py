"""Options of reading, checking and compiling policies: one immutable value for an engine's whole
life.

Nothing here reads or compiles; `modules`, `code` and `engine` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypedDict

from doorward.base.records import record
from doorward.rego.builtins import REGISTRY, Environment, Registry

if TYPE_CHECKING:
    from doorward.rego.analysis.schemas import Schemas
    from doorward.rego.capabilities import Capabilities
    from doorward.rego.saved.programs import SavedPrograms
    from doorward.rego.timers import Timers

__all__ = ["OptionArguments", "Options"]


@record(kw_only=True)
class Options:
    """Options of compilation and evaluation, besides policies and data.

    `v0`: policies and queries are Rego v0. `rego_versions`: 0 or 1 for files that differ from that,
    by file name. `strict`: the strict mode of OPA's compiler. `registry`: the built-ins.
    `environment`: the parts of the outside world that built-ins may reach. `max_errors`: the most
    errors that one CompileError reports. `traced`: evaluations report each rule and expression to
    their `tracer`, which makes them slower. `max_items`: the most items that the collections and
    texts made by one evaluation may hold together; 64 characters count as one. More is an
    EvalError; None counts nothing. A limit below a million is counted item by item, which makes
    evaluations slower; with a larger one, an evaluation that took as many steps, or 64 MB, is
    repeated and counted from its beginning.

    `capabilities`: the built-ins, features and hosts that policies and queries may use. `metadata`:
    METADATA is parsed, and its errors are reported, even if no policy reads it. `schemas`: the JSON
    schemas that METADATA can name, and under the key () the schema of the input; types are checked
    against them when compiling, never when evaluating. `marked`: the code records which definitions
    answered and where others failed, for `Query.marked_answer`; ignored with `traced`. `indexed`:
    traced code evaluates only the rules that OPA's index selects, as coverage counts them.
    `timers`: receives the durations of compiling and preparing. `saved`: the programs that earlier
    runs saved, where new ones are saved too.
    """

    v0: bool = False
    rego_versions: Mapping[str, int] = field(default_factory=dict)
    strict: bool = False
    registry: Registry = REGISTRY
    environment: Environment = field(default_factory=Environment)
    max_errors: int = 10
    traced: bool = False
    marked: bool = False
    indexed: bool = False
    max_items: int | None = None
    capabilities: Capabilities | None = None
    schemas: Schemas | None = None
    metadata: bool = False
    timers: Timers | None = field(default=None, repr=False, compare=False)
    saved: SavedPrograms | None = field(default=None, repr=False, compare=False)

    def is_v0(self, file: str) -> bool:
        """Return True if the policy in `file` is read as Rego v0: by the entry of `rego_versions`
        with exactly this file name, or else by `v0`.
        """
        version = self.rego_versions.get(file)
        return self.v0 if version is None else version == 0

    def allowed_registry(self) -> Registry:
        """Return the registry with the built-ins that the capabilities allow; `registry` itself
        without capabilities.
        """
        allowed = self.capabilities
        return self.registry if allowed is None else allowed.registry(self.registry)

    def allowed_environment(self) -> Environment:
        """Return the environment with the `max_items` of these options, and only the hosts that the
        capabilities allow (all without capabilities); the environment itself if nothing differs.
        """
        allowed, environment = self.capabilities, self.environment
        if self.max_items != environment.max_items:
            environment = replace(environment, max_items=self.max_items)
        return environment if allowed is None else allowed.environment(environment)

    def measure(self, stage: str) -> AbstractContextManager[None]:
        """Context whose duration is added to the timer of `stage`; does nothing without
        `timers`.
        """
        return nullcontext() if self.timers is None else self.timers.measure(stage)


class OptionArguments(TypedDict, total=False):
    """The fields of `Options` as keyword arguments; a test compares the two."""

    v0: bool
    rego_versions: Mapping[str, int]
    strict: bool
    registry: Registry
    environment: Environment
    max_errors: int
    traced: bool
    marked: bool
    indexed: bool
    max_items: int | None
    capabilities: Capabilities | None
    schemas: Schemas | None
    metadata: bool
    timers: Timers | None
    saved: SavedPrograms | None
