"""Grants of a policy that nobody used: parts that can go without a change for a log.

    policy + log ─parts─▶ definitions and constants ─tried one after the other─▶ a narrower policy

A part is a definition of a rule, or a constant of a collection that a value must be in. It is taken
out only where that can deny and never allow: the rule is true or undefined, and everything that
names it asks for it to be true. The narrower policy decides the whole log again; a request that
it would decide otherwise is an example that each part is tried against from then on.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from doorward.learn.observations import LearnError
from doorward.pdp.loader import Loaded
from doorward.rego import CompileError
from doorward.rego.tools import (
    Array,
    Call,
    Expr,
    Module,
    Ref,
    Rule,
    Scalar,
    Set,
    SomeIn,
    Var,
    walk,
)
from doorward.replay.compare import allows
from doorward.replay.deciding import Version
from doorward.replay.events import Event, events_of
from doorward.replay.reading import chunks_of

__all__ = ["Part", "Unused", "find_unused", "parts_of"]

EXAMPLES: Final = 500
"""Requests that are added in a round."""
ROUNDS: Final = 40
MAX_PARTS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a policy's text that may go. `text`: what it is, for people."""

    file: str
    start: int
    end: int
    row: int
    text: str


@dataclass(frozen=True, slots=True)
class Unused:
    """What nobody used. `patch` is a unified diff; `skipped` events could not be decided."""

    parts: tuple[Part, ...]
    patch: str
    events: int
    skipped: int
    allowed: int


def find_unused(
    files: Sequence[str], loaded: Loaded, paths: frozenset[str], *, v0: bool = False
) -> Unused:
    """The unused parts of a policy, by the allowed requests of a log. LearnError."""
    version = _compile(loaded, v0=v0)
    if version is None:
        raise LearnError("the policy cannot be compiled")
    candidates = parts_of(version.snapshot.engine.trees)[:MAX_PARTS]
    examples, counts = _first(files, version, paths)
    if not counts["allowed"]:
        raise LearnError("the policy allows no request of the log: nothing can be said of its use")
    for _ in range(ROUNDS):
        removed = _reduce(loaded, candidates, examples, v0=v0)
        narrower = _compile(without(loaded, removed), v0=v0)
        assert narrower is not None
        wrong = _differing(files, version, narrower, paths)
        if not wrong:
            patch = "".join(_patch(loaded, removed))
            return Unused(
                tuple(removed), patch, counts["events"], counts["skipped"], counts["allowed"]
            )
        examples += wrong
    raise LearnError(f"no narrower policy was found in {ROUNDS} rounds: use a shorter log")


# Parts.


def parts_of(trees: Mapping[str, Module]) -> list[Part]:
    """The parts whose removal can only deny, in the order of the text."""
    modules = list(trees.values())
    parts: list[Part] = []
    for name, rules in _narrowing(modules).items():
        for rule in rules:
            label = ".".join([*name])
            parts.append(_part(rule.span, f"definition of data.{label}"))
            parts += _constants(rule)
    return sorted(set(parts), key=lambda each: (each.file, each.start, -each.end))


def _narrowing(modules: Iterable[Module]) -> dict[tuple[str, ...], list[Rule]]:
    """The rules that are true or undefined, and that only bodies of such rules ask for."""
    rules: defaultdict[tuple[str, ...], list[Rule]] = defaultdict(list)
    questions: Counter[str] = Counter()
    trees = list(modules)
    for module in trees:
        for rule in module.rules:
            rules[*module.package.path, *_names(rule.head.ref)].append(rule)
        questions.update(_mentions(module))
    plain = {name: items for name, items in rules.items() if all(map(_is_plain, items))}
    # A rule is left out when one that is not plain asks for it, until nothing changes.
    while True:
        positive: Counter[str] = Counter()
        heads: Counter[str] = Counter()
        for name, items in plain.items():
            heads[name[-1]] += len(items)
            for rule in items:
                positive.update(_positive(rule))
        for name, items in rules.items():
            if name not in plain:
                heads[name[-1]] += len(items)
        kept = {
            name: items
            for name, items in plain.items()
            if questions[name[-1]] <= positive[name[-1]] + heads[name[-1]]
        }
        if len(kept) == len(plain):
            break
        plain = kept
    return {
        name: [rule for rule in items if not rule.default] for name, items in sorted(plain.items())
    }


def _is_plain(rule: Rule) -> bool:
    value = rule.head.value
    if rule.default:
        return value == Scalar(False)
    return (
        rule.else_rule is None
        and rule.head.key is None
        and rule.head.args is None
        and (value is None or value == Scalar(True))
        and all(isinstance(each, Scalar) for each in rule.head.ref.args)
    )


def _names(ref: Ref) -> list[str]:
    head = ref.head.name if isinstance(ref.head, Var) else ""
    return [head, *(str(each.value) for each in ref.args if isinstance(each, Scalar))]


def _mentions(module: Module) -> Iterator[str]:
    """Every name that could be one of a rule: variables, and constants in references."""
    for node in walk(module):
        if isinstance(node, Var):
            yield node.name
        elif isinstance(node, Ref):
            yield from (str(each.value) for each in node.args if isinstance(each, Scalar))


