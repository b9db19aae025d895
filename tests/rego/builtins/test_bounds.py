"""No operand makes a built-in take the machine: work, memory and nesting have their limits."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.growth import slowness
from tests.rego.builtins.calls import invoke

from doorward.rego import Engine, EvalError
from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.builtins.registry.operands import MAX_BITS
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.values import UNDEFINED, Key, Value, make_set

SOON = 5 if sys.gettrace() is None else 60
"""Seconds of the processor's time; who measures coverage waits longer."""

LONG = "a" * (1 << 20)
NESTED_BRACES = "{" * 500
NESTED_PARENTHESES = "{{" + "(" * 500 + "1" + ")" * 500 + "}}"
NESTED_BRANCHES = "{{if .a}}" * 500 + "{{end}}" * 500
CHAIN: Value = {n: [n + 1, "leaf"] for n in range(3000)}

LONG_KEY = "-----BEGIN PRIVATE KEY-----\n" + "AAAA" * 6000 + "\n-----END PRIVATE KEY-----\n"
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"

ALIASES = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""Each list holds the one before nine times."""

TOO_MUCH: list[tuple[str, list[Value], str]] = [
    ("numbers.range", [0, 10**12], "more than 4000000 numbers"),
    ("bits.lsh", [1, 10**9], "too large"),
    ("mul", [10**4000, 10**4000], "too large"),
    ("product", [list(range(1, 100_000))], "too large"),
    ("sprintf", ["%1000000d" * 20, [1] * 20], "longer than"),
    ("concat", [LONG, ["b"] * 40], "longer than"),
    ("replace", [LONG, "a", "b" * 40], "longer than"),
    ("replace", [LONG, "", "b" * 40], "longer than"),
    ("strings.replace_n", [{"a": "b" * 40}, LONG], "longer than"),
    ("regex.replace", [LONG, "a", "b" * 40], "longer than"),
    ("regex.match", [LONG, "a"], "longer than"),
    ("regex.match", ["(a|b){1000}", "c" * (1 << 20)], "text is longer than"),
    ("regex.find_n", ["(a|b){1000}", "c" * (1 << 20), -1], "text is longer than"),
    ("regex.find_n", ["()" * 1001, "a", -1], "more than 1000 groups"),
    (
        "regex.find_all_string_submatch_n",
        ["()" * 20 + "a", "a" * 60_000, -1],
        "more than 1048576 strings",
    ),
    ("regex.globs_match", ["a" * 20_000, "a"], "longer than"),
    ("units.parse", ["1" * 70_000], "longer than"),
    ("crypto.parse_private_keys", [PRIVATE_KEY * 101], "more than 100 private keys"),
    ("strings.render_template", ["{{println .s .s}}", {"s": "a" * (1 << 23)}], "longer than"),
    ("glob.match", [LONG, [], "a"], "longer than"),
    ("glob.match", [NESTED_BRACES, [], "a"], "nested"),
    ("regex.globs_match", ["a*b*" * 40, "b*a*" * 40], "too long to compare"),
    ("graph.reachable_paths", [CHAIN, [0]], "more than"),
    ("strings.render_template", [NESTED_PARENTHESES, {}], "nested"),
    ("strings.render_template", [NESTED_BRANCHES, {}], "nested"),
    ("strings.render_template", ["{{range 1000000000}}{{end}}", {}], "steps"),
    (
        "strings.render_template",
        ['{{define "t"}}{{template "t"}}{{end}}{{template "t"}}', {}],
        "more than 50 deep",
    ),
    ("strings.render_template", [LONG, {}], "longer than"),
    ("strings.render_template", ["{{range 100000}}" + "x" * 1000 + "{{end}}", {}], "longer than"),
    ("strings.replace_n", [{"": "b" * 40, "q": ""}, LONG], "longer than"),
    ("regex.match", [r"(\pL{100}){10}" * 10, "a"], "too large"),
    ("time.format", [[0, "UTC", LONG]], "longer than"),
    ("units.parse", ["1e99999"], "exponent is too large"),
    ("units.parse", ["1" * 5000 + "K"], "number is longer than"),
    ("units.parse_bytes", ["1" * 5000 + "KB"], "number is longer than"),
    ("time.parse_duration_ns", ["1s" * 2500], "duration is longer than"),
    ("semver.is_valid", ["1.0.0-" + "a" * 5000], "version is longer than"),
    ("semver.compare", ["1.0.0-" + "a" * 5000, "1.0.0"], "version is longer than"),
    ("crypto.parse_private_keys", [LONG_KEY], "private key is longer than"),
    ("glob.match", ["a?*" * 1300, ["."], "a" * 2600], "steps to compile"),
    ("to_number", ["1" * 5000], "too many digits"),
    ("to_number", ["1e-5000"], "out of range"),
    ("json.unmarshal", ["1e99999"], "out of range"),
    ("json.unmarshal", ["[" * 2000 + "]" * 2000], "nested too deeply"),
    ("json.is_valid", ["[" * 5000 + "]" * 5000], "nested too deeply"),
    ("json.marshal_with_options", [[[["a"]] * 300_000], {"indent": " " * 64}], "longer than"),
    ("yaml.unmarshal", ["[" + "1, " * 100_000 + "]"], "longer than"),
    ("regex.is_valid", [LONG], "longer than"),
    ("urlquery.encode_object", [{"a": ["b" * 4096] * 5000}], "longer than"),
    ("sprintf", ["%s%s", ["a" * (1 << 23), "b" * ((1 << 23) + 1)]], "longer than"),
    ("strings.render_template", ["{{print .s .s .s}}", {"s": "a" * (1 << 23)}], "longer than"),
]


TOO_MUCH_FOR_OPA: list[tuple[str, list[Value], str]] = [
    ("regex.match", ["(a{100}){100}{100}", "a"], "invalid"),
    ("strings.render_template", ["{{" + "1" * 500 + "}}", {}], "number"),
    ("plus", [float("inf"), 1], "finite"),
    ("to_number", ["1e5000"], "out of range"),
    ("yaml.unmarshal", ["a: &a [1]\n" + ALIASES], "excessive aliasing"),
]


@pytest.mark.parametrize(("name", "operands", "said"), TOO_MUCH_FOR_OPA, ids=lambda v: str(v)[:20])
def test_too_much_for_opa_makes_a_call_undefined(
    name: str, operands: list[Value], said: str
) -> None:
    with pytest.raises(BuiltinError, match=said):
        invoke(name, *operands)


@pytest.mark.parametrize(("name", "operands", "said"), TOO_MUCH, ids=lambda v: str(v)[:20])
def test_too_much_ends_the_evaluation_and_soon(name: str, operands: list[Value], said: str) -> None:
    start = time.thread_time()
    with pytest.raises(LimitError, match=said):
        invoke(name, *operands)
    assert time.thread_time() - start < SOON * slowness()


def test_long_patterns_are_replaced_as_short_ones_are() -> None:
    text = "abcb" * 100
    short: dict[Key, Value] = {"ab": "1", "abc": "2", "b": "3"}
    assert invoke("strings.replace_n", short, text) == "1c3" * 100
    assert invoke("strings.replace_n", {**short, "z" * 3000: ""}, text) == "1c3" * 100


def test_a_sum_may_outgrow_its_operands_and_a_product_may_not() -> None:
    largest = (1 << MAX_BITS) - 1
    assert invoke("plus", largest, largest) == 2 * largest
    assert invoke("minus", -largest, largest) == -2 * largest
    with pytest.raises(LimitError, match="number is too large"):
        invoke("mul", largest, largest)


HARD: list[tuple[str, list[Any], Value]] = [
    ("regex.match", ["^(a+)+$", "a" * 5000 + "!"], False),
    ("regex.match", ["^(a|aa)*$", "a" * 5000 + "b"], False),
    ("glob.match", ["*a" * 50, ["/"], "a" * 5000 + "b"], False),
    ("regex.globs_match", [".*a" * 30, ".*b" * 30], False),
    ("object.subset", [[1] * 20_000 + [2], [1] * 10_000 + [3]], False),
    ("strings.any_prefix_match", [["b" * 50] * 2000, ["a" * 40] * 2000], False),
    ("graph.reachable", [{"0": make_set(["0"])}, ["0"] * 100_000], make_set(["0"])),
]


@pytest.mark.parametrize(("name", "operands", "want"), HARD, ids=lambda v: str(v)[:20])
def test_hard_cases_take_no_time(name: str, operands: list[Value], want: Value) -> None:
    start = time.thread_time()
    assert invoke(name, *operands) == want
    assert time.thread_time() - start < SOON * slowness()


def test_a_long_replacement_is_read_each_time() -> None:
    assert invoke("regex.replace", "ab", "b", "$0" * 5000) == "a" + "b" * 5000


def test_a_large_pattern_that_is_constant_refuses_long_texts_only() -> None:
    query = Engine().prepare('regex.match("(a|b){1000}c", input)')
    assert query.value("a" * 1000 + "c") is True
    assert query.value("a" * 1000) is False
    with pytest.raises(EvalError, match=r"eval_limit_error: regex\.match: text is longer"):
        query.value("a" * (1 << 20))
    with pytest.raises(LimitError, match="text is longer"):
        invoke("regex.replace", "a" * (1 << 20), "(a|b){1000}c", "")


@pytest.mark.parametrize("empty", [{}, {"": "-"}])
def test_many_replacements_give_what_few_give(empty: dict[Any, Any]) -> None:
    """Of keys that fit at one place the first in order does, however long the text is."""
    patterns: dict[Any, Any] = {"ab": "1", "abc": "2", "b": "ba", "ca": "", "aa": "c" * 9, **empty}
    text = "".join(random.Random(2).choices("abcd", k=3000))
    filler: dict[Any, Any] = {f"x{n}": "y" for n in range(1000)}
    assert invoke("strings.replace_n", {**patterns, **filler}, text) == invoke(
        "strings.replace_n", patterns, text
    )


@pytest.mark.parametrize("name", ["trim", "trim_left", "trim_right"])
def test_many_characters_are_trimmed_as_few_are(name: str) -> None:
    many = "".join(map(chr, range(0x61, 0x100)))
    for text in ("", "abc", "abcXYZdef", "XabcY", "é-X-é"):
        few = "".join(set(text) & set(many)) or "a"
        assert invoke(name, text, many) == invoke(name, text, few)


def test_print_is_true_by_itself() -> None:
    assert REGISTRY["print"].call("anything", 1) is True


def test_walk_follows_any_depth() -> None:
    value: Value = 1
    for _ in range(5000):
        value = [value]
    assert sum(1 for _ in REGISTRY["walk"].call(value)) == 5001


def counting() -> tuple[Callable[[int], bytes], list[int]]:
    question: list[int] = []

    def random(size: int) -> bytes:
        question.append(size)
        return bytes([len(question)]) * size

    return random, question


def test_random_answers_stay_within_a_decision_and_change_between_them() -> None:
    random, question = counting()
    environment = Environment(random=random)
    first, second = Context(environment), Context(environment)
    for name, operands in (("uuid.rfc4122", ["k"]), ("rand.intn", ["k", 10**9])):
        call = REGISTRY[name].call
        assert call(first, *operands) == call(first, *operands)
        assert call(first, *operands) != call(second, *operands)
    assert len(question) == 4


def test_a_random_integer_is_below_its_bound() -> None:
    for n in (1, 2, 7, 1 << 62):
        context = Context(Environment())
        assert 0 <= REGISTRY["rand.intn"].call(context, "k", n) < n


def test_maximum_of_nothing_is_undefined() -> None:
    assert invoke("max", []) is UNDEFINED
    assert invoke("min", frozenset()) is UNDEFINED
