"""The words behind `docker build` become the query of the one request of the classic builder.

The folder is sent as an archive behind it, which no plugin is shown. BuildKit makes many requests
instead: an option that only BuildKit knows is refused, with the way to read those.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

from doorward.base.records import mutable
from doorward.docker.commands.options import CommandError, Options, Setter, read_options
from doorward.docker.commands.values import read_host, read_integer, read_size, read_ulimit

__all__ = ["MANY_REQUESTS", "read_build"]

MANY_REQUESTS: Final = (
    "which makes many requests: record them with `--audit-input` of the plugin or the proxy, "
    "and read that log with `doorward input docker FILE`"
)
"""The way to read a command that is not one request, behind the name of its program."""


@mutable
class _Build:
    """The query of a `docker build`, which the setters of its options fill in."""

    query: dict[str, str | list[str]] = field(
        default_factory=lambda: {"dockerfile": "Dockerfile", "version": "1"}
    )
    documents: dict[str, Any] = field(default_factory=dict)
    """Parameters whose value is JSON."""
    dockerfile: str = ""
    """The path of `-f`, as it is written."""


def read_build(words: Sequence[str], command: str) -> dict[str, str | list[str]]:
    """Return the query parameters of the request that `docker build` sends with these arguments;
    `command` is its name in errors.

    Raise CommandError for options that are unknown or belong to BuildKit, for invalid values,
    unless exactly one folder follows the options, and for a Dockerfile outside it.
    """
    build = _Build()
    context = read_options(words, VALUES, SWITCHES, build, command, turned_off=_TURNED_OFF)
    if len(context) != 1:
        raise CommandError(f"`{command}` needs exactly one folder, after its options")
    if build.dockerfile:
        build.query["dockerfile"] = _sent_dockerfile(build.dockerfile, context[0])
    documents = {name: json.dumps(value) for name, value in build.documents.items()}
    return {**build.query, **documents}


def _put(name: str, read: Callable[[str], Any] = str) -> Setter:
    """Return a setter that stores an option's value, read by `read`, as the parameter `name`."""

    def put(build: _Build, value: str) -> None:
        build.query[name] = str(read(value))

    return put


def _number(name: str, read: Callable[[str], int] = read_integer) -> Setter:
    """Return a setter that stores an option's number, read by `read`, as the parameter `name`; 0 is
    not stored.
    """

    def put(build: _Build, value: str) -> None:
        """Set the parameter, unless the number is 0, which docker's client leaves out."""
        number = read(value)
        if number:
            build.query[name] = str(number)

    return put


def _append(name: str, read: Callable[[str], str] = str) -> Setter:
    """Return a setter that adds an option's value to the repeated parameter `name`."""

    def append(build: _Build, value: str) -> None:
        build.query[name] = [*build.query.get(name, ()), read(value)]

    return append


def _switch(name: str, value: str = "1") -> Setter:
    """Return the setter of an option without a value: it sets the parameter `name` to `value`."""

    def put(build: _Build, _text: str) -> None:
        build.query[name] = value

    return put


def _put_argument(build: _Build, value: str) -> None:
    """Add a build argument; without `=` its value is null, since the client would take it from its
    environment.
    """
    name, equals, text = value.partition("=")
    arguments = build.documents.setdefault("buildargs", {})
    arguments[name] = text if equals else None


def _put_label(build: _Build, value: str) -> None:
    name, _, text = value.partition("=")
    build.documents.setdefault("labels", {})[name] = text


def _add_caches(build: _Build, value: str) -> None:
    build.documents.setdefault("cachefrom", []).extend(value.split(","))


def _add_ulimit(build: _Build, value: str) -> None:
    build.documents.setdefault("ulimits", []).append(read_ulimit(value))


def _put_dockerfile(build: _Build, value: str) -> None:
    """Store the path of the Dockerfile as it is written. CommandError for `-`, for which the docker
    client sends a random name.
    """
    if value == "-":
        raise CommandError(
            "a Dockerfile from standard input (`-`) is not supported, since docker sends it under "
            "a random name: name a file"
        )
    build.dockerfile = value


