"""Where a built-in has a short way for simple operands, it answers as the long way does."""

from __future__ import annotations

import json
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_network,
    summarize_address_range,
)
from typing import Any
from urllib.parse import quote_plus

from hypothesis import assume, given
from hypothesis import strategies as st

from doorward.rego.builtins.registry import REGISTRY
from doorward.rego.builtins.registry.context import Context, Environment
from doorward.rego.builtins.time import _plain_iso
from doorward.rego.errors import BuiltinError
from doorward.rego.golang import json as go_json
from doorward.rego.golang import layouts, strings
from doorward.rego.golang.addresses import parse_ip
from doorward.rego.golang.octets import scrub
from doorward.rego.golang.sprintf import format_text
from doorward.rego.golang.urls import query_escape
from doorward.rego.numbers import Number, number_text
from doorward.rego.values import compare, make_set, to_rego

LAYOUTS = st.sampled_from(
    [
        "2006-01-02T15:04:05Z07:00",
        "2006-01-02T15:04:05.999999999Z07:00",
        "2006-01-02 15:04:05 -0700",
        "2006-01-02",
        "20060102150405",
        "02/01/2006 15:04",
        "2006-01-02  15",
        "15:04:05 2006-01-02",
        "2006-01-02T15:04:05Z",
    ]
)
TIMES = st.datetimes().map(lambda at: at.isoformat())
EDITS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from("0912-+:TZ., é٣")), max_size=2)
ZONES = st.sampled_from(["", "Z", "+01:00", "-0530", "+25:00", ".5Z", ",123456789012Z"])


def outcome(read: Any, *operands: Any) -> Any:
    try:
        return read(*operands)
    except BuiltinError as error:
        return str(error)


def edited(text: str, edits: list[tuple[int, str]]) -> str:
    for at, character in edits:
        text = text[:at] + character + text[at + 1 :]
    return text


@given(LAYOUTS, TIMES, ZONES, EDITS)
def test_a_time_read_at_once_is_that_read_by_elements(
    layout: str, time: str, zone: str, edits: list[tuple[int, str]]
) -> None:
    value = edited(time + zone, edits)
    for text in (value, value[:10], value.replace("T", " "), value[:16]):
        at_once = outcome(layouts.parse_time, layout, text)
        assert at_once == outcome(layouts.read_by_elements, layout, text)


@given(LAYOUTS, st.integers(0, 2**62))
def test_a_printed_time_is_read_as_itself(layout: str, nanoseconds: int) -> None:
    text = REGISTRY["time.format"].call([nanoseconds, "UTC", layout])
    assert layouts.parse_time(layout, text) == layouts.read_by_elements(layout, text)
    fraction = f"{nanoseconds % 10**9:09d}".rstrip("0")
    text = REGISTRY["time.format"].call(nanoseconds)
    assert REGISTRY["time.parse_rfc3339_ns"].call(text) == nanoseconds
    assert text.endswith(f".{fraction}Z" if fraction else "Z")


VERBS = st.lists(
    st.sampled_from(
        [
            *(
                "%s",
                "%d",
                "%v",
                "%.2f",
                "%.0f",
                "%5d",
                "%%",
                "%x",
                "a",
                "%.2",
                "%-7s|",
                "%9v",
                "%-v",
            ),
            *("%8.3f", "%-12.1f|", "%-6d|", "%12x", "%5.2s", "%+d", "%-5x", "%f", "%05d", "%99d"),
        ]
    )
)
OPERANDS = st.lists(
    st.sampled_from(
        [
            *(
                "a",
                'é"',
                1,
                -5,
                2**70,
                True,
                None,
                [1, ["a", None]],
                {"b": 1, "a": [True]},
                {},
                0.125,
            ),
            *(Number("1.5"), Number("-0"), Number("1e400"), Number("2.0"), make_set([1, "x"])),
        ]
    ),
    max_size=4,
)


@given(VERBS, OPERANDS)
def test_a_compiled_format_prints_what_the_printer_does(verbs: list[str], values: Any) -> None:
    result = REGISTRY["sprintf"].call(Context(Environment()), " ".join(verbs), values)
    assert result == format_text(" ".join(verbs), [argument(value) for value in values])


def argument(value: Any) -> Any:
    if type(value) is Number and value.text in ("-0", "2.0"):
        return int(value)
    if type(value) is Number and "." not in value.text:
        return value.text
    if type(value) in (float, Number):
        return float(value)
    return value if type(value) in (int, str) else to_rego(value)


