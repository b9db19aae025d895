"""Each inverse finds, for answers that its built-in has, operands that bring them."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import pytest

from doorward.rego import REGISTRY, UNDEFINED, Engine, EvalError
from doorward.rego.builtins.inversion.inverses import (
    invert_time_format,
    sign_token,
    variants,
    witnesses,
)
from doorward.rego.shared import CALL_ERRORS
from doorward.rego.tools import Builtin, equal, kinds

NOW = 1_790_000_000_000_000_000
TOKEN = sign_token(None, {"role": "adm"}, "s")
EXAMPLES: dict[str, list[Any]] = {
    "array.slice": [["x", "y", "z"], 1, 2],
    "base64.decode": ["cm9vdA=="],
    "base64.encode": ["root"],
    "base64url.decode": ["cm9vdA"],
    "bits.lsh": [4, 2],
    "bits.rsh": [16, 2],
    "cast_array": [["a"]],
    "cast_boolean": [True],
    "cast_null": [None],
    "cast_object": [{"a": 1}],
    "cast_set": [frozenset({"a"})],
    "cast_string": ["a"],
    "concat": ["/", ["a", "b"]],
    "contains": ["a", "abc"],
    "div": [8, 2],
    "format_int": [255, 16],
    "glob.match": ["/a/*", ["/"], "/a/b"],
    "hex.decode": ["726f6f74"],
    "hex.encode": ["root"],
    "indexof": ["abc", "c"],
    "intersection": [frozenset()],
    "graph.reachable": [{"a": ["b"], "b": []}, ["a"]],
    "io.jwt.verify_hs256": [TOKEN, "s"],
    "io.jwt.verify_hs384": [sign_token(None, {"role": "adm"}, "s", "384"), "s"],
    "io.jwt.verify_hs512": [sign_token(None, {"role": "adm"}, "s", "512"), "s"],
    "io.jwt.decode_verify": ["a", {"secret": "s"}],
    "json.filter": [{"a": 1, "b": 2}, ["a"]],
    "json.patch": [{"a": 1}, [{"op": "replace", "path": "/a", "value": 2}]],
    "json.remove": [{"a": 1, "b": 2}, ["a"]],
    "object.union_n": [[{"a": 1}, {"b": 2}]],
    "json.marshal_with_options": [{"a": 1}, {"pretty": True}],
    "json.unmarshal": ['{"a": 1}'],
    "net.cidr_contains": ["10.0.0.0/8", "10.1.2.3"],
    "net.cidr_expand": ["10.0.0.0/32"],
    "net.cidr_intersects": ["10.0.0.0/8", "10.1.0.0/16"],
    "net.cidr_overlap": ["10.0.0.0/8", "10.1.2.3"],
    "product": [[2, 3]],
    "sum": [[2, 3]],
    "numbers.range": [2, 5],
    "object.get": [{"a": 1}, "a", 2],
    "regex.find_all_string_submatch_n": ["a+", "aa", -1],
    "regex.find_n": ["a+", "aa", -1],
    "regex.match": ["^a+$", "aaa"],
    "re_match": ["^a+$", "aaa"],
    "regex.replace": ["a-b", "-", "+"],
    "regex.split": [",", "a,b"],
    "regex.template_match": ["urn:{.*}", "urn:x", "{", "}"],
    "rem": [110, 97],
    "replace": ["a-b", "-", "+"],
    "semver.compare": ["1.2.4", "1.2.3"],
    "semver.is_valid": ["1.0.0"],
    "split": ["a/b", "/"],
    "sprintf": ["%s:%d", ["x", 7]],
    "strings.count": ["a-a", "a"],
    "strings.replace_n": [{"a": "b"}, "cab"],
    "strings.split_n": ["a/b/c", "/", 2],
    "substring": ["abcdef", 2, 3],
    "time.add_date": [NOW, 0, 0, 1],
    "time.clock": [NOW],
    "time.date": [NOW],
    "time.diff": [NOW + 3_600_000_000_000, NOW],
    "time.format": [NOW],
    "uuid.parse": ["00000000-0000-4000-8000-000000000000"],
    "time.parse_duration_ns": ["1h"],
    "time.parse_ns": ["2006-01-02", "2026-11-24"],
    "time.parse_rfc3339_ns": ["2026-11-24T00:00:00Z"],
    "time.weekday": [NOW],
    "type_name": ["a"],
    "union": [frozenset()],
    "units.parse": ["10"],
    "units.parse_bytes": ["10"],
    "uri.parse": ["https://a.example:8443/x?y=1"],
    "urlquery.decode": ["a%20b"],
    "urlquery.decode_object": ["role=adm"],
    "urlquery.encode": ["a b"],
    "urlquery.encode_object": [{"a": "b"}],
    "yaml.marshal": [{"a": 1}],
    "yaml.unmarshal": ["a: 1"],
    "json.marshal": [{"a": 1}],
}
"""Operands where those made of the types alone have no answer, or one that says nothing."""

INVERTED = sorted(each.name for each in REGISTRY if each.inverse is not None)


def answer(builtin: Builtin, operands: list[Any]) -> Any:
    evaluation = Engine().prepare("true").evaluation({}, now_ns=NOW)
    try:
        if builtin.context:
            return builtin.call(evaluation, *operands)
        return builtin.call(*operands)
    except (*CALL_ERRORS, EvalError):
        return UNDEFINED


def operands_of(builtin: Builtin) -> list[Any]:
    known = EXAMPLES.get(builtin.name)
    if known is not None:
        return known
    return [witnesses(kinds(each))[-1] for each in builtin.signature.args]


def candidates(builtin: Builtin, position: int, want: Any, operands: list[Any]) -> Iterator[Any]:
    assert builtin.inverse is not None
    yield from builtin.inverse(position, want, operands)


@pytest.mark.parametrize("name", INVERTED)
def test_some_operand_is_found_again_from_the_answer(name: str) -> None:
    builtin = REGISTRY[name]
    operands = operands_of(builtin)
    want = answer(builtin, operands)
    if name == "io.jwt.decode_verify":
        want = [True, {"alg": "HS256"}, {"role": "adm"}]
    elif name == "io.jwt.decode":
        want = [{"alg": "HS256", "typ": "JWT"}, {"role": "adm"}, ""]
    assert want is not UNDEFINED
    tried = 0
    for position in range(len(operands)):
        other = [*operands]
        for candidate in candidates(builtin, position, want, other):
            tried += 1
            other[position] = candidate
            again = answer(builtin, other)
            if again is not UNDEFINED and (equal(again, want) or name.startswith("io.jwt")):
                return
    pytest.fail(f"{name}: none of {tried} candidates answers {want!r}")


ONE, TWO = frozenset({"a"}), frozenset({"a", "b"})
HEADER = {"alg": "HS256", "typ": "JWT"}
EMPTY = sign_token(None, {}, "s~")
FORGED = sign_token(None, {"role": "adm"}, "s~")
UUID = "00000000-0000-4000-8000-000000000000"
LEAP_DAY = 1_709_164_800_000_000_000
FOUND: list[tuple[str, list[Any], int, Any, Any]] = [
    ("array.concat", [["a"], ["z"]], 1, ["a", "b"], ["b"]),
    ("bits.lsh", [2, 1], 1, 8, 2),
    ("concat", ["/", ["a", "b"]], 0, "a,b", ","),
    ("concat", ["", ["x", "y"]], 1, "ab", ["a", "b"]),
    ("contains", ["abc", "z"], 1, True, "a"),
    ("count", ["ab"], 0, 3, "aba"),
    ("count", [{"k0": 1}], 0, 2, {"k0": 1, "k1": 0}),
    ("count", [frozenset({"k0"})], 0, 2, frozenset({"k0", "k1"})),
    ("count", [["a"]], 0, 2, ["a", "a"]),
    ("count", [None], 0, 2, ["k0", "k1"]),
    ("endswith", ["abc", "z"], 1, True, "c"),
    ("indexof", ["abc", "b"], 0, -1, "ac"),
    ("indexof", ["abc", "z"], 1, 2, "c"),
    ("indexof", ["abc", "a"], 1, -1, "~"),
    ("internal.member_2", ["b", ONE], 1, True, TWO),
    ("internal.member_2", [1, {"b": 2}], 1, True, {"a": 1, "b": 2}),
    ("internal.member_2", [1, [2]], 1, True, [2, 1]),
    ("internal.member_2", [1, "text"], 1, True, [1]),
    ("internal.member_2", [1, [1]], 1, False, []),
    ("internal.member_3", [9, "y", ["x", "y"]], 0, True, 1),
    ("internal.member_3", ["k", 1, {"a": 2}], 2, True, {"a": 2, "k": 1}),
    ("io.jwt.decode_verify", ["a", {"secret": "s"}], 0, [False, {}, {}], EMPTY),
    ("io.jwt.decode_verify", ["a", {"secret": "s"}], 0, [True, HEADER, {"role": "adm"}], TOKEN),
    ("io.jwt.verify_hs256", [TOKEN, "s"], 0, False, FORGED),
    ("json.match_schema", [{}, {"type": "null"}], 1, [True, []], {}),
    ("minus", [9, 2], 0, 3, 5),
    ("minus", [frozenset(), frozenset({"b"})], 0, ONE, TWO),
    ("concat", ["-", ["x", "y"]], 1, "a-b-c", ["a", "b-c"]),
    ("mul", [1, 2], 0, 3, 1.5),
    ("mul", [1, 2], 0, 2.5, 1.25),
    ("net.cidr_contains", ["10.0.0.0/8", "10.1.2.3"], 1, False, "203.0.113.0/32"),
    ("object.get", [{"a": 1, "b": 2}, "z", 0], 1, 2, "b"),
    ("object.get", [{}, "z", 0], 2, 2, 2),
    ("object.remove", [{"a": 1, "b": 2}, []], 1, {"b": 2}, ["a"]),
    ("object.subset", [{"a": 1}, {"a": 1}], 0, False, {}),
    ("object.subset", [{"a": 1}, {"a": 1}], 1, False, {"~": "~"}),
    ("object.subset", [{"a": 1}, {"b": 2}], 0, True, {"a": 1, "b": 2}),
    ("object.subset", [["a"], ["b"]], 0, True, ["a", "b"]),
    ("object.subset", [{"a": 1}, ["b"]], 0, True, ["b"]),
    ("object.subset", [{"a": 1}, {"b": 2}], 1, True, {"a": 1}),
    ("rem", [7, 5], 1, 1, 6),
    ("split", ["a,b", "/"], 1, ["a", "b"], ","),
    ("sprintf", ["%d%% %s", []], 1, "7% a", [7, "a"]),
    ("sprintf", ["%s-%s", []], 1, "a-b-c", ["a", "b-c"]),
    ("sprintf", ["%s-%s", []], 1, "a-b-c", ["a-b", "c"]),
    ("sprintf", ["%x", []], 1, "ff", [255]),
    ("sprintf", ["%q", []], 1, '"a"', ["a"]),
    ("sprintf", ["%v", []], 1, "-7", [-7]),
    ("startswith", ["abc", "z"], 1, True, "a"),
    ("substring", ["abcdef", 0, 2], 1, "cd", 2),
    ("substring", ["abcdef", 0, 1], 2, "abc", 3),
    ("time.add_date", [LEAP_DAY, 0, 0, 0], 3, LEAP_DAY + 86_400 * 10**9, 1),
    ("time.clock", [LEAP_DAY], 0, [1, 2, 3], LEAP_DAY + 3_723 * 10**9),
    ("time.date", [0], 0, [2024, 2, 29], LEAP_DAY),
    ("uri.parse", ["a"], 0, {"hostname": "a.example", "scheme": "https"}, "https://a.example"),
]
"""A built-in, its operands, the position of one, a wanted answer, a candidate that brings it."""

NOTHING: list[tuple[str, list[Any], int, Any]] = [
    ("array.slice", [["a"], -1, 2], 0, ["a"]),
    ("count", [[]], 0, -1),
    ("count", [[]], 0, "a"),
    ("io.jwt.decode_verify", ["a", {"secret": "s"}], 1, [True, {}, {}]),
    ("io.jwt.decode_verify", ["a", {"cert": "c"}], 0, [True, {}, {}]),
    ("io.jwt.verify_hs256", [TOKEN, "s"], 1, True),
    ("mul", [1, 0], 0, 3),
    ("object.get", [{"a": 1}, "a", 0], 1, 2),
    ("regex.replace", ["a-b", "-", "+"], 1, "a+b"),
    ("regex.template_match", ["urn:{.*}", "urn:x", "{", "}"], 0, True),
    ("regex.template_match", ["urn:{.*}", "urn:x", "", "}"], 1, True),
    ("replace", ["a-b", "-", "+"], 1, "a+b"),
    ("sprintf", ["%s", ["a"]], 0, "b"),
    ("sprintf", ["a%s", []], 1, "b"),
    ("strings.replace_n", [{"a": "b"}, "cab"], 0, "cbb"),
    ("trim", ["-a-", "-"], 1, "a"),
]
"""A built-in, its operands, the position of one for which nothing is proposed, a wanted answer."""


@pytest.mark.parametrize(("name", "operands", "position", "want", "candidate"), FOUND)
def test_a_candidate_brings_the_answer(
    name: str, operands: list[Any], position: int, want: Any, candidate: Any
) -> None:
    proposed = list(candidates(REGISTRY[name], position, want, operands))
    assert any(equal(each, candidate) for each in proposed)
    again = answer(REGISTRY[name], [*operands[:position], candidate, *operands[position + 1 :]])
    assert equal(again, want)


@pytest.mark.parametrize(("name", "operands", "position", "want"), NOTHING)
def test_nothing_is_proposed(name: str, operands: list[Any], position: int, want: Any) -> None:
    assert list(candidates(REGISTRY[name], position, want, operands)) == []


def test_a_uuid_of_no_known_version_is_one_of_version_4() -> None:
    for version in (99, -1, None):
        want = {"version": version}
        assert list(candidates(REGISTRY["uuid.parse"], 0, want, ["a"])) == [UUID]


def test_candidates_are_bounded() -> None:
    for name, position, want, operands in (
        ("indexof", 0, 10**12, ["a", "b"]),
        ("count", 0, 10**12, [[]]),
        ("strings.count", 0, 10**12, ["a", "a"]),
        ("array.slice", 0, [1], [[], 10**12, 10**12]),
        ("substring", 0, "a", ["a", 10**12, 1]),
    ):
        values = list(candidates(REGISTRY[name], position, want, operands))
        assert all(len(each) < 10_000 for each in values if hasattr(each, "__len__")), name


def test_no_text_is_proposed_for_an_offset_out_of_range() -> None:
    for offset in (-1, 10**12):
        assert list(candidates(REGISTRY["substring"], 0, "a", ["abc", offset, 1])) == []


def test_a_time_before_1970_keeps_its_fraction() -> None:
    (value,) = invert_time_format(0, "1969-12-31T23:59:59.500000+00:00", [0])
    assert value == -500_000_000


def test_variants_are_other_values() -> None:
    for value in witnesses(()):
        assert not any(equal(value, each) for each in variants(value) if value != 0)


def test_no_infinite_number_is_proposed() -> None:
    assert all(isfinite(each) for each in variants(9.5e307))
    assert list(candidates(REGISTRY["plus"], 0, 1.5e308, [0, -1.5e308])) == []
