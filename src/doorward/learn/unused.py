"""Grants of a policy that nobody used: parts that can go without a change for a log.

    policy + log ─parts─▶ definitions and constants ─tried one after the other─▶ a narrower policy
    its data + log ─unused_data─▶ members ─data_patch─▶ narrower data

A part is a definition of a rule, a constant of a collection that a value must be in, or a member of
data. It is taken out only where that can deny and never allow: the rule is true or undefined, and
everything that names it asks for it to be true. The narrower policy decides the whole log again;
a request that it would decide otherwise is an example that each part is tried against from then on.
The policy that `doorward learn` writes is the same for every log: of it, only data is looked at.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, Final

from doorward.base.records import record, replace
from doorward.bundles.loader import Loaded
from doorward.learn.data_patch import DataFile, cut_members
from doorward.learn.documents import POLICY, QUERY
from doorward.learn.line_diff import diff_of_cut
from doorward.learn.observations import LearnError
from doorward.learn.unused_data import Location, narrow_data, value_at, without_members
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
"""At most this many example requests are added in a round."""
ROUNDS: Final = 40
MAX_PARTS: Final = 2_000
MAX_ENTRIES: Final = 100
"""At most this many decided documents are checked; with more, all rules count as used."""
DOCUMENT: Final = QUERY.removeprefix("data.").replace(".", "/")
MOST_NAMED: Final = 5
"""At most this many learned rules are named for a member of data."""


@record
class Part:
    """A part of a policy's text that can be removed. `text`: a description of it for people."""

    file: str
    start: int
    end: int
    row: int
    text: str


@record
class Unused:
    """The grants that no request used. `patch`: a unified diff that removes them. `skipped`: events
    that could not be decided. `unpatched`: files whose text cannot be edited, with "" for data that
    is in no file of its own.
    """

    parts: tuple[Part, ...]
    patch: str
    events: int
    skipped: int
    allowed: int
    unpatched: tuple[str, ...] = ()


def find_unused(
    files: Sequence[str],
    loaded: Loaded,
    paths: frozenset[str],
    *,
    data: Sequence[DataFile] = (),
    v0: bool = False,
) -> Unused:
    """Find the parts of a policy and its data that no allowed request of a log needs; of the
    policies, only the first `MAX_PARTS` parts are tried, and none of the policy that `learn` itself
    writes for parameters. `paths`: the documents whose events count, all if empty. `v0`: the
    policies are Rego v0.

    Raise LearnError if the policy does not compile, if no event of the log can be decided or none
    is allowed, if there is too much data, if no narrower policy is found in `ROUNDS` rounds, or if
    the result decides otherwise than the policy; ReplayError if a log cannot be read.
    """
    version = _compile(loaded, v0=v0)
    if version is None:
        raise LearnError("the policy cannot be compiled: run `doorward check` to see why")
    fixed = {file for file, text in loaded.modules.items() if str(text) == POLICY}
    log = _Log(files, paths, version if fixed else None)
    trees = version.snapshot.engine.trees
    candidates = parts_of(trees)[:MAX_PARTS]
    candidates = [part for part in candidates if part.file not in fixed]
    examples, entries, counts = _first(log, version)
    if counts["events"] == counts["skipped"]:
        raise LearnError(
            "no line of the log can be evaluated again: use a decision log whose "
            "inputs are not masked (for audit logs of Docker, `doorward docker "
            "replay`)"
        )
    if not counts["allowed"]:
        raise LearnError(
            "the policy allows no request of the log, so its unused parts cannot be determined"
        )
    removed, narrower = _narrow_policies(log, version, loaded, candidates, examples, v0=v0)
    use = narrower.snapshot.engine.policies.lowered.data_use(entries)
    members = narrow_data(narrower, loaded.data, use, log)
    if fixed:  # an empty list of parameters, or a table without sets, grants nothing
        members = tuple([each for each in members if value_at(loaded.data, each) not in ([], {})])
    narrower = narrower.with_data(without_members(loaded.data, members))
    if _differing(log, version, narrower):
        raise LearnError("the narrower data would deny more: report this as a defect")
    parts, patches, unpatched = _data_parts(loaded.data, members, data, has_tests=bool(fixed))
    return Unused(
        (*removed, *parts),
        "".join([*_patch(loaded, removed), *patches]),
        counts["events"],
        counts["skipped"],
        counts["allowed"],
        unpatched,
    )


def _narrow_policies(
    log: _Log,
    version: Version,
    loaded: Loaded,
    candidates: Sequence[Part],
    examples: list[Event],
    *,
    v0: bool,
) -> tuple[list[Part], Version]:
    """Return the parts of the policies that can be removed together, [] if there are none, and the
    policies without them. Adds to `examples` the events that a narrower policy decided differently;
    LearnError if there are such events after each of `ROUNDS` rounds, or if a narrower policy
    allows more.
    """
    for _ in range(ROUNDS):
        removed = _reduce(loaded, candidates, examples, v0=v0)
        if not removed:
            return [], version
        narrower = _compile(without(loaded, removed), v0=v0)
        # INVARIANT: `_reduce` takes a part out only if the policies compile without it.
        assert narrower is not None
        wrong = _differing(log, version, narrower)
        if not wrong:
            return removed, narrower
        examples += wrong
    raise LearnError(
        f"each narrower policy of {ROUNDS} rounds still decided an event of the log differently: "
        "use a shorter log"
    )


