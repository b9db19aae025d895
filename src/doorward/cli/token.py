"""`doorward token`: a signed token to test policies with."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from doorward.base.os_errors import describe_os_error

__all__ = ["command", "sign"]

_HASHES: Final[dict[str, Callable[..., Any]]] = {
    "HS256": hashlib.sha256,
    "HS384": hashlib.sha384,
    "HS512": hashlib.sha512,
}
_HOUR: Final = 3600


def sign(claims: dict[str, Any], secret: bytes, algorithm: str = "HS256") -> str:
    """Return a compact JWT with these claims, signed by HMAC."""
    header = {"alg": algorithm, "typ": "JWT"}
    signed = ".".join(
        [_encode(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims)]
    )
    digest = hmac.new(secret, signed.encode(), _HASHES[algorithm]).digest()
    return f"{signed}.{_encode(digest)}"


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@click.command(
    "token",
    epilog="""\b
Examples:
  doorward token --secret S --role admin --sub bob
  doorward token --secret-file key --role guest --sub alice --exp +60
  doorward token --secret S --role admin --sub bob --exp -1          # expired
  curl -H "Authorization: Bearer $(doorward token --secret S --role guest --sub alice)" …
""",
)
@click.option("--secret", help="Shared secret; other users can read it in the list of processes.")
@click.option(
    "--secret-file", type=click.Path(), help="File with the shared secret; `-` is standard input."
)
@click.option("--role", help="Value of the `role` claim.")
@click.option("--sub", help="The subject in plain text; the `sub` claim is its base64url form.")
@click.option("--raw-sub", help="Value of the `sub` claim, not encoded; overrides --sub.")
@click.option(
    "--nbf",
    default="+0",
    show_default=True,
    help="`nbf` claim, from when the token is valid: seconds since 1970, or +N or -N "
    "seconds from now.",
)
@click.option(
    "--exp",
    default=f"+{_HOUR}",
    show_default=True,
    help="`exp` claim, until when the token is valid, in the form of --nbf.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="NAME=JSON",
    help="Add a claim, with a JSON value; repeatable.",
)
@click.option(
    "--alg",
    type=click.Choice(sorted(_HASHES)),
    default="HS256",
    show_default=True,
    help="HMAC algorithm.",
)
def command(
    secret: str | None,
    secret_file: str | None,
    role: str | None,
    sub: str | None,
    raw_sub: str | None,
    nbf: str,
    exp: str,
    claims: tuple[str, ...],
    alg: str,
) -> None:
    """Print a signed token (JWT) with the claims that the people policy reads.

    Times are seconds since the epoch, or with a sign, seconds from now. An empty --nbf or --exp
    omits the claim. Without --secret, the secret is read from the environment variable
    DOORWARD_SECRET.
    """
    now = int(time.time())
    content: dict[str, Any] = {}
    for name, text in (("nbf", nbf), ("exp", exp)):
        if text:
            content[name] = _time(name, text, now)
    if role is not None:
        content["role"] = role
    if sub is not None:
        content["sub"] = base64.urlsafe_b64encode(sub.encode()).decode()
    if raw_sub is not None:
        content["sub"] = raw_sub
    for claim in claims:
        name, text = _claim(claim)
        content[name] = text
    click.echo(sign(content, _secret(secret, secret_file), alg))


def _time(name: str, text: str, now: int) -> int:
    """Return seconds since 1970; a text with a sign, such as `+60`, counts from `now`.

    Raise UsageError for anything else.
    """
    try:
        value = int(text)
    except ValueError:
        raise click.UsageError(
            f"--{name}: `{text}` is not a number of seconds: since 1970, or from now with a "
            "sign (+60)"
        ) from None
    return now + value if text[0] in "+-" else value


def _claim(text: str) -> tuple[str, Any]:
    """Return name and value of `NAME=JSON`; a value that is not JSON is a string. UsageError
    without `=`.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--claim `{name}`: expected NAME=JSON")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _secret(key: str | None, file: str | None) -> bytes:
    """Return the signing secret, from --secret, a file, standard input or DOORWARD_SECRET; white
    space around one in a file or standard input is removed. Raise UsageError if there is none, if
    it is empty or if two are given; ClickException for a file that cannot be read.
    """
    if key is not None and file is not None:
        raise click.UsageError("specify --secret or --secret-file but not both")
    if file == "-":
        return _not_empty(sys.stdin.buffer.read().strip(), "standard input")
    if file is not None:
        try:
            with open(file, "rb") as stream:
                return _not_empty(stream.read().strip(), file)
        except OSError as error:
            raise click.ClickException(f"{file}: {describe_os_error(error)}") from None
    if key is None:
        key = os.environ.get("DOORWARD_SECRET")
    if key is None:
        raise click.UsageError("specify --secret or --secret-file, or set DOORWARD_SECRET")
    return _not_empty(key.encode(), "--secret")


def _not_empty(secret: bytes, where: str) -> bytes:
    """Return `secret`; raise UsageError, naming `where`, if it is empty."""
    if not secret:
        raise click.UsageError(f"{where}: the secret is empty")
    return secret
