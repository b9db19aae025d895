"""Counts of a log's parts merge into those of the whole, in bounded memory."""

from __future__ import annotations

from doorward.replay.tally import BUCKETS, CAUSES, EXAMPLES, GROUPS, OTHERS, Example, Tally
from doorward.replay.tally import Timeline as Times

SECOND = 1_000_000_000


def test_the_time_line_keeps_its_sum_and_its_bound() -> None:
    whole, parts = Times(), [Times(), Times()]
    for number in range(5_000):
        time_ns = (number * number) * SECOND
        whole.add(time_ns, changed=number % 3 == 0)
        parts[number % 2].add(time_ns, changed=number % 3 == 0)
    parts[0].merge(parts[1])
    assert parts[0] == whole
    assert max(whole.counts) - min(whole.counts) < BUCKETS
    assert sum(events for events, _ in whole.counts.values()) == 5_000


def test_groups_and_examples_are_bounded_and_the_first_ones_stay() -> None:
    total = Tally()
    for part in range(3):
        tally = Tally()
        for number in range(GROUPS):
            tally.count("new-allow", None)
            tally.group("user", f"{part}-{number}", "new-allow")
            tally.count_missing(f"{part}-{number}")
            key = "new-allow", "", str(number)
            if tally.wants_example(key):
                tally.add_examples(key, [Example(f"{part}", None, "a", None, None, None)])
        total.merge(tally)
    users = total.groups["user"]
    assert len(users) == GROUPS + 1
    assert users[OTHERS]["new-allow"] == 2 * GROUPS
    assert total.missing.total() == 3 * GROUPS
    assert len(total.examples) == CAUSES
    assert [each.decision_id for each in total.examples["new-allow", "", "0"]] == ["0", "1", "2"]
    assert EXAMPLES == 3
    assert total.events == 3 * GROUPS
