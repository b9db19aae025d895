"""Errors of the system as Go writes them, from the system or a library."""

from __future__ import annotations

import errno
import os
import ssl
from pathlib import Path

import httpx
import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE

from doorward.base.os_errors import (
    describe_folder_error,
    describe_os_error,
    describe_unreadable,
    io_message,
    os_reason,
)


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


def test_a_file_in_place_of_a_folder_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for folder in (tmp_path / "a", tmp_path / "a/b"):
        with pytest.raises(OSError, match=r"exists|Not a directory") as refused:
            folder.mkdir(parents=True, exist_ok=True)
        assert describe_folder_error(refused.value).startswith("a file is in the way of the folder")
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    assert describe_folder_error(error) == "permission denied"


def test_the_first_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    there, gone, folder = (str(tmp_path / name) for name in ("there", "gone", "."))
    Path(there).touch()
    assert describe_unreadable([there]) == ""
    assert describe_unreadable([there, gone, folder]) == f"{gone}: no such file or directory"
    assert describe_unreadable([folder, gone]) == f"{folder}: is a directory"


def test_messages_name_what_was_tried() -> None:
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    assert io_message("open", "a.rego", error) == "open a.rego: permission denied"


def test_the_reason_of_a_failed_request_is_the_systems() -> None:
    with pytest.raises(httpx.ConnectError) as refused:
        httpx.get(f"http://127.0.0.1:{free_port()}", trust_env=False, timeout=PATIENCE)
    assert os_reason(refused.value) == "connection refused"
    error = ssl.SSLCertVerificationError(1, "[SSL] verify failed")
    error.verify_message = "certificate has expired"
    assert os_reason(error) == "certificate verify failed: certificate has expired"
    assert os_reason(ssl.SSLError(1, "[SSL] wrong version")) is None
    assert os_reason(httpx.ConnectError("http://user:secret@host")) is None
