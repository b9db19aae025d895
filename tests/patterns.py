"""Every pattern of Python's `re` in the sources, and inputs that make a bad one slow.

`uses` reads the sources: a pattern that is named at the top of a module is known by that name, one
that is written inside a function by the function and its text. `attacks` reads a pattern: for each
repetition in it, texts that make it backtrack, if anything does.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed has it private
from re import _parser as parser  # type: ignore[attr-defined]  # the same
from typing import Any, Final

from tests import growth
from tests.growth import cost, grows
from tests.parsing import nodes_of, parsed_file

__all__ = [
    "Attack",
    "Use",
    "attacks",
    "find_slow",
    "grows_by",
    "longest_literal",
    "patterns_in",
    "slow",
    "slowest",
    "uses",
]

SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "doorward"
METHODS: Final = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")
ENTRY: Final = ("compile", *METHODS)

Text = str | bytes


@dataclass(frozen=True, slots=True)
class Attack:
    """A text of any length: the pump stands between the ends as often as is wanted."""

    prefix: str
    pump: str
    suffix: str

    def text(self, length: int) -> str:
        """The text with so many characters of pumps."""
        return self.prefix + self.pump * max(1, length // len(self.pump)) + self.suffix


@dataclass(frozen=True, slots=True)
class Use:
    """Where a pattern is written, the patterns that are there, and what they are called by.

    No patterns: what is compiled is known only when it runs. No methods: they are called by way of
    another name.
    """

    key: str
    patterns: tuple[re.Pattern[Any], ...]
    methods: frozenset[str]


def uses(root: Path = SOURCE, package: str = "doorward") -> dict[str, Use]:
    """Every use in the sources, by its key."""
    paths = sorted(root.rglob("*.py"))
    everywhere = _called(paths)
    actual: dict[str, Use] = {}
    for path in paths:
        called = _called([path])
        called |= {name: methods for name, methods in everywhere.items() if name[0] != "_"}
        name = path.relative_to(root).with_suffix("")
        module = ".".join((package, *name.parts)).removesuffix(".__init__")
        for use in _in_module(path, f"{name}.py", module, called):
            old = actual.get(use.key)
            methods = use.methods | (old.methods if old else frozenset())
            actual[use.key] = Use(use.key, use.patterns, methods)
    return actual


def _called(paths: Iterable[Path]) -> dict[str, set[str]]:
    """By what methods a name's patterns are called, whichever module does it."""
    called: dict[str, set[str]] = {}
    for path in paths:
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                target = node.value
                if isinstance(target, ast.Name):
                    called.setdefault(target.id, set()).add(node.attr)
                elif isinstance(target, ast.Attribute):
                    called.setdefault(target.attr, set()).add(node.attr)
    return called


def _in_module(path: Path, file: str, module: str, called: dict[str, set[str]]) -> Iterator[Use]:
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            raise AssertionError(f"{file}: import `re` whole, so that its uses can be seen")
        if isinstance(node, ast.Import) and any(a.name == "re" and a.asname for a in node.names):
            raise AssertionError(f"{file}: `re` has another name")
    if not any(map(_is_use, nodes_of(path))):
        return
    for top in parsed_file(path).body:
        calls = [node for node in ast.walk(top) if _is_use(node)]
        if not calls:
            continue
        if isinstance(top, ast.Assign | ast.AnnAssign) and top.value is not None:
            target = top.targets[0] if isinstance(top, ast.Assign) else top.target
            assert isinstance(target, ast.Name), f"{file}:{top.lineno}"
            value = getattr(importlib.import_module(module), target.id)
            methods = frozenset(called.get(target.id, ()))
            yield Use(f"{file}:{target.id}", tuple(patterns_in(value)), methods)
        else:
            yield from _in_function(top, f"{file}:{getattr(top, 'name', '')}")


def _in_function(top: ast.stmt, key: str) -> Iterator[Use]:
    """`re.match(r"…", text)` and `re.compile(r"…").match(text)`."""
    by_compile = {
        id(node.value): node.attr
        for node in ast.walk(top)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call)
    }
    for node in ast.walk(top):
        if not _is_use(node):
            continue
        assert isinstance(node, ast.Attribute)
        call = next(c for c in ast.walk(top) if isinstance(c, ast.Call) and c.func is node)
        method = node.attr if node.attr != "compile" else by_compile.get(id(call), "")
        methods = frozenset([method] if method in METHODS else [])
        given = call.args[0] if call.args else None
        if isinstance(given, ast.Constant) and isinstance(given.value, str | bytes):
            pattern: re.Pattern[Any] = re.compile(given.value, _flags(call))
            yield Use(f"{key}: {given.value!r}", (pattern,), methods)
        else:
            yield Use(key, (), methods)


def _is_use(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ENTRY
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
    )


