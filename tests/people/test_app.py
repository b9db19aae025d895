"""What a client of the People API sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.people.conftest import Client

from people.person import MAX_BODY, NewPerson
from people.store import PeopleStore

ADA = {"firstname": "Ada", "lastname": "Lovelace"}


def test_a_posted_person_is_returned_with_its_id_and_then_listed(service: Client) -> None:
    answer = service("POST", "/people", json=ADA)
    assert (answer.status_code, answer.json()) == (200, {"id": "1", **ADA})
    assert answer.headers["content-type"] == "application/json"
    assert service("GET", "/people").json() == [{"id": "1", **ADA}]
    assert service("GET", "/people/1").json() == {"id": "1", **ADA}


def test_a_deleted_person_is_gone(service: Client) -> None:
    for address in ("/people/1", "/people?id=2"):
        service("POST", "/people", json=ADA)
        answer = service("DELETE", address)
        assert (answer.status_code, answer.content) == (204, b"")
        assert service("DELETE", address).status_code == 404
    assert service("GET", "/people").json() == []


@pytest.mark.parametrize(
    ("method", "target", "status", "error"),
    [
        ("GET", "/people/7", 404, "there is no such person"),
        ("GET", "/people/01", 404, "there is no such person"),
        ("GET", "/people?after=x", 400, "`after` must be the id of a person"),
        ("DELETE", "/people", 400, "the query parameter `id` must be given once"),
        ("DELETE", "/people?id=1&id=2", 400, "the query parameter `id` must be given once"),
        ("DELETE", "/people?id=7", 404, "there is no such person"),
        ("DELETE", "/people/7", 404, "there is no such person"),
        ("GET", "/", 404, "Not Found"),
        ("GET", "/people/", 404, "Not Found"),
        ("GET", "/people/1/2", 404, "Not Found"),
    ],
)
def test_errors_say_what_is_wrong(
    client: Client, method: str, target: str, status: int, error: str
) -> None:
    answer = client(method, target)
    assert (answer.status_code, answer.json()) == (status, {"error": error})


@pytest.mark.parametrize(
    ("target", "allowed"),
    [("/people", {"GET", "HEAD", "POST", "DELETE"}), ("/people/1", {"GET", "HEAD", "DELETE"})],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE"])
def test_a_method_that_is_not_there_is_405_with_those_that_are(
    client: Client, target: str, allowed: set[str], method: str
) -> None:
    answer = client(method, target)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed


def test_head_is_get_without_a_body(client: Client) -> None:
    answer = client("HEAD", "/people")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"content-type": "application/json; charset=UTF-8"}, b"{}", 400),
        ({"content-type": "application/json; charset=latin-1"}, b"{}", 415),
        ({"content-type": "application/x-www-form-urlencoded"}, b"firstname=A&lastname=B", 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, b"{}", 415),
        ({}, b"{}", 415),
        ({"content-type": "application/json"}, b" " * (MAX_BODY + 1), 413),
    ],
)
def test_a_body_that_is_not_a_persons_is_refused(
    client: Client, headers: dict[str, str], content: bytes, status: int
) -> None:
    answer = client("POST", "/people", headers=headers, content=content)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert client("GET", "/people").json() == []


def test_a_long_list_says_where_it_goes_on() -> None:
    store = PeopleStore(":memory:")
    for _ in range(1001):
        store.add(NewPerson(**ADA))
    client = Client(store)
    answer = client("GET", "/people")
    assert len(answer.json()) == 1000
    assert answer.links["next"]["url"] == "/people?after=1000"
    assert client("GET", "/people?after=1000").json() == [{"id": "1001", **ADA}]
    store.close()


def test_every_request_is_one_line_of_the_access_log(client: Client) -> None:
    client("GET", "/people?x=a%0Ab")
    client("PUT", "/people")
    lines = [line.rsplit(" ", 1)[0] for line in client.log.getvalue().splitlines()]
    assert lines == ["GET /people?x=a%0Ab 200", "PUT /people 405"]


def test_a_database_that_is_gone_is_503_without_details(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    store = PeopleStore(f"sqlite:///{folder}/people.db")
    store.close()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    answer = Client(store)("GET", "/people")
    assert (answer.status_code, answer.json()) == (503, {"error": "the database does not answer"})
