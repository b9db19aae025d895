"""`bundles`, `bundle` and `discovery` of the configuration: the bundles to download, and their
services.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from doorward.base.records import record
from doorward.base.urls import split_url
from doorward.bundles.signatures import Key, Verification
from doorward.config.blocks import Block, ConfigError
from doorward.config.schema import (
    SWITCH,
    TEXT,
    TEXTS,
    Kind,
    choice,
    convert,
    integer,
    named,
    option,
    optional,
    positive_or,
    section,
)
from doorward.config.services import find_service

__all__ = [
    "BUNDLES",
    "TRIGGER",
    "BundleOptions",
    "DiscoveryBlock",
    "DiscoveryOptions",
    "OlderBundle",
    "Polling",
    "Trigger",
    "check_delays",
    "with_sources",
]

Trigger: TypeAlias = Literal["periodic", "manual"]
SIZE_LIMIT: Final = 1 << 30
"""Bytes of the largest file of a bundle, unless the configuration sets another limit."""
MAX_DELAY: Final = 7 * 24 * 3600
MAX_BUNDLES: Final = 1000
"""The largest number of bundles: each is downloaded by a task of its own."""

_PERIODIC: Final[Trigger] = "periodic"
_MANUAL: Final[Trigger] = "manual"
TRIGGER: Final = choice(
    _PERIODIC,
    _MANUAL,
    message=': invalid trigger mode "{value}" (want "periodic" or "manual")',
)
_DELAY: Final = convert(
    int, float, f"integer from 0 to {MAX_DELAY}", {"type": "integer", "minimum": 0}
)


def check_delays(block: Block) -> None:
    """Raise ConfigError if only one of `min_delay_seconds` and `max_delay_seconds` is set in the
    block, one is not an integer from 0 to `MAX_DELAY`, or the maximum is below the minimum. It is
    valid that both are absent or null.
    """
    keys = ("min_delay_seconds", "max_delay_seconds")
    if all(block.values.get(key) is None for key in keys):
        return
    for key in keys:
        # As in OPA: one without the other is an error, not a default.
        if block.values.get(key) is None:
            raise ConfigError(f"{block.path}: configuration missing '{key}'")
        if not 0 <= block.get(key, int, 0) <= MAX_DELAY:
            raise ConfigError(f"{block.location(key)} must be from 0 to {MAX_DELAY} seconds")
    if block.get(keys[1], int, 0) < block.get(keys[0], int, 0):
        where = block.location(keys[1])
        raise ConfigError(f"{where}: max polling delay must be >= min polling delay")


@record
class Polling:
    """The times between two requests for a bundle, in seconds."""

    min_delay: float = option(
        "min_delay_seconds", _DELAY, 60.0, "minimum number of seconds between two requests"
    )
    max_delay: float = option(
        "max_delay_seconds", _DELAY, 120.0, "maximum number of seconds between two requests"
    )
    long_polling: int | None = option(
        "long_polling_timeout_seconds",
        optional(integer(1, 24 * 3600, message="must be from 1 to 86400 seconds")),
        None,
        "seconds for which a server that supports long polling may wait for a new bundle",
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if only one of `min_delay_seconds` and `max_delay_seconds` is set, one
        is out of bounds, or the maximum is below the minimum.
        """
        check_delays(block)


@record
class Signing:
    """`signing` of a bundle: how its signatures are verified."""

    key_id: str = option(
        "keyid",
        TEXT,
        "",
        "the name of the key in `keys` that verifies the bundle; by default the one that the "
        "signature names",
    )
    scope: str = option("scope", TEXT, "", "the scope that the signature must have")
    exclude: tuple[str, ...] = option("exclude_files", TEXTS, (), "files that need not be signed")


@record
class BundleOptions:
    """The options of one bundle. `service` is "" if `resource` is a file (`file://`)."""

    name: str
    service: str = option(
        "service", TEXT, "", "the name of the service; the first service by default"
    )
    resource: str = option(
        "resource",
        TEXT,
        "",
        "the path of the bundle below the service's URL, or `file:///…`; by default `bundles/NAME`",
    )
    polling: Polling = option("polling", section(Polling), Polling())
    trigger: Trigger = option(
        "trigger", TRIGGER, _PERIODIC, "`manual`: the bundle is never downloaded"
    )
    persist: bool = option(
        "persist",
        SWITCH,
        False,
        "store the last bundle on disk, for a start while the service is not available",
    )
    size_limit: int = option(
        "size_limit_bytes",
        positive_or(SIZE_LIMIT),
        SIZE_LIMIT,
        "maximum size of a file in the bundle, in bytes; 0: the default",
    )
    signing: Signing | None = option("signing", optional(section(Signing)), None)
    verification: Verification | None = None

    @property
    def file(self) -> str | None:
        """The path of a bundle that is a local file or folder; None for a bundle of a service."""
        if not self.resource.startswith("file://"):
            return None
        return unquote(split_url(self.resource).path)


def _read_bundles(top: Block, key: str, warnings: list[str]) -> Mapping[str, BundleOptions]:
    """Read `bundles` by name. Raise ConfigError for more than `MAX_BUNDLES`, for a name that has no
    text besides slashes, is not printable or has `..` between them, and for two names that differ
    in empty parts alone. A bundle that is null is skipped.
    """
    block = top.block(key)
    if len(block.values) > MAX_BUNDLES:
        raise ConfigError(f"{top.location(key)} must contain at most {MAX_BUNDLES} bundles")
    folders: dict[tuple[str, ...], str] = {}
    for name, value in block.values.items():
        if value is None:
            continue
        # A persisted bundle is stored in a folder with its name.
        folder = tuple([part for part in name.split("/") if part not in ("", ".")])
        if not folder or ".." in folder or not name.isprintable():
            raise ConfigError(
                f"{block.location(name)}: the name of a bundle must be printable, not empty and "
                "without `..` as a part"
            )
        other = folders.setdefault(folder, name)
        if other != name:
            raise ConfigError(
                f"{block.location(name)}: this bundle would be stored in the folder of `{other}`"
            )
    return named(BundleOptions, skips_null=True).read(top, key, warnings)


