"""OPA's conformance suite, at a pinned tag, becomes one file with a case a line.

    scripts/get-corpora [--from REPOSITORY|FILE] [--to FILE]

A file is one that this script wrote before: it is checked and copied. The suite belongs to OPA and
is not part of this repository. Only its folder is fetched. A case keeps OPA's keys and gets the
folder and the file that it comes from.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from doorward.rego import Value, from_json, to_json
from doorward.rego.golang import unmarshal

REPOSITORY: Final = "https://github.com/open-policy-agent/opa"
TAG: Final = "v1.18.2"
FOLDER: Final = "v1/test/cases/testdata/v1"
TARGET: Final = Path(__file__).resolve().parent.parent / "build/corpora/rego-v1.jsonl.gz"


def fetch(repository: str, checkout: Path) -> None:
    """A checkout of the suite's folder at the tag."""
    clone = ["clone", "--quiet", "--depth=1", f"--branch={TAG}", "--filter=blob:none", "--sparse"]
    git(*clone, "--config", "advice.detachedHead=false", repository, str(checkout))
    git("-C", str(checkout), "sparse-checkout", "set", FOLDER)


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True)


def read_cases(folder: Path) -> Iterator[Value]:
    """The cases of the suite in the order of their files."""
    for path in sorted(folder.rglob("*.yaml")):
        document: Any = unmarshal(path.read_text(encoding="utf-8"))
        for case in document["cases"]:
            yield {"suite": path.parent.name, "file": path.stem, **case}


def read_file(file: Path) -> Iterator[Value]:
    """The cases of a file that was written before; ValueError where a row is not one."""
    with gzip.open(file, "rt", encoding="utf-8") as rows:
        for number, row in enumerate(rows, start=1):
            case = from_json(row)
            if not isinstance(case, dict) or not {"note", "query"} <= case.keys():
                raise ValueError(f"row {number} is not a case of the suite")
            yield case


def fetched(repository: str) -> list[Value]:
    """The cases of a repository at the tag."""
    with TemporaryDirectory() as scratch:
        fetch(repository, Path(scratch) / "opa")
        return list(read_cases(Path(scratch) / "opa" / FOLDER))


def main(arguments: Sequence[str]) -> int:
    """Fetch, convert, write; 1 where git cannot fetch it or nothing is in it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--from", dest="repository", default=REPOSITORY, help="what git clones, or a file"
    )
    parser.add_argument("--to", type=Path, default=TARGET, help="the file to write")
    chosen = parser.parse_args(arguments)
    file = Path(chosen.repository)
    try:
        cases = list(read_file(file)) if file.is_file() else fetched(chosen.repository)
    except subprocess.CalledProcessError as error:
        print(f"git could not fetch {TAG} of {chosen.repository}", file=sys.stderr)
        return error.returncode
    except (OSError, EOFError, ValueError) as error:
        print(f"{file} is not a file of this script: {error}", file=sys.stderr)
        return 1
    if not cases:
        print(f"no cases below {FOLDER} in {chosen.repository}", file=sys.stderr)
        return 1
    chosen.to.parent.mkdir(parents=True, exist_ok=True)
    text = "".join([to_json(case) + "\n" for case in cases])
    chosen.to.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(cases)} cases of OPA {TAG} in {chosen.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
