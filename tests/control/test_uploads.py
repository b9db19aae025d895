"""Decision logs reach their service whole, in bounded chunks, or are counted as lost."""

from __future__ import annotations

import gzip
import json
import random
import resource
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.clock import VirtualClock
from tests.waiting import PATIENCE, wait_until

from doorward.base.clock import SYSTEM_CLOCK, Clock
from doorward.config.configuration import ConfigError, parse_config
from doorward.config.services import Service
from doorward.config.upload_options import FileOptions, UploadOptions
from doorward.control.bundles import FIRST_RETRY
from doorward.control.chunks import Chunk, ChunkEncoder
from doorward.control.client import ServiceClient
from doorward.control.log_file import LogFile
from doorward.control.outbox import DiskOutbox, MemoryOutbox, SpoolError
from doorward.control.uploads import Uploads


def lines(count: int, *, size: int = 50, first: int = 0) -> list[bytes]:
    chance = random.Random(first)
    return [
        json.dumps({"n": n, "x": chance.randbytes(size).hex()}).encode()
        for n in range(first, first + count)
    ]


def numbers(chunks: list[Chunk]) -> list[int]:
    return [event["n"] for chunk in chunks for event in json.loads(gzip.decompress(chunk.content))]


def encoded(encoder: ChunkEncoder, texts: list[bytes]) -> list[Chunk]:
    chunks: list[Chunk] = []
    for text in texts:
        if encoder.add(text):
            chunks += encoder.flush()
    return chunks + encoder.flush()


def test_chunks_are_below_the_limit_and_hold_every_event_once() -> None:
    encoder = ChunkEncoder(2_000)
    chunks = encoded(encoder, lines(3_000))
    assert numbers(chunks) == list(range(3_000))
    assert max(len(chunk.content) for chunk in chunks) <= 2_000
    assert sum(chunk.events for chunk in chunks) == 3_000
    # They grow until they are nearly full.
    sizes = [len(chunk.content) for chunk in chunks[3:-1]]
    assert sum(sizes) / len(sizes) > 1_400
    assert len(encoder) == 0


def test_an_event_that_fits_into_no_chunk_is_counted() -> None:
    encoder = ChunkEncoder(300)
    chunks = encoded(encoder, [*lines(2), *lines(1, size=1_000, first=2), *lines(2, first=3)])
    assert numbers(chunks) == [0, 1, 3, 4]
    assert len(encoder.too_large) == 1


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    outbox = MemoryOutbox(10)
    assert outbox.put([Chunk(b"x" * 6, 3)]) == 0
    assert outbox.put([Chunk(b"y" * 6, 2)]) == 3
    taken = outbox.take()
    assert taken is not None
    assert outbox.take() is None
    assert outbox.give_back(*taken) == 0
    assert outbox.put([Chunk(b"z" * 60, 1)]) == 2


def packed(text: str, events: int = 1) -> Chunk:
    return Chunk(gzip.compress(text.encode(), mtime=0), events)


