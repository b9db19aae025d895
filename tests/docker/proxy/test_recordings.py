"""Streams of exec and attach are written down as they pass, and end where they cannot be."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.proxied import Proxied, proxied

from doorward.docker.proxy.recordings import Recording, RecordingError, Recordings

NONE = ("--network", "none")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def said(path: Path, source: str) -> bytes:
    """The bytes that one side sent."""
    pieces = [line["data"] for line in lines_of(path)[1:] if line["from"] == source]
    return b"".join(map(base64.b64decode, pieces))


@pytest.fixture
def recordings(tmp_path: Path) -> Iterator[Recordings]:
    recordings = Recordings(str(tmp_path / "r"), largest=400)
    yield recordings
    recordings.close()


def test_pieces_are_written_with_their_times_and_sides(
    recordings: Recordings, tmp_path: Path
) -> None:
    recording = recordings.begin("../x\n", {"user": "ann"})
    recording.write("client", b"\x00in")
    recording.write("daemon", b"out")
    recording.close()
    (path,) = (tmp_path / "r").iterdir()
    first, *rest = lines_of(path)
    assert first["user"] == "ann"
    assert first["decision_id"] == "../x\n"
    assert path.name.endswith("Z-___x_.jsonl")
    assert said(path, "client") == b"\x00in"
    assert said(path, "daemon") == b"out"
    assert rest[0]["at"] <= rest[1]["at"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_recording_is_bounded(recordings: Recordings) -> None:
    recording = recordings.begin("a", {})
    recording.write("client", b"x" * 100)
    with pytest.raises(RecordingError, match="its maximum size"):
        recording.write("client", b"x" * 300)
    recording.close()
    recording.close()


def test_recording_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to(tmp_path / "other")
    for name in "ab":
        with pytest.raises(RecordingError, match="file exists"):
            Recording(str(tmp_path / name), 400, {})
    assert not (tmp_path / "other").exists()


def test_recording_after_its_end_is_refused(recordings: Recordings) -> None:
    recording = recordings.begin("a", {})
    recording.close()
    with pytest.raises(RecordingError, match="bad file descriptor"):
        recording.write("client", b"x")


def test_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(RecordingError, match="r: a file is in the way of the folder: move it"):
        Recordings(str(tmp_path / "f" / "r"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


@pytest.fixture
def behind(daemon: PrivateDaemon, folder: Path, tmp_path: Path) -> Iterator[Proxied]:
    options = {"record": str(folder), "record_largest": 200_000}
    with proxied(daemon, tmp_path, "operator", options=options) as proxy:
        proxy.docker("run", "-d", "--name", "rec", *NONE, "img:1", "sleep", "86400")
        yield proxy
        proxy.docker("rm", "-f", "rec")


def test_exec_is_recorded_in_both_directions(behind: Proxied, folder: Path) -> None:
    script = 'read line; echo "got $line"'
    done = behind.docker("exec", "-i", "rec", "sh", "-c", script, input=b"typed\n")
    assert done.stdout == "got typed\n"
    (path,) = folder.iterdir()
    first = lines_of(path)[0]
    assert (first["action"], first["user"]) == ("exec.start", "root")
    assert first["decision_id"] in {line["decision_id"] for line in behind.decided()}
    assert said(path, "client") == b"typed\n"
    assert b"got typed\n" in said(path, "daemon")


def test_attach_is_recorded_and_other_streams_are_not(behind: Proxied, folder: Path) -> None:
    shown = behind.docker("run", "--rm", "-i", *NONE, "img:1", "cat", input=b"through\n")
    assert shown.stdout == "through\n"
    assert behind.docker("logs", "rec").returncode == 0
    (path,) = folder.iterdir()
    assert lines_of(path)[0]["action"] == "container.attach"
    assert said(path, "client") == b"through\n"


def test_stream_that_is_too_long_for_its_recording_ends(behind: Proxied, folder: Path) -> None:
    done = behind.docker("exec", "-i", "rec", "cat", input=b"x" * 1_000_000)
    assert len(done.stdout) < 200_000
    (path,) = folder.iterdir()
    assert path.stat().st_size <= 200_000
    assert len(done.stdout) <= len(said(path, "client"))


def test_nothing_begins_where_it_cannot_be_recorded(behind: Proxied, folder: Path) -> None:
    os.rename(folder, folder.with_name("moved"))
    done = behind.docker("exec", "rec", "sh", "-c", "echo done > /done")
    assert "received 503" in done.stderr
    os.rename(folder.with_name("moved"), folder)
    assert behind.docker("exec", "rec", "cat", "/done").stdout != "done\n"


def test_folder_of_recordings_is_protected(behind: Proxied, folder: Path) -> None:
    done = behind.docker("create", *NONE, "-v", f"{folder}:/v", "img:1")
    assert "may not be mounted" in done.stderr
