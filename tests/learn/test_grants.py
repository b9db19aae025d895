"""What is generalised, to whom, and what is only asked."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.learn.logs import access, asks, learned_from, policy_of, rules, subject

from doorward.learn.access import DENIED, Access, Subject

CLERKS = [subject(f"clerk{n}", "clerk", team=f"t{n % 4}") for n in range(20)]
BOSSES = [subject(f"boss{n}", "boss", team="t0") for n in range(4)]


def spread(
    who: list[Subject], paths: list[str], number: int = 200, method: str = "GET"
) -> Iterator[Access]:
    rng = random.Random(f"{paths} {method}")
    for each in range(number):
        yield access(rng.choice(who), rng.choice(paths), method, day=each % 9, number=each)


def own(number: int = 200) -> list[Access]:
    return [
        access(who, f"/desks/{who.name}", day=n % 9, number=n)
        for n, who in enumerate(CLERKS * (number // 20))
    ]


NUMBERS = [f"/papers/{n}" for n in range(40)]
BASE = [*spread(CLERKS, NUMBERS), *spread(BOSSES, NUMBERS)]


def test_a_typed_segment_is_generalised_to_the_groups_that_use_it() -> None:
    learned = learned_from(BASE)
    assert rules(learned) == {"GET /papers/{int} roles=boss", "GET /papers/{int} roles=clerk"}
    query = policy_of(learned)
    assert asks(query, subject("new", "clerk"), "/papers/99999")
    assert not asks(query, subject("new", "guest"), "/papers/99999")
    assert not asks(query, CLERKS[0], "/papers/99999x")
    assert not asks(query, CLERKS[0], "/papers/17", "HEAD")
    assert not asks(query, CLERKS[0], "/papers/17/")


def test_what_all_groups_do_is_for_every_subject_from_three_groups_on() -> None:
    guests = [subject(f"guest{n}", "guest", team="t1") for n in range(9)]
    learned = learned_from([*BASE, *spread(guests, NUMBERS)])
    assert rules(learned) == {"GET /papers/{int} every subject"}
    query = policy_of(learned)
    assert asks(query, subject("new", "other"), "/papers/1")
    assert query.value({"method": "GET", "path": ["papers", "1"], "claims": {}}) is False
    assert query.value({"method": "GET", "path": ["papers", "1"]}) is False


def test_below_the_floor_nothing_is_generalised() -> None:
    few = list(spread(CLERKS, NUMBERS, 19))
    assert rules(learned_from(few)) == set()
    assert rules(learned_from(few, floor=10)) == {"GET /papers/{int} roles=clerk"}


def test_a_thing_of_ones_own_does_not_give_those_of_others() -> None:
    learned = learned_from([*own(), *BASE])
    assert "GET /desks/{=sub} roles=clerk" in rules(learned)
    query = policy_of(learned)
    assert asks(query, CLERKS[3], "/desks/clerk3")
    assert not asks(query, CLERKS[3], "/desks/clerk4")
    assert not asks(query, subject("", "clerk"), "/desks/")


def test_reads_of_what_others_own_are_asked_and_not_granted() -> None:
    thieves = [
        access(who, f"/desks/clerk{n % 20}", day=n % 9, number=n)
        for n, who in enumerate(CLERKS[:4] * 20)
        if who.name != f"clerk{n % 20}"
    ]
    learned = learned_from([*own(800), *BASE, *thieves])
    query = policy_of(learned)
    assert not asks(query, CLERKS[0], "/desks/clerk5")
    questions = [each for each in learned.grants if each.proposal == "ask"]
    assert any("its own things" in reason for each in questions for reason in each.reasons)


def test_few_accounts_that_do_one_thing_for_days_are_not_their_role() -> None:
    slow = [
        access(who, "/vault/keys", day=n % 9, number=n) for n, who in enumerate(CLERKS[:3] * 30)
    ]
    learned = learned_from([*BASE, *slow])
    assert not any("vault" in rule for rule in rules(learned))
    (questions,) = [each for each in learned.grants if each.proposal == "ask"]
    assert "only few of the group did this, and often" in questions.reasons


def test_one_account_and_one_day_are_not_enough() -> None:
    stolen = [access(CLERKS[0], "/vault/keys", number=n, day=n % 9) for n in range(50)]
    burst = [access(who, "/vault/door", number=n) for n, who in enumerate(CLERKS)]
    assert not any("vault" in rule for rule in rules(learned_from([*BASE, *stolen, *burst])))


def test_words_are_a_closed_set_and_never_any_word() -> None:
    words = [f"/shop/item-{a}" for a in "abcdefghijklmnop"]
    learned = learned_from([*BASE, *spread(CLERKS, words, 400)])
    assert "GET /shop/{shop} roles=clerk" in rules(learned)
    query = policy_of(learned)
    assert asks(query, CLERKS[0], "/shop/item-a")
    assert not asks(query, CLERKS[0], "/shop/item-z")


def test_a_word_that_is_used_by_others_is_not_in_the_set() -> None:
    words = [f"/shop/item-{a}" for a in "abcdefghijklmnop"]
    learned = learned_from(
        [*BASE, *spread(CLERKS + BOSSES, words, 600), *spread(BOSSES, ["/shop/export"], 40)]
    )
    query = policy_of(learned)
    assert asks(query, BOSSES[0], "/shop/export")
    assert not asks(query, CLERKS[0], "/shop/export")
    assert asks(query, CLERKS[0], "/shop/item-b")


def test_a_group_that_uses_few_words_of_a_set_gets_those() -> None:
    words = [f"/shop/item-{a}" for a in "abcdefghijklmnopqrst"]
    guests = [subject(f"guest{n}", "guest", team="t1") for n in range(9)]
    learned = learned_from(
        [*BASE, *spread(CLERKS, words, 900), *spread(guests, words[:2], 60)], spread=0.5
    )
    query = policy_of(learned)
    assert asks(query, CLERKS[0], "/shop/item-t")
    assert not asks(query, guests[0], "/shop/item-t")


def test_things_of_others_are_the_values_that_others_have() -> None:
    visits = [f"/desks/clerk{n}" for n in range(14)]
    learned = learned_from([*own(), *BASE, *spread(BOSSES, visits, 80)])
    assert "GET /desks/{desks} roles=boss" in rules(learned)
    query = policy_of(learned)
    assert asks(query, BOSSES[0], "/desks/clerk19")
    assert not asks(query, BOSSES[0], "/desks/boss1")
    assert not asks(query, BOSSES[0], "/desks/unknown")


def test_two_conditions_are_used_where_one_is_too_wide() -> None:
    team = [each for each in CLERKS if each.values[-1][1] == ("t1",)]
    learned = learned_from([*BASE, *spread([*team], ["/teams/plan"], 60)])
    assert "GET /teams/plan team=t1" in rules(learned)
    both = [subject(f"x{n}", ("clerk", "boss")[n % 2], team=f"t{n // 2 % 2}") for n in range(40)]
    chosen = [each for each in both if dict(each.values)["claims", "roles"] == ("boss",)]
    chosen = [each for each in chosen if dict(each.values)["claims", "team"] == ("t1",)]
    learned = learned_from([*spread(both, NUMBERS, 400), *spread(chosen, ["/teams/plan"], 60)])
    assert "GET /teams/plan roles=boss and team=t1" in rules(learned)


def test_a_denied_request_is_never_generalised_over() -> None:
    denied = [access(CLERKS[7], "/papers/5", outcome=DENIED)]
    learned = learned_from([*BASE, *denied])
    assert "GET /papers/{int} roles=clerk" not in rules(learned)
    assert not asks(policy_of(learned), CLERKS[7], "/papers/5")
    everywhere = [access(who, "/papers/5", outcome=DENIED) for who in CLERKS[:4]]
    learned = learned_from([*BASE, *everywhere])
    assert rules(learned) == {"GET /papers/{int} roles=boss"}
    questions = [each for each in learned.grants if each.proposal == "ask"]
    assert questions
    assert all("requests that were denied" in each.reasons[0] for each in questions)


def test_a_denied_value_of_another_kind_is_not_held_against_a_type() -> None:
    paths = ["/papers/export", "/papers/2027-01-01", "/papers/clerk7", "/papers/7/x"]
    denied = [access(CLERKS[7], path, outcome=DENIED) for path in paths]
    assert rules(learned_from([*BASE, *denied])) == rules(learned_from(BASE))


def test_an_owned_parameter_must_be_the_subjects() -> None:
    calls = [
        access(who, "/papers/find", day=n % 9, number=n, parameters={("query", "of"): who.name})
        for n, who in enumerate(CLERKS * 4)
    ]
    learned = learned_from([*BASE, *calls])
    query = policy_of(learned)
    path = "/papers/find"
    assert asks(query, CLERKS[0], path, parsed_query={"of": ["clerk0"]})
    assert not asks(query, CLERKS[0], path, parsed_query={"of": ["clerk1"]})
    assert not asks(query, CLERKS[0], path, parsed_query={"of": ["clerk0", "clerk1"]})
    assert not asks(query, CLERKS[0], path)
    assert not asks(query, CLERKS[0], path, parsed_query={"of": ["clerk0"], "debug": ["1"]})


def test_an_owned_field_of_a_body_must_be_the_subjects() -> None:
    calls = [
        access(who, "/papers", "POST", day=n % 9, number=n, parameters={("body", "by"): who.name})
        for n, who in enumerate(CLERKS * 4)
    ]
    query = policy_of(learned_from([*BASE, *calls]))
    assert asks(query, CLERKS[0], "/papers", "POST", parsed_body={"by": "clerk0", "x": 1})
    assert not asks(query, CLERKS[0], "/papers", "POST", parsed_body={"by": "clerk1"})
    assert not asks(
        query, CLERKS[0], "/papers", "POST", parsed_body={"by": "clerk0"}, truncated_body=True
    )


def test_time_is_never_a_condition() -> None:
    at_night = [access(who, "/papers/1", number=n, day=n % 9) for n, who in enumerate(CLERKS * 9)]
    text = repr(learned_from(at_night).grants)
    assert "hour" not in text
    assert all(not hasattr(each, "time") for each in learned_from(at_night).grants)


def test_a_bound_value_of_two_is_exact() -> None:
    learned = learned_from([*BASE, *spread(CLERKS, ["/v/1/list", "/v/2/list"], 80)])
    query = policy_of(learned)
    assert asks(query, CLERKS[0], "/v/2/list")
    assert not asks(query, CLERKS[0], "/v/3/list")


def test_what_is_looked_at_first_is_what_few_did() -> None:
    few = list(spread(BOSSES[:3], ["/vault/keys"], 40))
    learned = learned_from([*BASE, *few])
    scores = {each.parts[0].value: each.score for each in learned.grants}
    assert scores["vault"] > scores["papers"]


def test_one_account_makes_no_segment_vary_that_is_fixed_for_others() -> None:
    usual = spread(CLERKS, ["/api/2/papers"], 300)
    probes = [access(CLERKS[0], f"/api/{n}/papers", day=n % 9, number=n) for n in range(200)]
    learned = learned_from([*BASE, *usual, *probes])
    assert "GET /api/2/papers roles=clerk" in rules(learned)
    query = policy_of(learned)
    assert asks(query, CLERKS[1], "/api/2/papers")
    assert not asks(query, CLERKS[1], "/api/3/papers")
    assert not asks(query, CLERKS[0], "/api/3/papers")


def test_few_users_of_many_values_make_a_segment_vary() -> None:
    bosses = [access(BOSSES[n % 2], f"/audits/{n}", day=n % 9, number=n) for n in range(60)]
    query = policy_of(learned_from([*BASE, *bosses]))
    assert asks(query, BOSSES[3], "/audits/9999")
