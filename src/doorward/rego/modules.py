"""Policy texts to parsed modules, all of them or every error in them.

What the modules mean together is for the analysis.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType
from typing import Protocol, TypeAlias

from doorward.rego.errors import CompileError, Diagnostic, ParseError
from doorward.rego.options import Options
from doorward.rego.source import Source
from doorward.rego.syntax.nodes import Module
from doorward.rego.syntax.parser import parse_module

__all__ = [
    "ParsedLater",
    "Policy",
    "Preparation",
    "are_same",
    "parse_modules",
    "texts_of",
    "unchanged_modules",
]

Policy: TypeAlias = str | Source | Module
"""One policy file: its text, its text with another name for errors than the file's, or its parsed
module.
"""


class Preparation(Protocol):
    """A function that changes parsed modules before they are compiled, and makes notes about them.
    Its file, which `__code__` names, is part of the key of saved programs.
    """

    @property
    def __code__(self) -> CodeType: ...

    def __call__(self, parsed: dict[str, Module], /) -> tuple[dict[str, Module], object]: ...


def parse_modules(
    policies: Mapping[str, Policy], options: Options | None = None
) -> dict[str, Module]:
    """Parse policy files and return the modules by file name; parsed modules are taken as they are.
    `options`: by default `Options()`. CompileError with every parse error, and every use of syntax
    and imports that the capabilities do not allow.
    """
    options = options or Options()
    registry = options.allowed_registry()
    annotations = _needs_metadata(options) or _uses_metadata(policies.values())
    modules: dict[str, Module] = {}
    errors: list[Diagnostic] = []
    for name, policy in policies.items():
        v0 = options.is_v0(name)
        try:
            if isinstance(policy, str):
                policy = Source(name, policy)
            if isinstance(policy, Source):
                policy = parse_module(policy, v0=v0, annotations=annotations, builtins=registry)
            modules[name] = policy
            if options.capabilities is not None:
                errors += options.capabilities.problems(policy, v0=v0)
        except ParseError as error:
            errors += error.diagnostics
    if errors:
        raise CompileError(errors)
    return modules


def _needs_metadata(options: Options) -> bool:
    """Return True if the options require METADATA to be parsed even if no policy reads it."""
    return options.metadata or options.schemas is not None


def unchanged_modules(
    policies: Mapping[str, Policy],
    options: Options,
    before: Mapping[str, Module],
    earlier: Options,
) -> dict[str, Module]:
    """Return the modules of an earlier compilation that need not be parsed again, by file name:
    those that `policies` have with the same text and the same version of Rego. {} if options differ
    that matter for parsing, or METADATA is read. `before` and `earlier`: the modules and options of
    that compilation.
    """
    chosen, chosen_before = (
        (each.strict, each.schemas, each.capabilities) for each in (options, earlier)
    )
    if chosen != chosen_before or options.registry is not earlier.registry:
        return {}
    texts = (policies.values(), before.values())
    if _needs_metadata(options) or any(map(_uses_metadata, texts)):
        return {}
    return {
        name: module
        for name, module in before.items()
        if name in policies
        and _source(name, policies[name]) == (module.span.source.name, module.span.source.text)
        and options.is_v0(name) == earlier.is_v0(name)
    }


def are_same(policies: Mapping[str, Policy], before: Mapping[str, Module]) -> bool:
    """Return True if `policies` are texts, and those of the modules `before`, with the same names
    in the same order.
    """
    earlier: Mapping[str, Policy] = before
    if isinstance(before, ParsedLater):
        earlier = before.policies
    if any(isinstance(policy, Module) for policy in policies.values()):
        return False
    return _sources(policies) == _sources(earlier)


def _sources(policies: Mapping[str, Policy]) -> list[tuple[str, tuple[str, str]]]:
    """Return for each policy its file name, and a pair of its name in errors and its text."""
    return [(name, _source(name, policy)) for name, policy in policies.items()]


def _source(name: str, policy: Policy) -> tuple[str, str]:
    """Return the name of a policy in errors, and its text."""
    if isinstance(policy, str):
        return name, policy
    source = policy.span.source if isinstance(policy, Module) else policy
    return source.name, source.text


def _uses_metadata(policies: Iterable[Policy]) -> bool:
    """Return True if the text of a policy contains `rego.metadata.`, as each call of these
    built-ins does. Otherwise METADATA is only a comment, even if it is invalid.
    """
    return any("rego.metadata." in _text(policy) for policy in policies)


def _text(policy: Policy) -> str:
    """Return the text of a policy, which is a text, a source or a parsed module (then the text that
    it was parsed from).
    """
    if isinstance(policy, Module):
        policy = policy.span.source
    return policy if isinstance(policy, str) else policy.text


def texts_of(modules: Mapping[str, Module]) -> dict[str, str]:
    """Return the text of each module by file name, without parsing."""
    policies: Mapping[str, Policy] = modules
    if isinstance(modules, ParsedLater):
        policies = modules.policies
    return {name: _text(policy) for name, policy in policies.items()}


class ParsedLater(Mapping[str, Module]):
    """The modules of policies that are known to be valid, parsed when they are first read."""

    def __init__(
        self, policies: Mapping[str, Policy], parse: Callable[[], dict[str, Module]]
    ) -> None:
        self.policies = dict(policies)
        self._parse = parse
        self._parsed: dict[str, Module] | None = None
        self._lock = threading.Lock()

    @property
    def parsed(self) -> dict[str, Module]:
        """The modules by name, parsed at the first access. A preparation may have left some of the
        policies out.
        """
        with self._lock:
            if self._parsed is None:
                self._parsed = self._parse()
            return self._parsed

    def __getitem__(self, name: str) -> Module:
        return self.parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parsed)

    def __len__(self) -> int:
        return len(self.parsed)
