"""The last active bundle of each name on disk, with which a start without its service begins.

A bundle is written beside the previous one, synchronised to the disk, and renamed over it: a crash
leaves one of the two. It is verified again when it is read; only this user may read the folder.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

__all__ = ["DISCOVERY", "SavedBundles"]

DISCOVERY: Final = "/"
"""The name of the bundle of discovery, which no other bundle can have."""
_FILE: Final = "bundle.tar.gz"
_NAMESAKE: Final = "named-discovery.tar.gz"
"""The file of the bundle `discovery`, whose folder OPA's layout gives to discovery itself."""


class SavedBundles:
    """Bundles saved below one folder, by name."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "bundles")

    def path(self, name: str) -> str:
        """Return the file in which the bundle of that name is saved; it may not exist."""
        if name == DISCOVERY:
            return os.path.join(self._folder, "discovery", _FILE)
        parts = [part for part in name.split("/") if part]
        # INVARIANT: `bundle_options` has refused other names of bundles that are saved.
        assert parts
        assert ".." not in parts
        # Otherwise a saved bundle would be the configuration of the next start.
        file = _NAMESAKE if parts == ["discovery"] else _FILE
        return os.path.join(self._folder, *parts, file)

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the bytes of a saved bundle; None if there is none. OSError if it cannot be read
        or is larger than `limit` bytes.
        """
        try:
            with open(self.path(name), "rb") as file:
                content = file.read(limit + 1)
        except FileNotFoundError:
            return None
        if len(content) > limit:
            raise OSError(f"the saved bundle is larger than {limit} bytes")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Save a bundle in place of the previous one, which is unchanged after an OSError. Creates
        the folders.
        """
        path = self.path(name)
        folder = os.path.dirname(path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # With the process's number: several processes may save the same bundle.
        new_path = f"{path}.{os.getpid()}.new"
        try:
            descriptor = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new_path, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(new_path)
            raise
