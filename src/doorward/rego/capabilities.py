"""Capabilities of policies: a capabilities file, as OPA writes and reads it, and how it restricts.

A document becomes a `Capabilities`, which makes a smaller registry and an environment with fewer
hosts, and finds what a parsed module uses beyond it. Files are read elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from doorward.base.records import record
from doorward.rego.builtins import REGISTRY, Builtin, Environment, Registry
from doorward.rego.builtins.registry.declarations import from_declaration
from doorward.rego.errors import PARSE_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.keywords import FUTURE_KEYWORDS, V1_KEYWORDS
from doorward.rego.syntax.nodes import Body, Import, Module, Ref, Scalar, TemplateString, Var
from doorward.rego.syntax.walk import walk

__all__ = ["FEATURES", "V0_FEATURES", "WASM_ABI_VERSIONS", "Capabilities", "future_keywords"]

FEATURES: Final = ("keywords_in_refs", "rego_v1", "template_strings")
"""The features of Rego v1 that this engine has."""

V0_FEATURES: Final = (
    "keywords_in_refs",
    "rego_v1",
    "rego_v1_import",
    "rule_head_ref_string_prefixes",
    "rule_head_refs",
)
"""The features of Rego v0 that this engine has."""

WASM_ABI_VERSIONS: Final = ((1, 1), (1, 2))
"""The WebAssembly ABI versions that OPA prints, for tools that read the file; Doorward makes no
WebAssembly.
"""


def future_keywords(*, v0: bool = False) -> list[str]:
    """Return the sorted keywords that need an import of `future.keywords`: those that Rego v1 does
    not have built in, or all with `v0`.
    """
    return sorted(FUTURE_KEYWORDS if v0 else FUTURE_KEYWORDS - V1_KEYWORDS)


@record
class Capabilities:
    """The content of a capabilities file. A built-in or feature that the file does not name does
    not exist for a policy. `allow_net`: the hosts that built-ins may reach; None for all, as in a
    file without the field. `declared`: built-ins that OPA does not have, with the types in the
    file; a built-in of the same name in the registry takes precedence.
    """

    builtins: frozenset[str]
    future_keywords: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    allow_net: frozenset[str] | None = None
    declared: tuple[Builtin, ...] = ()

    @classmethod
    def from_document(cls, document: Any) -> Capabilities:
        """Return the capabilities that the parsed JSON of a capabilities file describes. A missing
        field allows nothing, except `allow_net`: without it, or with null, every host is allowed;
        hosts are put in lower case. Built-ins with a declaration that Doorward does not have go
        into `declared`. ValueError if the document has the wrong form.
        """
        if not isinstance(document, dict):
            raise ValueError("capabilities must be an object")
        builtins = document.get("builtins") or []
        if not isinstance(builtins, list) or not all(
            isinstance(item, dict) and isinstance(item.get("name"), str) for item in builtins
        ):
            raise ValueError("`builtins` must be a list of objects with a name")
        hosts = _names(document, "allow_net") if document.get("allow_net") is not None else None
        return cls(
            builtins=frozenset(item["name"] for item in builtins),
            future_keywords=frozenset(_names(document, "future_keywords")),
            features=frozenset(_names(document, "features")),
            allow_net=None if hosts is None else frozenset(host.lower() for host in hosts),
            declared=tuple(
                [from_declaration(i) for i in builtins if "decl" in i and i["name"] not in REGISTRY]
            ),
        )

    def registry(self, base: Registry) -> Registry:
        """Return a registry with the built-ins of `base` that are allowed, and those that only the
        file declares.
        """
        return base.restricted(self.builtins, self.declared)

    def environment(self, base: Environment) -> Environment:
        """Return `base` restricted to the hosts that both allow; `base` itself if the capabilities
        allow every host.
        """
        hosts = self.allow_net
        if hosts is not None and base.allow_net is not None:
            hosts &= base.allow_net
        return base if hosts is None else replace(base, allow_net=hosts)

    def problems(self, module: Module, *, v0: bool) -> list[Diagnostic]:
        """Return an error for each use of what the capabilities do not allow: Rego v1 itself,
        imports of `rego.v1` and of keywords, and template strings; [] if there is none. Calls of
        built-ins are not checked. `v0`: the module is read as Rego v0.
        """
        errors = [] if v0 else self._version(module.package.span)
        for item in module.imports:
            errors += self._import(item, v0=v0)
        return [*errors, *self._templates(module)]

    def problems_of_query(self, body: Body) -> list[Diagnostic]:
        """Return an error for each template string in a query, if the capabilities do not allow
        them; otherwise [].
        """
        return [problem for expr in body for problem in self._templates(expr)]

    def _version(self, span: Span) -> list[Diagnostic]:
        """Return the error for a v1 module if v1 is not allowed; [] if it is."""
        if "rego_v1" in self.features:
            return []
        return [_problem("illegal capabilities: rego_v1 feature required for Rego v1", span)]

    def _import(self, item: Import, *, v0: bool) -> Iterator[Diagnostic]:
        """Yield the error of an import of `rego.v1`, or of `future.keywords` or one of them, that
        these capabilities do not allow; nothing for other imports. In a Rego v1 module (without
        `v0`), `import rego.v1` and the keywords of v1 are always allowed.
        """
        path = item.path
        if not isinstance(path, Ref) or not isinstance(path.head, Var):
            return
        names = [arg.value for arg in path.args if isinstance(arg, Scalar)]
        if path.head.name == "rego" and v0 and not self.features & {"rego_v1", "rego_v1_import"}:
            yield _problem(
                "invalid import, `rego.v1` is not supported by current capabilities", path.span
            )
        if path.head.name == "future" and names[:1] == ["keywords"]:
            allowed = self.future_keywords if v0 else self.future_keywords | V1_KEYWORDS
            if len(names) > 1 and names[1] not in allowed:
                known = " ".join(sorted(allowed))
                yield _problem(f"unexpected keyword, must be one of [{known}]", path.span)
            elif len(names) == 1 and not (allowed >= FUTURE_KEYWORDS):
                missing = " ".join(sorted(FUTURE_KEYWORDS - allowed))
                yield _problem(f"not supported by current capabilities: [{missing}]", path.span)

    def _templates(self, node: Any) -> Sequence[Diagnostic]:
        """Return an error for each template string if they are not allowed."""
        if "template_strings" in self.features:
            return []
        text = "template strings are not supported by current capabilities"
        return [_problem(text, n.span) for n in walk(node) if isinstance(n, TemplateString)]


def _names(document: dict[str, Any], field: str) -> list[str]:
    """Return the list of strings in `field` of a parsed capabilities file, [] if it is absent or
    null; ValueError for other values.
    """
    names = document.get(field) or []
    if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
        raise ValueError(f"`{field}` must be a list of strings")
    return names


def _problem(message: str, span: Span) -> Diagnostic:
    return Diagnostic(PARSE_ERROR, message, span)
