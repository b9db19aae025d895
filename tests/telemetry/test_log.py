"""Logs in OPA's shape, one line each, and nothing in them that nobody put there."""

from __future__ import annotations

import io
import json
import logging

import pytest

from doorward.rego import from_json
from doorward.rego.values import make_set
from doorward.telemetry.log import configure, line_for


def lines(level: str, format: str) -> str:
    stream = io.StringIO()
    configure(level, format, stream)
    log = logging.getLogger("doorward.test")
    log.addFilter(mark)
    try:
        log.debug("detail")
        log.info("Starting.", extra={"addrs": [":8181"], "n": 1})
        raise ValueError("the text of a client")
    except ValueError:
        log.exception("failed")
    finally:
        log.removeFilter(mark)
    return stream.getvalue()


def mark(record: logging.LogRecord) -> bool:
    """What Ray does with every record of a process in which it was imported."""
    record.__dict__["_ray_timestamp_ns"] = 1
    return True


def test_json_is_one_object_a_line() -> None:
    first, second = map(json.loads, lines("info", "json").splitlines())
    assert first["level"] == "info"
    assert first["msg"] == "Starting."
    assert first["addrs"] == [":8181"]
    assert first["time"].endswith("Z")
    assert set(first) == {"addrs", "level", "msg", "n", "time"}
    assert second["level"] == "error"


def test_an_exception_is_its_type_and_place_and_never_its_text() -> None:
    for format in ("json", "text"):
        text = lines("info", format)
        assert "ValueError" in text
        assert "test_log.py:" in text
        assert "the text of a client" not in text


def test_text_is_for_people() -> None:
    first = lines("info", "text").splitlines()[0]
    assert ' level=info msg=Starting. addrs="[\\":8181\\"]" n=1' in first


@pytest.mark.parametrize(("level", "count"), [("debug", 3), ("info", 2), ("error", 1)])
def test_the_level_says_what_is_suppressed(level: str, count: int) -> None:
    assert len(lines(level, "json").splitlines()) == count


def test_pretty_json_is_indented() -> None:
    assert lines("error", "json-pretty").startswith('{\n  "at": ')


@pytest.mark.parametrize("format", ["json", "json-pretty", "text"])
def test_any_value_can_be_written(format: str) -> None:
    fields = {
        "set": make_set(["b", "a"]),
        "big": 10**40,
        "number": from_json("1.50"),
        "odd": "\ud800",
        "deep": from_json('{"a": [null, true]}'),
    }
    assert line_for(format)(fields).endswith(b"\n")


@pytest.mark.parametrize("code", [0x0A, 0x0D, 0x1B, 0x7F, 0x85, 0x9B, 0x2028, 0x2029])
def test_no_value_ends_a_line_or_controls_a_terminal(code: int) -> None:
    for fields in ({"a": f"x{chr(code)}y"}, {"a": {"b": f"x{chr(code)}y"}}):
        line = line_for("text")(fields).decode()
        assert len(line.splitlines()) == 1
        assert chr(code) not in line.removesuffix("\n")
