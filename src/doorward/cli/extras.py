"""One line instead of a traceback where an extra is not installed.

Commands import what they need when they are called; a module of an extra that is not there is
named here with the extra that brings it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["EXTRAS", "missing_extra"]

EXTRAS: Final = {
    "anyio": "server",
    "asgiref": "django",
    "django": "django",
    "duckdb": "duckdb",
    "envoy": "server",
    "fastapi": "fastapi",
    "fastmcp": "mcp",
    "flask": "flask",
    "google": "server",
    "grpc": "server",
    "grpc_health": "server",
    "grpc_reflection": "server",
    "httptools": "server",
    "jsonschema": "mcp",
    "lsprotocol": "lsp",
    "mcp": "mcp",
    "opentelemetry": "otel",
    "orjson": "server",
    "prometheus_client": "server",
    "pydantic": "mcp",
    "pydantic_core": "mcp",
    "pygls": "lsp",
    "ray": "ray",
    "rest_framework": "django-rest",
    "sqlalchemy": "sqlalchemy",
    "starlette": "server",
    "uvloop": "speed",
}
"""The extra that installs each module."""

_COMMANDS: Final = {"docker": "docker"}


def missing_extra(error: ImportError, arguments: Sequence[str]) -> str:
    """Return the error text that names the extra to install after an ImportError; "" if no extra
    helps.
    """
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return ""
    words = [word for word in arguments if not word.startswith("-")]
    extra = _COMMANDS.get(words[0] if words else "", EXTRAS[module])
    return (
        f"`doorward {words[0] if words else ''}` needs the extra `{extra}` ({module} is not "
        f"installed): pip install 'doorward[{extra}]'"
    )