BUNDLES: Final = Kind(_read_bundles, "objects by name", {}, BundleOptions, is_named=True)


@record
class OlderBundle:
    """`bundle`, an older form of `bundles`."""

    name: str = option("name", TEXT, "", "the name of the bundle")
    prefix: str = option(
        "prefix",
        TEXT,
        "bundles",
        "the path before the bundle's name: the resource is `PREFIX/NAME`",
    )
    service: str = option(
        "service", TEXT, "", "the name of the service; the first service by default"
    )
    polling: Polling = option("polling", section(Polling), Polling())
    trigger: Trigger = option(
        "trigger", TRIGGER, _PERIODIC, "`manual`: the bundle is never downloaded"
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError without a name."""
        if not block.get("name", str, ""):
            raise ConfigError(f"{block.location('name')} must not be empty")

    def options(self) -> BundleOptions:
        """Return the bundle of the older key `bundle` in the form of one of `bundles`, with the
        resource `PREFIX/NAME`. Its service is not resolved and its signatures are not verified yet
        (`with_sources`).
        """
        resource = f"{self.prefix.strip('/')}/{self.name.strip('/')}".strip("/")
        return BundleOptions(self.name, self.service, resource, self.polling, self.trigger)


@record
class DiscoveryBlock:
    """`discovery`: a bundle with a document that is more configuration."""

    resource: str = option(
        "resource",
        TEXT,
        "",
        "the path of the discovery bundle below the service's URL, or `file:///…`",
    )
    service: str = option(
        "service", TEXT, "", "the name of the service; required if there are several"
    )
    decision: str = option(
        "decision",
        TEXT,
        "",
        "the document in the discovery bundle that contains the configuration; by default `name`, "
        "or without it all data of the bundle",
    )
    name: str = option(
        "name", TEXT, "", "older: the bundle's name, for the resource `PREFIX/NAME` and `decision`"
    )
    prefix: str = option(
        "prefix", TEXT, "bundles", "the path before `name`: the resource is `PREFIX/NAME`"
    )
    polling: Polling = option("polling", section(Polling), Polling())
    trigger: Trigger = option(
        "trigger", TRIGGER, _PERIODIC, "`manual`: the bundle is never downloaded"
    )
    persist: bool = option(
        "persist",
        SWITCH,
        False,
        "store the last bundle on disk, for a start while the service is not available",
    )
    signing: Signing | None = option("signing", optional(section(Signing)), None)

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if both `resource` and `name` are missing or empty."""
        if not block.get("resource", str, "") and not block.get("name", str, ""):
            raise ConfigError(
                f"{block.location('resource')}: missing required discovery.resource field"
            )

    def options(
        self, block: Block, services: Collection[str], keys: Mapping[str, Key]
    ) -> DiscoveryOptions:
        """Return the bundle of discovery and the path of its document. Raise `ConfigError` if the
        service is missing or unknown, or a signing key is.
        """
        if not self.service and len(services) != 1 and "file://" not in self.resource:
            raise ConfigError(
                f"{block.location('service')} must name a service, since `services` does "
                "not have exactly one"
            )
        bundle = BundleOptions(
            "discovery",
            self.service,
            self.resource or f"{self.prefix.strip('/')}/{self.name.strip('/')}",
            self.polling,
            self.trigger,
            self.persist,
            signing=self.signing,
        )
        decision = self.decision or self.name
        return DiscoveryOptions(
            with_sources(bundle, block, services, keys), decision.strip("/").replace(".", "/")
        )


@record
class DiscoveryOptions:
    """The bundle of discovery. `decision` is the path of the document in it that is configuration;
    "" is all of it.
    """

    bundle: BundleOptions
    decision: str = ""


def with_sources(
    bundle: BundleOptions, block: Block, services: Collection[str], keys: Mapping[str, Key]
) -> BundleOptions:
    """Complete a bundle with its resource (by default `bundles/NAME`), its service ("" for a file)
    and its verification. Raise ConfigError if the service or the signing key does not exist, or if
    there is `signing` but no key to verify with.
    """
    resource = bundle.resource or f"bundles/{bundle.name}"
    is_file = resource.startswith("file://")
    return replace(
        bundle,
        resource=resource,
        service="" if is_file else find_service(block, bundle.service, services),
        verification=_verification(bundle, block, keys),
    )


def _verification(
    bundle: BundleOptions, block: Block, keys: Mapping[str, Key]
) -> Verification | None:
    """Return how the bundle is verified. Without `signing`, a bundle need not be signed, but
    signatures are verified if there are keys; None without keys. Raise ConfigError if `signing` has
    no key to verify with, or names one that does not exist.
    """
    signing = bundle.signing
    if signing is None:
        return Verification(keys=keys, is_required=False) if keys else None
    if signing.key_id and signing.key_id not in keys:
        where = block.block("signing").location("keyid")
        raise ConfigError(f"{where}: key id {signing.key_id} not found")
    if not keys:
        raise ConfigError(
            f"{block.location('signing')}: no key to verify with: add `keys` to the configuration"
        )
    return Verification(
        scope=signing.scope, exclude=signing.exclude, keys=keys, key_id=signing.key_id
    )
