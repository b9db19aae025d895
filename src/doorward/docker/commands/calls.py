"""A command of `docker` becomes the call of the engine API about which a policy is asked.

    docker run -v /etc:/host alpine   ─▶   POST /containers/create with the body of the command line

Of several calls that a command makes, it is the one that decides it. Commands are a closed table:
another one is refused by name, and one that makes many calls which all decide, such as `compose`,
with the way to read those.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from doorward.base.records import mutable
from doorward.docker.commands.build import MANY_REQUESTS, read_build
from doorward.docker.commands.options import CommandError, Options, read_options
from doorward.docker.commands.run import read_run
from doorward.docker.commands.values import read_time
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.images import parse_image
from doorward.docker.request.input import InputOptions, to_input

__all__ = ["read_docker", "read_docker_command"]

_OF_MANY: Final = ("buildx", "compose", "stack")
"""Commands that make many calls, each of which decides."""
_VERSION: Final = "/v1.47"
"""The version of the API with which a recent command line calls."""
_GROUPS: Final = ("builder", "container", "image", "network", "volume")


class Call(NamedTuple):
    """A request of the engine API: method, path, query, JSON body and the type of an archive."""

    method: str
    path: str
    query: Mapping[str, str | list[str]] = {}
    body: Mapping[str, Any] | None = None
    archive: str = ""
    """The media type of an archive that is sent, of which the plugin is shown nothing."""


def read_docker(text: str, user: str, *, mask_env: bool = False) -> Any:
    """Return the policy's input for a docker command line of `user`, `""` for one without a
    certificate. Links of host paths are not followed.

    Raise CommandError if the command cannot be read, and RequestError for a request that the plugin
    refuses without a policy. `mask_env`: values of environment variables are masked.
    """
    request = read_docker_command(text, user)
    # The host of a reader is not that of the daemon: links of its paths are not followed.
    return to_input(request, InputOptions(mask_env=mask_env), resolve=lambda path: path)


def read_docker_command(text: str, user: str) -> AuthzRequest:
    """Return the request that a docker command line sends, as `user`; `""` is a user without a
    certificate. The first word is skipped, whatever it is.

    Raise CommandError for unknown commands and options, invalid or missing values, commands that
    send several requests, and unclosed quotes.
    """
    try:
        # A shell drops an escaped line break; shlex would put it into the word.
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise CommandError(f"the docker command is not complete: {error}") from None
    # Options of `docker` itself come before the command and are not those of the command.
    words = read_options(words[1:], _GLOBAL, _GLOBAL_SWITCHES, None, "docker")
    if words[:1] and words[0] in _GROUPS and len(words) > 1:
        name, left = f"{words[0]} {words[1]}", words[2:]
    else:
        name, left = " ".join(words[:1]), words[1:]
    read = COMMANDS.get(name)
    if read is None and words[:1] and words[0] in _OF_MANY:
        raise CommandError(f"`docker {words[0]}` is a client program of its own, {MANY_REQUESTS}")
    if read is None:
        known = ", ".join(sorted(each for each in COMMANDS if " " not in each))
        raise CommandError(f"`docker {name}` is not supported here; use one of {known}")
    return _request(read(left, f"docker {name}"), user)


def _request(call: Call, user: str) -> AuthzRequest:
    """Return the request that the docker client sends for a call; `user` has a certificate unless
    it is `""`.
    """
    method, path, query, body, archive = call
    parameters = f"?{urlencode(query, doseq=True)}" if query else ""
    uri = f"{_VERSION}{path}{parameters}"
    headers = {"User-Agent": "Docker-Client"}
    content = None
    if archive:
        headers["Content-Type"] = archive
    elif body is not None:
        content = json.dumps(body).encode("utf-8", "surrogatepass")
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    elif method == "POST":
        headers |= {"Content-Length": "0"}
    return AuthzRequest(method, uri, user, "TLS" if user else "", headers, content)


_NONE: Final[Options] = {}
Reader: TypeAlias = Callable[[Sequence[str], str], Call]


def _create(words: Sequence[str], command: str) -> Call:
    """Return the call that creates a container, of `docker create` and `docker run`; `command` is
    its name in errors. Raise CommandError for unknown options, for invalid values, and if no image
    is named.
    """
    container = read_run(words, command)
    query = {"name": container.name, "platform": container.platform}
    present = {name: value for name, value in query.items() if value}
    return Call("POST", "/containers/create", present, container.body)


@mutable
class _Read:
    """The query and the JSON body of a short `docker` command, which the setters of its options
    fill in.
    """

    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)


def _into_query(name: str, value: str = "") -> Callable[[_Read, str], None]:
    """Return the setter of an option that sets the parameter `name` to `value`, or to the option's
    own value if `value` is empty.
    """

    def put(state: _Read, text: str) -> None:
        state.query[name] = value or text

    return put


def _time_into_query(name: str) -> Callable[[_Read, str], None]:
    """Return the setter of an option with a point in time, which sets the parameter `name`, unless
    the value is empty. It raises CommandError for an invalid time.
    """

    def put(state: _Read, text: str) -> None:
        if text:
            state.query[name] = read_time(text, time.time())

    return put


def _into_body(name: str, *, is_switch: bool = False) -> Callable[[_Read, str], None]:
    """Return a setter that stores an option's text, or True for a switch, in the body's field
    `name`.
    """

    def put(state: _Read, text: str) -> None:
        state.body[name] = True if is_switch else text

    return put


def _item_of_body(name: str) -> Callable[[_Read, str], None]:
    """Return a setter that appends an option's text to the body's array `name`."""

    def put(state: _Read, text: str) -> None:
        state.body[name] = [*(state.body.get(name) or ()), text]

    return put


def _pair_of_body(name: str) -> Callable[[_Read, str], None]:
    """Return a setter that adds `KEY=VALUE` to the body's object `name`; without `=` the value is
    `""`.
    """

    def put(state: _Read, text: str) -> None:
        key, _, value = text.partition("=")
        state.body.setdefault(name, {})[key] = value

    return put


def _ignore(_state: object, _text: str) -> None:
    """Do nothing: the option has its effect in the client, and the request does not change."""


def _about(
    method: str, path: str, values: Options = _NONE, switches: Options = _NONE, query: str = ""
) -> Reader:
    """Return the reader of a command about one object, whose name replaces NAME in `path`. `values`
    and `switches` are its options with and without a value, `query` the parameters that the request
    always has. The reader raises CommandError for invalid options, and unless there is exactly one
    name.
    """

    def read(words: Sequence[str], command: str) -> Call:
        """Return the call of a command about one object. CommandError for invalid options, and
        unless there is exactly one name.
        """
        state = _Read(dict(parse_qsl(query)))
        names = read_options(words, values, switches, state, command)
        if len(names) != 1:
            raise CommandError(
                f"`{command}` must have exactly one name: docker sends a request for each"
            )
        name = quote(names[0], safe="/:@")
        return Call(method, path.replace("NAME", name), state.query)

    return read


def _build(words: Sequence[str], command: str) -> Call:
    return Call("POST", "/build", read_build(words, command), archive="application/x-tar")


def _list(path: str, values: Options, switches: Options) -> Reader:
    """Return the reader of a command that lists objects and takes options only. `path` is that of
    the request; `values` and `switches` are its options with and without a value.
    """

    def read(words: Sequence[str], command: str) -> Call:
        """Return the call of a command that lists objects. CommandError for invalid options, and
        for a name.
        """
        state = _Read()
        if read_options(words, values, switches, state, command):
            raise CommandError(f"`{command}` must not have a name")
        return Call("GET", path, state.query)

    return read


def _exec(words: Sequence[str], command: str) -> Call:
    """Return the call of `docker exec`; raise CommandError for invalid options, and unless a
    container and a command follow them.
    """
    state = _Read(body={"User": "", "Privileged": False, "Tty": False, "AttachStdin": False})
    state.body |= {"DetachKeys": "", "Env": None, "WorkingDir": "", "Detach": False}
    name, *arguments = read_options(words, _EXEC, _EXEC_SWITCHES, state, command) or [""]
    if not name or not arguments:
        raise CommandError(f"`{command}` needs a container and a command")
    is_attached = not state.body["Detach"]
    state.body |= {"AttachStdout": is_attached, "AttachStderr": is_attached, "Cmd": arguments}
    return Call("POST", f"/containers/{quote(name, safe='')}/exec", {}, state.body)


def _pull(words: Sequence[str], command: str) -> Call:
    """Return the call of `docker pull`; raise CommandError for invalid options, and unless exactly
    one image follows them.
    """
    state = _Read()
    names = read_options(words, _PULL, _PULL_SWITCHES, state, command)
    if len(names) != 1:
        raise CommandError(
            f"`{command}` must have exactly one name: docker sends a request for each"
        )
    image = parse_image(names[0])
    tag = image["digest"] or image["tag"]
    query = {"fromImage": image["name"] or names[0], "tag": tag, **state.query}
    return Call("POST", "/images/create", query)


def _create_volume(words: Sequence[str], command: str) -> Call:
    """Return the call of `docker volume create`; raise CommandError for invalid options, and for
    more than one name.
    """
    state = _Read(body={"Driver": "local"})
    names = read_options(words, _VOLUME, {}, state, command)
    if len(names) > 1:
        raise CommandError(f"`{command}` takes at most one name")
    return Call("POST", "/volumes/create", {}, state.body | ({"Name": names[0]} if names else {}))


_GLOBAL: Final[Options] = dict.fromkeys(
    (
        *("-c", "--context", "-H", "--host", "--config", "-l", "--log-level"),
        *("--tlscacert", "--tlscert", "--tlskey"),
    ),
    _ignore,
)
_GLOBAL_SWITCHES: Final[Options] = dict.fromkeys(("-D", "--debug", "--tls", "--tlsverify"), _ignore)
_EXEC: Final[Options] = {
    **dict.fromkeys(("-e", "--env"), _item_of_body("Env")),
    **dict.fromkeys(("-u", "--user"), _into_body("User")),
    **dict.fromkeys(("-w", "--workdir"), _into_body("WorkingDir")),
    "--detach-keys": _into_body("DetachKeys"),
}
_EXEC_SWITCHES: Final[Options] = {
    **dict.fromkeys(("-d", "--detach"), _into_body("Detach", is_switch=True)),
    **dict.fromkeys(("-i", "--interactive"), _into_body("AttachStdin", is_switch=True)),
    **dict.fromkeys(("-t", "--tty"), _into_body("Tty", is_switch=True)),
    "--privileged": _into_body("Privileged", is_switch=True),
}
_PULL: Final[Options] = {"--platform": _into_query("platform")}
_PULL_SWITCHES: Final[Options] = dict.fromkeys(
    ("-q", "--quiet", "--disable-content-trust"), _ignore
)
_VOLUME: Final[Options] = {
    **dict.fromkeys(("-d", "--driver"), _into_body("Driver")),
    **dict.fromkeys(("-o", "--opt"), _pair_of_body("DriverOpts")),
    "--label": _pair_of_body("Labels"),
    "--name": _into_body("Name"),
}
_STOP: Final[Options] = {
    **dict.fromkeys(("-t", "--time", "--timeout"), _into_query("t")),
    **dict.fromkeys(("-s", "--signal"), _into_query("signal")),
}
_KILL: Final[Options] = dict.fromkeys(("-s", "--signal"), _into_query("signal"))
_REMOVE: Final[Options] = {
    **dict.fromkeys(("-f", "--force"), _into_query("force", "1")),
    **dict.fromkeys(("-v", "--volumes"), _into_query("v", "1")),
    **dict.fromkeys(("-l", "--link"), _into_query("link", "1")),
}
_LISTED: Final[Options] = {"--format": _ignore}
_LIST_SWITCHES: Final[Options] = {
    **dict.fromkeys(("-a", "--all"), _into_query("all", "1")),
    **dict.fromkeys(("-q", "--quiet", "--no-trunc", "--digests"), _ignore),
}
_LOGS: Final[Options] = {
    **dict.fromkeys(("-n", "--tail"), _into_query("tail")),
    "--since": _time_into_query("since"),
    "--until": _time_into_query("until"),
}
_LOGS_QUERY: Final = "stdout=1&stderr=1&tail=all"
_LOGS_SWITCHES: Final[Options] = {
    **dict.fromkeys(("-f", "--follow"), _into_query("follow", "1")),
    **dict.fromkeys(("-t", "--timestamps"), _into_query("timestamps", "1")),
    "--details": _into_query("details", "1"),
}

_SHORT: Final[Mapping[str, Reader]] = {
    "create": _create,
    "exec": _exec,
    "inspect": _about("GET", "/containers/NAME/json"),
    "kill": _about("POST", "/containers/NAME/kill", _KILL),
    "logs": _about("GET", "/containers/NAME/logs", _LOGS, _LOGS_SWITCHES, _LOGS_QUERY),
    "ps": _list("/containers/json", _LISTED, _LIST_SWITCHES),
    "restart": _about("POST", "/containers/NAME/restart", _STOP),
    "rm": _about("DELETE", "/containers/NAME", {}, _REMOVE),
    "run": _create,
    "start": _about("POST", "/containers/NAME/start"),
    "stop": _about("POST", "/containers/NAME/stop", _STOP),
}
COMMANDS: Final[Mapping[str, Reader]] = {
    **_SHORT,
    **{f"container {name}": reader for name, reader in _SHORT.items()},
    "container ls": _SHORT["ps"],
    **dict.fromkeys(("images", "image ls"), _list("/images/json", _LISTED, _LIST_SWITCHES)),
    **dict.fromkeys(("build", "builder build", "image build"), _build),
    **dict.fromkeys(("pull", "image pull"), _pull),
    **dict.fromkeys(("rmi", "image rm"), _about("DELETE", "/images/NAME", {}, _REMOVE)),
    "volume create": _create_volume,
    "volume rm": _about("DELETE", "/volumes/NAME", {}, _REMOVE),
    "network rm": _about("DELETE", "/networks/NAME"),
}
"""The reader of each command."""
