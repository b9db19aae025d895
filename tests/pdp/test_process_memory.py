"""The memory of this process is what Linux says, and 0 where it says nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from doorward.pdp import process_memory
from doorward.pdp.process_memory import resident_memory

MEASURED = """
from doorward.pdp.process_memory import resident_memory
before = resident_memory()
kept = bytearray(b"x") * (64 << 20)
print(resident_memory() - before)
"""


def test_memory_grows_with_what_is_kept() -> None:
    # A process of its own: in this one, other threads may return memory meanwhile.
    printed = subprocess.check_output([sys.executable, "-c", MEASURED], text=True)
    assert int(printed) > (60 << 20)


@pytest.mark.parametrize("content", [None, b"", b"1", b"a b c"])
def test_it_is_zero_where_nobody_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    path = tmp_path / "statm"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(process_memory, "_STATUS", str(path))
    assert resident_memory() == 0


FORKED = """
import os
from doorward.pdp.process_memory import resident_memory
kept = bytearray(b"x") * (64 << 20)
resident_memory()
if os.fork() == 0:
    del kept
    more = bytearray(b"x") * (128 << 20)
    print(resident_memory(), flush=True)
    os._exit(0)
os.wait()
print(resident_memory())
"""


def test_a_child_has_its_own_memory() -> None:
    printed = subprocess.check_output([sys.executable, "-c", FORKED], text=True)
    child, parent = map(int, printed.split())
    assert child - parent > (32 << 20)
