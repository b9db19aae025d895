"""What would take long in one call of a built-in: it ends at the deadline, or is small enough.

Each case is work for seconds or more where nothing bounds it. What stops each kind is in
`docs/limits.md`.
"""

from __future__ import annotations

import gc
import importlib
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.growth import slowness

from doorward.rego import Engine, EvalError, Number, Query
from doorward.rego.builtins import Context, Environment
from doorward.rego.builtins.registry.context import LONG
from doorward.rego.errors import EvaluationAborted
from doorward.rego.shared import Source
from doorward.rego.syntax.parser import parse_module

pytestmark = pytest.mark.long

DEADLINE: Final = 0.1
SLACK: Final = 0.15 if sys.gettrace() is None else 2
"""Seconds of CPU time past the deadline: 0.05 where nothing else runs, and some for the rest."""


def nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


def any_of_any_of(depth: int) -> dict[str, Any]:
    """A schema that takes a time that doubles with each level."""
    parts: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(depth)
    }
    return {
        "definitions": {**parts, f"d{depth}": {"type": "string"}},
        "$ref": "#/definitions/d0",
    }


def fractions(count: int) -> list[Number]:
    return [Number(f"{n * 7919 % count}.25") for n in range(count)]


def letters(count: int) -> str:
    return "".join(random.Random(1).choices("ab", k=count))


