"""Destinations of decision logs besides the console: a service, a file, a spool on disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from doorward.base.records import record
from doorward.config.blocks import Block, ConfigError
from doorward.config.bundle_options import Trigger, check_delays
from doorward.config.schema import (
    TEXT,
    Kind,
    choice,
    convert,
    integer,
    nonempty,
    option,
)
from doorward.config.services import find_service

__all__ = ["FileOptions", "UploadOptions"]

Protocol: TypeAlias = Literal["opa", "otlp", "s3"]
UploadTrigger: TypeAlias = Trigger | Literal["immediate"]
BufferType: TypeAlias = Literal["size", "event"]

_RESOURCES: Final[Mapping[str, str]] = {"opa": "logs", "otlp": "v1/logs", "s3": "logs"}
SMALLEST: Final = 90
LARGEST: Final = 4 << 30
"""The largest size of a chunk in bytes; below `SMALLEST` a chunk could not contain an event."""

_OPA: Final[Protocol] = "opa"
_OTLP: Final[Protocol] = "otlp"
_S3: Final[Protocol] = "s3"
_PERIODIC: Final[UploadTrigger] = "periodic"
_MANUAL: Final[UploadTrigger] = "manual"
_IMMEDIATE: Final[UploadTrigger] = "immediate"
_SIZE: Final[BufferType] = "size"
_EVENT: Final[BufferType] = "event"
_DELAY: Final = convert(int, float, "integer", {"type": "integer", "minimum": 0})
_POSITIVE: Final = integer(1)


def _read_chunk_bytes(block: Block, key: str, warnings: list[str]) -> int:
    """Return the largest size of a chunk in bytes. A size out of bounds is replaced by the bound,
    with a warning.
    """
    size = block.get(key, int, 0)
    used = min(max(size, SMALLEST), LARGEST)
    if used != size:
        warnings.append(f"{block.location(key)}: {size} is out of bounds, {used} is used")
    return used


def _rate(value: float) -> float | None:
    """Return the rate; None (unlimited) for 0. Raise ValueError if it is negative."""
    # Not `value < 0`: NaN must not pass.
    if not value >= 0:
        raise ValueError("must be 0 (no limit) or more")
    return value or None


_CHUNK: Final = Kind(
    _read_chunk_bytes, f"integer from {SMALLEST} to {LARGEST}", {"type": "integer"}
)


@record
class UploadOptions:
    """The keys of `decision_logs` for uploads: its service, `reporting` and `spool`."""

    service: str = option(
        "service",
        TEXT,
        "",
        "the service that events are [sent](run.md#events-to-a-service) to; by default the first "
        "one, if neither `console` nor `file` is set",
    )
    service_path: str = option(
        "resource",
        TEXT,
        "",
        "the path below the service's URL; by default `/logs`, for `otlp` `/v1/logs`",
    )
    partition: str = option("partition_name", TEXT, "", "events are sent to `logs/NAME`")
    protocol: Protocol = option(
        "protocol",
        choice(_OPA, _OTLP, _S3, message="must be `opa`, `otlp` or `s3`, not `{value}`"),
        "opa",
        "the format that the service accepts: events as OPA sends them, log records of "
        "[OpenTelemetry, or objects of S3](run.md#collectors-and-buckets)",
        is_opa=False,
    )
    buffer_type: BufferType = option(
        "reporting.buffer_type",
        choice(
            _SIZE, _EVENT, message=': invalid buffer type "{value}", expected "event" or "size"'
        ),
        "size",
        "`size`: events wait in compressed chunks; `event`: they wait one by one",
    )
    buffer_bytes: int = option(
        "reporting.buffer_size_limit_bytes",
        _POSITIVE,
        64 << 20,
        "maximum size of the inputs and results of events that wait to be written, estimated from "
        "the size of the requests; with a service, of the chunks that wait to be sent (OPA: no "
        "limit)",
    )
    buffer_events: int = option(
        "reporting.buffer_size_limit_events",
        _POSITIVE,
        10_000,
        "maximum number of events that wait to be written; with a service and the buffer type "
        "`event`, to be sent",
    )
    chunk_bytes: int = option(
        "reporting.upload_size_limit_bytes",
        _CHUNK,
        32_768,
        "maximum size of an upload, compressed, in bytes",
    )
    min_delay: float = option(
        "reporting.min_delay_seconds",
        _DELAY,
        300.0,
        "minimum number of seconds between two uploads",
    )
    max_delay: float = option(
        "reporting.max_delay_seconds",
        _DELAY,
        600.0,
        "maximum number of seconds between two uploads",
    )
    rate: float | None = option(
        "reporting.max_decisions_per_second",
        convert(float, _rate, "number from 0", {"type": "number", "minimum": 0}),
        None,
        "maximum number of decisions sent per second; further ones are dropped; 0: all are sent",
    )
    trigger: UploadTrigger = option(
        "reporting.trigger",
        choice(
            _PERIODIC,
            _MANUAL,
            _IMMEDIATE,
            message=': invalid trigger mode "{value}" (want "periodic" or "manual")',
        ),
        "periodic",
        "`immediate`: upload as soon as a chunk is full; `manual`: never upload",
    )
    spool: str = option(
        "spool.directory",
        TEXT,
        "",
        "a folder that stores events until the service has them, even if the process ends",
        is_opa=False,
    )
    spool_bytes: int = option(
        "spool.max_bytes", _POSITIVE, 1 << 30, "maximum size of the spool, in bytes", is_opa=False
    )
    plugin: str = option("plugin", TEXT, "", "not supported, as there are no third-party plugins")

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if `plugin` is set: a plugin that receives the events is not
        supported.
        """
        if plugin := block.get("plugin", str, ""):
            raise ConfigError(
                f'{block.location("plugin")}: invalid plugin name "{plugin}" in decision_logs: '
                "plugins are not supported, remove this option"
            )

    @property
    def resource(self) -> str:
        """The path below the service's URL: `logs/PARTITION`, the configured path, or the default
        of the protocol.
        """
        if self.partition:
            return f"logs/{self.partition}"
        return self.service_path or _RESOURCES[self.protocol]

    def with_service(
        self, block: Block, services: Collection[str], *, is_elsewhere: bool
    ) -> UploadOptions | None:
        """Return the options with their service; None if events are not uploaded.

        `is_elsewhere`: events go to a console or a file, so that the first service is not the
        default. Raise ConfigError for a service that does not exist, and for limits that contradict
        each other.
        """
        if not self.service and (not services or is_elsewhere):
            return None
        reporting = block.block("reporting")
        _check_limits(reporting, self.buffer_type)
        check_delays(reporting)
        return replace(self, service=find_service(block, self.service, services))


