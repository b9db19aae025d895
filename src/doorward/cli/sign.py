"""`doorward sign`: the `.signatures.json` of a bundle, as `opa sign` makes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import click

from doorward.base.os_errors import io_message
from doorward.bundles.bundle import signed_files
from doorward.bundles.loader import LoadError, read_file
from doorward.bundles.signatures import SignatureError
from doorward.bundles.signing import sign
from doorward.cli.arguments import argument
from doorward.rego.golang import JSONError, read_json

__all__ = ["command", "read_claims", "read_key"]

_FILE: Final = ".signatures.json"
_MAX_BYTES: Final = 1 << 20
"""The largest file with a key or with claims, in bytes."""


@click.command(
    "sign",
    epilog="""\b
Examples:
  doorward sign --signing-key private.pem -b bundle/
  doorward sign --signing-key secret --signing-alg HS256 -b bundle.tar.gz -o bundle/
""",
)
@argument("paths", nargs=-1, help="Bundle to sign: a folder.")
@click.option(
    "--signing-key",
    metavar="KEY",
    help="Sign with this key: a secret, or a PEM file with a private key.",
)
@click.option(
    "--signing-alg",
    default="RS256",
    show_default=True,
    metavar="NAME",
    help="Algorithm of the signature.",
)
@click.option(
    "--claims-file",
    metavar="FILE",
    help="JSON file with claims to add to the signature, such as scope.",
)
@click.option("--signing-plugin", hidden=True, help="Refused: signing plugins are not supported.")
@click.option("-b", "--bundle", is_flag=True, help="Read PATHS as bundles: folders or .tar.gz.")
@click.option(
    "-o",
    "--output-file-path",
    default=".",
    show_default=True,
    help="Folder in which to write the file .signatures.json.",
)
def command(
    paths: tuple[str, ...],
    signing_key: str | None,
    signing_alg: str,
    claims_file: str | None,
    signing_plugin: str | None,
    bundle: bool,
    output_file_path: str,
) -> int:
    """Write the signatures of a bundle into .signatures.json.

    The file lists every file with its hash. `doorward run --bundle --verification-key KEY`
    verifies it.
    """
    if not paths:
        raise click.UsageError("specify atleast one path containing policy and/or data files")
    if signing_key is None:
        raise click.UsageError(
            "specify the secret (HMAC) or path of the PEM file containing the private key "
            "(RSA and ECDSA)"
        )
    if not bundle:
        raise click.UsageError(
            "enable bundle mode (ie. --bundle) to sign bundle files or directories"
        )
    try:
        if signing_plugin is not None:
            raise SignatureError(f"no signer exists under id {signing_plugin}")
        files = [file for path in paths for file in signed_files(path)]
        key = read_key(signing_key)
        signatures = sign(files, key, signing_alg, read_claims(claims_file))
        _write(os.path.join(output_file_path, _FILE), signatures)
    except (LoadError, SignatureError, JSONError) as error:
        message = error.messages[0] if isinstance(error, LoadError) else str(error)
        click.echo(f"error: {message}")
        return 1
    return 0


def read_key(key_or_file: str) -> str:
    """Return the key: the content of the file if `key_or_file` names one, else the text itself.

    Raise LoadError if the file cannot be read or exceeds `_MAX_BYTES`. Bytes that are not UTF-8 are
    replaced.
    """
    if not os.path.isfile(key_or_file):
        return key_or_file
    return read_file(key_or_file, _MAX_BYTES).decode(errors="replace")


def read_claims(path: str | None) -> Mapping[str, Any]:
    """Return the claims in a JSON file, sorted by name; {} without a path.

    Raise LoadError or JSONError if the file cannot be read, exceeds `_MAX_BYTES` or is not an
    object.
    """
    if path is None:
        return {}
    claims = read_json(read_file(path, _MAX_BYTES))
    if not isinstance(claims, dict):
        raise LoadError([f"{path}: claims must be an object"])
    return {str(name): claims[name] for name in sorted(claims, key=str)}


def _write(path: str, content: bytes) -> None:
    """Write a file; raise LoadError if that fails."""
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise LoadError([io_message("open", path, error)]) from None
