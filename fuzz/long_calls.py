"""Calls of built-ins with long operands, answered by Doorward and by OPA 1.20.2.

    python fuzz/long_calls.py [--seconds 60 | --calls N] [--seed 1]

Each operand repeats one part of a text or of a collection 30 to 20,000 times. Doorward may end such
a call with its own limit (`eval_limit_error`), which ends the evaluation; any other answer must be
that of OPA, and none may be undefined or an error where OPA has a value. Prints every difference
and the longest answer; the exit code is 1 if there was a difference.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.calls import JsonText, campaign

__all__ = ["call_of"]

SIZES: Final = (30, 200, 600, 2_000, 5_000, 20_000)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _token(n: int) -> str:
    parts = ['{"alg":"none"}', '{"a":"' + "a" * n + '"}']
    encoded = [base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


CALLS: Final[list[tuple[str, Callable[[int], list[Any]]]]] = [
    ("time.parse_duration_ns", lambda n: ["0" * n + "1s"]),
    ("time.parse_duration_ns", lambda n: ["1s" * n]),
    ("time.parse_duration_ns", lambda n: ["0." + "0" * n + "1s"]),
    ("time.parse_rfc3339_ns", lambda n: ["2020-01-01T00:00:00." + "1" * n + "Z"]),
    ("time.parse_ns", lambda n: ["2006" + "x" * n, "2020" + "x" * n]),
    ("time.format", lambda n: [[0, "UTC", "2006" * n]]),
    ("semver.is_valid", lambda n: ["1.0.0-" + "a" * n]),
    ("semver.is_valid", lambda n: ["1.0.0+" + "a." * n + "b"]),
    ("semver.is_valid", lambda n: ["0" * n + "1.0.0"]),
    # Of digits OPA 1.20.2 has no answer within 20 seconds.
    ("semver.compare", lambda n: ["1.0.0-" + "a" * n, "1.0.0-" + "a" * n + "b"]),
    ("units.parse", lambda n: ["0." + "0" * n + "1K"]),
    ("units.parse", lambda n: ["0" * n + "1"]),
    ("units.parse", lambda n: ["1e" + "0" * n + "3"]),
    ("units.parse_bytes", lambda n: ["1" * n + "KB"]),
    ("urlquery.decode_object", lambda n: ["&".join(f"a{i}=1" for i in range(n))]),
    ("urlquery.decode_object", lambda n: ["&" * n + "a=b"]),
    ("urlquery.decode", lambda n: ["%41" * n]),
    ("urlquery.encode_object", lambda n: [{f"a{i}": "b" for i in range(n)}]),
    ("to_number", lambda n: ["0." + "1" * n]),
    ("to_number", lambda n: ["1e" + "0" * n + "1"]),
    ("format_int", lambda n: [JsonText("1" * n), 16]),
    ("json.is_valid", lambda n: ["[" * n + "]" * n]),
    ("json.is_valid", lambda n: ["1" * n]),
    ("json.unmarshal", lambda n: ["1" * n]),
    ("json.unmarshal", lambda n: ["1e" + "0" * n + "1"]),
    ("yaml.is_valid", lambda n: ["[" * (n // 20) + "]" * (n // 20)]),
    ("yaml.is_valid", lambda n: ["a" * n + ": b"]),
    ("yaml.unmarshal", lambda n: ["a: " + "b" * n]),
    ("base64.decode", lambda n: [_base64("a" * n)]),
    ("hex.decode", lambda n: ["61" * n]),
    ("net.cidr_is_valid", lambda n: ["::1/" + "0" * n + "8"]),
    ("net.cidr_contains", lambda n: ["10.0.0.0/" + "0" * n + "8", "10.0.0.1"]),
    ("net.cidr_merge", lambda n: [[f"10.{i >> 8 & 255}.{i & 255}.0/24" for i in range(n)]]),
    ("regex.is_valid", lambda n: ["[a-z]" * n]),
    ("regex.match", lambda n: ["(a|b)*c", "ab" * n + "c"]),
    ("regex.split", lambda n: ["a", "ab" * n]),
    ("regex.replace", lambda n: ["a" * n, "a*", "bb"]),
    ("regex.find_n", lambda n: ["a", "a" * n, n]),
    ("regex.template_match", lambda n: ["{a}" * n, "a" * n, "{", "}"]),
    ("regex.globs_match", lambda n: ["[a-z]" * n, "b" * n]),
    ("glob.match", lambda n: ["a" * n, [], "a" * n]),
    ("glob.match", lambda n: ["{a,b}" * n, [], "ab" * (n // 2)]),
    ("glob.match", lambda n: ["{" + "a," * n + "b}", [], "b"]),
    ("glob.match", lambda n: ["?" * n, [], "a" * n]),
    ("glob.match", lambda n: ["?", [], "a" * n]),
    ("glob.match", lambda n: ["{?b,c}*", ["."], "ab" * n]),
    ("glob.quote_meta", lambda n: ["*" * n]),
    ("sprintf", lambda n: ["%s" * n, ["a"] * n]),
    ("sprintf", lambda n: ["%" + "0" * n + "5d", [1]]),
    ("sprintf", lambda n: ["%v", [["a"] * n]]),
    ("concat", lambda n: [",", ["a"] * n]),
    ("split", lambda n: ["a," * n, ","]),
    ("replace", lambda n: ["a" * n, "", "b"]),
    ("indexof_n", lambda n: ["ab" * n, "a"]),
    ("trim", lambda n: ["a" * n + "b" + "a" * n, "a"]),
    ("strings.replace_n", lambda n: [{f"k{i}": "v" for i in range(n)}, "k1" * n]),
    ("strings.render_template", lambda n: ["{{.a}}" * n, {"a": "b"}]),
    ("strings.render_template", lambda n: ["{{range .a}}x{{end}}", {"a": [1] * n}]),
    ("json.patch", lambda n: [{"a": []}, [{"op": "add", "path": "/a/-", "value": 1}] * n]),
    ("json.filter", lambda n: [{"a": 1}, ["/".join("a" * n)]]),
    ("object.get", lambda n: [{"a": 1}, ["a"] * n, "d"]),
    ("object.union_n", lambda n: [[{f"a{i}": 1} for i in range(n)]]),
    ("numbers.range", lambda n: [0, n]),
    ("bits.lsh", lambda n: [1, n]),
    ("bits.and", lambda n: [JsonText("1" * n), JsonText("1" * n)]),
    ("plus", lambda n: [JsonText("1" * n), 1]),
    ("mul", lambda n: [JsonText("1" * n), JsonText("1" * n)]),
    ("rem", lambda n: [JsonText("1" * n), 7]),
    ("round", lambda n: [JsonText("1" * n + ".5")]),
    ("graph.reachable", lambda n: [{f"a{i}": [f"a{i + 1}"] for i in range(n)}, ["a0"]]),
    ("crypto.sha256", lambda n: ["ab" * n]),
    ("io.jwt.decode", lambda n: [_token(n)]),
    ("json.match_schema", lambda n: [["a"] * min(n, 600), {"type": "array", "uniqueItems": True}]),
    ("json.match_schema", lambda n: ["a" * n, {"pattern": "a" * n}]),
    ("graphql.is_valid", lambda n: ["{" + "a " * (n // 20) + "}", "type Query {a: String}"]),
    ("product", lambda n: [[2] * n]),
    ("sort", lambda n: [list(range(n, 0, -1))]),
    ("count", lambda n: ["ä" * n]),
]
"""Names and what makes the operands of a size. Nesting stays below the depth that the reader of
OPA's answers takes.
"""


def call_of(seed: str) -> tuple[str, list[Any]]:
    """A call, the same for the same seed."""
    random = Random(seed)
    name, operands = random.choice(CALLS)
    return name, operands(random.choice(SIZES))


if __name__ == "__main__":
    sys.exit(campaign(__doc__, call_of, allow_limits=True))
