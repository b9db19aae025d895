"""The archive of a build or a copy, looked at on its way to the daemon.

A daemon acts on the archive of a build once it has all of it, and on that of a copy entry by entry.
So the pieces of a build pass until its end is near, and the end is held until the Dockerfile was
decided; a piece of a copy is held while it has an entry that has to be decided. What was
refused is never completed.

An archive that cannot be read is decided as one that cannot be read; where that is allowed, it
passes as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Protocol

from doorward.docker.proxy.tars import (
    DEVICES,
    FILE,
    FOLDER,
    LINK,
    Entry,
    Gunzip,
    TarError,
    TarReader,
    is_gzip,
)
from doorward.docker.request.archives import COPY, Archive
from doorward.docker.request.dockerfile import MOST_DOCKERFILE

__all__ = ["Upload", "inspect_upload"]

_MOST_WAITING: Final = 1 << 20
"""Bytes that are held while it is not clear whether an archive ends."""
_MOST_LINKS: Final = 10_000
_MOST_NAMES: Final = 1 << 20
"""Bytes of the names of links."""
_START: Final = 3
"""Bytes that tell gzip from tar."""
_SETUID, _SETGID = 0o4000, 0o2000
_UNREADABLE: Final = "unreadable"

Decide = Callable[[Archive], Awaitable[None]]
"""Decides on the contents of an archive; raises RefusedError to refuse the request."""


class _Findings(Protocol):
    """The interface that inspects the entries of an archive and collects what a decision needs."""

    def inspect(self, entry: Entry) -> bool:
        """Inspect an entry; return True if its content is needed. Raise TarError if the archive
        must be refused because of it.
        """

    def now(self) -> Archive | None:
        """Return the archive, as far as it is known, if that must be decided before more of it
        passes; else None.
        """

    def end(self, content: bytes) -> Archive | None:
        """Return the archive to decide after its last entry; `content` is that of the entry for
        which `inspect` returned True. None if nothing more needs a decision.
        """

    def unreadable(self, problem: str) -> Archive:
        """Return the archive to decide on if it cannot be read; `problem`: why."""


def inspect_upload(action: str, query: Mapping[str, list[str]], decide: Decide) -> Upload:
    """Return the inspection of the archive in a request with this action and query."""
    name = query.get("dockerfile", [""])[0] or "Dockerfile"
    return Upload(_Copy() if action == COPY else _Context(name), decide)


class Upload:
    """Inspects an uploaded archive while its pieces pass to the daemon, and holds back its end
    until the archive was allowed.
    """

    def __init__(self, findings: _Findings, decide: Decide) -> None:
        self._findings = findings
        self._decide = decide
        self._reader = TarReader(findings.inspect)
        self._gunzip: Gunzip | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._is_through = False
        """True if the archive was decided, so that further pieces pass unread."""
        self._start = b""
        self._has_begun = False

    async def pass_on(self, piece: bytes, *, is_last: bool = False) -> list[bytes]:
        """Inspect a piece of the upload; return the pieces that may go to the daemon now.

        Pieces that may hold the end of the archive are kept back until it is allowed, so that the
        daemon never gets a complete archive before. `is_last` keeps this piece back until `end`. A
        malformed archive is judged as unreadable. Errors that `decide` raises, which refuse the
        upload, pass through.
        """
        if self._is_through:
            return [piece]
        self._waiting.append(piece)
        self._size += len(piece)
        try:
            await self._read(piece)
        except TarError as error:
            await self._finish(self._findings.unreadable(str(error)))
        return self._release() if self._may_release(is_last=is_last) else []

    def _may_release(self, *, is_last: bool) -> bool:
        """Return True if the pieces so far may go to the daemon: the archive was allowed, or it was
        recognised by its first bytes, and these pieces neither are the last ones (`is_last`) nor
        can complete it.
        """
        if self._is_through:
            return True
        return self._has_begun and not is_last and not self._reader.may_be_ending

    async def end(self) -> list[bytes]:
        """Have the archive decided if that has not happened, and return the pieces that are still
        held; called after the last piece.

        An archive that is cut or malformed is decided as unreadable. The error with which `decide`
        refuses the upload passes through; then no held piece may go to the daemon.
        """
        if not self._is_through:
            try:
                if not self._has_begun:
                    await self._feed(self._start)
                if self._gunzip is not None:
                    self._gunzip.close()
                self._reader.close()
                archive = self._findings.end(self._reader.content)
            except TarError as error:
                archive = self._findings.unreadable(str(error))
            await self._finish(archive)
        return self._release()

    def _release(self) -> list[bytes]:
        """Return the pieces that were held, and hold none."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        return waiting

    async def _finish(self, archive: Archive | None) -> None:
        """Have the archive decided, unless it is None, and let all further pieces pass unread. The
        error with which `decide` denies it passes through.
        """
        if archive is not None:
            await self._decide(archive)
        # After the decision, which raises where it refuses: nothing of the end has passed then.
        self._is_through = True

    async def _read(self, piece: bytes) -> None:
        """Read a piece of the upload, decompressed if it begins like gzip; the first few bytes are
        kept until they show that. Archives that it shows are decided, and errors of `decide` pass
        through.

        Raise TarError if the archive is malformed, or too many bytes must be held because they may
        be its end.
        """
        if not self._has_begun:
            self._start += piece
            if len(self._start) < _START:
                return
            piece, self._has_begun = self._start, True
            if is_gzip(piece):
                self._gunzip = Gunzip()
        await self._feed(piece)
        # Zeros that may or may not be the end could be sent for ever, and all are held.
        if self._size > _MOST_WAITING and self._reader.may_be_ending and not self._is_through:
            raise TarError("archive has too many empty blocks without an end")

    async def _feed(self, piece: bytes) -> None:
        """Feed a piece to the tar reader, and judge the archive when it shows something new and
        when it ends. Raise TarError if it is malformed; errors that `decide` raises pass through.
        """
        pieces: Iterator[bytes] = iter((piece,))
        if self._gunzip is not None:
            pieces = self._gunzip.feed(piece)
        for each in pieces:
            self._reader.feed(each)
            archive = self._findings.now()
            if archive is not None:
                await self._decide(archive)
            if self._reader.ended:
                await self._finish(self._findings.end(self._reader.content))
                return
            if self._gunzip is not None:
                # A few bytes may become many.
                await asyncio.sleep(0)


