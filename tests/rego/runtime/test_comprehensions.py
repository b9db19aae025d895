"""Results of comprehensions: kept while they are found again, and while there is room."""

from __future__ import annotations

from doorward.rego.runtime.comprehensions import MOST_ITEMS, TRIAL, Results, Site


def test_few_are_kept_where_none_is_found_again() -> None:
    results, site = Results(), Site()
    for n in range(10 * TRIAL):
        results.add(site, n, [n])
    assert list(results) == [(site, n) for n in range(TRIAL)]


def test_all_are_kept_where_many_are_found_again() -> None:
    results, site = Results(), Site()
    for n in range(10 * TRIAL):
        results.add(site, n, [n])
        results.hits += 1
    assert len(results) == 10 * TRIAL


def test_the_items_of_all_results_are_bounded() -> None:
    results, site = Results(), Site()
    large = [0] * (MOST_ITEMS // 4)
    for n in range(20):
        results.add(site, n, large)
    assert 0 < len(results) < 4


def test_comprehensions_do_not_share_results() -> None:
    results, first, second = Results(), Site(), Site()
    results.add(first, "a", [1])
    results.add(second, "a", [2])
    assert (results[first, "a"], results[second, "a"]) == ([1], [2])
