"""Digests of the forms that policies take, over every policy at hand: equal ones prove equal forms.

    scripts/emit_digest.py                     one line for each set and form, one for each form
    scripts/emit_digest.py --forms code,exact  only these forms
    scripts/emit_digest.py --programs FILE     also a line for each program, to find what changed
    scripts/emit_digest.py --renames FILE      with methods and locals renamed by a table

The forms, in the order in which they come into being:

    orders     bodies in the order in which they are evaluated
    flat       rules as safety and types read them
    steps      rules as exact code reads them
    code       generated Python: plain, traced and bounded
    exact      generated Python of the code that decides errors
    residuals  what partial evaluation with an unknown input leaves, and the rules it reads

The programs are the policies of this repository and those of the recorded data of `../shared`
(`DOORWARD_SHARED`), each with its query. A refactoring of the compiler keeps the digests; a change
that renames what is in generated code keeps them under its table of renames. Generated variables of
steps and exact code count by their order, whatever their names are.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

from doorward.base.records import replace
from doorward.rego import REGISTRY, Engine, Environment, Registry, RegoError, from_json, to_rego
from doorward.rego.analysis.dependencies import branches
from doorward.rego.analysis.evaluation_order import rule_in_steps
from doorward.rego.analysis.rule_types import flatten_rule
from doorward.rego.analysis.tree import Definition, RuleNode
from doorward.rego.codegen.constants import Constants
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.program import unit
from doorward.rego.codegen.rules import one_rule_function, piece_function
from doorward.rego.partial.core import Constant
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Rule
from doorward.rego.types import null, string

ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = ROOT / os.environ.get("DOORWARD_SHARED", "../shared") / "data"
SETS: Final = ("language", "negation", "heads", "with", "schema-meta", "mutants")
"""The recorded sets whose rows are programs."""

MODES: Final[Mapping[str, dict[str, Any]]] = {
    "plain": {},
    "traced": {"traced": True},
    "bounded": {"max_items": 1_000, "environment": Environment(on_print=lambda *_: None)},
}
"""The options that change which code is generated."""

FORMS: Final = ("orders", "flat", "steps", "code", "exact", "residuals")

GENERATED: Final = re.compile(r"__(?:step|negated|local)\d+__(?:@operand)?")

REGISTERED: Final = Registry(REGISTRY)
REGISTERED.builtin("test.sleep", string, returns=null, pure=False)(lambda duration: None)


Engines: TypeAlias = dict[str, Engine]
"""The engines of one program, by mode."""


class Program(NamedTuple):
    """Policies by file name, and a query on them."""

    name: str
    modules: Mapping[str, str]
    query: str
    v0: bool = False
    modes: tuple[str, ...] = tuple(MODES)


def main() -> int:
    """Print the digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forms", default=",".join(FORMS), help="forms, separated by commas")
    parser.add_argument("--programs", type=Path, help="write a digest for each program here")
    parser.add_argument("--renames", type=Path, help="JSON: methods and locals, old name to new")
    options = parser.parse_args()
    rename = _renaming(json.loads(options.renames.read_text())) if options.renames else _as_is
    forms = options.forms.split(",")
    totals = {form: hashlib.sha256() for form in forms}
    with open(options.programs or os.devnull, "w", encoding="utf-8") as listing:
        for name, programs in _sets():
            count, digests = _digests(programs, forms, rename, listing)
            for form, digest in digests.items():
                totals[form].update(digest.encode())
                print(f"{digest[:16]}  {count:6}  {form:9}  {name}", flush=True)
    for form, total in totals.items():
        print(f"{total.hexdigest()[:16]}          {form:9}  all")
    return 0


def _digests(
    programs: Iterable[Program],
    forms: Iterable[str],
    rename: Callable[[str], str],
    listing: TextIO,
) -> tuple[int, dict[str, str]]:
    """How many programs there are, and for each form the digest of all of them."""
    totals, count = {form: hashlib.sha256() for form in forms}, 0
    for program in programs:
        count += 1
        engines: Engines = {}
        for form, total in totals.items():
            digest = digest_of(program, form, rename, engines)
            total.update(digest.encode())
            listing.write(f"{digest} {form} {program.name}\n")
    return count, {form: total.hexdigest() for form, total in totals.items()}


def digest_of(
    program: Program, form: str, rename: Callable[[str], str], engines: Engines | None = None
) -> str:
    """The digest of one program in one form; `engines` keeps those of the program."""
    texts = "\n".join(map(rename, _texts(program, form, {} if engines is None else engines)))
    return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()


def _texts(program: Program, form: str, engines: Engines) -> Iterator[str]:
    """The texts of a form, or the error that the program is refused with."""
    modes = program.modes if form == "code" else ("plain",)
    for mode in modes:
        try:
            yield from _FORMS[form](_engine(program, mode, engines), program.query)
        except RegoError as error:
            yield f"{error}"


def _engine(program: Program, mode: str, engines: Engines) -> Engine:
    if mode not in engines:
        engines[mode] = Engine(program.modules, v0=program.v0, registry=REGISTERED, **MODES[mode])
    return engines[mode]


def _code(engine: Engine, query: str) -> Iterator[str]:
    for file, text in engine.emit().items():
        yield f"# {file}\n{text}"
    if query:
        yield engine.prepare(query).emit()