class Disk(DiskOutbox):
    """An outbox in a folder, what was lost in it, and its chunks as texts."""

    def __init__(self, folder: Path, limit: int = 1 << 20) -> None:
        self.lost: Counter[str] = Counter()
        super().__init__(
            str(folder),
            limit,
            encode=lambda events: [packed(b"\n".join(events).decode())] if events else [],
            on_lost=lambda reason, count: self.lost.update({reason: count}),
        )

    def text(self) -> str | None:
        taken = self.take()
        if taken is None:
            return None
        self.done(taken[0])
        return gzip.decompress(taken[1].content).decode()

    def texts(self) -> list[str]:
        return list(iter(self.text, None))


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """No file of this process can be larger, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_what_is_on_disk_survives_a_process_that_was_killed(tmp_path: Path) -> None:
    first = Disk(tmp_path)
    first.put([packed("a"), packed("b")])
    first.note([b"1", b"2"])
    # The end of the process, and what it was writing.
    with (tmp_path / "0/journal.jsonl").open("ab") as journal:
        journal.write(b'{"half": of a li')
    first.close()
    second = Disk(tmp_path)
    assert second.lost == {"torn": 1}
    assert second.texts() == ["a", "b", "1\n2"]
    second.close()
    assert not list(tmp_path.rglob("*.gz"))


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "gone"])
def test_a_damaged_chunk_is_counted_and_stops_nothing(tmp_path: Path, damage: str) -> None:
    outbox = Disk(tmp_path)
    outbox.put([packed("a" * 100, events=7), packed("b")])
    path = min(tmp_path.rglob("*.gz"))
    octets = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        changed = bytes([*octets[:-6], octets[-6] ^ 1, *octets[-5:]])
        path.write_bytes({"cut": octets[:-1], "changed": changed, "empty": b""}[damage])
    assert outbox.texts() == ["b"]
    assert outbox.lost == {"damaged": 7}
    outbox.close()
    assert not list(tmp_path.rglob("*.gz"))


def test_damaged_lines_of_a_journal_are_counted_and_not_sent(tmp_path: Path) -> None:
    first = Disk(tmp_path)
    first.note([b'{"a": 1}', b'{"b": 1e999}', b"[" * 5_000 + b"]" * 5_000])
    first.close()
    journal = tmp_path / "0/journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"c": \0\0\0\n\xff\n')
    second = Disk(tmp_path)
    assert second.lost == {"torn": 2}
    assert second.texts() == ['{"a": 1}\n{"b": 1e999}\n' + "[" * 5_000 + "]" * 5_000]
    second.close()


def test_a_full_disk_loses_what_it_counts_and_nothing_else(tmp_path: Path) -> None:
    outbox = Disk(tmp_path)
    outbox.note([b'"first"'])
    with small_disk(4_096), pytest.raises(OSError, match="too large"):
        outbox.note([b'"' + b"x" * 5_000 + b'"'])
    outbox.note([b'"second"'])
    outbox.close()
    outbox = Disk(tmp_path)
    assert outbox.texts() == ['"first"\n"second"']
    noise = random.Random(1).randbytes(5_000).hex()
    with small_disk(4_096):
        assert outbox.put([packed(noise, events=3), packed("c")]) == 0
    assert outbox.lost == {"write": 3}
    assert outbox.texts() == ["c"]
    outbox.close()
    assert not list(tmp_path.rglob("*.new"))


def test_processes_share_a_folder_and_take_over_what_others_left(tmp_path: Path) -> None:
    first, second = Disk(tmp_path), Disk(tmp_path)
    first.put([packed("a")])
    second.put([packed("b")])
    assert (tmp_path / "1").is_dir()
    second.close()
    first.close()
    third = Disk(tmp_path)
    assert sorted(third.texts()) == ["a", "b"]
    third.close()


def test_what_another_leaves_is_taken_over_at_any_time(tmp_path: Path) -> None:
    first, second = Disk(tmp_path), Disk(tmp_path)
    second.put([packed("a"), packed("b")])
    first.adopt()
    assert first.texts() == []
    second.note([b"1", b"2"])
    second.close()
    # What is another's now is neither sent nor lost.
    first.adopt()
    assert second.texts() == []
    assert first.texts() == ["a", "b", "1\n2"]
    assert first.lost + second.lost == Counter()
    first.close()
    first.adopt()


def test_what_finds_no_room_when_it_is_taken_over_is_counted(tmp_path: Path) -> None:
    first = Disk(tmp_path)
    first.put([packed("a", 5)])
    first.note([b"1"])
    first.close()
    second = Disk(tmp_path, 1)
    assert second.texts() == ["1"]
    assert second.lost == {"buffer_size_limit_bytes_exceeded": 5}
    second.close()


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    size = len(packed("x" * 6).content)
    outbox = Disk(tmp_path, size + 4)
    assert outbox.put([packed("x" * 6, 3)]) == 0
    assert outbox.put([packed("y" * 6, 2)]) == 3
    assert outbox.texts() == ["y" * 6]
    outbox.close()


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="not a directory"):
        Disk(tmp_path / "file")


class Sink:
    """Collects events; `status` is what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.seen: list[int] = []
        self.requests = 0
        self.lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self.lock:
            self.requests += 1
            assert request.headers["content-encoding"] == "gzip"
            if self.status < 300:
                events = json.loads(gzip.decompress(request.content))
                self.seen += [event["n"] for event in events]
        return httpx.Response(self.status)


