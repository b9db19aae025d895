"""Python data and the Rego values that it stands for: one row for each class."""

from __future__ import annotations

from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, UserString, deque
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from fractions import Fraction
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr
from werkzeug.datastructures import MultiDict

from doorward.rego import Engine, InputError, Number, from_json, from_python, to_rego
from doorward.rego.conversion import is_value


class Role(StrEnum):
    ADMIN = "admin"


class Level(IntEnum):
    HIGH = 3


class Rights(IntFlag):
    READ = 1
    WRITE = 2


class Colour(Enum):
    RED = ("r", Role.ADMIN)
    NONE = None


class Pair(NamedTuple):
    key: str
    value: int


class Text(str):
    pass


@dataclass
class Document:
    kind: ClassVar[str] = "document"
    given: InitVar[int]
    owner: UUID
    tags: set[str] = field(default_factory=set)
    parent: Document | None = None


@dataclass(frozen=True, slots=True)
class Point:
    x: Decimal
    at: datetime | None = None


class User(BaseModel):
    name: str = Field(alias="userName")
    born: date
    roles: frozenset[Role] = frozenset()
    password: str = Field(default="x", exclude=True)
    home: Point | None = None


class Names(RootModel[list[str]]):
    pass


ID = UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)

CONVERTED: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "true"),
    (10**4096 - 1, str(10**4096 - 1)),
    (1.5, "1.5"),
    (Number("1.50"), "1.50"),
    ("text", '"text"'),
    (Text("text"), '"text"'),
    (UserString("text"), '"text"'),
    (("a", ("b",)), '["a", ["b"]]'),
    (Pair("a", 1), '["a", 1]'),
    (range(3), "[0, 1, 2]"),
    (deque([1]), "[1]"),
    (UserList([1]), "[1]"),
    (array("i", [1, 2]), "[1, 2]"),
    ({"b", "a"}, '{"a", "b"}'),
    (frozenset({("a",), True}), '{true, ["a"]}'),
    ({"a": 1}.keys(), '{"a"}'),
    ({"a": 1}.items(), '{["a", 1]}'),
    (OrderedDict(a=(1,)), '{"a": [1]}'),
    (MappingProxyType({"a": 1}), '{"a": 1}'),
    (ChainMap({"a": 1}, {"a": 2, "b": 3}), '{"a": 1, "b": 3}'),
    ({1: "a", None: "b", (2, 3): "c"}, '{null: "b", 1: "a", [2, 3]: "c"}'),
    ({ID: 1, date(2026, 1, 2): 2}, f'{{"{ID}": 1, "2026-01-02": 2}}'),
    (Role.ADMIN, '"admin"'),
    (Level.HIGH, "3"),
    (Rights.READ | Rights.WRITE, "3"),
    (Colour.RED, '["r", "admin"]'),
    (Colour.NONE, "null"),
    (ID, f'"{ID}"'),
    (Decimal("1.50"), "1.50"),
    (Decimal("7"), "7"),
    (Decimal("1E+3"), "1E+3"),
    (NOON, '"2026-11-22T12:30:00Z"'),
    (NOON.replace(microsecond=5), '"2026-11-22T12:30:00.000005Z"'),
    (NOON.replace(tzinfo=timezone(timedelta(hours=-3))), '"2026-11-22T12:30:00-03:00"'),
    (NOON.replace(tzinfo=timezone(timedelta(seconds=90))), '"2026-11-22T12:28:30Z"'),
    (datetime(7, 1, 2, tzinfo=UTC), '"0007-01-02T00:00:00Z"'),
    (date(2026, 1, 2), '"2026-01-02"'),
    (Document(1, ID, {"x"}), f'{{"owner": "{ID}", "parent": null, "tags": {{"x"}}}}'),
    (Point(Decimal("0.10"), NOON), '{"at": "2026-11-22T12:30:00Z", "x": 0.10}'),
    (
        User(
            userName="ann",
            born=date(2000, 1, 2),
            roles=frozenset({Role.ADMIN}),
            home=Point(Decimal(1)),
        ),
        '{"born": "2000-01-02", "home": {"at": null, "x": 1}, "name": "ann", "roles": {"admin"}}',
    ),
    (Names(["a"]), '["a"]'),
]


@pytest.mark.parametrize(
    ("given", "want"),
    CONVERTED,
    ids=lambda each: type(each).__name__,
)
def test_what_stands_for_one_value_becomes_it(given: Any, want: str) -> None:
    converted = from_python({"a": [given]})
    assert to_rego(converted) == f'{{"a": [{want}]}}'
    assert is_value(converted)
    assert from_python(converted) is converted
    assert Engine().prepare("input").value(given) == from_python(given)


class Secrets(BaseModel):
    token: SecretStr


