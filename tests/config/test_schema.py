"""Keys are declared once: the reader, the page and the schema for editors say the same of them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from scripts.configuration_page import PAGE, page

from doorward.config.configuration import Config, ConfigError, editor_schema, parse_config
from doorward.config.schema import (
    TEXT,
    Kind,
    OptionError,
    choice,
    integer,
    nonempty,
    number,
    option,
    options_of,
    read_plain,
    walk,
)
from doorward.server.sidecar_options import plugin_sections, plugin_warnings

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = editor_schema(plugin_sections())
BY_NAME = copy.deepcopy(SCHEMA)
"""The schema for files that do not list their services."""
BY_NAME["properties"]["services"] = BY_NAME["properties"]["services"]["anyOf"][0]
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

SECTIONS: dict[str, type] = {"": Config} | {
    f"plugins.{n}": each for n, each in plugin_sections().items()
}
KEYS = [
    (f"{prefix}.{path}".strip("."), each)
    for prefix, section in SECTIONS.items()
    for path, each in walk(section)
]
MINIMAL: dict[str, Any] = {
    "services.NAME": {"url": "http://s"},
    "keys.NAME": {"key": "k", "algorithm": "HS256"},
    "identity.NAME": {"issuer": "https://i"},
    "identity.NAME.login": {"client_id": "c", "console_url": "https://c"},
    "plugins.envoy_ext_proc_grpc.lists.NAME": {"path": [], "rule": "a"},
}
"""What must be there besides a key that is tried."""


def document(path: str, value: object) -> dict[str, Any]:
    """A configuration with a value at a path, and what must be there beside it."""
    whole: dict[str, Any] = {}
    inner, so_far = whole, ""
    *parents, key = path.split(".")
    for parent in parents:
        so_far = f"{so_far}.{parent}".strip(".")
        inner = inner.setdefault(parent, {})
        inner.update(MINIMAL.get(so_far, {}))
    inner[key] = value
    return whole


def refusal(whole: dict[str, Any]) -> str:
    """What the reader says of a configuration; "" where it is read."""
    try:
        plugin_warnings(parse_config(json.dumps(whole), environment={}))
    except ConfigError as error:
        return str(error)
    return ""


def below(schema: Any, path: str) -> Any:
    for part in path.split("."):
        properties = schema.get("properties", {})
        schema = properties[part] if part in properties else schema["additionalProperties"]
    return schema


def test_page_is_what_is_declared() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_schema_is_valid_and_names_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for path, each in KEYS:
        if each.key:
            schema = below(BY_NAME, path)
            assert not each.text or schema["description"], path


def test_every_key_says_what_it_means_or_has_keys_below_it() -> None:
    mute = [path for path, each in KEYS if not each.text and each.kind.below is None]
    assert mute == ["plugins"]


def test_reader_and_editor_refuse_the_same_types() -> None:
    """Each key is tried with a value of each type: where the reader calls its type wrong the schema
    refuses it, and what the schema refuses the reader does."""
    validator = jsonschema.Draft202012Validator(BY_NAME)
    tried = 0
    for path, each in KEYS:
        if not each.key or each.kind.below is not None or path in ("storage", "plugins"):
            continue
        parts = path.split(".")
        for value in (True, 7, 7.5, "some text", ["a", 1], {"a": {"b": 1}}):
            whole = document(path, value)
            said = refusal(whole)
            own = [
                error.message
                for error in validator.iter_errors(whole)
                if [*map(str, error.absolute_path)][: len(parts)] == parts
                and error.validator != "additionalProperties"  # which the reader warns of
            ]
            is_wrong_type = f"{path} must be" in said and " but is a" in said
            assert not is_wrong_type or own, (path, value, said)
            assert said or not own, (path, value, own)
            tried += 1
    assert tried > 900


def configurations() -> Iterator[Path]:
    yield from sorted(ROOT.glob("examples/**/doorward.yaml"))


@pytest.mark.parametrize("path", list(configurations()), ids=lambda path: str(path.name))
def test_our_configurations_are_valid(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    ("document", "is_valid"),
    [
        ({"decision_logs": {"console": "${CONSOLE}"}}, True),
        ({"decision_logs": {"console": "yes"}}, False),
        ({"decision_logs": None}, True),
        ({"decision_log": {}}, False),
        ({"services": {"s": {"url": "http://s", "credentials": {"bearer": {}}}}}, True),
        ({"services": [{"name": "s", "url": "http://s"}]}, True),
        ({"services": {"s": {"colour": 1}}}, False),
        ({"plugins": {"envoy.ext_authz.grpc": {"addr": ":9191"}}}, True),
        ({"plugins": {"envoy_ext_authz_grpc": {"adress": ":9191"}}}, False),
        ({"evaluation": {"deadline_seconds": 0}}, False),
    ],
)
def test_editors_are_told(document: Any, is_valid: bool) -> None:
    assert VALIDATOR.is_valid(document) is is_valid


def section_with(kind: Kind[Any], default: Any, **members: Any) -> type:
    """A section with one key, `a.b`."""
    values = [("value", Any, option("a.b", kind, default, "text"))]
    return make_dataclass("One", values, namespace=members)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (integer(1), 0, "a.b must be greater than 0 but is 0"),
        (integer(0), -1, "a.b must not be negative but is -1"),
        (integer(2, 4), 5, "a.b must be from 2 to 4 but is 5"),
        (integer(2, message="must be two"), 1, "a.b must be two"),
        (integer(0), True, "a.b must be an integer but is true or false"),
        (number(above=0, most=1), 0.0, "a.b must be above 0 and at most 1 but is 0"),
        (number(above=0, most=1), float("nan"), "a.b must be above 0 and at most 1 but is nan"),
        (number(least=0), -0.5, "a.b must not be negative but is -0.5"),
        (choice("x", "y", "z"), "w", "a.b must be `x`, `y` or `z` but is `w`"),
        (choice(9, 0, 1), 2, "a.b must be `9`, `0` or `1` but is `2`"),
        (choice("x", "y", message=": no {value}"), "w", "a.b: no w"),
        (nonempty(), "  ", "a.b must not be empty"),
        (nonempty("a name", pattern=re.compile("[a-z]+")), "A", "a.b must be a name"),
        (TEXT, ["x"], "a.b must be a string but is a list"),
    ],
)
def test_a_value_that_is_not_of_its_kind_is_refused(
    kind: Kind[Any], value: object, message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        read_plain(section_with(kind, None), {"a": {"b": value}})
    assert str(raised.value) == message


def test_keys_that_are_missing_or_null_have_their_defaults() -> None:
    section = section_with(integer(1), 5)
    empty: list[dict[str, Any]] = [{}, {"a": None}, {"a": {}}, {"a": {"b": None}}]
    for values in empty:
        assert read_plain(section, values)[0].value == 5
    read: Any
    read, warnings = read_plain(section, {"a": {"b": 6, "c": 1}, "d": 2})
    assert read.value == 6
    assert warnings == ("d: unknown key, ignored", "a.c: unknown key, ignored")


def test_a_section_that_cannot_be_used_names_the_key_of_its_field() -> None:
    def refuse(_: object) -> None:
        raise OptionError("value", "must not be this")

    with pytest.raises(ConfigError, match=r"^a\.b must not be this$"):
        read_plain(section_with(integer(1), 5, __post_init__=refuse), {})


def test_keys_of_a_section_have_one_declaration_each() -> None:
    for section in SECTIONS.values():
        keys = [path for path, each in walk(section) if each.key]
        assert len(keys) == len(set(keys))
        assert options_of(section)
