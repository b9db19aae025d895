"""Kinds of policies and built-ins that no recorded case of OPA has: what `newest_engine.py` asks.

A kind is a policy with a rule `answer` and the input that it reads: what reads data alone is
answered once for all queries here. The first ones were written down because OPA was faster once;
the others look for the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A rule `answer`, what else its package holds, and its input by a source of random numbers."""

    name: str
    policy: str
    input: Callable[[Random], Any] = lambda random: {}


def _word(random: Random, length: int = 8) -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=length))


def _object(random: Random, n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": _word(random),
        "tags": [_word(random, 4) for _ in range(3)],
        "owner": {"team": _word(random, 5), "level": random.randrange(10)},
    }


def _objects(count: int) -> Callable[[Random], Any]:
    return lambda random: {"items": [_object(random, n) for n in range(count)]}


def _words(count: int, length: int = 8) -> Callable[[Random], Any]:
    return lambda random: {"words": [_word(random, length) for _ in range(count)]}


def _numbers(count: int) -> Callable[[Random], Any]:
    return lambda random: {
        "numbers": [random.randrange(1_000_000) for _ in range(count)],
        "floats": [round(random.random() * 1000, 3) for _ in range(count)],
    }


def _arrays(count: int) -> Callable[[Random], Any]:
    return lambda random: {
        "arrays": [[random.randrange(50), _word(random, 4)] for _ in range(count)]
    }


def _documents(size: int) -> Callable[[Random], Any]:
    def documents(random: Random) -> Any:
        items: list[Any] = []
        while len(json.dumps(items[:50])) * max(len(items), 1) / 50 < size:
            items += [_object(random, n) for n in range(50)]
        return {"items": items, "text": json.dumps(items)}

    return documents


def _yaml(random: Random) -> Any:
    lines = [f"k{n}: {{a: [{n}, {n + 1}], b: {_word(random)}}}" for n in range(4000)]
    return {"text": "\n".join(lines)}


