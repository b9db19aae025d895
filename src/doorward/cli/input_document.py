"""The input of `doorward eval`: a JSON or YAML document, or what a captured request becomes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from doorward.base.collector import gc_paused
from doorward.base.os_errors import io_message
from doorward.bundles.loader import LoadError, read_document, read_file
from doorward.rego import UNDEFINED, Undefined, Value
from doorward.rego.golang import JSONError, read_json

__all__ = ["docker_command_input", "docker_inputs", "envoy_input", "read_input"]

MAX_INPUT: Final = 512 << 20
"""The most bytes of an input."""


def read_input(paths: Sequence[str], *, stdin: bool, request: str | None = None) -> Any:
    """Return the input: a document, or with `request` (`envoy` or `docker`) that of a captured
    request. Of several paths the last counts.

    UNDEFINED without --input and standard input. Raise LoadError if it cannot be read or exceeds
    `MAX_INPUT` bytes, UsageError for contradicting options and for `request` without an input.
    """
    if stdin and paths:
        raise click.UsageError("specify --stdin-input or --input but not both")
    path = paths[-1].removeprefix("file://") if paths else ""
    if request == "docker":
        return _docker_input(path)
    if not stdin and not path:
        if request:
            raise click.UsageError("--request needs --input or --stdin-input")
        return UNDEFINED
    content = _read_stdin() if stdin else read_file(path, MAX_INPUT)
    return envoy_input(content) if request else _parse(content)


def _read_stdin() -> bytes:
    """Return the standard input; raise LoadError if it is longer than `MAX_INPUT` bytes: the
    beginning of a YAML document is a document, too.
    """
    content = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(content) > MAX_INPUT:
        raise LoadError([f"stdin: larger than {MAX_INPUT} bytes"])
    return content


def _parse(content: bytes) -> Value | Undefined:
    """Return the document in a JSON text, else in YAML; raise LoadError if it is neither."""
    try:
        with gc_paused():
            return read_json(content)
    except JSONError:
        pass
    try:
        return read_document("input", content)
    except LoadError as error:
        reason = error.messages[0].removeprefix("input: ")
        raise LoadError([f"unable to parse input: {reason}"]) from None


# The adapters are imported where there is a request: each needs a library of its own.


def envoy_input(
    content: bytes,
    *,
    strict: bool = False,
    api: str = "v3",
    proto_descriptor: str = "",
    skip_request_body_parse: bool = False,
) -> Any:
    """Return the policy's input for a CheckRequest, JSON or protobuf.

    Raise LoadError if the request is malformed, the sidecar would refuse it or the descriptor set
    cannot be read. The options are those of the sidecar.
    """
    from doorward.enforcement.errors import RequestError
    from doorward.envoy.options import Options
    from doorward.envoy.request.descriptors import load_services
    from doorward.envoy.request.input import MalformedRequestError, to_input

    options = Options(strict=strict, skip_request_body_parse=skip_request_body_parse)
    try:
        services = load_services(proto_descriptor) if proto_descriptor else None
        request = _serialize(content, api) if content.lstrip()[:1] == b"{" else content
        return to_input(request, options, services, "v2" if api == "v2" else "v3")
    except OSError as error:
        raise LoadError([io_message("open", proto_descriptor, error)]) from None
    except MalformedRequestError as error:
        problem = f"the input is not a CheckRequest of Envoy, in JSON or protobuf: {error}"
        raise LoadError([problem]) from None
    except (RequestError, ValueError) as error:
        raise LoadError([str(error)]) from None


def _serialize(content: bytes, api: str) -> bytes:
    """Return a CheckRequest in JSON as protobuf bytes; raise ValueError if it is not one."""
    from envoy.service.auth.v2 import external_auth_pb2 as auth_v2
    from envoy.service.auth.v3 import external_auth_pb2 as auth_v3
    from google.protobuf import json_format

    message = auth_v2.CheckRequest() if api == "v2" else auth_v3.CheckRequest()
    try:
        parsed = json_format.Parse(content, message)
    except json_format.ParseError as error:
        raise ValueError(f"the input is not a CheckRequest of Envoy in JSON: {error}") from None
    return bytes(parsed.SerializeToString())


def docker_inputs(path: str, *, mask_env: bool = False) -> list[Any]:
    """Return the inputs of all requests in an AuthZReq, a recording of calls or an audit log.

    Raise LoadError if the file is none of these or a request is malformed. `mask_env`: values of
    environment variables are masked.
    """
    from pathlib import Path

    from doorward.docker.replay import ReplayError, read_requests
    from doorward.docker.request.call import parse_request
    from doorward.docker.request.errors import RequestError
    from doorward.docker.request.input import InputOptions, to_input

    options = InputOptions(mask_env=mask_env)
    try:
        return [
            past.input or to_input(parse_request(past.raw or b""), options)
            for past in read_requests([Path(path)])
        ]
    except (ReplayError, RequestError) as error:
        raise LoadError([str(error)]) from None


def docker_command_input(text: str, *, user: str = "", mask_env: bool = False) -> Any:
    """Return the input of the request that a Docker command makes; no daemon is asked.

    Raise LoadError if the command makes no single request, or one that is denied without a policy.
    """
    from doorward.docker.commands.calls import read_docker
    from doorward.docker.commands.options import CommandError
    from doorward.docker.request.errors import RequestError

    try:
        return read_docker(text, user, mask_env=mask_env)
    except CommandError as error:
        raise LoadError([str(error)]) from None
    except RequestError as error:
        raise LoadError([f"the plugin denies this request without a policy: {error}"]) from None


def _docker_input(path: str) -> Any:
    """Return the input of the only Docker request in a file; raise LoadError if there are more or
    none, UsageError without a path.
    """
    if not path:
        raise click.UsageError("--request docker needs --input")
    documents = docker_inputs(path)
    if len(documents) != 1:
        raise LoadError(
            [
                f"{path}: the file has {len(documents)} requests: take one with "
                "`doorward input docker -n`"
            ]
        )
    return documents[0]
