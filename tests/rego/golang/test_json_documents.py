"""JSON documents: the names of fields are written as JSON, whatever they are."""

from __future__ import annotations

import json

import pytest

from doorward.rego.golang import marshal, object_text


@pytest.mark.parametrize(
    "name",
    ["result", "a-b", "", "1a", "ä", 'a"b', "a\\b", "a<b", "\u2028", "a\nb", "\ud800", "\x7f", "ſ"],
)
def test_a_name_is_written_as_a_json_string(name: str) -> None:
    text = object_text({name: "1", "last": "[2]"})
    assert text == "{" + f"{marshal(name)}:1," + '"last":[2]}'
    assert list(json.loads(text).values()) == [1, [2]]
