"""What several processes say of themselves becomes one page, and who is silent is named."""

from __future__ import annotations

from typing import Any

from doorward.console import together


def batch(last: int, *times: int, seconds: Any = (), **more: Any) -> dict[str, Any]:
    decisions = [{"number": last - n, "time_ms": time} for n, time in enumerate(times)][::-1]
    return {"last": last, "skipped": 0, "decisions": decisions, "seconds": seconds, **more}


def test_decisions_of_all_are_in_the_order_of_time_and_bounded() -> None:
    answers = {0: batch(2, 40, 10), 2: batch(9, 30, 20, skipped=5, docker=[{"id": "d"}])}
    message = together.batches(answers, 3, 3)
    assert [(each["time_ms"], each["worker"]) for each in message["decisions"]] == [
        (20, 2),
        (30, 2),
        (40, 0),
    ]
    assert (message["skipped"], message["silent"], message["workers"]) == (6, [1], 3)
    assert message["docker"] == [{"id": "d"}]


def test_counts_by_second_add_up() -> None:
    one = [[100, 2, 1, 0, 10, 15], [101, 0, 0, 0, 0, 0]]
    ahead = [[101, 6, 0, 1, 30, 90], [102, 1, 0, 0, 5, 5]]
    seconds = together.batches({0: batch(0, seconds=one), 1: batch(0, seconds=ahead)}, 2, 9)
    assert seconds["seconds"] == [[101, 6, 0, 1, 30, 90], [102, 1, 0, 0, 5, 5]]
    same = together.batches({0: batch(0, seconds=one), 1: batch(0, seconds=one)}, 2, 9)
    assert same["seconds"] == [[100, 4, 2, 0, 10, 15], [101, 0, 0, 0, 0, 0]]
    assert together.batches({0: batch(0, seconds=one)}, 1, 9)["seconds"] == one


def test_minutes_of_a_revision_add_up() -> None:
    answers = {0: [(5, "a", [1, 1, 0, 9]), (6, "a", [1, 0, 0, 9])], 1: [[5, "a", [2, 0, 1, 1]]]}
    assert together.revisions(answers) == [(5, "a", [3, 1, 1, 10]), (6, "a", [1, 0, 0, 9])]


def test_counts_of_other_policies_are_left_out() -> None:
    own = {"policies": "x", "decisions": 2, "definitions": [[0, 1, [[7, 1]]]]}
    same = {"policies": "x", "decisions": 3, "definitions": [[0, 0, [[7, 1], [8, 1]]], [4, 1, []]]}
    other = {"policies": "y", "decisions": 100, "definitions": [[0, 100, []]]}
    counts = together.policies(own, {0: own, 1: same, 2: other}, 4)
    assert (counts["decisions"], counts["missing"]) == (5, [2, 3])
    assert (counts["answered"], counts["failed"]) == ({0: 1, 4: 1}, {0: {7: 2, 8: 1}})


def page(*times: int, total: int = 0, groups: Any = ()) -> dict[str, Any]:
    rows = [{"time_ms": time, "number": time} for time in times]
    counts = {"total": total or len(rows), "looked": len(rows), "complete": True}
    return {"rows": rows, "groups": groups, **counts}


def test_a_search_of_all_is_one_page_with_a_cursor() -> None:
    document = together.selections({0: page(9, 3), 1: page(5, total=7)}, 3, 2)
    assert [(row["time_ms"], row["worker"]) for row in document["rows"]] == [(9, 0), (5, 1)]
    assert (document["next"], document["total"], document["silent"]) == ([5, 1, 5], 9, [2])
    assert together.selections({0: page(9)}, 1, 2)["next"] is None


def group(name: str, count: int, last_ms: int, total_us: float, longest_us: float) -> Any:
    spent = {"total_us": total_us, "longest_us": longest_us, "number": last_ms}
    return {"name": name, "count": count, "last_ms": last_ms, **spent}


def test_groups_of_all_add_up() -> None:
    one = [group("a", 2, 5, 20.0, 15.0)]
    other = [group("b", 4, 1, 4.0, 1.0), group("a", 3, 9, 33.0, 11.0)]
    groups = together.selections({0: page(groups=one), 1: page(groups=other)}, 2, 1)["groups"]
    assert groups == [group("a", 5, 9, 53.0, 15.0), group("b", 4, 1, 4.0, 1.0)]


def test_a_version_is_as_old_as_in_the_first_process() -> None:
    answers = {
        0: [{"revision": "b", "since_ms": 9}, {"revision": "a", "since_ms": 2}],
        1: [{"revision": "b", "since_ms": 7}],
        2: None,
    }
    assert together.versions(answers) == [
        {"revision": "b", "since_ms": 7},
        {"revision": "a", "since_ms": 2},
    ]


def test_differences_of_all_candidates_are_shown_the_newest_first() -> None:
    def of(*times: int) -> dict[str, Any]:
        differences = [{"time_ms": each} for each in times]
        return {"candidate": "c", "kinds": {"same": 1}, "dropped": {}, "differences": differences}

    document = together.shadows({0: of(9, 3), 1: of(5)}, 3)
    assert [each["time_ms"] for each in document["differences"]] == [9, 5, 3]
    assert (document["kinds"], document["silent"]) == ({"same": 2}, [2])


def test_a_silent_process_is_shown_as_one() -> None:
    states = together.states({0: {"worker": 0, "revision": "r"}}, 2)
    assert states == [{"worker": 0, "revision": "r"}, {"worker": 1, "is_silent": True}]
