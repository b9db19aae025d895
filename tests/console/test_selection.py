"""A search looks at every decision that is kept, and is bounded."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.console.points import PEOPLE, Point

from doorward.console import selection
from doorward.console.selection import Filter, FilterError, select

USER = {"name": "ann", "role": "guest", "active": True}


@pytest.fixture(scope="module")
def point() -> Point:
    point = Point(PEOPLE)
    for number in range(20):
        user = {**USER, "name": f"ann{number % 2}"}
        point.decide({"method": ["GET", "POST"][number % 2], "path": f"/{number}", "user": user})
    point.decide({"method": "GET", "path": "/none"})
    return point


def search(point: Point, **options: Any) -> dict[str, Any]:
    names = [each.name for each in dataclasses.fields(Filter)]
    fields = {name: options.pop(name) for name in list(options) if name in names}
    return select(point.ring.newest(), (), Filter.read(fields), worker=0, **options)


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, 21),
        ({"verdict": "allow"}, 10),
        ({"verdict": "refused"}, 11),
        ({"verdict": "error"}, 0),
        ({"user": "ANN1"}, 10),
        ({"role": "guest"}, 20),
        ({"rule": "app.is_allowed"}, 20),
        ({"rule": "app.role"}, 21),
        ({"text": "post /1"}, 6),
        ({"text": "ann1 Denied"}, 10),
        ({"text": 'role == "admin"'}, 10),
        ({"reason": "role: input.user.active"}, 1),
        ({"reason": "role: input.user"}, 0),
        ({"path": "app/ALLOW"}, 21),
        ({"revision": "no such"}, 0),
        ({"since": "9999999999999"}, 0),
        ({"until": "1"}, 0),
    ],
)
def test_a_filter_means_what_it_names(fields: Any, count: int, point: Point) -> None:
    assert search(point, **fields)["total"] == count


def test_pages_follow_each_other_without_a_gap(point: Point) -> None:
    numbers: list[int] = []
    before = None
    while rows := search(point, most=6, before=before)["rows"]:
        numbers += [row["number"] for row in rows]
        before = rows[-1]["time_ms"], 0, rows[-1]["number"]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 21


def test_groups_count_all_that_the_filter_means(point: Point) -> None:
    groups = search(point, verdict="refused", group="reason", most=0)["groups"]
    assert [(each["name"], each["count"]) for each in groups] == [
        ('is_allowed: role == "admin"', 10),
        ("role: input.user.active", 1),
    ]
    (all_of_them,) = search(point, group="path", most=0)["groups"]
    rows = search(point, most=100)["rows"]
    assert all_of_them["total_us"] == pytest.approx(sum(each["eval_us"] for each in rows))
    assert all_of_them["longest_us"] == max(each["eval_us"] for each in rows)
    rules = {each["name"] for each in search(point, group="rule")["groups"]}
    assert rules == {"app.allow", "app.is_allowed", "app.role"}


def test_a_search_ends_in_time_and_says_so(point: Point, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "SECONDS", -1)
    monkeypatch.setattr(selection, "_BETWEEN", 5)
    answer = search(point)
    assert (answer["complete"], answer["looked"], len(answer["rows"])) == (False, 5, 5)


def test_rows_of_the_docker_plugin_are_among_them(point: Point) -> None:
    newest = point.ring.newest()[0]
    row = {**(newest.row or {}), "number": -1, "time_ms": 1, "id": "docker", "path": "docker"}
    answer = select(point.ring.newest(), [row], Filter(), worker=0)
    assert (answer["total"], answer["rows"][-1]["id"]) == (22, "docker")


@pytest.mark.parametrize("times", [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [1, 1, 1, 2, 2], [7] * 5])
def test_pages_show_the_newest_rows_of_the_docker_plugin_first(
    times: list[int], point: Point
) -> None:
    newest = point.ring.newest()[0].row or {}
    rows = [{**newest, "number": -n, "time_ms": ms} for n, ms in enumerate(times, 1)]
    pages: list[Any] = []
    before = None
    while page := select([], rows, Filter(), worker=0, before=before, most=2)["rows"]:
        pages += page
        before = page[-1]["time_ms"], 0, page[-1]["number"]
    assert [row["time_ms"] for row in pages] == sorted(times, reverse=True)
    assert {row["number"] for row in pages} == {-1, -2, -3, -4, -5}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"file": "/etc/passwd"}, "unknown query parameter: file"),
        ({"__class__": "x"}, "unknown query parameter"),
        ({"text": "x" * 201}, "text is longer"),
        ({"verdict": "yes"}, "`verdict` must be one of"),
        ({"since": "now"}, "milliseconds"),
        ({"until": "²"}, "milliseconds"),
    ],
)
def test_what_is_no_filter_is_refused(fields: Any, problem: str) -> None:
    with pytest.raises(FilterError, match=problem):
        Filter.read(fields)
