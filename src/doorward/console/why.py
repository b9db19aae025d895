"""Why a decision has its result: an explanation becomes a tree, and rows of policies get a state.

    Explanation ─▶ rules ─▶ definitions ─▶ conditions with values ─▶ the rules that they read
                └▶ per file: which rows held, failed, or were not reached

Values are masked as in explanations, and the tree is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.rego import Explanation, Policies, RegoError, Undefined, to_rego
from doorward.rego.shared import Span
from doorward.rego.tools import Attempt, Step, Tried

__all__ = ["FAILED", "HELD", "UNREACHED", "document", "short_text"]

HELD: Final = "held"
FAILED: Final = "failed"
UNREACHED: Final = "unreached"
NODES: Final = 600
"""The most conditions of one tree; later ones are left out."""
DEPTH: Final = 16
"""The levels of rules after which definitions are left out."""
WIDEST: Final = 400
"""The characters to which a value is cut."""
SOURCE: Final = 256 << 10
"""The most characters of a file that is included."""


def document(explanation: Explanation, policies: Policies, names: Mapping[str, str]) -> Any:
    """Return the explanation as JSON: `tree`, `cut` (True if the tree was too large), and
    `sources`, the texts of the files, of at most `SOURCE` characters each, with the state of each
    row. `names` are the short names of files.
    """
    tree = _Tree(explanation, names)
    rules = [tree.attempt(each, 0) for each in explanation.recorder.top]
    sources = {}
    for file, rows in tree.rows.items():
        module = policies.modules.get(file)
        text = "" if module is None else module.span.source.text
        if text and len(text) <= SOURCE:
            sources[names.get(file, file)] = {"text": text, "rows": rows}
    return {"tree": rules, "cut": tree.left <= 0, "sources": sources}


def short_text(text: str, names: Mapping[str, str]) -> str:
    """Return a text of an explanation with short names of files."""
    # The longest first, since a name may end with another one: `a/b.rego` and `b.rego`.
    for file in sorted(names, key=len, reverse=True):
        text = text.replace(f"{file}:", f"{names[file]}:")
    return text


class _Tree:
    """Builds the tree of an explanation for the page, and the state of each row of a policy on the
    way. `left` is the number of conditions that may still be added.
    """

    def __init__(self, explanation: Explanation, names: Mapping[str, str]) -> None:
        self._record = explanation.record
        self._names = names
        self.left = NODES
        self.rows: dict[str, dict[int, str]] = {}
        """The state of each row, by file."""

    def attempt(self, attempt: Attempt, depth: int) -> dict[str, Any]:
        """Return the node of an evaluated rule: its name, its answer, the operands of a function,
        and its definitions, down to `DEPTH` and until `left` is 0. Sets the states of their rows.
        """
        node: dict[str, Any] = {"rule": attempt.name.removeprefix("data.")}
        if not isinstance(attempt.answer, Undefined):
            node["answer"] = self._value(attempt.answer, attempt.name)
        if attempt.operands:
            node["operands"] = [self._value(each, "") for each in attempt.operands]
        definitions = attempt.tried.values() if depth < DEPTH else ()
        node["definitions"] = [
            self._describe_attempt(each, depth) for each in definitions if self.left > 0
        ]
        return node

    def _describe_attempt(self, tried: Tried, depth: int) -> dict[str, Any]:
        """Return the node of a definition: its position and head, its state, its conditions and the
        rules that they read. Sets the states of its rows, counts `left` down by one for each
        condition, and omits rules once that is 0.
        """
        span = tried.rule.span
        is_true = bool(tried.succeeded)
        file = self._names.get(span.file, span.file)
        steps = list(tried.steps.values())
        culprit = tried.culprit
        conditions = [
            self._step(each, depth, FAILED if each is culprit else HELD) for each in steps
        ]
        reached = {id(each.expr) for each in steps}
        for expr in tried.rule.body:
            if id(expr) in reached or not expr.span.text:
                continue
            self.left -= 1
            self._color(expr.span, HELD if is_true else UNREACHED)
            text = self._record.expr_text(expr)
            state = HELD if is_true else UNREACHED
            conditions.append({"row": expr.span.row, "text": text, "state": state})
        self._color_head(span, HELD if is_true else FAILED, has_body=bool(tried.rule.body))
        conditions.sort(key=lambda each: int(each["row"]))
        return {
            "file": file,
            "row": span.row,
            "head": self._record.head_text(tried.rule),
            "default": tried.rule.default,
            "state": HELD if is_true else FAILED,
            "conditions": conditions,
            "rules": [self.attempt(each, depth + 1) for each in tried.attempts if self.left > 0],
        }

    def _step(self, condition: Step, depth: int, state: str) -> dict[str, Any]:
        """Return the node of an evaluated condition: its position and text, its state, how often it
        was evaluated, its values, cut to `WIDEST` characters, and the rules that it read. Sets the
        state of its rows, counts `left` down by one, and omits rules once that is 0.
        """
        self.left -= 1
        self._color(condition.expr.span, state)
        values = {
            self._record.mask.text(label): self._record.value_text(value, label)[:WIDEST]
            for label, value in self._record.values(condition).items()
        }
        below = self._record.attempts_of(condition)
        return {
            "row": condition.expr.span.row,
            "text": self._record.expr_text(condition.expr),
            "state": state,
            "rounds": condition.evaluated,
            "values": values,
            "rules": [self.attempt(each, depth + 1) for each in below if self.left > 0],
        }

    def _color(self, span: Span, state: str) -> None:
        """Set the state of the rows of a span; a row that failed keeps that state."""
        rows = self.rows.setdefault(span.file, {})
        for row in range(span.row, span.row + span.text.count("\n") + 1):
            if rows.get(row) != FAILED:
                rows[row] = state

    def _color_head(self, span: Span, state: str, *, has_body: bool) -> None:
        """Set the state of a rule's first row, also if it has one already; of all its rows if it
        has no body.
        """
        rows = self.rows.setdefault(span.file, {})
        rows[span.row] = state
        if not has_body:
            self._color(span, state)

    def _value(self, value: Any, label: str) -> str:
        """Return a value as Rego, masked and cut to `WIDEST` characters; `…` if it cannot be
        written.
        """
        try:
            return to_rego(self._record.mask.value(value, label))[:WIDEST]
        except RegoError:
            return "…"
