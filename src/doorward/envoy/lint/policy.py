"""Policies become findings: where they fail open, and what they read in the wrong way.

Only shapes that are wrong whatever the rest says. References are followed through imports and
rules that only give another name (`http := input.attributes.request.http`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from doorward.base.digits import parse_digits
from doorward.envoy.lint.finding import Finding
from doorward.rego import RegoError
from doorward.rego.shared import Source, Span
from doorward.rego.tools import (
    Call,
    Expr,
    Module,
    Node,
    Not,
    Object,
    Ref,
    Rule,
    Scalar,
    Var,
    parse_module,
    walk,
)

__all__ = ["check_policies"]

Path = tuple[str, ...]

_HTTP: Final = ("input", "attributes", "request", "http")
_BODIES: Final = (("input", "parsed_body"), (*_HTTP, "body"), (*_HTTP, "raw_body"))
# Of these a second one is refused, or makes no difference.
_SINGLE: Final = frozenset(
    {"authorization", "content-type", "content-length", "host", ":path", ":method", ":authority"}
)
_ANYWHERE: Final = frozenset({"endswith", "contains", "regex.match", "re_match"})
_SECRETS: Final = frozenset(f"io.jwt.verify_hs{bits}" for bits in (256, 384, 512))
_DEFAULT_SEND: Final = 5.0
_STATING: Final = ("never_", "test_", "todo_test_")
"""Prefixes of the names of properties and tests, which decide nothing."""


def check_policies(
    texts: Sequence[tuple[str, int, str]], *, timeout: float = 0.2
) -> Iterator[Finding]:
    """Yield findings in policies, given as file name, number of lines before the text, and text.

    `timeout` is how long Envoy waits for a decision, in seconds. A policy that cannot be parsed
    gives a finding `unreadable`. Policies of one package are checked together.
    """
    modules = []
    for file, offset, text in texts:
        try:
            modules.append((file, offset, parse_module(Source(file, text))))
        except RegoError as error:
            for each in error.diagnostics[:1]:
                yield Finding(file, offset + each.span.row, "unreadable", each.message)
    packages: dict[Path, list[tuple[str, int, Module]]] = {}
    for entry in modules:
        packages.setdefault(entry[2].package.path, []).append(entry)
    for members in packages.values():
        yield from _Package(members, timeout).check()


class _Package:
    """The policies of one package, with the paths that their imports and alias rules stand for."""

    def __init__(self, members: list[tuple[str, int, Module]], timeout: float) -> None:
        self._members = members
        self._timeout = timeout
        self._names: dict[str, Path] = {}
        for _, _, module in members:
            self._name_imports(module)
        for _, _, module in members:
            self._name_rules(module)

    def check(self) -> Iterator[Finding]:
        """Yield the findings of each policy, then those of the package as a whole."""
        for file, offset, module in self._members:
            for rule, message, span in self._check_module(module):
                yield Finding(file, offset + span.row, rule, message)
        yield from self._check_package()

    def _check_module(self, module: Module) -> Iterator[tuple[str, str, Span]]:
        """Yield rule, message and position of each problem in one policy.

        Rules that state properties or tests are passed over.
        """
        for rule in module.rules:
            value = rule.head.value
            if rule.default and isinstance(value, Scalar) and value.value is True:
                yield "policy-default", "the default is true", rule.span
            # A property or a test says what must not be, and decides nothing.
            if not self._rule_name(rule.head.ref).startswith(_STATING):
                yield from self._check_rule(rule)

    def _check_rule(self, rule: Rule) -> Iterator[tuple[str, str, Span]]:
        """Yield rule, message and position of each problem in the negations and calls of one rule,
        at any depth.
        """
        for node in walk(rule):
            match node:
                case Expr(negated=True) | Not():
                    yield from self._check_negation(node)
                case Call():
                    yield from self._check_call(node)

    def _check_package(self) -> Iterator[Finding]:
        """Yield findings about all rules together: `allow` without a default, a body read without a
        look at `truncated_body`, tokens decoded and never verified.
        """
        file, offset, module = self._members[0]
        decisions = [
            (name, lines_before + rule.span.row, rule)
            for name, lines_before, each in self._members
            for rule in each.rules
            if self._rule_name(rule.head.ref) == "allow"
        ]
        if decisions and not any(rule.default for _, _, rule in decisions):
            name, line, _ = decisions[0]
            yield Finding(name, line, "policy-no-default", "`allow` has no default")
        read = {path for _, _, each in self._members for path in self._paths(each)}
        reads_body = any(path[: len(body)] == body for path in read for body in _BODIES)
        if reads_body and not any(path[:2] == ("input", "truncated_body") for path in read):
            message = (
                "the policy reads the body but not `input.truncated_body`: deny if that is true"
            )
            yield Finding(file, offset + module.package.span.row, "policy-truncated-body", message)
        calls = {
            node.name
            for _, _, each in self._members
            for node in walk(each)
            if isinstance(node, Call)
        }
        verifying = ("io.jwt.verify", "io.jwt.decode_verify")
        if "io.jwt.decode" in calls and not any(name.startswith(verifying) for name in calls):
            message = (
                "tokens are decoded with io.jwt.decode and never verified: use io.jwt.decode_verify"
            )
            line = offset + module.package.span.row
            yield Finding(file, line, "policy-unverified-token", message)

    def _check_negation(self, node: Expr | Not) -> Iterator[tuple[str, str, Span]]:
        """Yield rule, message and position of each problem of a `not` that is true if the body or a
        header is missing, or if the path has another query.
        """
        for path in set().union(*map(self._paths, _last_step(node))):
            if any(path[: len(body)] == body for body in _BODIES):
                message = (
                    f"`not` is true if `{'.'.join(path)}` is missing: test that it is there, too"
                )
                yield "policy-open-without-body", message, node.span
            if path[: len(_HTTP) + 1] == (*_HTTP, "headers"):
                message = "`not` is true if the header is missing: test that it is there, too"
                yield "policy-open-without-header", message, node.span
        for path in self._paths(node):
            if path == (*_HTTP, "path"):
                message = (
                    "`not` is true for the same path with a query: compare `input.parsed_path`"
                )
                yield "policy-path-query", message, node.span

    def _check_call(self, call: Call) -> Iterator[tuple[str, str, Span]]:
        """Yield rule, message and position of each problem of one call: a header compared as a
        whole, a match on path and query, a secret in the policy, or a slow `http.send`.
        """
        paths = [self._resolve(argument) for argument in call.args]
        if call.name in {"equal", "neq", "eq"} and call.infix:
            for path in paths:
                name = path[-1].lower() if path else ""
                if path[:-1] == (*_HTTP, "headers") and name not in _SINGLE:
                    message = (
                        f"the header `{name}` may hold several values, and is compared as a whole"
                    )
                    yield "policy-header-list", message, call.span
        path_names = (*_HTTP, "path")
        if path_names in paths and (call.name in _ANYWHERE or call.name == "neq"):
            if call.name == "regex.match" and _is_anchored(call):
                return
            message = f"`{call.name}` also matches the path's query: use `input.parsed_path`"
            yield "policy-path-query", message, call.span
        if call.name in _SECRETS and _is_text(call.args[-1]):
            yield "policy-secret", "the policy contains the secret: load it as data", call.span
        if call.name == "io.jwt.decode_verify":
            fields = _fields(call.args[-1])
            if _is_text(fields.get("secret")):
                yield "policy-secret", "the policy contains the secret: load it as data", call.span
        if call.name == "http.send":
            yield from self._check_send(call)

    def _check_send(self, call: Call) -> Iterator[tuple[str, str, Span]]:
        """Yield a problem for an `http.send` whose timeout is not below Envoy's; 5 s without one.

        A timeout that is not a constant is passed over.
        """
        timeout = _fields(call.args[0]).get("timeout")
        # OPA's `http.send` waits 5 s unless told otherwise.
        seconds = _DEFAULT_SEND if timeout is None else _duration(timeout)
        if seconds is not None and seconds >= self._timeout:
            message = (
                f"http.send waits {seconds:g} s, Envoy only {self._timeout:g} s: set `timeout`"
            )
            yield "policy-slow-http-send", message, call.span

    def _name_imports(self, module: Module) -> None:
        """Remember the path of each import under its name or alias."""
        for each in module.imports:
            path = _path(each.path)
            if path:
                self._names[each.alias or path[-1]] = path

    def _name_rules(self, module: Module) -> None:
        """Remember the input path of each rule without body and parameters that is only another
        name for it, as `http := input.a.b`.
        """
        for rule in module.rules:
            head = rule.head
            name = self._rule_name(head.ref)
            # A rule with a body may be undefined, and is more than another name.
            if name and not rule.body and not head.args and head.value is not None:
                path = self._resolve(head.value)
                if path[:1] == ("input",):
                    self._names[name] = path

    def _rule_name(self, ref: Ref) -> str:
        """Return the name of a rule; "" if its head has more than one part."""
        return ref.head.name if isinstance(ref.head, Var) and not ref.args else ""

    def _resolve(self, term: Node) -> Path:
        """Return the path of a term with an import or alias replaced by its path; () if it is not a
        path.
        """
        path = _path(term)
        return self._names[path[0]] + path[1:] if path and path[0] in self._names else path

    def _paths(self, node: Node) -> set[Path]:
        """Return the input paths that a node reads, aliases resolved."""
        return {
            path
            for each in walk(node)
            if isinstance(each, Ref | Var) and (path := self._resolve(each))[:1] == ("input",)
        }


def _last_step(node: Expr | Not) -> Iterator[Node]:
    """Yield the terms that make this negation true if they are undefined. For an equality: its
    operands that are variables or references. For a variable, a reference or another `not`: the
    term itself.

    Of other calls none: without `future.keywords.not` the operands of calls are evaluated before
    the negation, and an undefined one fails the expression.
    """
    term = node.term if isinstance(node, Expr) else node
    if isinstance(term, Call) and term.name in {"equal", "eq"}:
        yield from (side for side in term.args if isinstance(side, Ref | Var))
    elif isinstance(term, Ref | Var | Not):
        yield term


def _path(term: Node) -> Path:
    """Return the names of a reference up to its first part that is not a constant text.

    `input.a[x].b` -> `("input", "a")`; () for a term that is not a variable or reference.
    """
    match term:
        case Var(name=name):
            return (name,)
        case Ref(head=Var(name=name), args=args):
            names = [name]
            for each in args:
                if not isinstance(each, Scalar) or not isinstance(each.value, str):
                    break
                names.append(each.value)
            return tuple(names)
        case _:
            return ()


def _fields(term: Node) -> dict[str, Node]:
    """Return the members of an object term that have constant text keys; {} for other terms."""
    if not isinstance(term, Object):
        return {}
    return {
        key.value: value
        for key, value in term.items
        if isinstance(key, Scalar) and isinstance(key.value, str)
    }


def _is_text(term: Node | None) -> bool:
    """Return True for a text that is written in the policy itself and is not empty."""
    return isinstance(term, Scalar) and isinstance(term.value, str) and term.value != ""


def _is_anchored(call: Call) -> bool:
    """Return True if the first operand of a call is a constant pattern that begins with `^`."""
    pattern = call.args[0]
    return (
        isinstance(pattern, Scalar)
        and isinstance(pattern.value, str)
        and pattern.value.startswith("^")
    )


def _duration(term: Node) -> float | None:
    """Return a constant timeout in seconds: `"500ms"` -> 0.5, and a number counts nanoseconds.

    None if it is not a constant or has another form.
    """
    if not isinstance(term, Scalar):
        return None
    value = term.value
    if isinstance(value, str):
        for unit, factor in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0), ("m", 60.0)):
            number = value.removesuffix(unit)
            if number != value and parse_digits(number.replace(".", "", 1)) is not None:
                return float(number) * factor
        return None
    return float(value) / 1e9 if type(value) is int else None
