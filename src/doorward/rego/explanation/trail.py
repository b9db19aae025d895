"""A recording in two lines: which definitions answered, and the conditions that failed last.

    answered: data.authz.allow policy.rego:12, data.authz.is_owner policy.rego:20
    failed:   data.authz.allow policy.rego:13 `input.method == "GET"`

A definition that others asked and that held follows the one that asked it. Of the definitions
that did not hold those that got furthest are followed, down to the rules that refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from doorward.rego.explanation.recorder import Attempt, Recorder
from doorward.rego.explanation.secrets import Mask, head_without_secrets, without_secrets
from doorward.rego.explanation.text import is_refusal
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Rule

__all__ = ["Location", "Trail", "definition_text", "trail_of"]

MAX_LOCATIONS: Final = 64
"""The most definitions of one trail; later ones are left out."""

MAX_WIDTH: Final = 200
"""The most characters of the text of a location."""

_PLAIN: Final = Mask()


class Location(NamedTuple):
    """A definition, or a condition in its body, with its text on one line."""

    rule: str
    file: str
    row: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.row} {self.rule}"


class Trail(NamedTuple):
    """The definitions that decided: those that held, and for a refusal the conditions that
    failed.
    """

    answered: tuple[Location, ...]
    failed: tuple[Location, ...]


def trail_of(recorder: Recorder) -> Trail:
    """Return the trail of the rules that the query itself read, with at most `MAX_LOCATIONS`
    definitions in each list. `failed` is empty if no rule refused.
    """
    answered: dict[Location, None] = {}
    for location in _locations_of_answers(recorder.top, set()):
        answered[location] = None
        if len(answered) >= MAX_LOCATIONS:
            break
    refusals = [each for each in recorder.top if is_refusal(each.answer)]
    failed = dict.fromkeys(location for each in refusals for location in _failures(each, 0))
    return Trail(tuple(answered), tuple(failed)[:MAX_LOCATIONS])


def _locations_of_answers(attempts: Iterable[Attempt], seen: set[int]) -> Iterator[Location]:
    """Yield the location of each definition that held, unless it is a default, then those of the
    rules that the definition read. Attempts whose `id` is in `seen` are skipped; the ids of the
    others are added to it.
    """
    for attempt in attempts:
        if id(attempt) in seen:
            continue
        seen.add(id(attempt))
        for tried in attempt.tried.values():
            if not tried.succeeded:
                continue
            if not tried.rule.default:
                yield _location(attempt.name, tried.rule.span, definition_text(tried.rule))
            for step in tried.steps.values():
                yield from _locations_of_answers(step.attempts, seen)
            yield from _locations_of_answers(tried.attempts, seen)


def _failures(attempt: Attempt, depth: int) -> Iterator[Location]:
    """Yield the conditions at which those definitions of `attempt` failed that got furthest (asked
    the most expressions). If a condition read rules that refused, theirs are yielded instead, down
    to `MAX_LOCATIONS` levels; `depth` is the present one. Some may come several times.
    """
    tried = [each for each in attempt.tried.values() if each.culprit is not None]
    furthest = max((len(each.steps) for each in tried), default=0)
    for each in tried:
        step = each.culprit
        if step is None or len(each.steps) < furthest:
            continue
        refusals = [inner for inner in step.attempts if is_refusal(inner.answer)]
        below = [location for inner in refusals for location in _failures(inner, depth + 1)]
        if below and depth < MAX_LOCATIONS:
            yield from below
        else:
            yield _location(attempt.name, step.expr.span, without_secrets(step.expr))


def definition_text(rule: Rule) -> str:
    """Return a definition as `head if condition; condition` on one line of at most `MAX_WIDTH`
    characters, credentials in it masked.
    """
    head = head_without_secrets(rule)
    body = "; ".join([without_secrets(expr) for expr in rule.body if expr.span.text])
    return _one_line(f"{head} if {body}" if body else head)


def _one_line(text: str) -> str:
    """Return a text on one line of at most `MAX_WIDTH` characters, with what looks like a
    credential masked.
    """
    line = _PLAIN.text(" ".join(text.split()))
    return line if len(line) <= MAX_WIDTH else f"{line[: MAX_WIDTH - 1]}…"


def _location(rule: str, span: Span, text: str) -> Location:
    return Location(rule, span.file, span.row, _one_line(text))
