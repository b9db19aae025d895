"""The answers of several processes merged to one document for a page. Answers are by the number of
the process; None, or a missing number, means that it did not answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["batches", "policies", "revisions", "selections", "shadows", "states", "versions"]

DIFFERENCES: Final = 200
"""The most differences of a candidate on a page."""

_Answers = Mapping[int, Any]


def batches(answers: _Answers, count: int, most: int) -> dict[str, Any]:
    """Return one message to a page: the newest `most` decisions of all processes in the order of
    time, each with the number of its process (`worker`), counts by second (`seconds`), and how many
    decisions were left out (`skipped`). `workers` is `count`, `silent` has the processes that did
    not answer, and `docker` what they told about the Docker plugin.
    """
    decisions = [
        {**each, "worker": number}
        for number, answer in answers.items()
        for each in answer["decisions"]
    ]
    decisions.sort(key=lambda each: (each["time_ms"], each["number"]))
    beyond = max(len(decisions) - most, 0)
    return {
        "workers": count,
        "silent": _silent(answers, count),
        "skipped": sum(answer["skipped"] for answer in answers.values()) + beyond,
        "decisions": decisions[beyond:],
        "docker": [each for answer in answers.values() for each in answer.get("docker", ())],
        "seconds": _seconds([answer["seconds"] for answer in answers.values()]),
    }


def selections(answers: _Answers, count: int, most: int) -> dict[str, Any]:
    """Return one page of a search of all `count` processes: the newest `most` rows, newest first,
    the groups and totals of all, and which processes did not answer (`silent`). `next` is the
    cursor after a full page, else None. `looked`: how many entries those that answered examined in
    all; `complete`: True if each of them had the time to examine all of its own.
    """
    known = {number: each for number, each in answers.items() if each is not None}
    rows = [{**row, "worker": number} for number, each in known.items() for row in each["rows"]]
    rows.sort(key=_place, reverse=True)
    groups: dict[str, dict[str, Any]] = {}
    for each in known.values():
        for group in each["groups"]:
            before = groups.get(group["name"])
            if before is None:
                groups[group["name"]] = {**group}
            else:
                before["count"] += group["count"]
                before["number"] = max(before["number"], group["number"])
                before["total_us"] += group["total_us"]
                before["longest_us"] = max(before["longest_us"], group["longest_us"])
                before["last_ms"] = max(before["last_ms"], group["last_ms"])
    page = rows[:most]
    return {
        "rows": page,
        "next": list(_place(page[-1])) if page and len(page) == most else None,
        "total": sum(each["total"] for each in known.values()),
        "looked": sum(each["looked"] for each in known.values()),
        "complete": all(each["complete"] for each in known.values()),
        "groups": sorted(groups.values(), key=lambda each: (-each["count"], each["name"])),
        "silent": _silent(known, count),
    }


def _place(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return row["time_ms"], row["worker"], row["number"]


def versions(answers: _Answers) -> list[dict[str, Any]]:
    """Return the revisions that decided in any process, each with its first time in milliseconds,
    the newest first.
    """
    since: dict[str, int] = {}
    for answer in answers.values():
        for each in answer or ():
            known = since.get(each["revision"], each["since_ms"])
            since[each["revision"]] = min(known, each["since_ms"])
    newest = sorted(since.items(), key=lambda each: -each[1])
    return [{"revision": revision, "since_ms": ms} for revision, ms in newest]


def _silent(answers: _Answers, count: int) -> list[int]:
    """The numbers of the processes that did not answer."""
    return [number for number in range(count) if answers.get(number) is None]


def _seconds(parts: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    """Return the counts of all processes by second: second, decisions, refusals and errors, the
    weighted mean and the greatest of their longest evaluations.
    """
    if len(parts) == 1:
        return [[*each] for each in parts[0]]
    known: dict[int, list[int]] = {}
    for part in parts:
        for second, count, refused, errors, mean, longest in part:
            sums = known.setdefault(second, [second, 0, 0, 0, 0, 0])
            sums[1] += count
            sums[2] += refused
            sums[3] += errors
            sums[4] += mean * count
            sums[5] = max(sums[5], longest)
    length = max(map(len, parts), default=0)
    # The clocks of two answers may be a second apart: as many seconds as one answer has.
    newest = sorted(known)[-length:] if length else []
    return [_with_mean(known[second]) for second in newest]


def _with_mean(sums: list[int]) -> list[int]:
    sums[4] //= max(sums[1], 1)
    return sums


def revisions(answers: _Answers) -> list[tuple[int, str, list[int]]]:
    """Add up the counts of each minute and revision over all processes, the oldest first; see
    `Ring.revisions`.
    """
    sums: dict[tuple[int, str], list[int]] = {}
    for answer in answers.values():
        for minute, revision, counts in answer or ():
            known = sums.get((minute, revision))
            added = counts if known is None else [a + b for a, b in zip(known, counts, strict=True)]
            sums[minute, revision] = added
    return [(minute, revision, counts) for (minute, revision), counts in sorted(sums.items())]


def policies(own: dict[str, Any], answers: _Answers, count: int) -> dict[str, Any]:
    """Add up the counts by definition of those processes that have the same policies as `own`; the
    numbers of the others are in `missing`.
    """
    same = {
        number: each
        for number, each in answers.items()
        if each is not None and each["policies"] == own["policies"]
    }
    answered: Counter[int] = Counter()
    failed: dict[int, Counter[int]] = {}
    for each in same.values():
        for number, times, failures in each["definitions"]:
            answered[number] += times
            for row, failures_there in failures:
                failed.setdefault(number, Counter())[row] += failures_there
    return {
        "decisions": sum(each["decisions"] for each in same.values()),
        "answered": answered,
        "failed": failed,
        "missing": _silent(same, count),
    }


def shadows(answers: _Answers, count: int) -> dict[str, Any]:
    """Return the `differences` of the candidate in all processes, the newest first, at most
    `DIFFERENCES`, the `candidate` ("" if no process has one), the counts by kind (`kinds`) and of
    dropped decisions (`dropped`), and which of the `count` processes did not answer (`silent`).
    """
    known = [each for each in answers.values() if each is not None]
    kinds: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for each in known:
        kinds.update(each["kinds"])
        dropped.update(each["dropped"])
    differences = [difference for each in known for difference in each["differences"]]
    differences.sort(key=lambda each: -int(each["time_ms"]))
    return {
        "candidate": known[0]["candidate"] if known else "",
        "kinds": kinds,
        "dropped": dropped,
        "differences": differences[:DIFFERENCES],
        "silent": _silent(answers, count),
    }


def states(answers: _Answers, count: int) -> list[dict[str, Any]]:
    """Return the state of each of the `count` processes; of one that did not answer, only its
    number (`worker`) and `is_silent`.
    """
    return [answers.get(number) or {"worker": number, "is_silent": True} for number in range(count)]