def uploads(
    sink: Callable[[httpx.Request], httpx.Response],
    clock: Clock = SYSTEM_CLOCK,
    **options: Any,
) -> Uploads:
    client = ServiceClient(Service("s", "http://s"), transport=httpx.MockTransport(sink))
    lost: Counter[str] = Counter()
    sender = Uploads(
        UploadOptions("s", **options),
        client,
        on_lost=lambda reason, n: lost.update({reason: n}),
        clock=clock,
    )
    sender.lost = lost  # type: ignore[attr-defined]  # for the test to read
    return sender


def lost_of(sender: Uploads) -> dict[str, int]:
    return dict(sender.lost)  # type: ignore[attr-defined]  # see above


@pytest.mark.parametrize("kind", ["size", "event"])
def test_every_event_arrives_once(kind: Any) -> None:
    sink = Sink()
    sender = uploads(sink, buffer_type=kind, min_delay=0, max_delay=0)
    sender.start()
    for first in range(0, 5_000, 500):
        sender.write(lines(500, first=first))
    wait_until(lambda: len(sink.seen) == 5_000)
    sender.close()
    assert sorted(sink.seen) == list(range(5_000))
    assert lost_of(sender) == {}


def test_a_service_that_fails_is_asked_again_with_the_same_events() -> None:
    sink = Sink()
    sink.status = 503
    statuses: list[Any] = []
    sender = uploads(sink)
    sender._on_status = statuses.append
    sender.write(lines(10))
    assert not sender.send()
    assert not sender.send()
    sink.status = 204
    assert sender.send()
    assert sink.seen == list(range(10))
    assert statuses[0] == {
        "code": "decision_log_error",
        "message": "log upload failed, server replied with HTTP 503 Service Unavailable",
        "http_code": 503,
    }
    assert statuses[-1] == {}
    sender.close()


def test_what_finds_no_room_is_counted() -> None:
    sink = Sink()
    sink.status = 500
    sender = uploads(sink, buffer_type="event", buffer_events=5)
    sender.write(lines(8))
    assert lost_of(sender) == {"buffer_size_limit_exceeded": 3}
    sink.status = 200
    sender.close()
    assert sink.seen == [3, 4, 5, 6, 7]
    small = uploads(Sink(), chunk_bytes=500, buffer_bytes=1_000)
    for first in range(0, 200, 10):
        small.write(lines(10, first=first))
    assert lost_of(small)["buffer_size_limit_bytes_exceeded"] > 100
    rated = uploads(Sink(), rate=2.0)
    rated.write(lines(10))
    assert lost_of(rated) == {"rate_limit_exceeded": 8}
    manual = uploads(Sink(), trigger="manual")
    manual.start()
    manual.write(lines(3))
    manual.close()
    assert lost_of(manual) == {"shutdown": 3}