def _flags(call: ast.Call) -> int:
    names = [
        node.attr
        for argument in [*call.args[1:], *(keyword.value for keyword in call.keywords)]
        for node in ast.walk(argument)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id == "re"
    ]
    flags = 0
    for name in names:
        flags |= int(getattr(re, name))
    return flags


def patterns_in(value: object, seen: set[int] | None = None) -> Iterator[re.Pattern[Any]]:
    """The patterns that a value holds."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for item in value.items():
            yield from patterns_in(item, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from patterns_in(item, seen)
    elif hasattr(value, "__slots__") or hasattr(value, "__dict__"):
        for name in (*getattr(value, "__slots__", ()), *getattr(value, "__dict__", ())):
            yield from patterns_in(getattr(value, name, None), seen)


def attacks(pattern: re.Pattern[Any]) -> list[Attack]:
    """Texts that would make the pattern take more than linear time, if any does."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("l1")
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    tree = parser.parse(source, flags & ~re.DEBUG)
    letters: dict[str, None] = {}
    repeats: dict[tuple[str, str], None] = {}
    _collect(tree, "", letters, repeats)
    alphabet = list(letters)[:12]
    ends = ["", "\0", "!"]
    pumps = {(prefix, pump): [*ends, *alphabet[:4]] for prefix, pump in repeats if pump}
    for first, second in product(alphabet, repeat=2):
        pumps.setdefault(("", first + second), ends)
        pumps.setdefault((first, second), ends)
        pumps.setdefault(("", first), ends)
    return [Attack(*pump, end) for pump, ends in sorted(pumps.items()) for end in ends]


def _collect(
    tree: Any, before: str, letters: dict[str, None], repeats: dict[tuple[str, str], None]
) -> str:
    """The characters of a pattern and its repetitions, each with what has to stand before it."""
    written = ""
    for code, detail in tree:
        here = before + written
        for character in _samples(code, detail):
            letters.setdefault(character)
        bodies = list(_bodies(code, detail))
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            repeats.setdefault(("", here))
            for example in _examples(detail[2]):
                repeats.setdefault((here, example))
                repeats.setdefault(("", example))
        for body in bodies:
            _collect(body, here, letters, repeats)
        written += _example(code, detail)
    if len(written) > 1:
        repeats.setdefault(("", written))
        repeats.setdefault((before, written))
    return written


def _bodies(code: Any, detail: Any) -> Iterator[Any]:
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        yield detail[2]
    elif code is codes.SUBPATTERN:
        yield detail[3]
    elif code is codes.ATOMIC_GROUP:
        yield detail
    elif code is codes.BRANCH:
        yield from detail[1]
    elif code in (codes.ASSERT, codes.ASSERT_NOT):
        yield detail[1]


_BY_CATEGORY: Final = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_NOT_DIGIT: "x",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "x",
    codes.CATEGORY_WORD: "w",
    codes.CATEGORY_NOT_WORD: "-",
}


def _samples(code: Any, detail: Any) -> list[str]:
    """Some of the characters that one step of a pattern takes."""
    if code is codes.LITERAL:
        return [chr(detail)]
    if code is codes.NOT_LITERAL:
        return [c for c in "ax" if ord(c) != detail][:1]
    if code is codes.ANY:
        return ["a"]
    if code is not codes.IN:
        return []
    if detail[0][0] is codes.NEGATE:
        refused = set(_members(detail[1:]))
        return [c for c in 'ax0 "\\-,;' if c not in refused][:2] or ["\u00e9"]
    return list(dict.fromkeys(_members(detail)))[:6]


def _members(items: Sequence[Any]) -> Iterator[str]:
    for code, detail in items:
        if code is codes.LITERAL:
            yield chr(detail)
        elif code is codes.RANGE:
            yield chr(detail[0])
            yield chr(detail[1])
        elif code is codes.CATEGORY:
            yield _BY_CATEGORY[detail]


def _example(code: Any, detail: Any) -> str:
    """A text that one step of a pattern takes."""
    if samples := _samples(code, detail):
        return samples[0]
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        body = next(iter(_examples(detail[2])), "")
        return body * max(1, min(int(detail[0]), 64))
    if code is codes.BRANCH:
        return next((text for body in detail[1] for text in _examples(body) if text), "")
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return ""
    return "".join([next(iter(_examples(body)), "") for body in _bodies(code, detail)])


def _examples(tree: Any) -> list[str]:
    """Texts that a pattern takes: one, and one for each alternative or sample in it."""
    steps = list(tree)
    plain = [_example(code, detail) for code, detail in steps]
    actual = {"".join(plain): None}
    for number, (code, detail) in enumerate(steps):
        others = list(_samples(code, detail))
        for body in _bodies(code, detail):
            if code not in (codes.ASSERT, codes.ASSERT_NOT):
                others += _examples(body)
        for other in others[:6]:
            actual.setdefault("".join([*plain[:number], other, *plain[number + 1 :]]))
    return list(actual)[:16]