def _sent_dockerfile(path: str, context: str) -> str:
    """Return the path of a Dockerfile as docker's client sends it for a build of `context`:
    relative to that folder, where `path` is relative to the current one. Links are not followed.

    For a git repository the path is relative to its root, and for an archive (`-` or a URL) it is
    sent as it is. CommandError if the path is not in the context, or if that cannot be known.
    """
    folder = "." if _is_repository(context) else context
    if folder == "-" or folder.startswith(("http://", "https://")):
        return path
    if path.startswith("/") != folder.startswith("/"):
        raise CommandError(
            f"the path of the Dockerfile `{path}` inside `{context}` is unknown: write both paths "
            "absolute, or both relative"
        )
    # The current folder is unknown: names that no path has stand for it and those above it.
    current = "/" + "\0/" * (path.count("..") + folder.count(".."))
    relative = posixpath.relpath(current + path, current + folder)
    if relative.split("/")[0] == "..":
        raise CommandError(
            f"the Dockerfile `{path}` is outside `{context}`, so docker sends it under a random "
            "name: name a file inside"
        )
    return relative


def _is_repository(context: str) -> bool:
    """Return True for the address of a git repository, as docker's client tells them."""
    if context.startswith(("http://", "https://")):
        return context.partition("#")[0].endswith(".git")
    return context.startswith(("git://", "git@", "github.com/"))


def _put_network(build: _Build, value: str) -> None:
    """Set the network mode, unless it is `default`, which docker's client leaves out."""
    if value != "default":
        build.query["networkmode"] = value


def _ignore(_build: _Build, _value: str) -> None:
    """Do nothing: the option has its effect in the client, and the request does not change."""


def _refuse_buildkit(_build: _Build, _value: str) -> None:
    """Raise CommandError: only BuildKit has this option, and it sends more than one request."""
    raise CommandError(f"this is an option of BuildKit, {MANY_REQUESTS}")


VALUES: Final[Options] = {
    "--add-host": _append("extrahosts", read_host),
    "--build-arg": _put_argument,
    "--cache-from": _add_caches,
    "--cgroup-parent": _put("cgroupparent"),
    "--cpu-period": _number("cpuperiod"),
    "--cpu-quota": _number("cpuquota"),
    **dict.fromkeys(("-c", "--cpu-shares"), _number("cpushares")),
    "--cpuset-cpus": _put("cpusetcpus"),
    "--cpuset-mems": _put("cpusetmems"),
    **dict.fromkeys(("-f", "--file"), _put_dockerfile),
    "--iidfile": _ignore,
    "--isolation": _put("isolation"),
    "--label": _put_label,
    **dict.fromkeys(("-m", "--memory"), _number("memory", read_size)),
    "--memory-swap": _number("memswap", read_size),
    "--network": _put_network,
    "--platform": _put("platform", str.lower),
    "--security-opt": _append("securityopt"),
    "--shm-size": _number("shmsize", read_size),
    **dict.fromkeys(("-t", "--tag"), _append("t")),
    "--target": _put("target"),
    "--ulimit": _add_ulimit,
    **dict.fromkeys(
        (
            *("--allow", "--annotation", "--attest", "--build-context", "--builder", "--cache-to"),
            *("--call", "--metadata-file", "--no-cache-filter", "-o", "--output", "--progress"),
            *("--provenance", "--sbom", "--secret", "--ssh"),
        ),
        _refuse_buildkit,
    ),
}
"""The options of `docker build` with a value."""

SWITCHES: Final[Options] = {
    "--compress": _ignore,
    "--disable-content-trust": _ignore,
    "--force-rm": _switch("forcerm"),
    "--no-cache": _switch("nocache"),
    "--pull": _switch("pull"),
    **dict.fromkeys(("-q", "--quiet"), _switch("q")),
    "--rm": _ignore,
    "--squash": _switch("squash"),
    **dict.fromkeys(("--check", "-D", "--debug", "--load", "--push"), _refuse_buildkit),
}
"""Its options without a value."""

_TURNED_OFF: Final[Options] = {"--rm": _switch("rm", "0")}
"""Setters for switches that are on by default, used for `--NAME=false`."""
