"""Coverage-guided fuzzing: whatever the bytes, text and input end in an answer or a RegoError, and
a connection in answers or in an error of HTTP/2's.

    python fuzz/engine.py TARGET [--seconds 60] [--folder FOLDER of examples]

TARGET is `lexer`, `parser`, `evaluator` or `http2`. Anything else that comes out - another
exception, a call that takes longer than five seconds - ends the run with a report and leaves the
bytes behind.
The tool, atheris, stands in a lock of its own: `make fuzz` installs it, and nothing else needs it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
from collections.abc import Callable
from operator import lt
from pathlib import Path
from typing import Final

import atheris

# The package of the tests is beside this one's.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

with atheris.instrument_imports(include=["doorward.rego", "doorward.transport"]):
    from doorward.rego import REGISTRY, Engine, Environment, RegoError, from_json
    from doorward.rego.source import Source
    from doorward.rego.syntax.format import format_source
    from doorward.rego.syntax.lexer import EOF, Lexer, loose_tokens
    from doorward.rego.syntax.parser import parse_module
    from doorward.transport.http2.connection import PREFACE, Connection

    # All built-ins are imported now: the first misspelled call would, and take too long for one.
    BUILTINS: Final = sorted(builtin.name for builtin in REGISTRY)

from tests.transport.http2.differential import sequence
from tests.transport.http2.frames import Echo, read

from doorward.transport.http2.codes import FrameType

DEADLINE: Final = 0.5
NO_NETWORK: Final = Environment(allow_net=frozenset())
MAX_ITEMS: Final = 100_000
MAX_LENGTH: Final = 4096
TOPS: Final = ("benchmarks", "examples", "tests")
ROOT: Final = Path(__file__).resolve().parent.parent


def fuzz_lexer(data: bytes) -> None:
    """Every text is tokens, each behind the one before, up to the end."""
    lexer = Lexer(Source("fuzz.rego", data.decode("utf-8", "replace")))
    token = lexer.first()
    while token.kind != EOF:
        following = lexer.after(token.end)
        assert following.kind == EOF or following.end > token.end
        token = following
    starts = [token.start for token in loose_tokens(lexer, lexer.first())]
    assert all(map(lt, starts, starts[1:]))


def fuzz_parser(data: bytes) -> None:
    """Every text is a module or a ParseError, and what was read can be written."""
    source = Source("fuzz.rego", data.decode("utf-8", "replace"))
    try:
        parse_module(source, annotations=True)
    except RegoError:
        return
    try:
        again = format_source(source)
    except RegoError:
        return  # parameters and names that the newest language refuses
    parse_module(Source("formatted.rego", again))


def fuzz_evaluator(data: bytes) -> None:
    """A policy, a NUL and an input: an answer or an error of Rego's, soon."""
    text, _, given = data.decode("utf-8", "replace").partition("\0")
    try:
        value = from_json(given) if given else {"x": [1, "a", {"b": None}]}
    except ValueError:
        value = given
    try:
        engine = Engine({"fuzz.rego": text}, environment=NO_NETWORK, max_items=MAX_ITEMS)
        engine.prepare("x := data", deadline=DEADLINE).results(value)
    except RegoError:
        return


def fuzz_http2(data: bytes) -> None:
    """A connection's bytes, in pieces as its first byte says: whole frames back, and not many."""
    size = 1 + data[0] if data else 1
    connection = Connection(Echo(), clock=lambda: 0.0)
    written = connection.feed(PREFACE)
    for start in range(1, len(data), size):
        if connection.closed:
            break
        written += connection.feed(data[start : start + size])
    # Each frame of a client is answered by a few, each body once.
    assert len(written) < 1_000 + 40 * len(data)
    assert all(0 <= each.kind <= 9 for each in read(written))
    assert connection.closed or not any(each.kind == FrameType.GOAWAY for each in read(written))


MAX_EXAMPLES: Final = 250

TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "lexer": fuzz_lexer,
    "parser": fuzz_parser,
    "evaluator": fuzz_evaluator,
    "http2": fuzz_http2,
}


def examples(folder: Path) -> None:
    """Policies of the repository and recorded programs as bytes to begin with."""
    texts = [path.read_bytes() for top in TOPS for path in sorted((ROOT / top).rglob("*.rego"))]
    for path in sorted((ROOT / "tests/data/golden").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as rows:
            for row in map(json.loads, rows):
                modules = row.get("modules")
                if isinstance(modules, dict):
                    texts += [text.encode() for text in modules.values()]
    unique = list(dict.fromkeys(texts))
    # The fuzzer reads each of them before it makes its own: some, from all kinds.
    for number, text in enumerate(unique[:: max(len(unique) // MAX_EXAMPLES, 1)]):
        (folder / f"{number}.rego").write_bytes(text[:MAX_LENGTH])


def connections(folder: Path) -> None:
    """Sequences of frames, good and bad, as bytes to begin with."""
    for seed in range(MAX_EXAMPLES):
        rng = random.Random(seed)
        wire = rng.randbytes(1) + b"".join(sequence(rng))
        (folder / f"{seed}.bin").write_bytes(wire[:MAX_LENGTH])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--folder", help="examples, kept and extended")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        if options.folder is None:
            (connections if options.target == "http2" else examples)(folder)
        limits = [f"-max_total_time={options.seconds}", "-timeout=30", "-rss_limit_mb=2048"]
        atheris.Setup(
            [sys.argv[0], *limits, f"-max_len={MAX_LENGTH}", str(folder)], TARGETS[options.target]
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