def _caller(pattern: re.Pattern[Any], method: str) -> Callable[[Text], object]:
    is_text = isinstance(pattern.pattern, str)
    if method in ("sub", "subn"):
        return lambda text: pattern.sub("" if is_text else b"", text)
    if method == "finditer":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    call: Callable[[Text], object] = getattr(pattern, method)
    return call


def encoded(pattern: re.Pattern[Any], text: str) -> Text:
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


SHORT: Final = ((12, 16, 20), (24, 28), (32, 40), (48, 64), (128,), (256,))
"""Lengths that are tried together: what takes too long for one of them is noticed at the one
before, or ends soon all the same."""
SUSPECT: Final = 0.25e-6
"""Seconds for a character: few linear patterns take as long, and their growth is looked at."""


ATTACKED: Final = Path(__file__).with_name("patterns_attacked.txt")
"""Digests of the patterns that no attack made slow."""


def digest_of(pattern: re.Pattern[Any], method: str) -> str:
    """The digest of a pattern, of how it is called, of these attacks and of Python's version: what
    decides whether an attack makes it slow."""
    return sha256(repr((_version(), pattern.pattern, pattern.flags, method)).encode()).hexdigest()


@cache
def _version() -> tuple[object, ...]:
    files = (Path(__file__), Path(growth.__file__))
    return (sys.version_info[:2], *(sha256(file.read_bytes()).hexdigest() for file in files))


def read_attacked() -> set[str]:
    return set(ATTACKED.read_text().split())


def write_attacked(digests: Iterable[str]) -> None:
    ATTACKED.write_text("\n".join(sorted(digests)) + "\n")


BATCH: Final = 16
"""Attacks whose short texts are timed together: what explodes among others explodes alone."""


def find_slow(pattern: re.Pattern[Any], method: str) -> Attack | None:
    """The first attack for which the time grows faster than the text does; None without one."""
    every = attacks(pattern)
    for begin in range(0, len(every), BATCH):
        batch = every[begin : begin + BATCH]
        check = slow if _explodes(pattern, method, batch, runs=1) else _lags
        for attack in batch:
            if check(pattern, method, attack):
                return attack
    return None


def slow(pattern: re.Pattern[Any], method: str, attack: Attack) -> bool:
    """Whether the time grows faster than the text does.

    Short texts come first: one that takes 2^n must not be tried with n = 2048.
    """
    return _explodes(pattern, method, [attack]) or _lags(pattern, method, attack)


def _explodes(
    pattern: re.Pattern[Any], method: str, together: Sequence[Attack], *, runs: int = 3
) -> bool:
    """Whether short texts of any of these attacks, or of all together, take long."""
    call = _caller(pattern, method)

    def call_each(texts: Sequence[Text]) -> None:
        for each in texts:
            call(each)

    for lengths in SHORT:
        texts = [encoded(pattern, each.text(length)) for each in together for length in lengths]
        # Measured again where that decides.
        measurements = [1] if runs == 1 else [1, runs]
        if all(cost(call_each, texts, runs=each) > 0.002 for each in measurements):
            return True
    return False


def _lags(pattern: re.Pattern[Any], method: str, attack: Attack) -> bool:
    """Whether a long text takes long, and the time grows faster than the text does."""
    call, text = _caller(pattern, method), encoded(pattern, attack.text(2048))
    if cost(call, text) < SUSPECT * len(text):
        return False
    return grows_by(pattern, method, attack, 2048)


def longest_literal(pattern: str) -> str:
    """The longest text that is in all that a pattern without flags takes; "" if there is none."""
    steps = [
        chr(detail) if code is codes.LITERAL else "\0" for code, detail in parser.parse(pattern)
    ]
    return max("".join(steps).split("\0"), key=len)


def slowest(use: Use) -> Attack:
    """The attack that costs most for its length, for an entry of patterns.toml."""
    costs: dict[Attack, float] = {Attack("", "a", ""): 0.0}
    for pattern, method in product(use.patterns, use.methods or ["search"]):
        for attack in attacks(pattern):
            text = encoded(pattern, attack.text(2048))
            costs[attack] = cost(_caller(pattern, method), text) / len(text)
    return max(filter(_is_text, costs), key=costs.__getitem__)


def _is_text(attack: Attack) -> bool:
    """Whether TOML can hold it: no half of a surrogate pair."""
    return re.search("[\ud800-\udfff]", "".join(astuple(attack))) is None


def grows_by(pattern: re.Pattern[Any], method: str, attack: Attack, length: int) -> bool:
    """Whether the time grows faster from this length on than the text does."""
    return grows(_caller(pattern, method), lambda size: encoded(pattern, attack.text(size)), length)
