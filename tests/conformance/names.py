"""Programs whose names shadow `input`, `data`, rules and packages, with what OPA answered."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows

from doorward.rego import UNDEFINED, Engine
from doorward.rego.errors import Diagnostic, EvalError, RegoError

__all__ = ["answer", "recorded", "rows"]

Row = dict[str, Any]
Answer = dict[str, Any]

_FUNCTION: Final = re.compile(r"function (.*) used as reference, not called")


@cache
def rows() -> list[Row]:
    """The recorded programs."""
    return list(read_rows(GOLDEN / "names.jsonl.gz"))


def recorded(row: Row) -> Answer:
    """What the newest OPA that was asked says."""
    want: Answer = row["want_1_20"] if "want_1_20" in row else row["want"]
    if isinstance(text := want.get("errors"), str):
        _, file, line, rest = text.split(":", 3)
        code, _, message = rest.strip().partition(": ")
        return {"errors": [(file.strip(), int(line), code, message)]}
    if "errors" in want:
        places = [(e["file"], e["row"], e["col"], e["code"], e["message"]) for e in want["errors"]]
        return {"errors": sorted(places)}
    return want


def answer(row: Row) -> Answer:
    """What the engine says."""
    # 1.20.2 was asked with strict errors, and gives one of the evaluation as a text.
    strict = isinstance(row.get("want_1_20", {}).get("errors"), str)
    try:
        engine = Engine(row["modules"], {}, v0=row["dialect"] == "v0")
        value = engine.prepare(row["query"], strict_builtin_errors=strict).value(row["input"])
    except EvalError as error:
        (only,) = error.diagnostics
        return {"errors": [(only.span.file, only.span.row, only.code, only.message)]}
    except RegoError as error:
        return {"errors": sorted(map(_place, error.diagnostics))}
    return {"undefined": True} if value is UNDEFINED else {"value": value}


def _place(error: Diagnostic) -> tuple[str, int, int, str, str]:
    span = error.span
    # 1.9.0, which was asked, has the same text for this as for any reference that reaches nothing.
    message = _FUNCTION.sub(r"undefined ref: \1", error.message)
    return span.file, span.row, span.col, error.code, message
