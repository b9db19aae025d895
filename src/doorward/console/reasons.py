"""Why a decision was refused, from the marks that its policies left: the conditions that failed.

    marks + path ─definitions that got furthest─▶ the rules that their condition reads ─▶ Noted

Nothing is evaluated. Most decisions leave one of a few patterns of marks, so the result for a
pattern is cached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from doorward.pdp.decision import RecordedMarks
from doorward.rego import Policies
from doorward.rego.shared import Mark
from doorward.rego.tools import (
    Body,
    Expr,
    Ref,
    Scalar,
    SomeIn,
    Var,
    path_text,
    walk,
    without_secrets,
)

__all__ = ["Condition", "Noted", "Reader", "short_names"]

PATTERNS: Final = 2_000
"""The most patterns that are cached; more empty the cache."""
MOST: Final = 4
"""The most conditions of one reason; others are left out."""
RULES: Final = 8
"""The most rules that are listed as true for one decision."""
WIDEST: Final = 160
"""The characters to which the text of a condition is cut."""


class Condition(NamedTuple):
    """A condition in a policy; `file` is a short name."""

    rule: str
    file: str
    row: int
    text: str


class Noted(NamedTuple):
    """The rules that were true in a decision, and the conditions that failed and so refused it."""

    rules: tuple[str, ...] = ()
    failed: tuple[Condition, ...] = ()

    @property
    def reason(self) -> str:
        """The conditions that failed, with the names of their rules, on one line; "" if there are
        none.
        """
        rules = dict.fromkeys(each.rule.rpartition(".")[2] for each in self.failed)
        texts = dict.fromkeys(each.text for each in self.failed)
        return f"{', '.join(rules)}: {' or '.join(texts)}" if texts else ""


class Reader:
    """Finds out why decisions were refused, from their marks: the record of which definitions were
    true, and at which condition each other one failed. Caches the result for each pattern of marks
    of the newest policies; thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._policies: Policies | None = None
        self._patterns: dict[tuple[Any, ...], Noted] = {}
        self._names: Mapping[str, str] = {}

    def read(self, path: str, marks: RecordedMarks | None) -> Noted:
        """Return the first `RULES` rules that were true in a decision and the first `MOST`
        conditions that refused it, from its marks; an empty `Noted` if none were recorded. `path`
        is the decided document, as in `a/b`.
        """
        if marks is None:
            return Noted()
        policies, outcomes = marks
        pattern = (path, *(outcomes if isinstance(outcomes, list) else outcomes.items()))
        with self._lock:
            if policies is not self._policies or len(self._patterns) > PATTERNS:
                self._policies, self._patterns = policies, {}
                self._names = short_names(policies)
            noted = self._patterns.get(pattern)
            if noted is None:
                noted = self._patterns[pattern] = _read(marks.read(), path, self._names)
        return noted


def short_names(policies: Policies) -> dict[str, str]:
    """Return the file names of policies, by full name, without the folders that they all share."""
    files = list(policies.modules)
    parts = [PurePath(each).parts for each in files]
    shared = 0
    while parts and all(len(each) > shared + 1 for each in parts):
        if len({each[shared] for each in parts}) > 1:
            break
        shared += 1
    return {file: "/".join(each[shared:]) for file, each in zip(files, parts, strict=True)}


def _read(marks: Sequence[Mark], path: str, names: Mapping[str, str]) -> Noted:
    """Return the first `RULES` rules that were true and, unless the document at `path` itself was,
    the first `MOST` conditions that refused it, cut to `WIDEST` characters.
    """
    answered = dict.fromkeys(each.path for each in marks if not each.failed)
    failed: dict[str, list[Mark]] = {}
    for mark in marks:
        if mark.failed and mark.path not in answered:
            failed.setdefault(mark.path, []).append(mark)
    rules = tuple(each.removeprefix("data.") for each in answered)[:RULES]
    start = "data." + path.replace("/", ".")
    below = [each for each in failed if each == start or each.startswith(f"{start}.")]
    if start in answered:
        return Noted(rules)
    conditions: dict[Condition, None] = {}
    seen: set[str] = set()
    for each in below or failed:
        for mark, body in _culprits(each, failed, seen):
            file = mark.rule.span.file
            text = "; ".join(" ".join(without_secrets(expr).split()) for expr in body)[:WIDEST]
            rule = mark.path.removeprefix("data.")
            conditions[Condition(rule, names.get(file, file), mark.failed, text)] = None
    return Noted(rules, tuple(conditions)[:MOST])


def _culprits(
    path: str, failed: Mapping[str, Sequence[Mark]], seen: set[str]
) -> Iterator[tuple[Mark, Body]]:
    """Yield the conditions because of which the rule at `path` is not true, each after the mark of
    its definition. `failed` has the marks of failed definitions by path.

    Only the definitions that failed at the latest condition count. If that condition reads another
    rule that failed, the conditions of that rule are yielded instead. A path in `seen` yields
    nothing; visited paths are added to it.
    """
    if path in seen:
        return
    seen.add(path)
    reached = [(_failed_at(each), each) for each in failed[path]]
    furthest = max(number for number, _ in reached)
    for number, mark in reached:
        if number < furthest or not mark.rule.body:
            continue
        expr = mark.rule.body[max(number, 0)]
        below = [each for each in _rules_in(expr) if each in failed and each != path]
        for each in below:
            yield from _culprits(each, failed, seen)
        if not below:
            yield mark, _with_readers(mark.rule.body, max(number, 0))


def _with_readers(body: Body, number: int) -> Body:
    """Return the condition at the index `number` of a body. If it is a loop (`some … in`), add the
    later conditions that read its variables: the loop failed because each round failed at one of
    them.
    """
    expr = body[number]
    if not isinstance(expr.term, SomeIn):
        return (expr,)
    patterns = [each for each in (expr.term.key, expr.term.value) if each is not None]
    names = {node for each in patterns for node in walk(each) if isinstance(node, Var)}
    return (expr, *(each for each in body[number + 1 :] if not names.isdisjoint(_vars(each))))


def _vars(expr: Expr) -> set[Var]:
    return {node for node in walk(expr) if isinstance(node, Var)}


def _failed_at(mark: Mark) -> int:
    """Return the index, in the body of its definition, of the condition at which a mark says that
    it failed; -1 if there is none.
    """
    rows = [number for number, expr in enumerate(mark.rule.body) if expr.span.row <= mark.failed]
    return rows[-1] if rows else -1


def _rules_in(expr: Expr) -> list[str]:
    """Return the paths of the rules that an expression may read, `data.a` and `data.a.b` for
    `data.a.b`.
    """
    paths: dict[str, None] = {}
    for node in walk(expr):
        if not isinstance(node, Ref) or node.head != Var("data"):
            continue
        names: list[Any] = []
        for arg in node.args:
            if not isinstance(arg, Scalar):
                break
            names.append(arg.value)
            paths[path_text(names)] = None
    return list(paths)
