"""What the writers of SQL ask of a dialect."""

from __future__ import annotations

import pytest

from doorward.filters import FilterError
from doorward.filters.dialects import DIALECTS, SQLDialect, dialect_of
from doorward.filters.views import check_arrays, function_of, json_of, json_place


def test_a_database_that_is_not_known_sees_to_its_columns_and_has_no_views() -> None:
    other = dialect_of("oracle")
    assert other == SQLDialect("oracle")
    assert other.stored_test("number", negated=False) == "1 = 1"
    assert other.stored_test("number", negated=True) == "1 = 0"
    with pytest.raises(FilterError, match="oracle has no arrays"):
        check_arrays(other)
    with pytest.raises(FilterError, match="oracle does not read documents of JSON"):
        json_place(other, "c", "", ["a"])
    with pytest.raises(FilterError, match="oracle does not trim texts"):
        function_of(other, "trim", " ", "c")


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_a_kind_that_may_hold_other_values_is_one_that_is_tested(dialect: SQLDialect) -> None:
    assert set(dialect.lax_kinds) <= set(dialect.kinds)
    for kind in dialect.lax_kinds:
        assert dialect.stored_test(kind, negated=False) != "1 = 1"
        template = dialect.stored_test(kind, negated=True)
        assert template == f"NOT {dialect.stored_test(kind, negated=False)}"
    for kind in set(dialect.kinds) - set(dialect.lax_kinds) - {"uuid", "array"}:
        assert dialect.json is not None or kind != "json"


def test_a_place_in_a_document_is_written_by_its_dialect() -> None:
    postgresql, sqlite = DIALECTS["postgresql"], DIALECTS["sqlite"]
    assert json_place(postgresql, "c", "", ["a", "b"]) == ("c", " -> 'a' -> 'b'")
    assert json_place(postgresql, "c", "e", ["a"]) == ("e.value", " -> 'a'")
    assert json_place(sqlite, "c", "", ["a"]) == ("c", "'$.\"a\"'")
    assert json_place(sqlite, "c", "e", []) == ("c", "e.fullkey")
    assert json_of(sqlite, "c", "'$'", "text") == "CAST(json_extract(c, '$') AS text)"
    with pytest.raises(FilterError, match="a quote, a backslash"):
        json_place(postgresql, "c", "", ["it's"])