def _positive(rule: Rule) -> Iterator[str]:
    """The names that a rule asks to be true, as conditions of its own."""
    for expr in rule.body:
        if expr.negated or expr.withs or expr.before:
            continue
        if isinstance(expr.term, Var):
            yield expr.term.name
        elif isinstance(expr.term, Ref):
            names = _names(expr.term)
            if names[0] == "data" and len(names) == 1 + len(expr.term.args):
                yield from names


def _constants(rule: Rule) -> Iterator[Part]:
    """The constants of collections that a value must be in, in conditions of the rule's own."""
    for expr in rule.body:
        domain = _domain(expr)
        if domain is None or len(domain.items) < 2:
            continue
        for number, item in enumerate(domain.items):
            if not isinstance(item, Scalar):
                continue
            # With the comma, the one before the last.
            last = number == len(domain.items) - 1
            start = domain.items[number - 1].span.end if last else item.span.start
            end = item.span.end if last else domain.items[number + 1].span.start
            yield Part(item.span.file, start, end, item.span.row, f"constant {item.span.text}")


def _domain(expr: Expr) -> Set | Array | None:
    if expr.negated or expr.withs or expr.before:
        return None
    term: Any = expr.term
    domain: Any = None
    if isinstance(term, SomeIn) and term.key is None:
        domain = term.domain
    elif isinstance(term, Call) and _names(term.operator) == ["internal", "member_2"]:
        domain = term.args[1]
    return domain if isinstance(domain, (Set, Array)) else None


def _part(span: Any, text: str) -> Part:
    return Part(span.file, span.start, span.end, span.row, text)


# Removal.


def without(loaded: Loaded, parts: Iterable[Part]) -> Loaded:
    """The policies without these parts."""
    by_file: defaultdict[str, list[Part]] = defaultdict(list)
    for part in parts:
        by_file[part.file].append(part)
    modules = dict(loaded.modules)
    for file, items in by_file.items():
        modules[file] = _cut(str(modules[file]), items)
    return replace(loaded, modules=modules)


def _cut(text: str, parts: Iterable[Part]) -> str:
    end = len(text) + 1
    for part in sorted(parts, key=lambda each: (each.start, each.end), reverse=True):
        stop = min(part.end, end)
        if part.start < stop:
            text = text[: part.start] + text[stop:]
        end = min(end, part.start)
    return text


def _compile(loaded: Loaded, *, v0: bool) -> Version | None:
    try:
        return Version.compile(loaded, v0=v0)
    except CompileError:
        return None


def _reduce(
    loaded: Loaded, parts: Sequence[Part], examples: Sequence[Event], *, v0: bool
) -> list[Part]:
    """As many parts as can go together, tried one after the other, so that all examples stay."""
    removed: list[Part] = []
    for part in parts:
        if any(
            each.file == part.file and each.start <= part.start and part.end <= each.end
            for each in removed
        ):
            continue
        attempt = [*removed, part]
        version = _compile(without(loaded, attempt), v0=v0)
        if version is not None and all(allows(version.answer(each)) for each in examples):
            removed = attempt
    return removed


def _first(
    files: Sequence[str], version: Version, paths: frozenset[str]
) -> tuple[list[Event], Counter[str]]:
    """Some allowed requests, and how many there are."""
    examples: list[Event] = []
    counts: Counter[str] = Counter()
    for event in _events(files, paths):
        counts["events"] += 1
        answer = version.answer(event)
        if answer.missing:
            counts["skipped"] += 1
        elif allows(answer):
            counts["allowed"] += 1
            if len(examples) < EXAMPLES:
                examples.append(event)
    return examples, counts


def _differing(
    files: Sequence[str], old: Version, new: Version, paths: frozenset[str]
) -> list[Event]:
    """Allowed requests that the narrower policy denies."""
    items: list[Event] = []
    for event in _events(files, paths):
        before, now = old.answer(event), new.answer(event)
        if before.missing or allows(before) is allows(now):
            continue
        if allows(now):
            raise LearnError("the narrower policy would allow more: report this as a defect")
        items.append(event)
        if len(items) >= EXAMPLES:
            break
    return items


def _events(files: Sequence[str], paths: frozenset[str]) -> Iterator[Event]:
    for chunk in chunks_of(files):
        for event in events_of(chunk.read()):
            if event is not None and (not paths or event.path in paths):
                yield event


def _patch(loaded: Loaded, parts: Sequence[Part]) -> Iterator[str]:
    after = without(loaded, parts).modules
    for file, text in loaded.modules.items():
        new = _tidy(str(after[file]))
        if str(text) != str(after[file]):
            yield from difflib.unified_diff(
                str(text).splitlines(keepends=True),
                new.splitlines(keepends=True),
                f"a/{file.lstrip('/')}",
                f"b/{file.lstrip('/')}",
            )


def _tidy(text: str) -> str:
    """Two empty lines in a row, where a definition was, become one."""
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text