class _Log:
    """The events of a log, read again at each iteration. With a learned policy, an event of a
    document that this policy lacks is decided by the policy's own document.
    """

    def __init__(
        self, files: Sequence[str], paths: frozenset[str], learned: Version | None
    ) -> None:
        self._files = files
        self._paths = paths
        self._learned = learned

    def __iter__(self) -> Iterator[Event]:
        """Yield the events of the documents in `paths`, of all if it is empty; each iteration reads
        the files. The path of an event may be replaced by that of the learned policy.
        """
        for chunk in chunks_of(self._files):
            for event in events_of(chunk.read()):
                if event is None or (self._paths and event.path not in self._paths):
                    continue
                if self._learned and event.path and self._learned.snapshot.is_nowhere(event.path):
                    event = event._replace(path=DOCUMENT)
                yield event


# Data.


def _data_parts(
    document: Any, members: Sequence[Location], data: Sequence[DataFile], *, has_tests: bool
) -> tuple[list[Part], list[str], tuple[str, ...]]:
    """Return removed members of the data as parts, sorted by file and row, the lines of a patch for
    all files, and the files that cannot be patched, with "" for members that are in none. With
    `has_tests`, the patch also removes the tests of removed learned rules.
    """
    parts: list[Part] = []
    patches: list[str] = []
    unpatched: list[str] = []
    left = set(members)
    tests = _tests_of(document, members) if has_tests else []
    for file in data:
        cut = file.inside(members)
        if not cut:
            continue
        located = {(*file.prefix, *each): each for each in cut}
        text = cut_members(file, [*cut, *file.inside(tests)])
        if text is None:
            unpatched.append(file.path)
        else:
            patches += _diff(file.path, file.text, text)
        for location, inside in located.items():
            row = file.rows.get(inside, 1)
            parts.append(Part(file.path, row, 0, row, _describe(document, location)))
        left -= located.keys()
    if left:
        unpatched.append("")
        parts += [
            Part("data", 0, 0, 1, _describe(document, each)) for each in sorted(left, key=str)
        ]
    return (
        sorted(parts, key=lambda each: (each.file, each.row, each.text)),
        patches,
        tuple(unpatched),
    )


def _tests_of(document: Any, members: Iterable[Location]) -> list[Location]:
    """Return the locations of the tests in the data that belong to learned rules in the removed
    members.
    """
    gone = {each for location in members for each in _rule_names(document, location)}
    tests = document["learned"].get("tests", {})
    return [
        ("learned", "tests", kind, number)
        for kind in ("allowed", "denied")
        for number, each in enumerate(tests.get(kind, ()))
        if each["rule"] in gone
    ]


def _rule_names(document: Any, location: Location) -> list[str]:
    """Return the ids of the learned rules at a location of the data and below it; [] if no rule can
    be there.
    """
    if location[:2] != ("learned", "routes") or len(location) > 6:
        return []
    names: list[str] = []
    waiting = [(value_at(document, location), len(location))]
    while waiting:
        value, depth = waiting.pop()
        if depth == 6:
            names.append(value["id"])
        else:
            items = value.values() if isinstance(value, dict) else value
            waiting += [(each, depth + 1) for each in items]
    return sorted(names)


def _describe(document: Any, location: Location) -> str:
    """Describe a member for people: its path, and the learned rules in it, of which at most
    `MOST_NAMED` are named and the others counted.
    """
    text = "data"
    for key in location:
        plain = type(key) is str and key.isidentifier() and key.isascii()
        text += f".{key}" if plain else f"[{json.dumps(key)}]"
    names = _rule_names(document, location)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{text} (rule {', '.join(names[:MOST_NAMED])}{more})" if names else text


# Parts.


def parts_of(trees: Mapping[str, Module]) -> list[Part]:
    """Return the parts whose removal can only deny more, in the order of the text."""
    modules = list(trees.values())
    parts: list[Part] = []
    for name, rules in _narrowing(modules).items():
        for rule in rules:
            label = ".".join([*name])
            parts.append(_part(rule.span, f"definition of data.{label}"))
            parts += _constants(rule)
    return sorted(set(parts), key=lambda each: (each.file, each.start, -each.end))


def _narrowing(modules: Iterable[Module]) -> dict[tuple[str, ...], list[Rule]]:
    """Return, by name, the definitions of the rules whose removal can only deny more, without their
    defaults: rules that can only be true or undefined, and that nothing but the conditions of such
    rules refers to.
    """
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
        remaining = {
            name: items
            for name, items in plain.items()
            # By the last name alone, whatever path it is in: other things of that name can only
            # keep a rule from being narrowed.
            if questions[name[-1]] <= positive[name[-1]] + heads[name[-1]]
        }
        if len(remaining) == len(plain):
            break
        plain = remaining
    return {
        name: [rule for rule in items if not rule.default] for name, items in sorted(plain.items())
    }


