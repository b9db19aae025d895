"""What `make test-fast` does not import has no test that it would run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tiers import QUICK, has_no_quick_test


@pytest.mark.parametrize(
    ("text", "is_left_out"),
    [
        ("import subprocess\n", True),
        ("import json\nimport socket\n\nX = 1\n", True),
        ("from tests.ports import free_port\n", True),
        ("X = 1\npytestmark = pytest.mark.long\n", True),
        ("pytestmark = pytest.mark.system\n", True),
        ("def f():\n    import subprocess\n", False),
        ("from socket import AF_INET\n", False),
        ("import socketlike\n", False),
        ("@pytest.mark.long\ndef test_one(): ...\n", False),
        ('TEXT = "import subprocess"\n', False),
    ],
)
def test_a_file_is_left_out_by_a_line_that_is_true_for_all_its_tests(
    text: str, is_left_out: bool, tmp_path: Path
) -> None:
    file = tmp_path / "test_one.py"
    file.write_text(text)
    assert has_no_quick_test(file) is is_left_out


def test_a_folder_is_left_out_where_none_of_its_files_has_a_quick_test(tmp_path: Path) -> None:
    file = tmp_path / "inner/test_one.py"
    file.parent.mkdir()
    file.write_text("import subprocess\n")
    assert not has_no_quick_test(tmp_path)  # there is no conftest.py that would be imported
    (tmp_path / "conftest.py").touch()
    assert has_no_quick_test(tmp_path)
    file.with_name("test_other.py").touch()
    assert not has_no_quick_test(tmp_path)


def test_make_asks_for_the_quick_tests_in_the_words_that_are_looked_for(root: Path) -> None:
    assert f"-m '{QUICK}' tests" in (root / "Makefile").read_text()
