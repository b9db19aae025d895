"""Archives for tests, right and wrong, member by member."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["link", "member", "write_archive"]

Entry = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: str | bytes = b"", *, kind: bytes = tarfile.REGTYPE) -> Entry:
    """A file, or what `kind` says."""
    encoded = content.encode() if isinstance(content, str) else content
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = len(encoded) if kind == tarfile.REGTYPE else 0
    return info, encoded


def link(name: str, target: str, *, kind: bytes = tarfile.SYMTYPE) -> Entry:
    """A link to `target`."""
    info, _ = member(name, kind=kind)
    info.linkname = target
    return info, b""


def write_archive(path: Path, entries: Iterable[Entry] | dict[str, str]) -> str:
    """A `.tar.gz` at `path`; its name."""
    if isinstance(entries, dict):
        entries = [member(name, text) for name, text in entries.items()]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(gzip.compress(stream.getvalue(), mtime=0))
    return str(path)
