"""Inputs of the kinds that are compared with OPA's newest engine: words, numbers, objects, and
documents as users have them, each from a source of random numbers.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from random import Random
from typing import Any

__all__ = [
    "a_uuid",
    "accounts",
    "addresses",
    "addresses_6",
    "an_object",
    "arrays",
    "days",
    "documents",
    "events",
    "first_address",
    "flow_lists",
    "graph",
    "long_text",
    "matrix",
    "mixed",
    "names",
    "nested",
    "networks",
    "nothing",
    "numbers",
    "objects",
    "pairs",
    "paths",
    "plan",
    "pods",
    "texts_of_json",
    "texts_of_numbers",
    "texts_of_yaml",
    "times",
    "tokens",
    "tree",
    "two_lists",
    "urls",
    "versions",
    "word",
    "words",
    "words_beyond_ascii",
]


def word(random: Random, length: int = 8) -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=length))


def an_object(random: Random, n: int) -> dict[str, Any]:
    return {
        "id": n,
        "name": word(random),
        "tags": [word(random, 4) for _ in range(3)],
        "owner": {"team": word(random, 5), "level": random.randrange(10)},
    }


def objects(count: int) -> Callable[[Random], Any]:
    return lambda random: {"items": [an_object(random, n) for n in range(count)]}


def words(count: int, length: int = 8) -> Callable[[Random], Any]:
    return lambda random: {"words": [word(random, length) for _ in range(count)]}


def nothing(_random: Random) -> Any:
    return {}


def numbers(count: int) -> Callable[[Random], Any]:
    return lambda random: {
        "numbers": [random.randrange(1_000_000) for _ in range(count)],
        "floats": [round(random.random() * 1000, 3) for _ in range(count)],
    }


def arrays(count: int) -> Callable[[Random], Any]:
    return lambda random: {
        "arrays": [[random.randrange(50), word(random, 4)] for _ in range(count)]
    }


def documents(size: int) -> Callable[[Random], Any]:
    def of_size(random: Random) -> Any:
        items: list[Any] = []
        while len(json.dumps(items[:50])) * max(len(items), 1) / 50 < size:
            items += [an_object(random, n) for n in range(50)]
        return {"items": items, "text": json.dumps(items)}

    return of_size


def flow_lists(random: Random) -> Any:
    lines = [f"k{n}: {{a: [{n}, {n + 1}], b: {word(random)}}}" for n in range(4000)]
    return {"text": "\n".join(lines)}


def long_text(size: int) -> Callable[[Random], Any]:
    return lambda random: {"text": " ".join(word(random, 7) for _ in range(size // 8))}


def times(random: Random) -> Any:
    return {
        "times": [
            f"2026-{random.randrange(1, 13):02}-{random.randrange(1, 28):02}T10:11:12Z"
            for _ in range(1000)
        ]
    }


def networks(random: Random) -> Any:
    return {"networks": [f"10.{random.randrange(256)}.{n % 256}.0/24" for n in range(500)]}


def versions(random: Random) -> Any:
    def part() -> int:
        return random.randrange(30)

    return {"versions": [f"{part()}.{part()}.{part()}-rc.{part()}" for _ in range(1000)]}


def accounts(random: Random) -> Any:
    roles = [f"role{n}" for n in range(50)]
    return {
        "users": {f"u{n}": random.sample(roles, 3) for n in range(1000)},
        "grants": {
            role: [{"action": word(random, 4), "path": f"/{word(random, 3)}"} for _ in range(10)]
            for role in roles
        },
    }


def matrix(random: Random) -> Any:
    return {"m": [[random.randrange(100) for _ in range(40)] for _ in range(40)]}


def urls(random: Random) -> Any:
    return {
        "urls": [
            f"https://{word(random)}.example.com/{word(random)}/{word(random)}"
            f"?a={random.randrange(99)}&b={word(random)}"
            for _ in range(1000)
        ]
    }


def paths(random: Random) -> Any:
    names = [a + b for a in "abc" for b in "abc"]
    return {
        "paths": [random.choices(names, k=4) for _ in range(1000)],
        "acl": {name: dict.fromkeys("abc", True) for name in names},
    }


def tree(random: Random) -> Any:
    def branch(depth: int) -> dict[str, Any]:
        below = [branch(depth - 1) for _ in range(3)] if depth else []
        return {"v": random.randrange(9), "c": below}

    return {"tree": branch(6)}


def pods(random: Random) -> Any:
    containers = [
        {
            "name": word(random),
            "image": f"reg.io/{word(random)}:{random.randrange(9)}",
            "resources": {"limits": {"memory": f"{random.randrange(1, 900)}Mi"}},
            "securityContext": {
                "capabilities": {"add": ["NET_ADMIN"] if random.random() < 0.3 else []}
            },
        }
        for _ in range(60)
    ]
    return {"review": {"object": {"spec": {"containers": containers}}}}


def plan(random: Random) -> Any:
    return {
        "resource_changes": [
            {
                "address": f"aws_s3.{word(random)}",
                "type": random.choice(["aws_s3_bucket", "aws_iam", "aws_sg"]),
                "change": {
                    "actions": [random.choice(["create", "update", "delete"])],
                    "after": {
                        "tags": {"a": word(random)},
                        "ingress": [{"cidr_blocks": [random.choice(["0.0.0.0/0", "10.0.0.0/8"])]}],
                    },
                },
            }
            for _ in range(500)
        ]
    }


def graph(random: Random) -> Any:
    nodes = range(300)
    return {"g": {f"n{each}": [f"n{random.choice(nodes)}" for _ in range(3)] for each in nodes}}


def pairs(random: Random) -> Any:
    return {
        "a": [{"id": each, "x": word(random, 3)} for each in range(400)],
        "b": [{"id": each, "y": word(random, 3)} for each in range(200, 600)],
    }


def two_lists(random: Random) -> Any:
    return {name: [random.randrange(5000) for _ in range(4000)] for name in "ab"}


def texts_of_json(random: Random) -> Any:
    return {"texts": [json.dumps(an_object(random, n)) for n in range(400)]}


def texts_of_yaml(random: Random) -> Any:
    return {
        "texts": [
            f"a: {word(random)}\nb:\n  - {random.randrange(9)}\n  - {word(random)}\nc: {{x: 1}}\n"
            for _ in range(200)
        ]
    }


def addresses(random: Random) -> Any:
    def part() -> int:
        return random.randrange(256)

    return {
        "ips": [f"10.{part()}.{part()}.{part()}" for _ in range(1000)],
        "nets": [f"10.{n}.0.0/16" for n in range(60)],
    }


def nested(_random: Random) -> Any:
    value: Any = {"leaf": 1}
    for n in range(50):
        value = {"a": value, "k": n}
    return {"deep": value, "n": [1] * 500}


def mixed(random: Random) -> Any:
    kinds: list[Any] = [1, "a", True, None, [1], {"a": 1}, 2.5]
    return {"items": random.choices(kinds, k=3000)}


def words_beyond_ascii(random: Random) -> Any:
    return {"words": ["".join(random.choices("äöüßéèñ日本語", k=10)) for _ in range(1500)]}


def events(random: Random) -> Any:
    return {
        "events": [
            {
                "user": f"u{random.randrange(50)}",
                "action": random.choice(["login", "fail"]),
                "ts": 1_700_000_000_000_000_000 + random.randrange(10**15),
            }
            for _ in range(2000)
        ]
    }


def names(random: Random) -> Any:
    return {
        "names": [
            f"{word(random, 5)}.{word(random, 5)}.{random.choice(['com', 'org'])}"
            for _ in range(1500)
        ]
    }


def tokens(random: Random) -> Any:
    def token() -> str:
        claims = json.dumps({"sub": word(random), "roles": ["a", "b"]}).encode()
        return f"eyJhbGciOiJIUzI1NiJ9.{urlsafe_b64encode(claims).decode().rstrip('=')}.sig"

    return {"tokens": [token() for _ in range(500)]}


def texts_of_numbers(random: Random) -> Any:
    return {"texts": [str(random.random() * 100) for _ in range(1500)]}


def first_address(_random: Random) -> Any:
    return {"words": ["10.1.0.0"]}


def a_uuid(_random: Random) -> Any:
    return {"text": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}


def addresses_6(random: Random) -> Any:
    return {
        "ips": [f"2001:db{random.randrange(10)}:{random.randrange(9999)}::1" for _ in range(1500)]
    }


def days(random: Random) -> Any:
    return {
        "days": [f"20{random.randrange(10, 30)}-0{random.randrange(1, 10)}-11" for _ in range(1500)]
    }
