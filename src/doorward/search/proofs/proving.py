"""The verdict on each property: a request that breaks it, a proof, or the conditions that never
held.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final

from doorward.base.records import record, replace
from doorward.bundles.loader import Loaded
from doorward.rego import UNDEFINED, CompileError, Engine, EvalError, Registry
from doorward.rego.shared import Span
from doorward.rego.tools import Rule, RuleNode, Scalar, format_tree, path_text
from doorward.replay.deciding import Version
from doorward.search import Finding, Reach, search
from doorward.search.patience import patiently
from doorward.search.proofs.checking import Checker
from doorward.search.proofs.known import KnownProofs, digest_of
from doorward.search.proofs.refuting import Refuter
from doorward.search.searching import PROPERTY
from doorward.search.support import add_support, reparse

__all__ = [
    "COUNTEREXAMPLE",
    "NONE_EXISTS",
    "NONE_FOUND",
    "PROPERTY",
    "UNKNOWN",
    "Property",
    "Verdict",
    "proofs",
    "properties_of",
    "prove",
]

COUNTEREXAMPLE: Final = "counterexample"
"""The outcome if an input makes the property true."""
NONE_EXISTS: Final = "none exists"
"""The outcome if a checked proof shows that no input makes the property true."""
NONE_FOUND: Final = "none found"
"""The outcome without a proof if the search made each condition hold, but not the property."""
UNKNOWN: Final = "cannot say"
"""The outcome without a proof and without a search that made each condition hold."""

PARTIAL_SECONDS: Final = 10.0
"""The limit of partial evaluation, in seconds of processor time."""
MOST: Final = 2_000
"""At most this many conjunctions are refuted for one property."""
_NAMESPACE: Final = "doorward_proof"


@record
class Property:
    """A rule that must not be true for any input; its name begins with `never_`. `span`: its first
    definition.
    """

    path: tuple[str, ...]
    span: Span

    @property
    def where(self) -> str:
        return str(self.span)

    @property
    def name(self) -> str:
        return path_text(self.path)


@record
class Verdict:
    """The result for one property. `outcome`: one of the constants of this module; `conjunctions`:
    the number of conjunctions in the residual; `open`: the number of those that were not refuted;
    `left`: the text of the first of these; `reason`: why there is no proof; `finding`: the
    counterexample, None for other outcomes; `candidates`: the number of requests tried.
    """

    subject: Property
    outcome: str
    seconds: float
    conjunctions: int = 0
    open: int = 0
    left: str = ""
    reason: str = ""
    finding: Finding | None = None
    candidates: int = 0
    is_unchanged: bool = False
    """True if an earlier run proved the property, and its rules and data have not changed since."""
    reach: tuple[Reach, ...] = ()
    not_inverted: frozenset[str] = field(default=frozenset())
    missing_data: str = ""
    """A path below `data` that the property reads and that does not exist; "" if there is none."""

    @property
    def is_broken(self) -> bool:
        """True if an input makes the property true."""
        return self.outcome == COUNTEREXAMPLE

    @property
    def is_reached(self) -> bool:
        """True if the search made each condition of the property hold; False if it had none or did
        not run.
        """
        return bool(self.reach) and all(each.holds for each in self.reach)


def properties_of(engine: Engine) -> list[Property]:
    """Return the `never_` rules of policies, in the order of the rule tree."""
    return [_property(node) for node in _nodes(engine)]


def _property(node: RuleNode) -> Property:
    return Property(tuple(map(str, node.path)), node.definitions[0].rule.span)


def _nodes(engine: Engine) -> Iterator[RuleNode]:
    """Yield the rules of all properties, whose names begin with `never_`."""
    for node in engine.policies.program.root.walk():
        if node.definitions and str(node.path[-1]).startswith(PROPERTY):
            yield node


def prove(
    loaded: Loaded,
    version: Version,
    *,
    seconds: float,
    v0: bool,
    registry: Registry,
    is_chosen: Callable[[Property], bool] = lambda _: True,
    attack: bool = False,
    known: KnownProofs | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Verdict]:
    """Yield the verdict on each chosen property, after a search of at most `seconds` for each that
    is not proved. `version` is compiled from `loaded`; for a search these policies are compiled
    again without the property, with `v0` and `registry`, and if that fails there is no search.
    `known`: proofs of an earlier run, used again if nothing the property reads has changed; new
    ones are added to it. `attack`: search for a counterexample even to a proved property, which
    would show an error in the proof.
    """
    engine = version.snapshot.engine
    for node in _nodes(engine):
        proved = _property(node)
        if not is_chosen(proved):
            continue
        began = clock()
        digest = "" if known is None else digest_of(engine, proved.name)
        before = None if known is None else known.conjunctions(proved.name, digest)
        if before is not None:
            verdict = Verdict(proved, NONE_EXISTS, 0.0, before, is_unchanged=True)
        else:
            verdict = _refute(engine, node, proved)
        is_proved = verdict.outcome == NONE_EXISTS
        old = None
        if attack or not is_proved:
            old = _without(loaded, node, v0=v0, registry=registry)
        if old is not None:
            tried = _search(verdict, engine, old, version, seconds, clock)
            # Of a proved property a search counts only if it contradicts the proof.
            verdict = tried if tried.is_broken or not is_proved else verdict
        if known is not None and verdict.outcome == NONE_EXISTS:
            # Only after the search: a proof that a counterexample contradicts is not stored.
            known.add(proved.name, digest, verdict.conjunctions)
        yield replace(verdict, seconds=clock() - began)


def proofs(engine: Engine) -> Iterator[Verdict]:
    """Yield the verdict on each property by proof alone, without a search."""
    for node in _nodes(engine):
        yield _refute(engine, node, _property(node))


def _refute(engine: Engine, node: RuleNode, proved: Property) -> Verdict:
    """Try to prove a property by partial evaluation. The verdict is NONE_EXISTS if the checker
    accepts a refutation of every conjunction; otherwise UNKNOWN with the first conjunction that is
    left, or with the reason: the property's form, missing data, policies that fail to compile or
    evaluate, or more than `MOST` conjunctions.
    """
    if not _is_plain(node):
        reason = "write the property without `default`, `else` and other values than true"
        return Verdict(proved, UNKNOWN, 0.0, reason=reason)
    missing_data = _missing_data(engine, proved)
    if missing_data:
        # Without it rules hold for no input: a proof would say nothing of the policy in use.
        reason = f"the property reads {missing_data}, which is missing: load its file"
        return Verdict(proved, UNKNOWN, 0.0, reason=reason, missing_data=missing_data)
    try:
        partial = patiently(
            lambda deadline: engine.partial(
                proved.name,
                ["input"],
                namespace=_NAMESPACE,
                only_truth=True,
                keep_else=True,
                deadline=deadline,
            ),
            PARTIAL_SECONDS,
        )
        bodies, support = partial.queries, reparse(partial.support, _NAMESPACE)
        # Rules that contradict each other are an error, which is not true: a residual that has
        # both of their values only says more than holds.
        if partial.definitions is not None:
            reason = (
                "the property has other values than true: write a rule that is true or undefined"
            )
            return Verdict(proved, UNKNOWN, 0.0, reason=reason)
        bound = add_support(engine, support)
    except (CompileError, EvalError) as error:
        return Verdict(proved, UNKNOWN, 0.0, reason=str(error.diagnostics[0].message))
    modules = [*support.values()]
    refuter, checker = Refuter(bound, modules), Checker(bound, modules)
    left = []
    for body in bodies[:MOST]:
        expressions = [format_tree((expr,)).strip() for expr in body]
        # The checker gets texts, which it parses itself, and not the trees of the refuter.
        if not checker.accepts(refuter.refute(body), expressions):
            left.append("; ".join(expressions))
    missing = len(bodies) - len(bodies[:MOST])
    if not left and not missing:
        return Verdict(proved, NONE_EXISTS, 0.0, conjunctions=len(bodies))
    reason = "" if left else f"{missing} conjunctions beyond {MOST} were not examined"
    first = " ".join(left[0].split()) if left else ""
    open_ = len(left) + missing
    return Verdict(proved, UNKNOWN, 0.0, len(bodies), open_, left=first, reason=reason)


def _missing_data(engine: Engine, proved: Property) -> str:
    """Return a path below `data` that a property reads and that does not exist; "" if there is
    none.
    """
    for path in sorted(engine.documents(proved.name).base, key=str):
        names = [name for name in path[1:] if isinstance(name, (str, int))]
        if path[0] == "data" and engine.base_document(names) is UNDEFINED:
            return path_text(names)
    return ""


def _is_plain(node: RuleNode) -> bool:
    """Return True if a property can only be true or undefined."""
    rules: list[Rule] = [definition.rule for definition in node.definitions]
    return node.is_complete and all(
        not rule.default
        and rule.else_rule is None
        and (rule.head.value is None or rule.head.value == Scalar(True))
        for rule in rules
    )


def _without(loaded: Loaded, node: RuleNode, *, v0: bool, registry: Registry) -> Version | None:
    """Compile the policies without a property, whose text is blanked out; None if they do not
    compile without it.
    """
    modules: dict[str, Any] = dict(loaded.modules)
    for definition in node.definitions:
        span = definition.rule.span
        policy = modules.get(span.file)
        text = policy if isinstance(policy, str) else span.source.text
        # Blanks of the same length, so that the spans of other rules stay valid.
        blank = "".join("\n" if char == "\n" else " " for char in text[span.start : span.end])
        modules[span.file] = text[: span.start] + blank + text[span.end :]
    try:
        changed = replace(loaded, modules=modules)
        return Version.compile(changed, v0=v0, registry=registry, deadline=0.5)
    except CompileError:
        return None


def _search(
    verdict: Verdict,
    engine: Engine,
    old: Version,
    version: Version,
    seconds: float,
    clock: Callable[[], float],
) -> Verdict:
    """Search for a counterexample for at most `seconds`; return the verdict with its outcome, the
    counterexample, the number of candidates and the conditions that held.

    COUNTEREXAMPLE only if a second engine confirms it; else NONE_FOUND if the search made each
    condition of the property hold, UNKNOWN if not.
    """
    path = verdict.subject.path
    names = {str(each[-1]) for each in engine.documents(verdict.subject.name).virtual}
    result = search(
        old,
        version,
        ["/".join(path)],
        seconds=seconds,
        most=1,
        watched=names | {path[-1]},
        is_enough=lambda each: bool(each.findings),
        clock=clock,
    )
    breaking = [each for each in result.findings if each.new.value is True]
    query = engine.prepare(verdict.subject.name)
    # Evaluated once more, by code without a tracer.
    confirmed = [each for each in breaking if _is_true(query, each)]
    verdict = replace(
        verdict,
        candidates=result.candidates,
        reach=result.reach,
        not_inverted=result.not_inverted,
    )
    if confirmed:
        return replace(verdict, outcome=COUNTEREXAMPLE, finding=confirmed[0])
    return replace(verdict, outcome=NONE_FOUND if verdict.is_reached else UNKNOWN)


def _is_true(query: Any, finding: Finding) -> bool:
    """Return True if the query is true for the finding's input; False also if its evaluation
    fails.
    """
    from doorward.search.searching import NOW_NS

    try:
        return query.answer(finding.input, now_ns=NOW_NS) is True
    except EvalError:
        return False
