"""`status` of the configuration: where the status of a decision point is reported."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from doorward.base.records import record
from doorward.config.blocks import Block, ConfigError
from doorward.config.bundle_options import TRIGGER, Trigger
from doorward.config.schema import INCREASING, SWITCH, TEXT, option
from doorward.config.services import find_service

__all__ = ["StatusOptions"]

_BUCKETS = tuple(float(1000 * 2**n) for n in range(20))


@record
class StatusOptions:
    """`status`: the destinations of status reports."""

    service: str = option(
        "service",
        TEXT,
        "",
        "the service to which the status is sent; by default the first one, if neither `console` "
        "nor `prometheus` is set",
    )
    partition: str = option("partition_name", TEXT, "", "the status is sent to `status/NAME`")
    console: bool = option("console", SWITCH, False, "write the status to the log")
    prometheus: bool = option(
        "prometheus", SWITCH, False, "show the state of bundles in `/metrics`"
    )
    buckets: tuple[float, ...] = option(
        "prometheus_config.collectors.bundle_loading_duration_ns.buckets",
        INCREASING,
        _BUCKETS,
        "buckets of the histogram `bundle_loading_duration_ns`, in nanoseconds",
    )
    trigger: Trigger = option(
        "trigger", TRIGGER, "periodic", "`manual`: the status is sent only on request"
    )
    plugin: str = option("plugin", TEXT, "", "not supported, as there are no third-party plugins")

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if `plugin` is set: a plugin that receives the status is not
        supported.
        """
        if plugin := block.get("plugin", str, ""):
            raise ConfigError(
                f'{block.location("plugin")}: invalid plugin name "{plugin}" in status: '
                "plugins are not supported, remove this option"
            )

    @property
    def resource(self) -> str:
        """The path below the service's URL: `status` or `status/PARTITION`."""
        return f"status/{self.partition}" if self.partition else "status"

    def with_service(self, block: Block, services: Collection[str]) -> StatusOptions | None:
        """Return the options with their service; None if the status has no destination. The first
        service is used by default, unless the console or Prometheus is one. Raise ConfigError for a
        service that does not exist.
        """
        is_here = self.console or self.prometheus
        if self.service or (services and not is_here):
            return replace(self, service=find_service(block, self.service, services))
        return self if is_here else None