def test_an_upload_that_begins_while_the_oldest_events_go_takes_none_of_them() -> None:
    class Lock:
        """Counts who wants to hold it."""

        def __init__(self) -> None:
            self.entries = 0
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            self.entries += 1
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    class Events(deque[bytes]):
        """Uploads before the first event goes, as far as the upload comes."""

        def popleft(self) -> bytes:
            if upload.ident is None:
                upload.start()
                wait_until(lambda: lock.entries == 2 or not upload.is_alive())
            return super().popleft()

    sink, lock = Sink(), Lock()
    sender = uploads(sink, buffer_type="event", buffer_events=5)
    upload = threading.Thread(target=sender.send)
    sender._encoding = lock  # type: ignore[assignment]  # as far as it is used
    sender._events = Events()
    sender.write(lines(8))
    upload.join(PATIENCE)
    assert lost_of(sender) == {"buffer_size_limit_exceeded": 3}
    assert sink.seen == [3, 4, 5, 6, 7]
    sender.close()


def test_an_immediate_upload_waits_for_a_full_chunk_only() -> None:
    sink, clock = Sink(), VirtualClock(threads=1)
    sender = uploads(
        sink, clock, trigger="immediate", chunk_bytes=400, min_delay=900, max_delay=900
    )
    sender.start()
    sender.write(lines(50))
    clock.settle()
    assert sorted(sink.seen) == list(range(50))
    sender.write(lines(1, first=50))
    clock.advance(899.0)
    assert len(sink.seen) == 50
    clock.advance(1.0)
    assert sorted(sink.seen) == list(range(51))
    sender.close()


def test_an_upload_comes_after_the_delay_and_not_before() -> None:
    sink, clock = Sink(), VirtualClock(threads=1)
    sender = uploads(sink, clock, min_delay=300, max_delay=300)
    sender.start()
    for first in (0, 10):
        sender.write(lines(10, first=first))
        clock.advance(299.0)
        assert sink.seen == list(range(first))
        clock.advance(1.0)
        assert sink.seen == list(range(first + 10))
    sender.close()


def test_a_failed_upload_is_repeated_after_pauses_that_grow_up_to_the_delay() -> None:
    sink, clock = Sink(), VirtualClock(threads=1)
    times: list[float] = []

    def respond(request: httpx.Request) -> httpx.Response:
        times.append(clock.now())
        return sink(request)

    sink.status = 503
    sender = uploads(respond, clock, min_delay=60, max_delay=60)
    sender.start()
    sender.write(lines(10))
    clock.advance(500.0)
    pauses = [after - before for before, after in pairwise([0.0, *times])]
    assert pauses[:2] == pytest.approx([60.0, FIRST_RETRY])
    for number, pause in enumerate(pauses[2:], 1):
        most = min(FIRST_RETRY * 1.6**number, 60.0)
        assert 0.66 * most <= pause + 1e-9
        assert pause <= most + 1e-9
    assert max(pauses[2:]) >= 0.66 * 60
    sink.status = 200
    clock.advance(60.0)
    assert sink.seen == list(range(10))
    count = len(times)
    sender.write(lines(10, first=10))  # after a success the delay is that of the options
    clock.advance(times[-1] + 59.0 - clock.now())
    assert len(times) == count
    clock.advance(1.0)
    assert sink.seen == list(range(20))
    sender.close()


def test_an_upload_has_succeeded_only_when_no_thread_sends_any_more() -> None:
    clock, both_send = VirtualClock(threads=1), threading.Barrier(2)
    requests: list[float] = []
    statuses: list[Any] = []

    def respond(_request: httpx.Request) -> httpx.Response:
        requests.append(clock.now())
        if len(requests) > 2:
            return httpx.Response(200)
        both_send.wait(PATIENCE)
        if threading.current_thread().name == "decision-log-upload-0":
            return httpx.Response(200)
        slow.wait(0.1)
        return httpx.Response(503)

    slow = threading.Event()
    sender = uploads(respond, clock, chunk_bytes=300, min_delay=300, max_delay=300)
    sender._on_status = statuses.append
    sender.start()
    sender.write(lines(2, size=150))
    clock.advance(300.0)
    assert [each.get("http_code") for each in statuses] == [503]
    clock.advance(1.0)
    assert requests == pytest.approx([300.0, 300.0, 300.0 + FIRST_RETRY])
    assert statuses[1:] == [{}]
    sender.close()


