"""Files to which lines are appended: whether the last one has an end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doorward.base.line_files import is_cut_off


@pytest.mark.parametrize(
    ("content", "cut_off"), [(b"", False), (b"a\n", False), (b"a", True), (b"a\nb", True)]
)
def test_the_last_line_of_a_file_has_an_end_or_none(
    tmp_path: Path, content: bytes, cut_off: bool
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        assert is_cut_off(str(path), fd) is cut_off
        # Who may not read the file appends to it as it is.
        path.unlink()
        assert is_cut_off(str(path), fd) is False
    finally:
        os.close(fd)


def test_what_is_no_regular_file_has_no_lines() -> None:
    reader, writer = os.pipe()
    try:
        assert is_cut_off("/nowhere", writer) is False
    finally:
        os.close(reader)
        os.close(writer)