def _is_plain(rule: Rule) -> bool:
    """Return True if a rule without parameters and with a constant path can only be true or
    undefined, or is a default of false.
    """
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
    """Yield every name in a module that may refer to a rule: each variable and each constant key of
    a reference, as text, once for each occurrence.
    """
    for node in walk(module):
        if isinstance(node, Var):
            yield node.name
        elif isinstance(node, Ref):
            yield from (str(each.value) for each in node.args if isinstance(each, Scalar))


def _positive(rule: Rule) -> Iterator[str]:
    """Yield the names in those conditions of a rule that are only a variable or a constant path
    below `data`, and must be true; negated conditions, those with `with` and those with steps to
    run first (`expr.before`) are left out.
    """
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
    """Yield, as parts, the constants in the collections in which a rule's conditions look for a
    value, as in `x in ["a", "b"]`. A collection of one item has no removable constant.
    """
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
    """Return the literal array or set of a condition `x in …` or `some x in …`; None for other
    expressions, such as with `not`, with `with` or with two variables.
    """
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
    """Return a copy of the policies whose texts lack these parts, which may be nested. It may not
    compile. `loaded` is not changed.
    """
    by_file: defaultdict[str, list[Part]] = defaultdict(list)
    for part in parts:
        by_file[part.file].append(part)
    modules = dict(loaded.modules)
    for file, items in by_file.items():
        modules[file] = _cut(str(modules[file]), items)
    return replace(loaded, modules=modules)


def _cut(text: str, parts: Iterable[Part]) -> str:
    """Return a text without the parts, which may be nested."""
    end = len(text) + 1
    for part in sorted(parts, key=lambda each: (each.start, each.end), reverse=True):
        stop = min(part.end, end)
        if part.start < stop:
            text = text[: part.start] + text[stop:]
        end = min(end, part.start)
    return text


def _compile(loaded: Loaded, *, v0: bool) -> Version | None:
    """Compile the policies; None if they do not compile."""
    try:
        return Version.compile(loaded, v0=v0)
    except CompileError:
        return None


def _reduce(
    loaded: Loaded, parts: Sequence[Part], examples: Sequence[Event], *, v0: bool
) -> list[Part]:
    """Return parts that can be removed together while all examples stay allowed; each part is tried
    in turn. Parts inside a removed one are not listed. `loaded` is not changed.
    """
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


def _first(log: _Log, version: Version) -> tuple[list[Event], list[tuple[str, ...]], Counter[str]]:
    """Read the log once. Return the first `EXAMPLES` allowed events, the paths of the decided
    documents ([] if they are not known or too many), and the numbers of events, skipped events and
    allowed ones.
    """
    examples: list[Event] = []
    counts: Counter[str] = Counter()
    entries: set[str] = set()
    for event in log:
        counts["events"] += 1
        if len(entries) <= MAX_ENTRIES:
            entries.add("" if event.query else event.path)
        answer = version.answer(event)
        if answer.missing:
            counts["skipped"] += 1
        elif allows(answer):
            counts["allowed"] += 1
            if len(examples) < EXAMPLES:
                examples.append(event)
    if "" in entries or len(entries) > MAX_ENTRIES:
        return examples, [], counts
    return examples, [tuple(each.split("/")) for each in sorted(entries)], counts


def _differing(log: _Log, old: Version, new: Version) -> list[Event]:
    """Return allowed requests that the narrower policy denies, at most `EXAMPLES`; LearnError if it
    allows more. Requests that cannot be decided again are passed over.
    """
    items: list[Event] = []
    for event in log:
        before, now = old.answer(event), new.answer(event)
        if before.missing or allows(before) is allows(now):
            continue
        if allows(now):
            raise LearnError("the narrower policy would allow more: report this as a defect")
        items.append(event)
        if len(items) >= EXAMPLES:
            break
    return items


def _patch(loaded: Loaded, parts: Sequence[Part]) -> Iterator[str]:
    """Yield the lines of a patch that removes the parts from the policies."""
    after = without(loaded, parts).modules
    for file, text in loaded.modules.items():
        if str(text) != str(after[file]):
            yield from _diff(file, str(text), _tidy(str(after[file])))


def _diff(file: str, before: str, after: str) -> Iterator[str]:
    r"""Yield a unified diff; a last line without a line break is followed by `\ No newline at end
    of file`.
    """
    name = file.lstrip("/")
    # Not `splitlines`, which also cuts at a form feed and other breaks inside of lines.
    lines = list(StringIO(before)), list(StringIO(after))
    diff = diff_of_cut(*lines, name)
    if diff is None:
        diff = difflib.unified_diff(*lines, f"a/{name}", f"b/{name}")
    for line in diff:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _tidy(text: str) -> str:
    """Return a text with runs of empty lines, left by removed definitions, reduced to one."""
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text