def _check_limits(block: Block, kind: BufferType) -> None:
    """Raise ConfigError, as OPA does, for a limit of the other buffer type, and if both a size and
    a rate are set.
    """
    other = "buffer_size_limit_bytes" if kind == "event" else "buffer_size_limit_events"
    if block.values.get(other) is not None:
        raise ConfigError(f"{block.location(other)} is not supported for the {kind} buffer type")
    both = ("buffer_size_limit_bytes", "max_decisions_per_second")
    if all(block.values.get(name) is not None for name in both):
        raise ConfigError(f"{block.path}: specify either '{both[0]}' or '{both[1]}'")


@record
class FileOptions:
    """`decision_logs.file`: a file with one event on each line, which is rotated."""

    path: str = option(
        "path",
        nonempty("the path of a file"),
        "",
        "a file to which events are written, one line of JSON each",
        is_opa=False,
    )
    max_bytes: int = option(
        "max_bytes",
        _POSITIVE,
        100 << 20,
        "size in bytes at which the file is renamed to `path.1`, and `path.1` to `path.2`",
        is_opa=False,
    )
    keep: int = option("keep", integer(0, 1000), 5, "number of older files to keep", is_opa=False)

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError without a path."""
        if not block.get("path", str, ""):
            raise ConfigError(f"{block.location('path')} must be the path of a file")
