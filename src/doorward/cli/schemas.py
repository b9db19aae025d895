"""The option `--schema`: a JSON schema of the input, or a folder of schemas by name."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from doorward.base.os_errors import io_message
from doorward.bundles.loader import LoadError, read_document
from doorward.rego import to_python

__all__ = ["Schemas", "option", "read_schemas"]

Schemas = dict[tuple[str, ...], Any]
"""Schemas by name: `schema.a.b` under ("a", "b"), the schema of all input under ()."""

MAX_SCHEMA: Final = 16 << 20
MAX_FILES: Final = 10_000


option: Final = click.option(
    "-s",
    "--schema",
    metavar="PATH",
    help="Check types against this JSON schema of the input, or against a folder of "
    "schemas, which policies refer to by file name.",
)
"""The option of every command that checks types."""


def read_schemas(path: str | None) -> Schemas | None:
    """Return the schemas at `path`: one of all input, or those of all files below a folder, by file
    path without extension; None for None. Links to folders are not followed, and folders that
    cannot be read are skipped. Raise LoadError if a file cannot be read or there are too many.
    """
    if path is None:
        return None
    path = path.removeprefix("file://")
    if not os.path.isdir(path):
        return {(): _schema(path)}
    from pathlib import PurePosixPath

    schemas: Schemas = {}
    for folder, _, names in os.walk(path):
        for name in names:
            if len(schemas) >= MAX_FILES:
                raise LoadError([f"{path}: more than {MAX_FILES} schemas"])
            file = os.path.join(folder, name)
            below = PurePosixPath(os.path.relpath(file, path)).with_suffix("")
            schemas[below.parts] = _schema(file)
    return schemas


def _schema(path: str) -> Any:
    """Return one JSON schema; raise LoadError if it is missing, unreadable, malformed or too
    large.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCHEMA + 1)
    except FileNotFoundError as error:
        raise LoadError([io_message("stat", path, error)]) from None
    except OSError as error:
        raise LoadError([io_message("open", path, error)]) from None
    if len(content) > MAX_SCHEMA:
        raise LoadError([f"{path}: larger than {MAX_SCHEMA} bytes"])
    return to_python(read_document(path, content))
