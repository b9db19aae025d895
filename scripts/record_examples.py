"""Examples of the playground -> docs/site/recorded.js: what Doorward answers to them, and why.

The page of examples needs no server: it displays what is recorded here (`make docs`; with `--check`
whether that is current).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from doorward.console.playground import answer
from doorward.console.why import document
from doorward.rego import compile, explain, from_python

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "console/examples"
RECORDED = ROOT / "docs/site/recorded.js"
ANSWERED = ("defined", "result", "why", "sql", "rows")


def examples() -> list[dict[str, Any]]:
    """The examples in their order, each with its policies."""
    documents = []
    for file in EXAMPLES.glob("*/example.json"):
        policies = sorted(file.parent.glob("*.rego"))
        files = {each.name: each.read_text() for each in policies}
        documents.append({"id": file.parent.name, **json.loads(file.read_text()), "files": files})
    return sorted(documents, key=lambda each: int(each["order"]))


def record(example: dict[str, Any]) -> dict[str, Any]:
    """An example with the answer to each of its inputs, and the outcomes of its tests."""
    request = {name: example[name] for name in ("files", "query", "data") if name in example}
    action = example.get("action", "evaluate")
    inputs = []
    for each in example["inputs"]:
        answered = answer(action, {**request, "input": each["input"]})
        known = {name: answered[name] for name in ANSWERED if name in answered}
        inputs.append(each | known | {"states": states(example, each["input"])})
    tested = answer("test", request)
    file = next(iter(example["files"]))
    proved = [answer("prove", {**request, "file": file, "others": each}) for each in (False, True)]
    tests = [{"name": each["name"], "outcome": each["outcome"]} for each in tested["tests"]]
    properties = [
        {"name": each["name"], "outcome": each["outcome"], "input": each["input"]}
        for answered in proved
        for each in answered["properties"]
    ]
    return example | {"inputs": inputs, "tests": tests, "properties": properties}


def states(example: dict[str, Any], input: Any) -> dict[str, Any]:
    """Which rows of which file held, failed, or were not reached."""
    engine = compile(example["files"]).bind(example.get("data", {}))
    explanation = explain(engine, example["query"], from_python(input))
    sources = document(explanation, engine.policies, {})["sources"]
    return {file: source["rows"] for file, source in sources.items()}


def text() -> str:
    """The recorded examples as a script: a page that is opened as a file may load no JSON."""
    recorded = json.dumps([record(each) for each in examples()], indent=1, ensure_ascii=True)
    return f"// Made by `make docs`; do not edit.\nwindow.doorwardExamples = {recorded};\n"


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        RECORDED.write_text(text())
    elif RECORDED.read_text() != text():
        sys.stderr.write(f"{RECORDED.relative_to(ROOT)} is not current: run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