def many_names() -> str:
    """A root with many constraints on names, and a leaf with many names."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")])
    base = (
        x509.CertificateBuilder()
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    excluded = [x509.DNSName(f"x{n}.example") for n in range(4000)]
    constraints = x509.NameConstraints(permitted_subtrees=None, excluded_subtrees=excluded)
    root = (
        base.subject_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(constraints, critical=True)
    )
    names = x509.SubjectAlternativeName([x509.DNSName(f"y{n}.example") for n in range(4000)])
    leaf = base.subject_name(x509.Name([])).add_extension(names, critical=True)
    signed = [created.sign(key, hashes.SHA256()) for created in (root, leaf)]
    return "".join(created.public_bytes(serialization.Encoding.PEM).decode() for created in signed)


def private_keys() -> str:
    form = serialization.PrivateFormat.PKCS8
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return pem.decode() * 100


QUADRATIC: Final = {"p": "a(.*c)?", "s": "a" * 200_000}
KEYS: Final = {f"{'a' * 20}{n:05}": "" for n in range(20_000)}
WIDE: Final = {str(n): n for n in range(50_000)}

ATTACKS: Final[dict[str, tuple[str, Callable[[], Any]]]] = {
    "a patch of many operations on an array": (
        "json.patch(input.d, input.p)",
        lambda: {
            "d": {"a": list(WIDE.values())},
            "p": [{"op": "add", "path": "/a/0", "value": 1}] * 20_000,
        },
    ),
    "a patch of many operations on an object": (
        "json.patch(input.d, input.p)",
        lambda: {
            "d": WIDE,
            "p": [{"op": "add", "path": f"/x{n}", "value": 1} for n in range(20_000)],
        },
    ),
    "many paths to keep": (
        "json.filter(input, input.p)",
        lambda: {"a": list(range(50_000)), "p": [f"a/{n}" for n in range(50_000)]},
    ),
    "many texts to replace": (
        "strings.replace_n(input.p, input.s)",
        lambda: {"p": KEYS, "s": "a" * 300_000},
    ),
    "many texts to replace, and nothing": (
        "strings.replace_n(input.p, input.s)",
        lambda: {"p": {**KEYS, "": ""}, "s": "a" * 300_000},
    ),
    "nothing to replace in a long text": (
        'replace(input, "", "b")',
        lambda: "a" * 1_000_000,
    ),
    "many prefixes of many texts": (
        "strings.any_prefix_match(input.a, input.b)",
        lambda: {
            "a": [f"{'a' * 50}{n}" for n in range(20_000)],
            "b": [f"{'a' * 50}b{n}" for n in range(20_000)],
        },
    ),
    "many suffixes of many texts": (
        "strings.any_suffix_match(input.a, input.b)",
        lambda: {
            "a": [f"{n}{'a' * 50}" for n in range(20_000)],
            "b": [f"b{n}{'a' * 50}" for n in range(20_000)],
        },
    ),
    "a long text in a longer one, everywhere": (
        "indexof_n(input.s, input.n)",
        lambda: {"s": "a" * 600_000, "n": "a" * 300_000},
    ),
    "many characters to trim": (
        "trim_left(input.s, input.c)",
        lambda: {"s": chr(0x9000) * 300_000, "c": "".join(map(chr, range(0x4E00, 0x9001))) * 5},
    ),
    "widths of a million": (
        "sprintf(input.t, input.v)",
        lambda: {"t": "%1000000d" * 1000, "v": [1] * 1000},
    ),
    "no digits of a long text, many times": (
        "sprintf(input.t, [input.s])",
        lambda: {"t": "%.0[1]x" * 10_000, "s": "a" * 500_000},
    ),
    "argument numbers that never end": ("sprintf(input, [])", lambda: "%[" * 50_000),
    "a template of many rounds": (
        "strings.render_template(input, {})",
        lambda: "{{range 1000000000}}{{end}}",
    ),
    "a template that measures": (
        "strings.render_template(input.t, input)",
        lambda: {"t": "{{range 100000}}{{len $.s}}{{end}}", "s": "é" * 500_000},
    ),
    "a template that escapes": (
        "strings.render_template(input.t, input)",
        lambda: {"t": "{{range 100000}}{{if html $.s}}{{end}}{{end}}", "s": "é" * 200_000},
    ),
    "a template that doubles": (
        "strings.render_template(input.t, input)",
        lambda: {"t": "{{$x := .s}}" + "{{$x = print $x $x}}" * 60, "s": "é" * 1000},
    ),
    "a pattern of many states": (
        "regex.match(input.p, input.s)",
        lambda: {"p": "(a|b)*a(a|b){1000}c", "s": letters(1 << 20)},
    ),
    "a pattern that looks to the end for each match": (
        "regex.find_n(input.p, input.s, -1)",
        lambda: QUADRATIC,
    ),
    "the same with groups": (
        "regex.find_all_string_submatch_n(input.p, input.s, -1)",
        lambda: QUADRATIC,
    ),
    "the same between pieces": ("regex.split(input.p, input.s)", lambda: QUADRATIC),
    "the same replaced": ('regex.replace(input.s, input.p, "")', lambda: QUADRATIC),
    "many groups in many matches": (
        "regex.find_all_string_submatch_n(input.p, input.s, -1)",
        lambda: {"p": "()" * 1000 + "a", "s": "a" * 50_000},
    ),
    "many names in many matches": (
        "regex.replace(input.s, input.p, input.v)",
        lambda: {
            "p": "".join(f"(?P<n{n}>)" for n in range(2000)) + "a",
            "s": "a" * 10_000,
            "v": "${zz}" * 800,
        },
    ),
    "globs of many characters": (
        "regex.globs_match(input.a, input.b)",
        lambda: {
            "a": f"[{''.join(chr(0x4E00 + 2 * n) for n in range(3000))}]*" + "x*" * 30,
            "b": f"[{''.join(chr(0x4E01 + 2 * n) for n in range(3000))}]" * 5,
        },
    ),
    "long globs": (
        "regex.globs_match(input.a, input.b)",
        lambda: {"a": "a*" * 60, "b": "a" * 1_000_000},
    ),
    "a glob of many choices": (
        "glob.match(input.g, [], input.s)",
        lambda: {"g": "{a*,b*,ab*}" * 300, "s": letters(1 << 18)},
    ),
    "a graph of many edges": (
        'graph.reachable(input, ["0"])',
        lambda: {str(n): [str((n * 7 + m) % 20_000) for m in range(100)] for n in range(20_000)},
    ),
    "paths through a graph": (
        'graph.reachable_paths(input, ["0"])',
        lambda: {str(n): [str(m) for m in range(n + 1, 40)] for n in range(40)},
    ),
    "a walk": (
        "count([x | walk(input, [path, x])])",
        lambda: nested(800, list(range(3000))),
    ),
    "a range": ("count(numbers.range(0, 10000000000))", lambda: {}),
    "a range with steps": ("count(numbers.range_step(0, 10000000000, 2))", lambda: {}),
    "a shift": ("bits.lsh(1, 10000000000)", lambda: {}),
    "a number of many digits": ("to_number(input)", lambda: "9" * 10_000_000),
    "an amount of many digits": ("units.parse_bytes(input)", lambda: "9" * 10_000_000),
    "a product of large numbers": (
        "product(input)",
        lambda: [10**4000] * 10_000,
    ),
    "a sum of fractions": ("sum(input)", lambda: fractions(100_000)),
    "a product of fractions": (
        "product(input)",
        lambda: [Number(f"1.0000{n % 9}1") for n in range(200_000)],
    ),
    "fractions in order": ("sort(input)", lambda: fractions(100_000)),
    "arrays in order": (
        "sort(input)",
        lambda: [[n * 7919 % 100_000, str(n)] for n in range(100_000)],
    ),
    "objects in order": (
        "sort(input)",
        lambda: [{"a": 1, "b": [2], "c": [n * 7919 % 30_000]} for n in range(30_000)],
    ),
    "arrays that differ late in order": (
        "sort(input)",
        lambda: [[1] * 20 + [n * 7919 % 30_000] for n in range(30_000)],
    ),
    "the largest fraction": ("max(input)", lambda: fractions(100_000)),
    "the smallest fraction": ("min(input)", lambda: fractions(100_000)),
    "a union of many objects": (
        "object.union_n(input)",
        lambda: [{"k": {str(n): n}} for n in range(50_000)],
    ),
    "a deep object in another": (
        "object.subset(input.a, input.b)",
        lambda: {
            "a": nested(250, {"x": [Number("1.5")] * 20_000, "y": 1}),
            "b": nested(250, {"x": [Number("1.5")] * 20_000, "y": 2}),
        },
    ),
    "a query of the same field": (
        "graphql.is_valid(input.q, input.s)",
        lambda: {"q": "{" + "f " * 9900 + "}", "s": "type Query { f: Int }"},
    ),
    "a query of many fragments": (
        "graphql.is_valid(input.q, input.s)",
        lambda: {
            "q": "{"
            + " ".join(f"...f{n}" for n in range(900))
            + "}"
            + " ".join(f"fragment f{n} on Query {{ f }}" for n in range(900)),
            "s": "type Query { f: Int }",
        },
    ),
    "a schema of many types": (
        "graphql.schema_is_valid(input)",
        lambda: (
            "type Query { f: Int }\n" + "".join(f"type T{n} {{ a: Int }}\n" for n in range(9000))
        ),
    ),
    "a schema of many types, read": (
        "graphql.parse_schema(input)",
        lambda: (
            "type Query { f: Int }\n" + "".join(f"type T{n} {{ a: Int }}\n" for n in range(9000))
        ),
    ),
    "a JSON schema that doubles": (
        "json.match_schema(input.d, input.s)",
        lambda: {"d": {"a": 1}, "s": any_of_any_of(25)},
    ),
    "a JSON schema of many values": (
        "json.match_schema(input, input.s)",
        lambda: {
            "a": list(range(2000)),
            "s": {"properties": {"a": {"items": {"enum": [str(n) for n in range(5000)]}}}},
        },
    ),
    "a JSON schema of many properties": (
        "json.verify_schema(input)",
        lambda: {"properties": {f"p{n}": {"type": "string"} for n in range(20_000)}},
    ),
    "a large document for a JSON schema": (
        "json.match_schema(input, input.s)",
        lambda: {
            "a": list(range(50_000)),
            "s": {"properties": {"a": {"items": {"type": "integer", "minimum": 0}}}},
        },
    ),
    "a JSON schema of many names": (
        "json.match_schema(input, input.s)",
        lambda: {
            "a": {f"{n}": n for n in range(20_000)},
            "s": {"properties": {"a": {"patternProperties": {f"x{n}": {} for n in range(500)}}}},
        },
    ),
    "a JSON schema of items that differ": (
        "json.match_schema(input, input.s)",
        lambda: {
            "a": [[n] * 10 for n in range(20_000)],
            "s": {"properties": {"a": {"uniqueItems": True}}},
        },
    ),
    "YAML": (
        "yaml.unmarshal(input)",
        lambda: "".join(f"k{n}: [1, 2, {{b: c}}]\n" for n in range(11_000)),
    ),
    "a number of YAML that is none": ("yaml.unmarshal(input)", lambda: "9" * 200_000 + "x"),
    "whether it is YAML": (
        "yaml.is_valid(input)",
        lambda: "".join(f"k{n}: [1, 2, {{b: c}}]\n" for n in range(11_000)),
    ),
    "a long YAML text to write": (
        "yaml.marshal(input)",
        lambda: [{"a": n} for n in range(50_000)],
    ),
    "a string that YAML folds": ("yaml.marshal(input)", lambda: "a\x85" * 100_000),
    "Rego": (
        'rego.parse_module("a.rego", input)',
        lambda: "package a\n" + "".join(f"p{n} if input.x == {n}\n" for n in range(20_000)),
    ),
    "a long term of Rego": (
        'rego.parse_module("a.rego", input)',
        lambda: "package a\np := [" + "{1, 2, [x | x := 1]}, " * 20_000 + "]\n",
    ),
    "many networks in many networks": (
        "net.cidr_contains_matches(input.a, input.b)",
        lambda: {
            "a": [f"10.{n // 256}.{n % 256}.0/24" for n in range(3000)],
            "b": [f"10.{n // 256}.{n % 256}.1" for n in range(3000)],
        },
    ),
    "a network of many addresses": ('count(net.cidr_expand("::/1"))', lambda: {}),
    "networks to merge": (
        "net.cidr_merge(input)",
        lambda: [f"10.{n // 256}.{n % 256}.0/25" for n in range(10_000)],
    ),
    "no base64": ("base64.decode(input)", lambda: "A" * 3_000_000 + "!"),
    "no certificates": ("crypto.x509.parse_certificates(input)", lambda: "A" * 4_000_000),
    "keys that never end": (
        "crypto.parse_private_keys(input)",
        lambda: "-----BEGIN X-----\n" * 50_000,
    ),
    "certificates of many names": (
        "crypto.x509.parse_and_verify_certificates(input)",
        many_names,
    ),
    "certificates of many names, read": (
        "crypto.x509.parse_certificates(input)",
        many_names,
    ),
    "many private keys": ("crypto.parse_private_keys(input)", private_keys),
    "keys whose headers never end": (
        "crypto.parse_private_keys(input)",
        lambda: "-----BEGIN a:b-----\n" * 50_000,
    ),
    "a version of many parts": (
        "semver.compare(input, input)",
        lambda: "1.0.0-" + "a.b." * 1000 + "a",
    ),
    "a long layout of a time": ("time.parse_ns(input, input)", lambda: "2006" * 100_000),
    "a long duration": ("time.parse_duration_ns(input)", lambda: "1h" * 500_000),
    "a long token": ("io.jwt.decode(input)", lambda: "A" * 500_000 + "." + "B" * 500_000 + ".C"),
}


def spent(query: Query, value: Any) -> float:
    """Seconds of CPU time that one evaluation takes, stopped or not."""
    began = time.process_time()
    with suppress(EvalError):
        query.answer(value)
    return time.process_time() - began


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("attack", ATTACKS)
def test_one_call_ends_at_the_deadline(attack: str) -> None:
    question, make = ATTACKS[attack]
    query, value = Engine().prepare(question, deadline=DEADLINE), make()
    spent(query, "nothing")  # loads what it needs
    # A busy machine may be late now and then; what is not bounded is late each time.
    assert any(spent(query, value) < DEADLINE + SLACK * slowness() for _ in range(3))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("json.marshal(input)", [{"a": n} for n in range(30_000)]),
        ("json.unmarshal(input)", "[" + "1," * 200_000 + "1]"),
        ("yaml.marshal(input)", [{"a": n} for n in range(10_000)]),
        ("upper(input)", "é" * 500_000),
        ("urlquery.encode(input)", "é" * 200_000),
        ('sprintf("%v", [input])', [{"a": n} for n in range(30_000)]),
        ("array.concat(input, input)", [0] * 500_000),
        ("object.union(input, input)", {str(n): n for n in range(100_000)}),
        ("numbers.range(1, input)", 900_000),
        ("sum(input)", [1] * 500_000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_rounds_that_each_take_a_while_do_not_add_up(call: str, value: Any) -> None:
    rounds = f"count([1 | some n in numbers.range(1, 100000); {call}])"
    query = Engine().prepare(rounds, deadline=DEADLINE)
    spent(query, "nothing")
    assert any(spent(query, value) < DEADLINE + 2 * SLACK * slowness() for _ in range(3))


def test_where_there_is_no_deadline_nobody_watches() -> None:
    with Context(Environment()).enforce_deadline(LONG):
        assert sum(range(10)) == 45


def test_what_is_watched_ends_at_the_deadline_and_is_not_watched_on() -> None:
    context = Context(Environment(), deadline=time.monotonic())
    text = "package a\n" + "p if input.x\n" * 1000
    with pytest.raises(EvaluationAborted, match="cancelled"), context.enforce_deadline(len(text)):
        parse_module(Source("a.rego", text))
    assert len(parse_module(Source("a.rego", text)).rules) == 1000


@pytest.mark.usefixtures("quiet")
def test_an_import_is_not_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "def f():\n    pass\n\nfor _ in range(10_000):\n    f()\n\nDONE = True\n"
    (tmp_path / "slow_to_import.py").write_text(loop, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    context = Context(Environment())
    context.deadline = time.monotonic()
    with pytest.raises(EvaluationAborted), context.enforce_deadline(LONG):
        importlib.import_module("slow_to_import")
    assert sys.modules["slow_to_import"].DONE


@pytest.mark.usefixtures("quiet")
def test_a_stop_is_not_lost_in_what_the_interpreter_calls() -> None:
    """Exceptions of such functions are printed and dropped, and then nothing is checked."""

    def call_often(*_: object) -> None:
        for each in range(10_000):
            abs(each)

    class Deleted:
        def __del__(self) -> None:
            call_often()

    reached = []

    def work() -> None:
        gc.collect(0)
        Deleted()
        for each in range(10_000):
            abs(each)
        reached.append("the end")

    context = Context(Environment())
    context.deadline = time.monotonic()
    gc.callbacks.append(call_often)
    try:
        with pytest.raises(EvaluationAborted), context.enforce_deadline(LONG):
            work()
    finally:
        gc.callbacks.remove(call_often)
    assert not reached