def _exact(engine: Engine, query: str) -> Iterator[str]:
    plan = engine.policies.code.exact().plan
    for node in plan.root.walk():
        for number, definition in enumerate(node.definitions):
            for branch in branches(definition.rule):
                text = _exact_function(node, replace(definition, rule=branch), plan)
                yield _numbered(f"# {node.name} {number}\n{text}")
    if query:
        yield _numbered(engine.prepare(query, strict_builtin_errors=True).emit())


def _exact_function(node: RuleNode, definition: Definition, plan: Plan) -> str:
    rule, constants = rule_in_steps(definition.rule, plan.callees), Constants()
    operands = rule.head.ref.args
    tail = operands[len(operands) - len(definition.tail) :]
    stepped = replace(definition, rule=rule, tail=tail)
    if node.is_complete or node.is_function:
        function = one_rule_function(node, stepped, plan, constants, first=True)
    else:
        function = piece_function(node, stepped, 0, plan, constants)
    return unit(rule.span.source, [function]).text(constants.names)


def _orders(engine: Engine, query: str) -> Iterator[str]:
    yield from map(_dump, _rules(engine))
    if query:
        yield _dump(engine.prepare(query).body)


def _flat(engine: Engine, _query: str) -> Iterator[str]:
    arity = engine.policies.program.callees.arity
    for rule in _rules(engine):
        for branch in branches(rule):
            flat = flatten_rule(branch, arity)
            yield _numbered(_dump((flat.head, flat.body)))


def _steps(engine: Engine, _query: str) -> Iterator[str]:
    callees = engine.policies.program.callees
    for rule in _rules(engine):
        for branch in branches(rule):
            yield _numbered(_dump(rule_in_steps(branch, callees)))


def _residuals(engine: Engine, query: str) -> Iterator[str]:
    for rule in engine.policies.lowered._rules:
        for branch in rule.branches():
            yield _dump((branch.path, branch.args, branch.key, branch.value, branch.body))
    if query:
        residual = engine.partial(query, max_size=10_000)
        yield from (*residual.query_texts, *residual.support_texts)


_FORMS: Final[Mapping[str, Callable[[Engine, str], Iterator[str]]]] = {
    "orders": _orders,
    "flat": _flat,
    "steps": _steps,
    "code": _code,
    "exact": _exact,
    "residuals": _residuals,
}


def _rules(engine: Engine) -> Iterator[Rule]:
    return (rule for module in engine.policies.program.modules for rule in module.rules)


def _dump(value: object) -> str:
    """A tree as text; of the positions those at which expressions begin."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_dump, value))})"
    if isinstance(value, Constant):
        return f"Constant({to_rego(value.value)})"
    if not is_dataclass(value):
        return repr(value)
    parts = [getattr(value, each.name) for each in fields(value) if each.compare]
    span = getattr(value, "span", None)
    start = f"@{span.row}:{span.col}" if isinstance(span, Span) and hasattr(value, "withs") else ""
    return f"{type(value).__name__}{start}({', '.join(map(_dump, parts))})"


def _numbered(text: str) -> str:
    """`text` with generated variables numbered in the order in which they appear."""
    names: dict[str, str] = {}
    return GENERATED.sub(lambda match: names.setdefault(match[0], f"__{len(names)}"), text)


def _sets() -> Iterator[tuple[str, Iterator[Program]]]:
    yield "policies of the repository", _policies()
    yield "conformance", map(_case, _rows(DATA / "rego-v1.jsonl.gz"))
    for name in SETS:
        yield name, map(_row, _rows(DATA / "golden" / f"{name}.jsonl.gz"))


def _policies() -> Iterator[Program]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "*.rego"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in sorted(filter(None, listing.stdout.split("\0"))):
        yield Program(name, {name: (ROOT / name).read_text(encoding="utf-8")}, "data")


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if not file.is_file():
        print(f"no recorded programs at `{file}`: set DOORWARD_SHARED", file=sys.stderr)
        return
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            row: Any = from_json(line)
            yield row


def _case(row: dict[str, Any]) -> Program:
    modules = {f"test-{n}.rego": text for n, text in enumerate(row.get("modules") or ())}
    return Program(row["note"], modules, row["query"])


def _row(row: dict[str, Any]) -> Program:
    # The mutants are variants of the suite's cases, and many: one mode is enough for them.
    modes = ("plain",) if row["group"] == "mutants" else tuple(MODES)
    return Program(row["id"], row.get("modules", {}), row["query"], bool(row.get("v0")), modes)


def _as_is(text: str) -> str:
    return text


def _renaming(table: Mapping[str, Mapping[str, str]]) -> Callable[[str], str]:
    """What renames methods of the evaluation (`ctx`, or a temporary under `with`), and locals."""
    methods, local = table["methods"], table["locals"]
    method = re.compile(rf"\b(ctx|_\w+)\.({'|'.join(methods)})\(")
    name = re.compile(rf"(?<![\w.'\"#])({'|'.join(local)})(?=\d*\b(?!['\"]))")

    def rename(text: str) -> str:
        text = method.sub(lambda match: f"{match[1]}.{methods[match[2]]}(", text)
        return name.sub(lambda match: local[match[0]], text)

    return rename


if __name__ == "__main__":
    sys.exit(main())