REFUSED: list[tuple[Any, str]] = [
    (b"x", "is of the class bytes"),
    (bytearray(b"x"), "is of the class bytearray"),
    (memoryview(b"x"), "is of the class memoryview"),
    (iter([]), "is of the class list_iterator"),
    ((each for each in "ab"), "is of the class generator"),
    ({"a": 1}.values(), "is of the class dict_values"),
    (1j, "is of the class complex"),
    (Fraction(1, 3), "is of the class Fraction"),
    (PurePosixPath("/a"), "is of the class PurePosixPath"),
    (timedelta(1), "is of the class timedelta"),
    (time(12, 30), "is of the class time"),
    (datetime(2026, 1, 2), "is a time without a time zone"),
    (
        datetime(1, 1, 1, tzinfo=timezone(timedelta(seconds=30))),
        "is a time whose year in UTC is before 1 or after 9999",
    ),
    (float("nan"), "is a number that is not finite"),
    (Decimal("Infinity"), "is a number that is not finite"),
    (Decimal("1E+5000"), "is a Decimal that cannot be converted: number exponent is out of range"),
    (10**4096, "is a number of more than 4096 digits"),
    (
        MultiDict([("role", "user"), ("role", "admin")]),
        "is a MultiDict, which can have several values",
    ),
    ({str(ID): 1, ID: 2}, f'has two keys that are "{ID}"'),
    (Point, "is of the class type"),
    (Secrets(token=SecretStr("x")), ".token is of the class SecretStr"),
    (object(), "is of the class object, which cannot be converted to a Rego value"),
]


@pytest.mark.parametrize(
    ("given", "why"),
    REFUSED,
    ids=lambda value: type(value).__name__,
)
def test_what_stands_for_none_or_for_two_is_refused(given: Any, why: str) -> None:
    with pytest.raises(InputError) as raised:
        Engine().prepare("input").value({"a": [0, given]})
    assert str(raised.value).startswith(f"input.a[1]{'' if why[0] == '.' else ' '}{why}")


class Growing(UserDict[str, Any]):
    """What another thread changes while it is read."""

    def items(self) -> Any:
        for key in self.data:
            self.data[key + "x"] = 1
            yield key, 1


def test_a_value_that_changes_while_it_is_read_is_refused() -> None:
    with pytest.raises(
        InputError, match="object of input changed while it was read: dictionary changed"
    ):
        Engine().prepare("input").value(Growing(a=1))


@pytest.mark.long
def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    broad: dict[str, Any] = {}
    broad |= {"a": [broad, broad], "b": broad}
    for value in (loop, broad):
        with pytest.raises(InputError, match="is nested too deeply, or contains itself"):
            from_python(value)


def test_a_value_that_shares_its_parts_is_looked_through_once() -> None:
    shared: Any = []
    for _ in range(200):
        shared = [shared, shared]
    assert from_python(shared) is shared


def test_nothing_of_the_caller_is_changed_or_kept_where_something_is_converted() -> None:
    given = {"list": [1], "tuple": (1,)}
    converted: Any = from_python(given)
    converted["list"].append(2)
    assert given == {"list": [1], "tuple": (1,)}


FLOATS = st.floats(-(2.0**53), 2.0**53, exclude_min=True, exclude_max=True)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-(2.0**53), 2.0**53, exclude_min=True, exclude_max=True)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON)
def test_json_is_a_value_as_it_stands_and_tuples_are_its_arrays(value: Any) -> None:
    def with_tuples(each: Any) -> Any:
        if isinstance(each, list):
            return tuple(map(with_tuples, each))
        if isinstance(each, dict):
            return MappingProxyType({key: with_tuples(item) for key, item in each.items()})
        return each

    assert from_python(value) is value
    assert from_python(with_tuples(value)) == value


def test_parsed_json_and_numbers_with_text_are_values() -> None:
    value = from_json('{"a": [1, 1.5, -0, "x", true, null, {"b": []}], "c": {}}')
    assert from_python(value) is value


@pytest.mark.parametrize("value", [2.0**53, 2.0**63, -(2.0**63), 1e300, 1.7976931348623157e308])
def test_a_large_float_is_the_number_that_its_text_says(value: float) -> None:
    """Equality and order agree, in collections too; Python compares the two exactly."""
    engine = Engine()
    document = {"x": value, "exact": int(value), "text": from_json(f"[{value!r}]")}
    for left, right in (("input.x", "input.exact"), ("[input.x]", "[input.exact]")):
        answers = [
            engine.prepare(f"{left} {operator} {right}").value(document)
            for operator in ("<", "==", ">")
        ]
        assert answers.count(True) == 1, (left, answers)
    assert engine.prepare("[input.x] == input.text").value(document) is True
    assert engine.prepare("{input.x} == {input.text[0]}").value(document) is True
