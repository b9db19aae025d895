"""`status` of the configuration: where the status of a decision point is reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from doorward.config.bundle_options import Trigger, read_trigger
from doorward.config.services import service_name
from doorward.config.yaml_block import Block, ConfigError

__all__ = ["StatusOptions", "read_status"]


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """`status`: where it goes."""

    service: str = ""
    resource: str = "status"
    console: bool = False
    prometheus: bool = False
    buckets: tuple[float, ...] = tuple(float(1000 * 2**n) for n in range(20))
    """Of `bundle_loading_duration_ns`."""
    trigger: Trigger = "periodic"


def read_status(
    top: Block, services: Mapping[str, object], warnings: list[str]
) -> StatusOptions | None:
    """`status`; None where it goes nowhere. ConfigError for what cannot be meant."""
    if top.values.get("status") is None:
        return None
    block = top.block("status")
    warnings += block.unknown(
        [
            "console",
            "partition_name",
            "plugin",
            "prometheus",
            "prometheus_config",
            "service",
            "trigger",
        ]
    )
    if (plugin := block.get("plugin", str, "")) != "":
        raise ConfigError(f'{block.location("plugin")}: invalid plugin name "{plugin}" in status')
    console, prometheus = block.get("console", bool, False), block.get("prometheus", bool, False)
    service = block.get("service", str, "")
    if service or (services and not console and not prometheus):
        service = service_name(block, services)
    elif not console and not prometheus:
        return None
    partition = block.get("partition_name", str, "")
    return StatusOptions(
        service=service,
        resource=f"status/{partition}" if partition else "status",
        console=console,
        prometheus=prometheus,
        buckets=_buckets(block.block("prometheus_config"), warnings),
        trigger=read_trigger(block),
    )


def _buckets(block: Block, warnings: list[str]) -> tuple[float, ...]:
    collectors = block.block("collectors")
    duration = collectors.block("bundle_loading_duration_ns")
    warnings += block.unknown(["collectors"])
    warnings += collectors.unknown(["bundle_loading_duration_ns"])
    warnings += duration.unknown(["buckets"])
    return duration.increasing("buckets") or StatusOptions().buckets
