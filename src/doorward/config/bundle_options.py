"""`bundles`, `bundle` and `discovery` of the configuration: which bundles come from where."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from doorward.bundles.signatures import Key, Verification
from doorward.config.services import service_name
from doorward.config.yaml_block import Block, ConfigError

__all__ = [
    "BundleOptions",
    "DiscoveryOptions",
    "Polling",
    "Trigger",
    "read_bundles",
    "read_delays",
    "read_discovery",
    "read_trigger",
]

Trigger: TypeAlias = Literal["periodic", "manual"]
SIZE_LIMIT: Final = 1 << 30
"""Bytes of one file of a bundle, unless the configuration says another number."""
MAX_DELAY: Final = 7 * 24 * 3600
MAX_BUNDLES: Final = 1000
"""How many bundles there may be: each is asked for by a thread of its own."""


@dataclass(frozen=True, slots=True)
class Polling:
    """The interval of requests for a bundle, in seconds."""

    min_delay: float = 60.0
    max_delay: float = 120.0
    long_polling: int | None = None
    """Seconds that a server that can do it keeps a request until there is something new."""


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """One bundle. `service` is empty where `resource` is a file (`file://`)."""

    name: str
    service: str = ""
    resource: str = ""
    polling: Polling = Polling()
    trigger: Trigger = "periodic"
    persist: bool = False
    size_limit: int = SIZE_LIMIT
    verification: Verification | None = None

    @property
    def file(self) -> str | None:
        """The path, where the bundle is a file or a folder here."""
        if not self.resource.startswith("file://"):
            return None
        return unquote(urlsplit(self.resource).path)


@dataclass(frozen=True, slots=True)
class DiscoveryOptions:
    """The bundle whose document `decision` is configuration; "" is all of it."""

    bundle: BundleOptions
    decision: str = ""


def read_bundles(
    top: Block, services: Collection[str], keys: Mapping[str, Key], warnings: list[str]
) -> dict[str, BundleOptions]:
    """The bundles by their names; ConfigError for what cannot be meant."""
    if top.values.get("bundle") is not None:
        warnings.append(f"{top.location('bundle')} is an older form of `bundles`")
        if top.values.get("bundles") is not None:
            raise ConfigError(f"{top.location('bundles')}: give either `bundle` or `bundles`")
        return _older_bundle(top.block("bundle"), services, keys, warnings)
    block = top.block("bundles")
    if len(block.values) > MAX_BUNDLES:
        raise ConfigError(f"{top.location('bundles')} must have {MAX_BUNDLES} bundles at most")
    bundles: dict[str, BundleOptions] = {}
    for name in block.values:
        if block.values[name] is None:
            continue
        if not name or ".." in name.split("/") or not name.isprintable():
            raise ConfigError(f"{block.location(name)}: a bundle cannot have this name")
        one = block.block(name)
        warnings += one.unknown(
            ["persist", "polling", "resource", "service", "signing", "size_limit_bytes", "trigger"]
        )
        bundles[name] = _bundle(name, one, services, keys, warnings, default=f"bundles/{name}")
    return bundles


def _older_bundle(
    block: Block, services: Collection[str], keys: Mapping[str, Key], warnings: list[str]
) -> dict[str, BundleOptions]:
    warnings += block.unknown(["name", "polling", "prefix", "service", "trigger"])
    name = block.get("name", str, "")
    if not name:
        raise ConfigError(f"{block.location('name')} must not be empty")
    prefix = block.get("prefix", str, "bundles").strip("/")
    default = f"{prefix}/{name.strip('/')}".strip("/")
    return {name: _bundle(name, block, services, keys, warnings, default=default)}


def _bundle(
    name: str,
    block: Block,
    services: Collection[str],
    keys: Mapping[str, Key],
    warnings: list[str],
    *,
    default: str,
) -> BundleOptions:
    resource = block.get("resource", str, "") or default
    is_file = resource.startswith("file://")
    return BundleOptions(
        name=name,
        service="" if is_file else service_name(block, services),
        resource=resource,
        polling=_polling(block.block("polling"), warnings),
        trigger=read_trigger(block),
        persist=block.get("persist", bool, False),
        size_limit=max(block.get("size_limit_bytes", int, 0), 0) or SIZE_LIMIT,
        verification=_verification(block, keys, warnings),
    )


def read_trigger(block: Block) -> Trigger:
    value = block.get("trigger", str, "periodic")
    if value == "periodic":
        return "periodic"
    if value == "manual":
        return "manual"
    raise ConfigError(
        f'{block.location("trigger")}: invalid trigger mode "{value}" (want "periodic" or "manual")'
    )


def read_delays(block: Block, default: tuple[float, float]) -> tuple[float, float]:
    """`min_delay_seconds` and `max_delay_seconds`, both or neither."""
    lowest = block.values.get("min_delay_seconds")
    highest = block.values.get("max_delay_seconds")
    if lowest is None and highest is None:
        return default
    for key, value in (("min_delay_seconds", lowest), ("max_delay_seconds", highest)):
        if value is None:
            raise ConfigError(f"{block.path}: configuration missing '{key}'")
        if not 0 <= block.get(key, int, 0) <= MAX_DELAY:
            raise ConfigError(f"{block.location(key)} must be from 0 to {MAX_DELAY}")
    delays = block.get("min_delay_seconds", int, 0), block.get("max_delay_seconds", int, 0)
    if delays[1] < delays[0]:
        where = block.location("max_delay_seconds")
        raise ConfigError(f"{where}: max polling delay must be >= min polling delay")
    return float(delays[0]), float(delays[1])


def _polling(block: Block, warnings: list[str]) -> Polling:
    warnings += block.unknown(
        ["long_polling_timeout_seconds", "max_delay_seconds", "min_delay_seconds"]
    )
    lowest, highest = read_delays(block, (60.0, 120.0))
    waits: int | None = None
    if block.values.get("long_polling_timeout_seconds") is not None:
        waits = block.get("long_polling_timeout_seconds", int, 0)
        if not 1 <= waits <= 24 * 3600:
            where = block.location("long_polling_timeout_seconds")
            raise ConfigError(f"{where} must be at least 1, and at most a day")
    return Polling(lowest, highest, waits)


def _verification(
    block: Block, keys: Mapping[str, Key], warnings: list[str]
) -> Verification | None:
    """Return how the bundle is verified. Without `signing` it need not be signed, but a signature
    is verified."""
    if block.values.get("signing") is None:
        return Verification(keys=keys, is_required=False) if keys else None
    signing = block.block("signing")
    warnings += signing.unknown(["exclude_files", "keyid", "scope"])
    name = signing.get("keyid", str, "")
    if name and name not in keys:
        raise ConfigError(f"{signing.location('keyid')}: key id {name} not found")
    if not keys:
        raise ConfigError(f"{block.location('signing')}: there are no `keys` to verify with")
    return Verification(
        scope=signing.get("scope", str, ""),
        exclude=signing.strings("exclude_files"),
        keys=keys,
        key_id=name,
    )


def read_discovery(
    top: Block, services: Collection[str], keys: Mapping[str, Key], warnings: list[str]
) -> DiscoveryOptions | None:
    """`discovery`; ConfigError for what cannot be meant."""
    if top.values.get("discovery") is None:
        return None
    block = top.block("discovery")
    warnings += block.unknown(
        [
            "decision",
            "name",
            "persist",
            "polling",
            "prefix",
            "resource",
            "service",
            "signing",
            "trigger",
        ]
    )
    resource, name = block.get("resource", str, ""), block.get("name", str, "")
    if not resource and not name:
        raise ConfigError(
            f"{block.location('resource')}: missing required discovery.resource field"
        )
    if not block.get("service", str, "") and len(services) != 1 and "file://" not in resource:
        raise ConfigError(f"{block.location('service')}: there is not one service")
    prefix = block.get("prefix", str, "bundles").strip("/")
    default = f"{prefix}/{name.strip('/')}"
    bundle = _bundle("discovery", block, services, keys, warnings, default=default)
    decision = block.get("decision", str, "") or name
    return DiscoveryOptions(bundle, decision.strip("/").replace(".", "/"))