def _text(size: int) -> Callable[[Random], Any]:
    return lambda random: {"text": " ".join(_word(random, 7) for _ in range(size // 8))}


def _times(random: Random) -> Any:
    return {
        "times": [
            f"2026-{random.randrange(1, 13):02}-{random.randrange(1, 28):02}T10:11:12Z"
            for _ in range(1000)
        ]
    }


def _networks(random: Random) -> Any:
    return {"networks": [f"10.{random.randrange(256)}.{n % 256}.0/24" for n in range(500)]}


def _versions(random: Random) -> Any:
    def part() -> int:
        return random.randrange(30)

    return {"versions": [f"{part()}.{part()}.{part()}-rc.{part()}" for _ in range(1000)]}


def _accounts(random: Random) -> Any:
    roles = [f"role{n}" for n in range(50)]
    return {
        "users": {f"u{n}": random.sample(roles, 3) for n in range(1000)},
        "grants": {
            role: [{"action": _word(random, 4), "path": f"/{_word(random, 3)}"} for _ in range(10)]
            for role in roles
        },
    }


def _diamond(levels: int, operand: str) -> str:
    lines = ["f0(x) := 1"]
    for n in range(1, levels):
        argument = operand.replace("$", "x")
        lines.append(f"f{n}(x) := f{n - 1}({argument}) + f{n - 1}({argument})")
    return "\n".join(lines)


def _each(call: str, items: str = "input.words") -> str:
    """Count what `call` gives for each `x` of `items`."""
    return f"answer := count([y | some x in {items}; y := {call}])"


KINDS: Final = [
    # What OPA was faster at when it was last looked for.
    Kind("functions that call each other twice, 20 levels",
         _diamond(20, "$") + "\nanswer := f19(input.numbers[0])", _numbers(1)),
    Kind("the same with a new object at each call",
         _diamond(20, '{"a": $.a}') + '\nanswer := f19({"a": input.numbers[0]})', _numbers(1)),
    Kind("min of 5,000 objects", "answer := min(input.items).id", _objects(5000)),
    Kind("max of 5,000 objects", "answer := max(input.items).id", _objects(5000)),
    Kind("concat of 5,000 texts", 'answer := count(concat(",", input.words))', _words(5000)),
    Kind("concat of 2,000 pairs", _each('concat("-", [x, "b"])'), _words(2000)),
    Kind("time.add_date", _each("time.add_date(time.parse_rfc3339_ns(x), 1, 2, 3)", "input.times"),
         _times),
    Kind("base64.encode, then membership",
         'answer := count([x | some x in input.words; base64.encode(x) in {"YQ==", "Yg=="}])',
         _words(2000)),
    Kind("strings.replace_n", _each('strings.replace_n({"a": "b", "cd": "x", "<": "&lt;"}, x)'),
         _words(2000, 20)),
    Kind("set of 5,000 nested objects", "answer := count({x | some x in input.items})",
         _objects(5000)),
    Kind("difference of two sets of objects",
         "a := {x | some x in input.items}\nb := {x | some x in input.items; x.id % 2 == 0}\n"
         "answer := count(a - b)", _objects(2000)),
    Kind("sort of 2,000 arrays", "answer := count(sort(input.arrays))", _arrays(2000)),
    Kind("set of 2,000 arrays", "answer := count({x | some x in input.arrays})", _arrays(2000)),
    Kind("union and intersection of sets of arrays",
         "a := {x | some x in input.arrays}\nb := {x | some x in input.arrays; x[0] > 10}\n"
         "answer := [count(a | b), count(a & b)]", _arrays(2000)),
    Kind("json.is_valid of 5 MB", "answer := json.is_valid(input.text)", _documents(5_000_000)),
    Kind("json.marshal to 300 kB", "answer := count(json.marshal(input.items))",
         _documents(300_000)),
    Kind("json.marshal_with_options, pretty",
         'answer := count(json.marshal_with_options(input.items, {"pretty": true}))',
         _documents(300_000)),
    Kind("json.unmarshal of 300 kB", "answer := count(json.unmarshal(input.text))",
         _documents(300_000)),
    Kind("yaml.marshal to 20 kB", "answer := count(yaml.marshal(input.items)) > 0",
         _documents(20_000)),
    Kind("yaml.unmarshal of 200 kB with flow lists",
         "answer := count(yaml.unmarshal(input.text))", _yaml),
    Kind("sprintf %v of an object", _each('sprintf("%v", [x])', "input.items"), _objects(500)),
    Kind("sprintf %.2f", _each('sprintf("%.2f", [x])', "input.floats"), _numbers(2000)),
    Kind("sprintf %5.2f|%-10s|%x",
         'answer := count([y | some i, x in input.floats; '
         'y := sprintf("%5.2f|%-10s|%x", [x, "abc", i])])', _numbers(2000)),
    Kind("regex.globs_match", _each('regex.globs_match(x, "[a-z]+.[0-9]*")'), _words(1000)),
    Kind("urlquery.encode and decode", _each('urlquery.decode(urlquery.encode(x))'), _words(2000)),
    Kind("urlquery.decode_object", _each('urlquery.decode_object(concat("=", [x, "a%20b&c=1"]))'),
         _words(1000)),
    Kind("semver.compare", _each('semver.compare(x, "3.2.1")', "input.versions"), _versions),
    Kind("semver.is_valid", _each("semver.is_valid(x)", "input.versions"), _versions),
    Kind("units.parse and parse_bytes",
         'answer := sum([y | some x in input.numbers; y := units.parse(sprintf("%dK", [x])) + '
         'units.parse_bytes(sprintf("%dMi", [x]))])', _numbers(500)),
    Kind("net.cidr_merge", "answer := count(net.cidr_merge(input.networks))", _networks),
    Kind("net.cidr_expand of a /22",
         'answer := count(net.cidr_expand(concat("/", [input.words[0], "22"])))',
         lambda random: {"words": ["10.1.0.0"]}),
    Kind("net.cidr_contains_matches",
         'answer := count(net.cidr_contains_matches(input.networks, ["10.1.2.3", "10.7.7.7"]))',
         _networks),
    Kind("object.subset",
         'answer := count([x | some x in input.items; object.subset(x, {"owner": {"level": 3}})])',
         _objects(1000)),
    Kind("regex.find_n over 1 MB", 'answer := count(regex.find_n("[a-c]+x", input.text, -1))',
         _text(1_000_000)),
    Kind("regex.replace over 1 MB",
         'answer := count(regex.replace(input.text, "[aeiou]{2}", "-")) > 0', _text(1_000_000)),
    Kind("strings.render_template",
         _each('strings.render_template("hello {{.name}} {{range .tags}}{{.}},{{end}}", x)',
               "input.items"), _objects(300)),
    # What nobody had looked at.
    Kind("roles to grants, all users",
         "allowed contains [u, g.action] if { some u, roles in input.users; some r in roles; "
         "some g in input.grants[r] }\nanswer := count(allowed)", _accounts),
    Kind("group by team",
         "by_team[x.owner.team] contains x.id if { some x in input.items }\n"
         "answer := count(by_team)", _objects(2000)),
    Kind("every below every",
         "answer if { every x in input.items { every t in x.tags { count(t) == 4 } } }",
         _objects(1000)),
    Kind("object comprehension of counts",
         "answer := count({x.name: count(x.tags) | some x in input.items})", _objects(2000)),
    Kind("nested comprehension by equal level",
         "answer := count([1 | some x in input.items; "
         "n := count([y | some y in input.items; y.owner.level == x.owner.level]); n > 0])",
         _objects(150)),
    Kind("walk over nested objects",
         "answer := count([p | some p, v in walk(input.items); is_string(v)])", _objects(500)),
    Kind("walk with a path in the pattern",
         'answer := count([v | walk(input.items, [[_, "owner", "team"], v])])', _objects(500)),
    Kind("json.patch on 1,000 objects",
         _each('json.patch(x, [{"op": "replace", "path": "/owner/team", "value": "a"}])',
               "input.items"), _objects(1000)),
    Kind("json.filter", _each('json.filter(x, ["owner/team", "id"])', "input.items"),
         _objects(1000)),
    Kind("object.union_n", "answer := count(object.union_n(input.items))", _objects(1000)),
    Kind("object.filter", _each('object.filter(x, ["id", "name"])', "input.items"), _objects(1000)),
    Kind("object.remove", _each('object.remove(x, ["id", "name"])', "input.items"), _objects(1000)),
    Kind("object.get along a path", _each('object.get(x, ["owner", "team"], "")', "input.items"),
         _objects(2000)),
    Kind("array.flatten", "answer := count(array.flatten(input.arrays))", _arrays(2000)),
    Kind("array.concat step by step",
         "answer := count([y | some x in input.arrays; y := array.concat(x, x)])", _arrays(2000)),
    Kind("array.reverse and slice",
         "answer := count([y | some x in input.arrays; y := array.slice(array.reverse(x), 0, 1)])",
         _arrays(2000)),
    Kind("split, trim, lower",
         _each('lower(trim_space(split(x, "a")[0]))'), _words(2000, 20)),
    Kind("indexof_n", _each('indexof_n(x, "a")'), _words(2000, 40)),
    Kind("strings.count", _each('strings.count(x, "ab")'), _words(2000, 40)),
    Kind("strings.any_suffix_match of lists",
         'answer := strings.any_suffix_match(input.words, ["zzzz", "yyyy", "qqqq"])',
         _words(2000)),
    Kind("substring of letters beyond ASCII",
         _each('substring(concat("", [x, "äöü€"]), 6, 4)'), _words(2000)),
    Kind("format_int and to_number",
         'answer := sum([to_number(format_int(x, 10)) | some x in input.numbers])',
         _numbers(2000)),
    Kind("sum and product of floats",
         "answer := [sum(input.floats) > 0, max(input.floats) > 1]", _numbers(5000)),
    Kind("arithmetic of floats",
         "answer := count([y | some x in input.floats; y := (x * 3.5 + 1.25) / 2; y > 10])",
         _numbers(2000)),
    Kind("integers: % and bits",
         "answer := count([x | some x in input.numbers; bits.and(x, 7) == x % 8])",
         _numbers(2000)),
    Kind("crypto.sha256 and hex", _each("hex.encode(crypto.sha256(x))"), _words(1000)),
    Kind("crypto.hmac.sha512", _each('crypto.hmac.sha512(x, "key")'), _words(1000)),
    Kind("hex.decode", _each("hex.decode(hex.encode(x))"), _words(2000)),
    Kind("base64url, no padding", _each("base64url.decode(base64url.encode_no_pad(x))"),
         _words(2000)),
    Kind("uuid.parse",
         'answer := uuid.parse(input.text).version',
         lambda random: {"text": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}),
    Kind("glob.match with delimiters", _each('glob.match("*a*:b?", [":"], x)'), _words(2000)),
    Kind("glob.match, a pattern for each item",
         _each('glob.match(concat("", [substring(x, 0, 2), "*"]), [], x)'), _words(1000)),
    Kind("regex.match, a pattern for each item",
         _each('regex.match(concat("", ["^", substring(x, 0, 2), ".*$"]), x)'), _words(300)),
    Kind("regex.find_all_string_submatch_n",
         _each('regex.find_all_string_submatch_n("([a-m])([n-z])", x, -1)'), _words(1000, 20)),
    Kind("regex.split", _each('regex.split("[aeiou]", x)'), _words(1000, 20)),
    Kind("regex.template_match",
         _each('regex.template_match("urn:{[a-z]+}:b", concat("", ["urn:", x, ":b"]), "{", "}")'),
         _words(500)),
    Kind("time.format and date",
         _each("[time.format(time.parse_rfc3339_ns(x)), time.date(time.parse_rfc3339_ns(x))]",
               "input.times"), _times),
    Kind("time.diff", _each("time.diff(time.parse_rfc3339_ns(x), 0)", "input.times"), _times),
    Kind("time.clock in a zone",
         _each('time.clock([time.parse_rfc3339_ns(x), "Europe/Berlin"])', "input.times"), _times),
    Kind("graph.reachable",
         "g := {u: {v | some v in rs} | some u, rs in input.users}\n"
         'answer := count(graph.reachable(g, {"u1", "u2", "u3"}))', _accounts),
    Kind("json.match_schema",
         'answer := count([x | some x in input.items; json.match_schema(x, {"type": "object", '
         '"properties": {"id": {"type": "integer"}}})[0]])', _objects(300)),
    Kind("type_name and is_*",
         'answer := count([1 | some x in input.items; is_object(x); '
         'type_name(x.tags) == "array"])',
         _objects(2000)),
    Kind("comparison of objects",
         "answer := count([x | some x in input.items; x < input.items[7]])",
         _objects(1000)),
    Kind("equality of nested objects",
         "answer := count([x | some x in input.items; x == input.items[7]])", _objects(2000)),
    Kind("membership of an object in an array",
         "answer := count([1 | some x in input.items; x.owner.level == 3; x in input.items])",
         _objects(200)),
    Kind("lookups by a variable key",
         "index := {x.name: x | some x in input.items}\n"
         "answer := count([1 | some x in input.items; index[x.name].id == x.id])",
         _objects(2000)),
    Kind("rules with else",
         "level(x) := 3 if { x > 600000 } else := 2 if { x > 300000 } else := 1\n"
         "answer := sum([level(x) | some x in input.numbers])", _numbers(2000)),
    Kind("functions with patterns",
         'kind([a, b]) := "low" if { a < 25 }\nkind([a, b]) := "high" if { a >= 25 }\n'
         'answer := count([x | some x in input.arrays; kind(x) == "low"])', _arrays(2000)),
    Kind("negation with a partial set",
         "blocked contains x.name if { some x in input.items; x.owner.level > 5 }\n"
         "answer := count([x | some x in input.items; not x.name in blocked])", _objects(2000)),
    Kind("with on data, 200 times",
         'ok if data.config.mode == "on"\n'
         'answer := count([1 | some x in input.numbers; ok with data.config.mode as "on"])',
         _numbers(200)),
    Kind("a template string for each item",
         'answer := count([y | some x in input.items; '
         'y := $"{x.id}: {x.name} of {x.owner.team}"])',
         _objects(1000)),
    Kind("union of 300 sets",
         "answer := count(union({{y | some y in x.tags} | some x in input.items}))",
         _objects(300)),
    Kind("intersection of 300 sets",
         'answer := count(intersection({s | some x in input.items; '
         's := {"a"} | {y | some y in x.tags}}))',
         _objects(300)),
    Kind("numbers.range_step",
         "answer := count(numbers.range_step(input.numbers[0] * 0, 20000, 2))",
         _numbers(1)),
    Kind("io.jwt.decode",
         'token := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIiwicm9sZXMiOlsieCIsInkiXX0.'
         '1c2J1cHBvc2VkX3NpZ25hdHVyZV9ieXRlcw"\n'
         "answer := count([p | some x in input.numbers; [_, p, _] := io.jwt.decode(token)])",
         _numbers(200)),
    Kind("20 conditions that fail late",
         "answer := count([1 | some x in input.items; "
         + "; ".join(f"x.id != {n}" for n in range(100000, 100019))
         + "; x.owner.level == 3]) > 0", _objects(1000)),
    Kind("strings.reverse and contains", _each('contains(strings.reverse(x), "ab")'),
         _words(2000)),
    Kind("sort of words, then first", "answer := sort(input.words)[0]", _words(5000)),
    Kind("count of distinct words",
         "answer := count({x | some x in input.words})", _words(5000, 3)),
    Kind("net.cidr_contains of IPv6", _each('net.cidr_contains("2001:db8::/32", x)', "input.ips"),
         lambda random: {
             "ips": [f"2001:db{random.randrange(10)}:{random.randrange(9999)}::1"
                     for _ in range(1500)]
         }),
    Kind("json.is_valid of words", _each("json.is_valid(x)"), _words(1500)),
    Kind("json.marshal of each", _each("json.marshal(x)", "input.items"), _objects(1000)),
    Kind("yaml.marshal of each", _each("yaml.marshal(x.owner)", "input.items"), _objects(200)),
    Kind("sprintf %q", _each('sprintf("%q", [x])'), _words(1500)),
    Kind("time.parse_duration_ns", _each('time.parse_duration_ns(sprintf("%dh30m1.5s", [x]))',
                                         "input.numbers"), _numbers(1000)),
    Kind("time.parse_ns by a layout", _each('time.parse_ns("2006-01-02", x)', "input.days"),
         lambda random: {
             "days": [f"20{random.randrange(10, 30)}-0{random.randrange(1, 10)}-11"
                      for _ in range(1500)]
         }),
    Kind("regex.find_n of each", _each('regex.find_n("[a-m]+", x, -1)'), _words(1500)),
    Kind("violations of Kubernetes pods",
         'answer := count(deny)\n\ndeny contains sprintf("%v: %v", [x.id, t]) if {\n'
         '\tsome x in input.items\n\tsome t in x.tags\n\tnot startswith(t, "a")\n}',
         _objects(500)),
]  # fmt: skip
