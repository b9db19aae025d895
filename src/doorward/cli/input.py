"""`doorward input`: a captured request, or a command, becomes the `input` of a policy."""

from __future__ import annotations

import shlex
import sys
from typing import Final

import click

from doorward.base.counting import counted
from doorward.base.os_errors import describe_os_error
from doorward.bundles.loader import LoadError
from doorward.cli.arguments import argument
from doorward.cli.go_flags import CommandOfProgram
from doorward.cli.input_document import docker_command_input, docker_inputs, envoy_input
from doorward.rego.golang import indent, marshal

__all__ = ["command"]

_MAX_BYTES: Final = 64 << 20
_PROGRAM: Final = "docker"


@click.group(
    "input",
    epilog="""\b
Examples:
  doorward input envoy check-request.json | doorward eval -I --why -d policy.rego data.envoy.authz
  doorward input docker authz-request.json > tests/input.json
  doorward input docker docker run -v /:/host alpine > tests/mount.json
  doorward eval --why --request envoy -i check-request.json -d policy.rego data.envoy.authz.allow
""",
)
def command() -> None:
    """Convert captured requests, and Docker commands, to inputs, for `eval` and for tests."""


@command.command("envoy")
@argument("file", help="File with a CheckRequest, JSON or protobuf; `-` is standard input.")
@click.option(
    "--strict",
    is_flag=True,
    help="Apply strict mode: refuse requests that the application could read differently from the "
    "policy.",
)
@click.option(
    "--api",
    type=click.Choice(["v3", "v2"]),
    default="v3",
    show_default=True,
    help="Version of Envoy's API that the CheckRequest is of.",
)
@click.option(
    "--proto-descriptor",
    default="",
    metavar="FILE",
    help="File with a protobuf descriptor set, to parse gRPC bodies with.",
)
@click.option(
    "--skip-request-body-parse",
    is_flag=True,
    help="Leave request bodies unparsed, like the Envoy plugin's option of this name.",
)
def from_envoy(
    file: str, strict: bool, api: str, proto_descriptor: str, skip_request_body_parse: bool
) -> int:
    """Print the input of the CheckRequest in FILE, JSON or protobuf; `-` is standard input."""
    try:
        document = envoy_input(
            _read(file),
            strict=strict,
            api=api,
            proto_descriptor=proto_descriptor,
            skip_request_body_parse=skip_request_body_parse,
        )
    except LoadError as error:
        click.echo(f"{file}: {error.messages[0]}", err=True)
        return 1
    click.echo(indent(marshal(document), "", "  "))
    return 0


class _DockerCommand(CommandOfProgram):
    """The command `input docker`, which also takes a command line of `docker`."""

    program = _PROGRAM


@command.command("docker", cls=_DockerCommand)
@argument(
    "requests",
    nargs=-1,
    required=True,
    metavar="FILE|COMMAND",
    help="File with requests of the Docker daemon to a plugin, or a command that begins "
    "with `docker`.",
)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1),
    help="Print only the request with this number, counted from 1.",
)
@click.option(
    "--mask-env",
    is_flag=True,
    help="Hide the values of containers' environment variables (`Env`) in the printed input.",
)
@click.option(
    "-u",
    "--user",
    default="",
    help="Name of the user who runs COMMAND; by default, a user without a name.",
)
def from_docker(requests: tuple[str, ...], number: int | None, mask_env: bool, user: str) -> int:
    """Print the inputs of the requests in FILE: an AuthZReq, a recording of calls, or an audit log.

    If there are several requests, each input is printed on one line.

    With a docker COMMAND, such as `docker run -v /:/host alpine`, print the input of the request
    that decides it. A build is read as the classic builder (DOCKER_BUILDKIT=0) sends it; a command
    that makes many requests, such as `docker compose`, is refused. No daemon is asked.
    """
    is_command = requests[0] == _PROGRAM or requests[0].startswith(f"{_PROGRAM} ")
    if not is_command and len(requests) > 1:
        raise click.UsageError("expected one FILE, or a COMMAND that begins with `docker`")
    try:
        if is_command:
            text = requests[0] if len(requests) == 1 else shlex.join(requests)
            documents = [docker_command_input(text, user=user, mask_env=mask_env)]
        else:
            documents = docker_inputs(requests[0], mask_env=mask_env)
    except LoadError as error:
        click.echo(error.messages[0], err=True)
        return 1
    count = len(documents)
    if number is not None:
        documents = documents[number - 1 : number]
    if not documents:
        missing = "the file has no request to the daemon"
        if count:
            missing = f"there is no request {number}, only {counted(count, 'request')}"
        click.echo(f"{requests[0]}: {missing}", err=True)
        return 1
    if len(documents) == 1:
        click.echo(indent(marshal(documents[0]), "", "  "))
    else:
        click.echo("\n".join(map(marshal, documents)))
    return 0


def _read(file: str) -> bytes:
    """Return the content of a file, or of standard input for `-`.

    Raise ClickException if it is unreadable or longer than the limit.
    """
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with open(file, "rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        reason = describe_os_error(error)
        raise click.ClickException(f"open {file}: {reason}") from None
    if len(content) > _MAX_BYTES:
        raise click.ClickException(f"{file}: the file is larger than {_MAX_BYTES} bytes")
    return content
