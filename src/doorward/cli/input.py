"""`doorward input`: a captured request becomes the `input` that a policy would be asked with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from doorward.rego.builtins.go_json import indent, marshal

__all__ = ["command"]

_MAX_BYTES: Final = 64 << 20


@click.group(
    "input",
    epilog="""\b
Examples:
  doorward input envoy check-request.json | doorward eval -I --why -d policy.rego data.envoy.authz
  doorward input docker authz-request.json > tests/input.json
""",
)
def command() -> None:
    """Turn captured requests into inputs, for `eval` and for tests."""


@command.command("envoy")
@click.argument("file")
@click.option("--strict", is_flag=True, help="Refuse what strict mode refuses.")
@click.option("--api", type=click.Choice(["v3", "v2"]), default="v3", show_default=True)
@click.option("--proto-descriptor", default="", metavar="FILE", help="To read gRPC bodies with.")
@click.option("--skip-request-body-parse", is_flag=True, help="As the option of that name.")
def from_envoy(
    file: str, strict: bool, api: str, proto_descriptor: str, skip_request_body_parse: bool
) -> int:
    """The input of a CheckRequest in FILE (`-` for standard input), as JSON or protobuf."""
    # The adapters are brought in by the command that needs them: each has a library of its own.
    from doorward.envoy.descriptors import load_services
    from doorward.envoy.errors import RequestError
    from doorward.envoy.options import Options
    from doorward.envoy.requests import to_input

    options = Options(strict=strict, skip_request_body_parse=skip_request_body_parse)
    content = _read(file)
    try:
        services = load_services(proto_descriptor) if proto_descriptor else None
        request = _serialized(content, api) if content.lstrip()[:1] == b"{" else content
        found: Any = to_input(request, options, services, "v2" if api == "v2" else "v3")
    except (RequestError, ValueError, OSError) as error:
        click.echo(f"{file}: {error}", err=True)
        return 1
    click.echo(indent(marshal(found), "", "  "))
    return 0


def _serialized(content: bytes, api: str) -> bytes:
    """A CheckRequest written as JSON, as bytes of protobuf. ValueError if it is none."""
    from envoy.service.auth.v2 import external_auth_pb2 as auth_v2
    from envoy.service.auth.v3 import external_auth_pb2 as auth_v3
    from google.protobuf import json_format

    message = auth_v2.CheckRequest() if api == "v2" else auth_v3.CheckRequest()
    try:
        parsed = json_format.Parse(content, message)
    except json_format.ParseError as error:
        raise ValueError(f"no CheckRequest: {error}") from None
    return bytes(parsed.SerializeToString())


@command.command("docker")
@click.argument("file")
@click.option("-n", "--number", type=click.IntRange(1), help="Only the request of this number.")
@click.option("--mask-env", is_flag=True, help="Keep values of Env from the policy.")
def from_docker(file: str, number: int | None, mask_env: bool) -> int:
    """The inputs of the requests in FILE: an AuthZReq, a recording of calls, or an audit log.

    Of several requests each input stands on a line of its own.
    """
    from doorward.docker.errors import RequestError
    from doorward.docker.inputs import InputOptions, to_input
    from doorward.docker.replay import ReplayError, read_requests
    from doorward.docker.requests import parse_request

    options = InputOptions(mask_env=mask_env)
    found: list[Any] = []
    try:
        for past in read_requests([Path(file)]):
            raw = past.raw or b""
            found.append(past.input or to_input(parse_request(raw), options))
    except (ReplayError, RequestError) as error:
        click.echo(str(error), err=True)
        return 1
    if number is not None:
        found = found[number - 1 : number]
    if not found:
        click.echo(f"{file}: no such request", err=True)
        return 1
    if len(found) == 1:
        click.echo(indent(marshal(found[0]), "", "  "))
    else:
        click.echo("\n".join(map(marshal, found)))
    return 0


def _read(file: str) -> bytes:
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with open(file, "rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        what = (error.strerror or "failed").lower()
        raise click.ClickException(f"open {file}: {what}") from None
    if len(content) > _MAX_BYTES:
        raise click.ClickException(f"{file}: larger than {_MAX_BYTES} bytes")
    return content