@pytest.mark.parametrize(("status", "lost"), [(200, {}), (503, {"shutdown": 7})])
def test_the_end_waits_for_no_slow_service_and_loses_only_what_fails(
    status: int, lost: dict[str, int]
) -> None:
    begun, answers, ended = threading.Event(), threading.Event(), threading.Event()

    def respond(_request: httpx.Request) -> httpx.Response:
        begun.set()
        assert answers.wait(PATIENCE)
        return httpx.Response(status)

    sender = uploads(respond)
    sender._on_status = lambda _status: ended.set()
    sender.write(lines(7))
    sender.close(timeout=0.1)
    assert begun.wait(PATIENCE)
    assert lost_of(sender) == {}
    answers.set()
    assert ended.wait(PATIENCE)
    assert lost_of(sender) == lost


def test_the_rate_allows_so_many_events_each_second() -> None:
    clock = VirtualClock()
    sender = uploads(Sink(), clock, rate=2.0)
    for seconds, lost in ((0.0, 8), (0.25, 18), (0.5, 27), (100.0, 35)):
        clock.advance(seconds)
        sender.write(lines(10))
        assert lost_of(sender) == {"rate_limit_exceeded": lost}
    sender.close()


def test_a_spool_goes_on_where_the_process_before_ended(tmp_path: Path) -> None:
    sink = Sink()
    sink.status = 500
    sender = uploads(sink, spool=str(tmp_path), chunk_bytes=500)
    sender.write(lines(20))
    sender.close()
    assert lost_of(sender) == {}
    sink.status = 200
    again = uploads(sink, spool=str(tmp_path), chunk_bytes=500)
    again.write(lines(5, first=20))
    again.close()
    assert sorted(sink.seen) == list(range(25))


def test_a_log_that_replaces_another_sends_what_that_left(tmp_path: Path) -> None:
    sink = Sink()
    before = uploads(sink, spool=str(tmp_path))
    after = uploads(sink, spool=str(tmp_path))
    sink.status = 503
    before.write(lines(10))
    before.close()
    sink.status = 200
    after.write(lines(10, first=10))
    assert after.send()
    assert sorted(sink.seen) == list(range(20))
    after.close()
    assert lost_of(before) == lost_of(after) == {}


def test_a_file_rotates_and_follows_who_moves_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(FileOptions(str(path), max_bytes=20, keep=2))
    for n in range(5):
        file.write([b"%d" % n * 10])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert path.read_bytes() == b"4444444444\n"
    assert (tmp_path / "log.1").read_bytes() == b"3333333333\n"
    path.rename(tmp_path / "moved")
    file.write([b"x"])
    assert path.read_bytes() == b"x\n"
    file.close()
    none = LogFile(FileOptions(str(tmp_path / "one"), max_bytes=1, keep=0))
    none.write([b"a"])
    none.write([b"b"])
    assert (tmp_path / "one").read_bytes() == b"b\n"
    none.close()


