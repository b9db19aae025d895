"""Where decision logs go besides the console: a service, a file, a spool on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from doorward.config.bundle_options import Trigger, read_delays, read_trigger
from doorward.config.services import service_name
from doorward.config.yaml_block import Block, ConfigError

__all__ = ["FileOptions", "UploadOptions", "read_file", "read_upload"]

Protocol: TypeAlias = Literal["opa", "otlp", "s3"]
_RESOURCES: Final[Mapping[Protocol, str]] = {"opa": "logs", "otlp": "v1/logs", "s3": "logs"}
SMALLEST: Final = 90
LARGEST: Final = 4 << 30
"""Bytes of a chunk: less holds no event, more is nobody's intent."""


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """`decision_logs.service` and `decision_logs.reporting`."""

    service: str
    resource: str = "logs"
    protocol: Protocol = "opa"
    """How the service takes chunks (not OPA's): as OPA sends them, as log records of OpenTelemetry,
    or as objects of S3."""
    buffer_type: Literal["size", "event"] = "size"
    buffer_bytes: int = 64 << 20
    """Of compressed chunks that wait to be sent."""
    buffer_events: int = 10_000
    """With the buffer type `event`: events that wait to be sent."""
    chunk_bytes: int = 32_768
    """`upload_size_limit_bytes`: of one request, compressed."""
    min_delay: float = 300.0
    max_delay: float = 600.0
    rate: float | None = None
    """`max_decisions_per_second`; None: all are sent."""
    trigger: Trigger | Literal["immediate"] = "periodic"
    spool: str = ""
    """A folder in which what waits survives the process; "" keeps it in memory."""
    spool_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class FileOptions:
    """`decision_logs.file`: one event a line, with rotation."""

    path: str
    max_bytes: int = 100 << 20
    keep: int = 5
    """Older files that are kept, as `path.1`, `path.2`, …"""


def read_upload(
    block: Block, services: Mapping[str, object], warnings: list[str]
) -> UploadOptions | None:
    """Read where `decision_logs` sends events; None: nowhere."""
    if (plugin := block.get("plugin", str, "")) != "":
        raise ConfigError(
            f'{block.location("plugin")}: invalid plugin name "{plugin}" in decision_logs'
        )
    reporting, spool = block.block("reporting"), block.block("spool")
    trigger = _trigger(reporting)
    is_elsewhere = block.get("console", bool, False) or block.values.get("file") is not None
    if not block.get("service", str, "") and (not services or is_elsewhere):
        return None
    warnings += spool.unknown(["directory", "max_bytes"])
    kind = _buffer_type(reporting)
    lowest, highest = read_delays(reporting, (300.0, 600.0))
    partition = block.get("partition_name", str, "")
    protocol = _protocol(block)
    resource = block.get("resource", str, "") or _RESOURCES[protocol]
    rate = reporting.get("max_decisions_per_second", float, 0.0)
    if rate < 0:
        raise ConfigError(f"{reporting.location('max_decisions_per_second')} must not be below 0")
    default = UploadOptions("")
    return UploadOptions(
        service=service_name(block, services),
        resource=f"logs/{partition}" if partition else resource,
        protocol=protocol,
        buffer_type=kind,
        buffer_bytes=_positive(reporting, "buffer_size_limit_bytes", default.buffer_bytes),
        buffer_events=_positive(reporting, "buffer_size_limit_events", default.buffer_events),
        chunk_bytes=_chunk_bytes(reporting, warnings),
        min_delay=lowest,
        max_delay=highest,
        rate=rate or None,
        trigger=trigger,
        spool=spool.get("directory", str, ""),
        spool_bytes=_positive(spool, "max_bytes", default.spool_bytes),
    )


def _protocol(block: Block) -> Protocol:
    value = block.get("protocol", str, "") or "opa"
    for known in _RESOURCES:
        if value == known:
            return known
    raise ConfigError(f"{block.location('protocol')} must be `opa`, `otlp` or `s3`, not `{value}`")


def _trigger(block: Block) -> Trigger | Literal["immediate"]:
    if block.get("trigger", str, "periodic") == "immediate":
        return "immediate"
    return read_trigger(block)


def _buffer_type(block: Block) -> Literal["size", "event"]:
    """The type; as in OPA, limits of the other type and two bounds at once are errors."""
    kind = block.get("buffer_type", str, "") or "size"
    if kind not in ("size", "event"):
        where = block.location("buffer_type")
        raise ConfigError(f'{where}: invalid buffer type "{kind}", expected "event" or "size"')
    other = "buffer_size_limit_bytes" if kind == "event" else "buffer_size_limit_events"
    if block.values.get(other) is not None:
        raise ConfigError(f"{block.location(other)} is not supported for the {kind} buffer type")
    both = ("buffer_size_limit_bytes", "max_decisions_per_second")
    if all(block.values.get(name) is not None for name in both):
        raise ConfigError(f"{block.path}: specify either '{both[0]}' or '{both[1]}'")
    return "event" if kind == "event" else "size"


def _chunk_bytes(block: Block, warnings: list[str]) -> int:
    given = block.get("upload_size_limit_bytes", int, UploadOptions("").chunk_bytes)
    used = min(max(given, SMALLEST), LARGEST)
    if used != given:
        where = block.location("upload_size_limit_bytes")
        warnings.append(f"{where}: {given} is out of bounds, {used} is used")
    return used


def _positive(block: Block, key: str, default: int) -> int:
    value = block.get(key, int, default)
    if value <= 0:
        raise ConfigError(f"{block.location(key)} must be higher than 0 but is {value}")
    return value


def read_file(block: Block, warnings: list[str]) -> FileOptions | None:
    """`decision_logs.file`; None: no file."""
    if block.values.get("file") is None:
        return None
    file = block.block("file")
    warnings += file.unknown(["keep", "max_bytes", "path"])
    path = file.get("path", str, "")
    if not path:
        raise ConfigError(f"{file.location('path')} must be the path of a file")
    keep = file.get("keep", int, FileOptions("").keep)
    if not 0 <= keep <= 1000:
        raise ConfigError(f"{file.location('keep')} must be from 0 to 1000 but is {keep}")
    return FileOptions(path, _positive(file, "max_bytes", FileOptions("").max_bytes), keep)
