"""Decision logs at URLs are downloaded to files, which all processes can then read like others."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx

from doorward.base.os_errors import describe_os_error, os_reason
from doorward.base.urls import split_url
from doorward.http_client.deadlines import finished_by, with_deadlines
from doorward.replay.reading import ReplayError

__all__ = ["MAX_BYTES", "is_url", "with_files"]

MAX_BYTES: Final = 64 << 30
"""A log with more bytes than this, as they are sent, is refused."""
SILENCE: Final = 30.0
"""A download fails after this many seconds without a byte."""
WITHIN: Final = 3600.0
"""The time limit of one download, in seconds."""


def is_url(log: str) -> bool:
    """Return True if a log is an `http` or `https` URL, and not a path."""
    return log.startswith(("http://", "https://"))


def with_files(
    logs: Sequence[str],
    folder: Path,
    headers: Mapping[str, str],
    *,
    transport: httpx.BaseTransport | None = None,
) -> list[str]:
    """Return `logs` with each URL replaced by the path of a file in `folder`, to which it was
    downloaded; other entries are unchanged. ReplayError on failure.

    `headers` are sent with each request; redirects are not followed.
    """
    files: list[str] = []
    client = httpx.Client(transport=transport, timeout=SILENCE, follow_redirects=False)
    with with_deadlines(client):
        for number, log in enumerate(logs):
            if is_url(log):
                path = folder / f"{number}.log"
                _download(client, log, path, headers)
                log = os.fspath(path)
            files.append(log)
    return files


def _download(client: httpx.Client, url: str, path: Path, headers: Mapping[str, str]) -> None:
    """Download one URL to a file as it is sent, compressed or not, and not following redirects.
    Raise ReplayError for a status other than 200, a failure, more than `MAX_BYTES`, or after
    `WITHIN` seconds; a part of the log may then be in the file.
    """
    address = _show(url)
    # No other encoding on the way: a compressed log is stored, and read, as a compressed file.
    sent = {**headers, "accept-encoding": "identity"}
    until, size = time.monotonic() + WITHIN, 0
    try:
        with (
            finished_by(until),
            client.stream("GET", url, headers=sent) as answer,
            path.open("wb") as file,
        ):
            if answer.status_code != 200:
                raise ReplayError(
                    f"{address}: the server answered with status {answer.status_code}"
                )
            for part in answer.iter_raw():
                size += len(part)
                if size > MAX_BYTES:
                    raise ReplayError(
                        f"{address}: the log is larger than {MAX_BYTES} bytes: split it"
                    )
                if time.monotonic() > until:
                    raise ReplayError(
                        f"{address}: the download takes longer than {WITHIN:g} seconds: split the "
                        "log, or download it by other means"
                    )
                file.write(part)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = os_reason(error) or type(error).__name__
        raise ReplayError(f"{address}: the download failed ({reason})") from None
    except OSError as error:
        reason = describe_os_error(error)
        message = f"{address}: cannot store the download in {path.parent}: {reason}"
        raise ReplayError(message) from None


def _show(url: str) -> str:
    """Return the URL without its user and query, which may be credentials."""
    parts = split_url(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
