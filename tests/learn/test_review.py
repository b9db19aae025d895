"""Rows of a review go to text and back as they are, and no text makes another rule of one."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.learn.logs import access, learned_from, subject

from doorward.learn.docker import learn_docker
from doorward.learn.docker_calls import Calls
from doorward.learn.docker_review import keep_decisions
from doorward.learn.observations import LearnError
from doorward.learn.review import MAX_FILE, granted, read_rows, review, to_yaml
from doorward.learn.templates import Limits

CLERKS = [subject(f"clerk{n}", "clerk") for n in range(9)]


def rows() -> list[Any]:
    words = [f"item-{a}" for a in "abcdefghijklmn"]
    accesses = [
        access(
            who,
            f"/shop/{words[n % 14]}/{n}",
            day=n % 9,
            number=n,
            parameters={("query", "of"): who.name},
        )
        for n, who in enumerate(CLERKS * 30)
    ]
    accesses += [
        access(who, f"/desks/{who.name}/", day=n % 9, number=n) for n, who in enumerate(CLERKS * 5)
    ]
    accesses += [
        access(who, f"/invoices/INV-{n:06}", day=n % 9, number=n)
        for n, who in enumerate(CLERKS * 5)
    ]
    return review(learned_from(accesses), [])


def test_rows_are_read_as_they_were_written() -> None:
    written = rows()
    assert {each.kind for row in written for each in row.grant.parts} == {
        "word",
        "set",
        "type",
        "prefix",
        "own",
    }
    read = read_rows(to_yaml(written), "review.yaml")
    assert [row.identifier for row in read] == [row.identifier for row in written]
    for before, after in zip(written, read, strict=True):
        for name in ("host", "method", "parts", "who", "query", "owned", "lists", "proposal"):
            assert getattr(after.grant, name) == getattr(before.grant, name), name
        assert after.words == before.words
    assert granted(read)[0].keys() == granted(written)[0].keys()


CHANGES: list[tuple[str, Any]] = [
    ("path", []),
    ("path", [{"any": "x"}]),
    ("path", [{"type": "anything"}]),
    ("path", [{"prefix": ""}]),
    ("path", [{"prefix": "a/"}]),
    ("path", [{"prefix": 1}]),
    ("path", [{"set": "unknown"}]),
    ("path", [{"word": "x" * 300}]),
    ("path", [{"own": ["input", "x"]}]),
    ("path", [{"own": []}]),
    ("path", "x"),
    ("host", 1),
    ("method", None),
    ("who", [{"claim": ["other"], "value": "x", "list": False}]),
    ("owned", [{"in": "header", "name": "x", "claim": ["claims", "sub"]}]),
    ("sets", {"x": [1]}),
]


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_a_rule_of_another_shape_is_refused(name: str, value: Any) -> None:
    document = yaml.safe_load(to_yaml(rows()))
    document["rules"][0]["rule"][name] = value
    with pytest.raises(LearnError, match=r"^review\.yaml: rule 1 is not as .*: undo the edit"):
        read_rows(yaml.safe_dump(document), "review.yaml")


@pytest.mark.parametrize("text", ["a: 1", "[]", "rules: 1", "rules: {a: 1}", "x"])
def test_a_file_without_rules_is_not_a_review(text: str) -> None:
    with pytest.raises(LearnError, match="not a review; move it away to start again"):
        read_rows(text, "review.yaml")
    with pytest.raises(LearnError, match="not a review; move it away to start again"):
        keep_decisions(learn_docker(Calls(), Limits()), text, "review.yaml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a" * (MAX_FILE + 1), f"text is longer than {MAX_FILE} characters"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
    ids=["long", "deep"],
)
def test_a_file_that_is_too_large_is_refused(text: str, problem: str) -> None:
    message = rf"^review\.yaml: the file is above a limit: yaml: {problem}$"
    with pytest.raises(LearnError, match=message):
        read_rows(text, "review.yaml")
    with pytest.raises(LearnError, match=message):
        keep_decisions(learn_docker(Calls(), Limits()), text, "review.yaml")


def test_identifiers_do_not_depend_on_words_or_counts() -> None:
    before = {row.identifier for row in rows()}
    more = [
        access(who, f"/shop/item-new/{n}", day=n % 9, number=n) for n, who in enumerate(CLERKS * 3)
    ]
    words = [f"item-{a}" for a in "abcdefghijklmn"]
    more += [
        access(who, f"/shop/{words[n % 14]}/{n}", day=n % 9, number=n)
        for n, who in enumerate(CLERKS * 31)
    ]
    after = {row.identifier for row in review(learned_from(more), [])}
    assert before & after
