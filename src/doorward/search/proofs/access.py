"""Access questions with proofs: conditions that no input can fulfil are refuted; the answer as
text, JSON and CSV.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from doorward.base.counting import counted
from doorward.base.records import record, replace
from doorward.rego import UNDEFINED, Engine, Value, to_python, to_rego
from doorward.rego.shared import to_key
from doorward.rego.tools import Body, Module, format_tree
from doorward.search.proofs.checking import Checker
from doorward.search.proofs.refuting import Refuter
from doorward.search.who_can import Access, Condition, Path, Unknowns, input_text, put, who_can

__all__ = ["Question", "answer", "as_csv", "as_json", "text"]


@record
class Question:
    """A question for the values at `paths` of the input for which `query` holds at the time
    `now_ns`. `given`: the known rest of the input. `without`: a path of data, () for none; then
    only those values are asked for, for which the query holds thanks to the data at this path.
    """

    query: str
    given: Value
    paths: Sequence[Path]
    without: Path
    now_ns: int


def answer(engine: Engine, question: Question) -> Access:
    """Return who is allowed by the policies and data of an engine; with `question.without`, only
    those that are not allowed if that data is missing. CompileError for an invalid query; a failed
    evaluation is named in `Access.unknown`.
    """
    access = _answer(engine, question)
    if not question.without:
        return access
    data = put(to_python(engine.data), question.without, UNDEFINED)
    others = _answer(engine.policies.bind(data), question)
    left = {tuple(map(to_key, each.values)) for each in others.grants}
    grants = [each for each in access.grants if tuple(map(to_key, each.values)) not in left]
    conditions = [each for each in access.conditions if each not in others.conditions]
    # Who is not known without the data may be among the grants: then the answer is not complete.
    unknown = access.unknown or others.unknown
    return replace(access, grants=tuple(grants), conditions=tuple(conditions), unknown=unknown)


def _answer(engine: Engine, question: Question) -> Access:
    """Return the values and conditions with which the query holds with this engine; `without` is
    not considered.
    """
    return who_can(
        engine,
        question.query,
        question.given,
        question.paths,
        now_ns=question.now_ns,
        refutes=_refutes,
    )


def _refutes(engine: Engine, support: Sequence[Module], body: Body, unknowns: Unknowns) -> bool:
    """Return True if a checked proof shows that no input makes the conjunction `body` true."""
    checker = Checker(engine, support, unknowns.input, unknowns.paths)
    proof = Refuter(engine, support, unknowns).refute(body)
    return checker.accepts(proof, [format_tree((expr,)).strip() for expr in body])


def text(question: Question, access: Access) -> str:
    """Format the answer as text for a terminal: the values and reasons, the conditions, then
    `nobody else` (`nobody` without values) or the reason why there may be others, and the number of
    candidates.
    """
    lines = []
    for grant in access.grants:
        lines.append(", ".join(map(to_rego, grant.values)))
        lines += [f"  {reason}" for reason in grant.reasons]
    for condition in access.conditions:
        lines.append(_words(condition))
        lines += [f"  {each}" for each in condition.texts]
    if access.unknown:
        lines.append(f"there may be others: {access.unknown}")
    elif not access.conditions:
        lines.append("nobody else" if access.grants else "nobody")
    lines.append(f"{counted(access.candidates, 'candidate')} decided")
    return "\n".join(lines) + "\n"


def _words(condition: Condition) -> str:
    key = f" with a token verified with {condition.key}" if condition.key else ""
    return f"anyone{key}, if"


def as_json(question: Question, access: Access) -> str:
    """Format the answer as indented JSON with a line end."""
    names = _names(question)
    document: dict[str, Any] = {
        "query": question.query,
        "unknown": names,
        "allowed": [
            {
                "values": dict(zip(names, map(to_python, each.values), strict=True)),
                "reasons": list(each.reasons),
            }
            for each in access.grants
        ],
        "conditions": [{"texts": list(each.texts), "key": each.key} for each in access.conditions],
        "nobody_else": not access.conditions and not access.unknown,
        "reason": access.unknown,
        "candidates": access.candidates,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_csv(question: Question, access: Access) -> str:
    """Format the answer as CSV with a heading: a row for each grant and condition, and one if there
    may be others. Values that are not texts are written in Rego; texts that a spreadsheet would
    take for a formula begin with `'`.
    """
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    names = _names(question)
    writer.writerow(["kind", *names, "reason"])
    for grant in access.grants:
        values = [each if isinstance(each, str) else to_rego(each) for each in grant.values]
        writer.writerow(["allowed", *map(_cell, values), _cell("; ".join(grant.reasons))])
    blank = [""] * len(names)
    for condition in access.conditions:
        texts = "; ".join([f"token verified with {condition.key}"] * bool(condition.key))
        reason = "; ".join([*[texts] * bool(texts), *condition.texts])
        writer.writerow(["condition", *blank, _cell(reason)])
    if access.unknown:
        writer.writerow(["unknown", *blank, _cell(access.unknown)])
    return rows.getvalue()


def _cell(text: str) -> str:
    # A spreadsheet would read it as a formula.
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _names(question: Question) -> list[str]:
    return list(map(input_text, question.paths))