def test_a_file_that_cannot_be_rotated_takes_lines_that_fit(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(FileOptions(str(path), max_bytes=10, keep=1))
    file.write([b"aaaa"])
    (tmp_path / "log.1").mkdir()
    with pytest.raises(OSError, match="directory"):
        file.write([b"b" * 7])
    file.write([b"c"])
    assert path.read_bytes() == b"aaaa\nc\n"
    (tmp_path / "log.1").rmdir()
    file.write([b"d" * 7])
    assert path.read_bytes() == b"ddddddd\n"
    file.close()


def test_a_file_that_could_not_be_opened_again_is_opened_by_a_later_write(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(FileOptions(str(path), max_bytes=100, keep=1))
    path.rename(tmp_path / "moved")
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        file.write([b"a"])
    path.rmdir()
    # The same file as before is there again.
    (tmp_path / "moved").rename(path)
    file.write([b"b"])
    assert path.read_bytes() == b"b\n"
    file.close()


def test_a_file_goes_on_in_a_new_line_after_one_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    options = FileOptions(str(path), max_bytes=40, keep=1)
    file = LogFile(options)
    with small_disk(13), pytest.raises(OSError, match="too large"):
        file.write([b"a" * 7, b"b" * 7])
    assert path.read_bytes() == b"aaaaaaa\nbbbbb"
    file.write([b"c"])
    assert path.read_bytes() == b"aaaaaaa\nbbbbb\nc\n"
    # Of full size with the end of the line that was cut off, and then too large.
    file.write([b"d" * 23])
    assert len(path.read_bytes()) == 40
    file.write([b"e"])
    assert path.read_bytes() == b"e\n"
    with small_disk(6), pytest.raises(OSError, match="too large"):
        file.write([b"f" * 7])
    file.close()
    again = LogFile(options)
    again.write([b"g"])
    assert path.read_bytes() == b"e\nffff\ng\n"
    again.close()


def test_lines_that_are_cut_off_count_towards_the_size_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(FileOptions(str(path), max_bytes=10, keep=1))
    with small_disk(5), pytest.raises(OSError, match="too large"):
        file.write([b"a" * 7])
    file.write([b"bbbb"])
    assert path.read_bytes() == b"bbbb\n"
    assert (tmp_path / "log.1").read_bytes() == b"aaaaa"
    file.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"service": "z"}, 'service name "z" not found'),
        ({"plugin": "x"}, 'invalid plugin name "x" in decision_logs: plugins are not supported'),
        ({"reporting": {"buffer_type": "x"}}, 'invalid buffer type "x"'),
        (
            {"reporting": {"buffer_type": "event", "buffer_size_limit_bytes": 1}},
            "is not supported for the event buffer type",
        ),
        (
            {"reporting": {"buffer_size_limit_events": 1}},
            "is not supported for the size buffer type",
        ),
        (
            {"reporting": {"buffer_size_limit_bytes": 1, "max_decisions_per_second": 1}},
            "specify either",
        ),
        ({"reporting": {"min_delay_seconds": 9, "max_delay_seconds": 1}}, "must be >="),
        ({"reporting": {"trigger": "x"}}, 'invalid trigger mode "x"'),
        ({"reporting": {"max_decisions_per_second": -1}}, "must be 0 (no limit) or more"),
        ({"reporting": {"buffer_size_limit_bytes": 0}}, "must be greater than 0"),
        ({"file": {}}, "must be the path of a file"),
        ({"file": {"path": "x", "keep": -1}}, "must be from 0 to 1000"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: Any, message: str) -> None:
    document = {"services": {"s": {"url": "http://s"}}, "decision_logs": options}
    with pytest.raises(ConfigError) as raised:
        parse_config(json.dumps(document), environment={})
    assert message in str(raised.value)


def test_options_are_read() -> None:
    document: Any = {"services": {"s": {"url": "http://s"}}, "decision_logs": {}}
    read = parse_config(json.dumps(document), environment={}).decision_logs
    assert read.upload == UploadOptions("s")
    document["decision_logs"] = {"console": True, "file": {"path": "x"}}
    read = parse_config(json.dumps(document), environment={}).decision_logs
    assert (read.upload, read.file) == (None, FileOptions("x"))
    document["decision_logs"] = {"partition_name": "p", "reporting": {"upload_size_limit_bytes": 1}}
    config = parse_config(json.dumps(document), environment={})
    assert config.decision_logs.upload == UploadOptions("s", partition="p", chunk_bytes=90)
    assert "1 is out of bounds, 90 is used" in config.warnings[0]
    assert not parse_config("services: {s: {url: http://s}}").decision_logs.is_enabled
