"""Paths that users write as text, such as unknowns and the rules of masks."""

from __future__ import annotations

import pytest

from doorward.rego.partial.paths import path_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("input", ("input", ())),
        ("data.rows", ("data", ("rows",))),
        ('input.user["a b"][0]', ("input", ("user", "a b", 0))),
    ],
)
def test_a_path_is_its_root_and_its_keys(text: str, names: object) -> None:
    assert path_names(text) == names


@pytest.mark.parametrize("text", ["input.a[true]", "input.a[null]", "input.a[1.5]", "a", "1"])
def test_other_keys_and_terms_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a path below input or data"):
        path_names(text)
