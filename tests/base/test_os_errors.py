"""Errors of the system as Go writes them, from the system or a library."""

from __future__ import annotations

import errno
import os

import pytest

from doorward.base.os_errors import describe_os_error, io_message


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "A"),
            "no such file or directory",
        ),
        (OSError("the file /A is not a socket"), "the file /A is not a socket"),
        (OSError(), "OSError"),
    ],
)
def test_a_reason_is_never_empty_and_names_no_file_of_its_own(error: OSError, reason: str) -> None:
    assert describe_os_error(error) == reason


def test_messages_name_what_was_tried() -> None:
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    assert io_message("open", "a.rego", error) == "open a.rego: permission denied"
