"""The archive in a request as far as it is known: that of a build, or of a copy into a container.

A plugin sees none: their state is `hidden`. The proxy reads them on their way. It asks for a
decision before the first byte goes to the daemon, when the state is `pending`, and for another one
once the archive says something that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from doorward.docker.request.dockerfile import Dockerfile, DockerfileError, read_dockerfile
from doorward.docker.request.errors import RequestError
from doorward.docker.request.images import parse_image
from doorward.docker.request.schema import parse_json

__all__ = ["COPY", "NO_ARCHIVE", "NO_FILES", "PENDING", "Archive", "archive_views", "has_archive"]

BUILD: Final = "image.build"
COPY: Final = "container.archive.put"
NO_FILES: Final[dict[str, Any]] = {
    "files": "hidden",
    "problem": "",
    "images": [],
    "remotes": [],
    "instructions": [],
}
"""The part of the view `build` that a Dockerfile fills in."""
NO_ARCHIVE: Final[dict[str, Any]] = {"state": "hidden", "kinds": [], "problem": ""}


class Archive(NamedTuple):
    """The facts that were read from the archive of a build or copy, for the input."""

    state: str
    """`pending` before the archive was read, `read` afterwards."""
    dockerfile: bytes = b""
    """The Dockerfile in the archive of a build."""
    kinds: tuple[str, ...] = ()
    """The kinds of entries in the archive of a copy that are not just files of their owner."""
    problem: str = ""
    """The reason why the archive cannot be read; "" if it can."""


PENDING: Final = Archive("pending")


def has_archive(action: str, query: Mapping[str, list[str]]) -> bool:
    """Return True if a stream of this request is an archive that is read here."""
    # With `remote`, the daemon fetches the context by itself.
    return action == COPY or (action == BUILD and not query.get("remote", [""])[0])


def archive_views(
    archive: Archive, action: str, query: Mapping[str, list[str]], views: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the input's views that an archive changes: `archive` for a copy, `build` for a build.

    `files` of the build is `pending` before the archive is read, and `unreadable`, with the
    problem, if the archive, the Dockerfile or the build arguments cannot be read.
    """
    if action == COPY:
        kinds = list(archive.kinds)
        return {"archive": {"state": archive.state, "kinds": kinds, "problem": archive.problem}}
    if archive.state == "pending":
        return {"build": {**views["build"], "files": "pending"}}
    problem = archive.problem
    try:
        if not problem:
            return _views_of(read_dockerfile(archive.dockerfile, _arguments(query)), views)
    except DockerfileError as error:
        problem = f"Dockerfile, {error}"
    return {"build": {**views["build"], "files": "unreadable", "problem": problem}}


def _views_of(dockerfile: Dockerfile, views: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"build": view}`: the `build` view of `views` with the images, remotes,
    instructions, entitlements and frontend of the Dockerfile.
    """
    images = [parse_image(each) for each in dockerfile.images]
    frontend = ""
    if dockerfile.frontend:
        image = parse_image(dockerfile.frontend)
        frontend = image["name"] or dockerfile.frontend
        images.append(image)
    build = {
        **views["build"],
        "files": "read",
        "images": images,
        "remotes": dockerfile.remotes,
        "instructions": dockerfile.instructions,
        "entitlements": dockerfile.entitlements,
        "frontend": frontend,
    }
    return {"build": build}


def _arguments(query: Mapping[str, list[str]]) -> dict[str, str | None]:
    """Return the build arguments of the query, `{}` if there are none; an argument without a value
    is None.

    Raise DockerfileError unless they are a JSON object of strings and nulls.
    """
    text = query.get("buildargs", [""])[0]
    if not text:
        return {}
    try:
        document: Any = parse_json(text.encode())
    except RequestError:
        raise DockerfileError(0, "query parameter buildargs is not JSON") from None
    if document is None:
        return {}
    if type(document) is not dict:
        raise DockerfileError(0, "query parameter buildargs is not an object")
    if any(value is not None and type(value) is not str for value in document.values()):
        raise DockerfileError(
            0, "a value in the query parameter buildargs is neither a string nor null"
        )
    return document
