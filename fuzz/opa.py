"""OPA itself as the third voice: the program `opa`, or one that answers questions line by line.

`opa eval` is started for each input, with all documents in one query. A program that reads one
JSON object a line (`modules`, `query`, `data`, `input`, `strict`, `v0`) and writes one (`result` or
`error`, as `opa eval` does) answers hundreds of times faster.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, Protocol

from doorward.rego import from_python, to_json, to_python
from fuzz.pools import MISSING, Program

__all__ = ["LOST_TYPE", "Lines", "Opa", "Peer", "as_json", "canonical"]

Outcome = tuple[str, str]
LOST_TYPE: Final = "lost_type"
"""The code of an error of releases between 1.9 and 1.18, which refuse `f(x) := {x | true}`."""


class Peer(Protocol):
    """Another engine."""

    def accepts(self, program: Program) -> str:
        """ "" if the modules compile, or the code of the first error."""

    def outcome(self, program: Program, query: str, input_: Any) -> Outcome | None:
        """`value` and JSON, `error` and its code; None where it cannot be told."""


def canonical(value: Any) -> str:
    """JSON with the keys in order; numbers by their text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def as_json(value: Any) -> Any:
    """A Rego value as it comes back from JSON."""
    return _read(to_json(from_python(to_python(value))))


def _read(text: str) -> Any:
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(text: str) -> dict[str, str]:
    return {"number": text}


class Lines:
    """A program that answers line by line."""

    def __init__(self, command: str) -> None:
        self.process = subprocess.Popen(
            [command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def accepts(self, program: Program) -> str:
        answer = self._ask(program, "x := 1", MISSING)
        error = answer.get("error")
        return _code(error) if error else ""

    def outcome(self, program: Program, query: str, input_: Any) -> Outcome | None:
        answer = self._ask(program, query, input_)
        if "error" in answer:
            return "error", _code(answer["error"])
        rows = [dict(row) for row in answer["result"]]
        return "value", canonical(rows)

    def _ask(self, program: Program, query: str, input_: Any) -> dict[str, Any]:
        question = {
            "modules": program.modules,
            "query": query,
            "data": program.data,
            "strict": program.strict,
            "v0": program.v0,
        }
        if input_ is not MISSING:
            question["input"] = input_
        sink, source = self.process.stdin, self.process.stdout
        assert sink is not None
        assert source is not None
        _write_line(sink, question)
        answer = _read(source.readline())
        assert isinstance(answer, dict)
        return answer


def _write_line(sink: IO[str], question: Mapping[str, Any]) -> None:
    sink.write(json.dumps(question) + "\n")
    sink.flush()


def _code(error: Mapping[str, Any]) -> str:
    message = str(error.get("message", ""))
    if re.search(r"left  : \?\?\?\n\tright : (?:set|object)\[", message):
        return LOST_TYPE
    if error.get("code"):
        return str(error["code"])
    return "rego_parse_error" if "rego_parse_error" in message else "unknown"


class Opa:
    """The program `opa`."""

    def __init__(self, command: str) -> None:
        self.command = command

    def accepts(self, program: Program) -> str:
        done = self._run(program, "x := 1", MISSING)
        if isinstance(done, str):
            return done
        return ""

    def outcome(self, program: Program, query: str, input_: Any) -> Outcome | None:
        done = self._run(program, query, input_)
        if isinstance(done, str):
            return "error", done
        rows = [row.get("bindings") or {"": row["expressions"][-1]["value"]} for row in done]
        return "value", canonical(rows)

    def _run(self, program: Program, query: str, input_: Any) -> list[Any] | str:
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            arguments = [self.command, "eval", "--format", "json"]
            for name, text in program.modules.items():
                (directory / name).write_text(text, encoding="utf-8")
                arguments += ["-d", str(directory / name)]
            (directory / "data.json").write_text(json.dumps(program.data), encoding="utf-8")
            arguments += ["-d", str(directory / "data.json")]
            if input_ is not MISSING:
                (directory / "input.json").write_text(json.dumps(input_), encoding="utf-8")
                arguments += ["-i", str(directory / "input.json")]
            arguments += ["--v0-compatible"] if program.v0 else []
            arguments += ["--strict-builtin-errors"] if program.strict else []
            done = subprocess.run(
                [*arguments, "--", query], capture_output=True, text=True, check=False
            )
        answer = _read(done.stdout or "{}")
        if answer.get("errors"):
            return _code(answer["errors"][0])
        rows = answer.get("result", [])
        assert isinstance(rows, list)
        return rows