DIGITS = st.text("0123456789", min_size=1, max_size=20)
NUMBERS = st.lists(
    st.integers(-(2**70), 2**70)
    | st.integers(-3, 3)
    | st.builds(lambda a, b: Number(f"{int(a)}.{b}"), DIGITS, DIGITS)
    | st.builds(lambda n, b: Number(f"-{n}.{b}"), st.integers(0, 2), DIGITS)
    | st.sampled_from([Number("1.0"), Number("0.1"), Number("0.10"), Number("9007199254740993.5")]),
    min_size=1,
)


@given(NUMBERS, st.sampled_from(["min", "max"]))
def test_of_equal_numbers_the_last_is_the_least_and_the_greatest(
    numbers: list[Any], name: str
) -> None:
    best = numbers[0]
    for number in numbers[1:]:
        order = compare(number, best)
        if order == 0 or (order < 0) == (name == "min"):
            best = number
    answer = REGISTRY[name].call(Context(Environment()), numbers)
    assert (answer, type(answer), number_text(answer)) == (best, type(best), number_text(best))


RANGES = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2000))


@given(st.lists(RANGES, min_size=1, max_size=3))
def test_merged_networks_hold_the_same_addresses(ranges: list[tuple[int, int]]) -> None:
    networks = [
        network
        for first, length in ranges
        for network in summarize_address_range(
            IPv4Address(first), IPv4Address(min(first + length, 2**32 - 1))
        )
    ]
    merged = REGISTRY["net.cidr_merge"].call(
        Context(Environment()), [str(each) for each in networks]
    )
    assert merged == frozenset(map(str, collapse_addresses(networks)))


MAPPED = IPv6Network("::ffff:0:0/96")
NETWORKS = st.ip_addresses().flatmap(
    lambda ip: st.integers(0, ip.max_prefixlen).map(lambda length: f"{ip}/{length}")
)


@given(NETWORKS, st.ip_addresses() | NETWORKS)
def test_networks_hold_what_the_standard_library_says(network: str, other: Any) -> None:
    outer, inner = (ip_network(each, strict=False) for each in (network, str(other)))
    # Go takes an IPv4-mapped address for IPv4, and so does OPA.
    assume(not any(MAPPED.overlaps(each) for each in (outer, inner) if each.version == 6))
    both: list[Any] = [outer, inner]
    before = outer.version == inner.version and both[0].supernet_of(both[1])
    assert REGISTRY["net.cidr_contains"].call(network, str(other)) is before


@given(st.text(st.sampled_from("01af:.%g \0é٣"), max_size=24) | st.ip_addresses(v=6).map(str))
def test_an_address_is_read_as_the_standard_library_reads_it(text: str) -> None:
    assume(":" in text)
    try:
        expected = None if "%" in text else int(IPv6Address(text))
    except ValueError:
        expected = None
    assert parse_ip(text) == expected


@given(st.text(st.sampled_from("ab \"'`\\\n\t\x7f\xa0é٣\U0001f600\udc80")), st.sampled_from("\"'`"))
def test_a_text_is_quoted_as_its_characters_are(text: str, mark: str) -> None:
    for ascii_only in (False, True):
        each = [strings._escape(char, mark, ascii_only=ascii_only) for char in text]
        whole = strings.quote(text, mark, ascii_only=ascii_only)
        assert whole == mark + "".join(each) + mark


@given(TIMES, ZONES, EDITS)
def test_a_plain_time_is_that_read_by_its_layout(
    time: str, zone: str, edits: list[tuple[int, str]]
) -> None:
    value = edited(time + zone, edits)
    plain = _plain_iso(value)
    if plain is not None:
        assert plain == layouts.read_by_elements("2006-01-02T15:04:05Z07:00", value)


@given(st.text(st.characters(codec="utf-8")))
def test_a_query_is_escaped_as_python_escapes_it(text: str) -> None:
    assert query_escape(text) == quote_plus(text)


@given(st.text(st.sampled_from('{}[]",:0e- \n\ta\\u\udc80')))
def test_a_text_is_json_where_the_whole_decoder_reads_it(text: str) -> None:
    try:
        json.loads(scrub(text), parse_constant=refuse)
    except ValueError:
        assert not go_json.is_valid(text)
    else:
        assert go_json.is_valid(text)


def refuse(name: str) -> None:
    raise ValueError(name)