class _Context:
    """Inspects the archive of a build's context, and collects its Dockerfile, which only one entry
    may be.
    """

    def __init__(self, name: str) -> None:
        try:
            self._parts = _split(name.encode("utf-8", "surrogateescape"))
        except TarError:
            self._parts = ()  # which no file of an archive can be
        self._links: set[tuple[bytes, ...]] = set()
        self._names = 0
        self._is_seen = False

    def inspect(self, entry: Entry) -> bool:
        """Check an entry of a build's context; return True if it is the Dockerfile, whose content
        is needed.

        Raise TarError if builders could see different files: a name with `..` or of a removed file
        (`.wh.`), an entry below a symbolic link, too many links, or a Dockerfile that is too large,
        repeated, not a plain file, or below something that is not a folder.
        """
        parts, mine = _split(entry.name), self._parts
        # In layers of images `.wh.NAME` is the removal of a file, not a file.
        if parts and parts[-1].startswith(b".wh."):
            raise TarError("name of an archive entry begins with `.wh.`, which would remove files")
        if self._links:
            for length in range(1, len(parts)):
                if parts[:length] in self._links:
                    raise TarError("archive has an entry below a symbolic link")
        if entry.kind == LINK:
            self._links.add(parts)
            self._names += len(entry.name)
            if len(self._links) > _MOST_LINKS or self._names > _MOST_NAMES:
                raise TarError(
                    f"archive has more than {_MOST_LINKS} symbolic links, or too many with long "
                    "names"
                )
        if parts == mine:
            if entry.kind != FILE or self._is_seen:
                raise TarError("the Dockerfile is repeated in the archive, or is not a plain file")
            if entry.size > MOST_DOCKERFILE:
                raise TarError(f"the Dockerfile is larger than {MOST_DOCKERFILE} bytes")
            self._is_seen = True
            return True
        if parts == mine[: len(parts)] and entry.kind != FOLDER:
            raise TarError(
                "the path of the Dockerfile in the archive leads through a file that is "
                "not a folder"
            )
        if parts[: len(mine)] == mine:
            raise TarError("the Dockerfile is a folder")
        return False

    def now(self) -> Archive | None:
        """Return None: a build is decided only by its complete archive."""
        return None

    def end(self, content: bytes) -> Archive:
        """Return the archive with the Dockerfile's content; an unreadable one if no file had the
        Dockerfile's name.
        """
        if not self._is_seen:
            return self.unreadable("archive has no file of the Dockerfile's name")
        return Archive("read", content)

    def unreadable(self, problem: str) -> Archive:
        """Return the archive as one that was read, with its problem and without content."""
        return Archive("read", problem=problem)


def _split(name: bytes) -> tuple[bytes, ...]:
    """Return the parts of a path in an archive, without empty and `.` parts; raise TarError for
    `..`.
    """
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if b".." in parts:
        raise TarError("name of an archive entry contains `..`")
    return parts


class _Copy:
    """Inspects an archive that is unpacked in a container, where a volume may be a folder of the
    host.
    """

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._decided = 0

    def inspect(self, entry: Entry) -> bool:
        """Note if an entry copied into a container is a device, has setuid or setgid, or has
        capabilities.

        Always False: the content is not needed.
        """
        if entry.kind in DEVICES:
            self._kinds.add("device")
        if entry.kind == FILE and entry.mode & _SETUID:
            self._kinds.add("setuid")
        if entry.kind == FILE and entry.mode & _SETGID:
            self._kinds.add("setgid")
        if entry.has_capabilities:
            self._kinds.add("capabilities")
        return False

    def now(self) -> Archive | None:
        """Return the archive with the kinds of entries so far; None if no new kind was seen since
        the last call.
        """
        if len(self._kinds) == self._decided:
            return None
        self._decided = len(self._kinds)
        return Archive("read", kinds=tuple(sorted(self._kinds)))

    def end(self, content: bytes) -> None:
        """Return None: `now` has told all kinds of entries."""
        return None

    def unreadable(self, problem: str) -> Archive:
        """Return the archive with its problem and the kinds of entries so far, and with the kind of
        unreadable ones.
        """
        return Archive("read", kinds=(*sorted(self._kinds), _UNREADABLE), problem=problem)
