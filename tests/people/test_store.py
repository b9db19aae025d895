"""What every database promises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from people.person import NewPerson, Person
from people.store import PeopleStore, read_url

ADA = NewPerson("Ada", "Lovelace")


def test_a_person_gets_an_id_and_is_found_under_it(store: PeopleStore) -> None:
    assert store.add(ADA) == Person("1", "Ada", "Lovelace")
    assert store.find("1") == Person("1", "Ada", "Lovelace")
    assert store.list_people() == [Person("1", "Ada", "Lovelace")]


def test_an_id_is_never_used_again(store: PeopleStore) -> None:
    first = store.add(ADA)
    assert store.delete(first.id)
    assert not store.delete(first.id)
    assert store.add(ADA).id == "2"


@pytest.mark.parametrize("text", ["", "0", "01", "+1", " 1", "1.0", "x", "٣", "9" * 19, "9" * 18])
def test_what_is_no_id_finds_nobody(store: PeopleStore, text: str) -> None:
    store.add(ADA)
    assert store.find(text) is None
    assert not store.delete(text)


def test_people_come_in_the_order_of_their_ids(store: PeopleStore) -> None:
    for number in range(12):
        store.add(NewPerson(f"n{number}", "x"))
    assert [person.id for person in store.list_people()] == [str(n) for n in range(1, 13)]
    assert [person.id for person in store.list_people(after="10")] == ["11", "12"]


def test_sample_people_are_added_to_an_empty_table_only(store: PeopleStore) -> None:
    store.add_sample()
    store.add_sample()
    assert [person.firstname for person in store.list_people()] == ["John", "Jane"]


def test_many_threads_lose_nothing(store: PeopleStore) -> None:
    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(lambda n: store.add(NewPerson(f"n{n}", "x")).id, range(200)))
    assert len(set(ids)) == 200
    assert len(store.list_people()) == 200


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        (":memory:", "sqlite"),
        ("sqlite:///people.db", "sqlite"),
        ("postgres://u:p@h/d", "postgresql+psycopg"),
        ("postgresql://u:p@h/d", "postgresql+psycopg"),
    ],
)
def test_database_urls_are_read_as_people_write_them(text: str, driver: str) -> None:
    assert read_url(text).drivername == driver


def test_another_database_is_refused() -> None:
    with pytest.raises(ValueError, match="`mysql` is not a database"):
        read_url("mysql://u:p@h/d")
