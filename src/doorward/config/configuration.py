"""The configuration file: YAML with OPA's keys becomes one frozen `Config`.

A key that nobody reads is a warning that names it; a value of the wrong type is an error that names
file and line. What a plugin's block means is for the plugin: it gets the block as it is.
How the file is read, and what `${VAR}` does in it, is `yaml_block`'s.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from doorward import __version__
from doorward.bundles.signatures import Key as SigningKey
from doorward.config.bundle_options import (
    BundleOptions,
    DiscoveryOptions,
    read_bundles,
    read_discovery,
)
from doorward.config.cache_options import CacheOptions, read_caching
from doorward.config.identity_options import Issuer, IssuerError, LoginClient
from doorward.config.limits import DEADLINE, MAX_ITEMS
from doorward.config.services import Service, read_keys, read_services
from doorward.config.status_options import StatusOptions, read_status
from doorward.config.trace_options import TraceOptions, read_tracing
from doorward.config.upload_options import (
    FileOptions,
    UploadOptions,
    read_file,
    read_upload,
)
from doorward.config.yaml_block import (
    Block,
    ConfigError,
    override,
    override_by_file,
    read_block,
)
from doorward.rego import Key, Value, from_python, names_all_below, names_credential

__all__ = [
    "HTTP_BUCKETS",
    "REFUSED",
    "Authzen",
    "Block",
    "Config",
    "ConfigError",
    "DecisionLogs",
    "Evaluation",
    "Server",
    "Shadow",
    "active_config",
    "config_of",
    "identified",
    "parse_config",
    "read_config",
]

MAX_BYTES: Final = 4 << 20
MAX_DEADLINE: Final = 3600.0
_ALIASES: Final = {"envoy.ext_authz.grpc": "envoy_ext_authz_grpc"}
_SECRET: Final = frozenset({"credentials", "key", "private_key"})
REFUSED: Final = {
    "storage": "data is in memory (`storage.disk` is OPA's)",
}
"""OPA's keys that are not followed, each with what holds instead."""
_PLUGINS: Final = ("envoy_ext_authz_grpc", "envoy_ext_proc_grpc", "forward_auth")


@dataclass(frozen=True, slots=True)
class DecisionLogs:
    """`decision_logs`: what is logged, where, and what is left out of it."""

    console: bool = False
    mask_decision: str = "system/log/mask"
    drop_decision: str = "system/log/drop"
    headers: tuple[str, ...] = ()
    """`request_context.http.headers`: request headers to log, by name."""
    mask_credentials: bool = True
    """Take what is a credential by its name or looks out of every event (not OPA's: it logs
    them); `mask_authorization` is an older name."""
    claims: bool = False
    """`custom.claims` (not OPA's): log the header and the claims of verified tokens under a digest
    of the token, so that decisions can be replayed."""
    rules: bool = False
    """`custom.rules` and `rule_labels` (the first is not OPA's): log which definitions answered,
    and at which condition others failed."""
    buffer_size: int = 10_000
    """`reporting.buffer_size_limit_events`: events that may wait to be written."""
    buffer_bytes: int = 64 << 20
    """`reporting.buffer_size_limit_bytes`: what the events that wait may take, about."""
    when_full: Literal["wait", "drop"] = "wait"
    """`reporting.when_full` (not OPA's): whether a request waits a moment for room in the buffer
    before its event counts as lost."""
    upload: UploadOptions | None = None
    """`service` and what belongs to it: events are sent there."""
    file: FileOptions | None = None

    @property
    def is_enabled(self) -> bool:
        """True if events go anywhere."""
        return self.console or self.upload is not None or self.file is not None


HTTP_BUCKETS: Final = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 0.01, 0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Server:
    """`server`: limits of the HTTP API, in bytes, and what it serves."""

    max_length: int = 256 << 20
    gzip_max_length: int = 512 << 20
    gzip_min_length: int = 1024
    gzip_level: int = 9
    buckets: tuple[float, ...] = HTTP_BUCKETS
    """Of the histogram of requests by their duration, in seconds."""
    decision_paths: tuple[str, ...] | None = None
    """Documents that the API serves, with what is below them (not OPA's); None: everything in
    `data`, secrets included."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """`shadow`: a candidate that decides what the live policies decided (not OPA's)."""

    paths: tuple[str, ...]
    """Files and folders of the candidate, with its data."""
    bundles: tuple[str, ...] = ()
    share: float = 0.1
    """`share`: of one processor, what the candidate may take."""
    max_age: float = 1.0
    """`max_age_seconds`: a decision that waits longer is dropped."""
    queue: int = 1_000
    """`queue`: decisions that may wait."""


_MEMBERS: Final = ("subject", "action", "resource", "context")


@dataclass(frozen=True, slots=True)
class Authzen:
    """`authzen`: OpenID's Authorization API (OPA has none)."""

    decision: str = "authzen/allow"
    """The document that decides."""
    mapping: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {name: (name,) for name in _MEMBERS}
    )
    """Where in `input` each member of a request stands."""
    policy_decision_point: str | None = None
    """The URL that clients know it by; without it there is no metadata."""
    base_path: tuple[str, ...] = ()
    """The path of that URL, by segment."""
    search: Mapping[str, str] = field(default_factory=dict)
    """The documents that list what searches look through, by `subject`, `resource`, `action`."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`evaluation`: limits of one decision (not OPA's: it has none but the caller's patience)."""

    deadline: float = DEADLINE
    """`deadline_seconds`"""
    max_items: int | None = MAX_ITEMS
    """How much the collections that a decision makes may hold together; None: nobody counts."""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the file says, checked, with defaults for what it leaves out."""

    labels: Mapping[str, str] = field(default_factory=dict)
    default_decision: str = "system/main"
    default_authorization_decision: str = "system/authz/allow"
    decision_logs: DecisionLogs = field(default_factory=DecisionLogs)
    nd_builtin_cache: bool = False
    """Whether events say what built-ins that ask the world answered."""
    caching: CacheOptions = field(default_factory=CacheOptions)
    evaluation: Evaluation = field(default_factory=Evaluation)
    server: Server = field(default_factory=Server)
    authzen: Authzen = field(default_factory=Authzen)
    shadow: Shadow | None = None
    identity: Mapping[str, Issuer] = field(default_factory=dict)
    """Issuers whose keys are fetched into `data.identity`, by name (not OPA's)."""
    secrets: tuple[tuple[str, ...], ...] = ()
    """Paths of data that clients are never shown (not OPA's)."""
    plugins: Mapping[str, Block] = field(default_factory=dict)
    """The block of each plugin under its newest name."""
    tracing: TraceOptions | None = None
    services: Mapping[str, Service] = field(default_factory=dict)
    keys: Mapping[str, SigningKey] = field(default_factory=dict, repr=False)
    bundles: Mapping[str, BundleOptions] = field(default_factory=dict)
    discovery: DiscoveryOptions | None = None
    status: StatusOptions | None = None
    persistence_directory: str = ".opa"
    """Where bundles are kept that are to be there at the next start."""
    block: Block = field(default_factory=Block, repr=False)
    """What the configuration was read from."""
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole file as plain values."""
    warnings: tuple[str, ...] = ()


def read_config(
    path: str | None,
    *,
    overrides: Sequence[str] = (),
    files: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Config:
    """The configuration in the file at `path` (None: no file) with what `--set` (`overrides`) and
    `--set-file` (`files`) say on top of it."""
    text = ""
    if path is not None:
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"open {path}: {(error.strerror or 'failed').lower()}") from None
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: file is larger than {MAX_BYTES} bytes")
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    return parse_config(
        text, file=path or "", overrides=overrides, files=files, environment=environment
    )


def parse_config(
    text: str,
    *,
    file: str = "",
    overrides: Sequence[str] = (),
    files: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Config:
    """The configuration in `text`. ConfigError for anything that cannot be meant."""
    environment = os.environ if environment is None else environment
    top = read_block(text, file=file, environment=environment)
    for setting in overrides:
        top = override(top, setting, environment=environment)
    for setting in files:
        top = override_by_file(top, setting)
    return config_of(top)


def config_of(top: Block, *, labels: Mapping[str, str] | None = None) -> Config:
    """Return the checked configuration of `top`; `labels` win over its own."""
    config = _config(top)
    return config if labels is None else replace(config, labels={**config.labels, **labels})


def identified(config: Config) -> Config:
    """The configuration of one running server: its labels name it and its version."""
    labels = {"id": str(uuid.uuid4()), "version": __version__, **config.labels}
    return replace(config, labels=labels)


def active_config(config: Config) -> dict[Key, Value]:
    """Return the active configuration without its credentials, as `/v1/config` shows it."""
    shown = _without_credentials(config.document)
    shown["labels"] = dict(config.labels.items())
    for name in ("default_decision", "default_authorization_decision"):
        shown.setdefault(name, f"/{getattr(config, name)}")
    return shown


def _without_credentials(document: Mapping[str, Any]) -> dict[Key, Value]:
    shown: dict[Key, Value] = {}
    for name, value in document.items():
        is_text = isinstance(value, (str, list)) and names_credential(name)
        if name not in _SECRET and not is_text and not names_all_below(name):
            shown[name] = _show(value)
    return shown


def _show(value: Any) -> Value:
    if isinstance(value, Mapping):
        return _without_credentials(value)
    return [_show(each) for each in value] if isinstance(value, list) else from_python(value)


def _config(top: Block) -> Config:
    for key, instead in REFUSED.items():
        if top.values.get(key):
            raise ConfigError(f"{top.location(key)} is not supported: {instead}")
    warnings = list(top.warnings)
    known = {
        "secrets",
        "authzen",
        "caching",
        "labels",
        "default_decision",
        "default_authorization_decision",
        "decision_logs",
        "evaluation",
        "identity",
        "server",
        "shadow",
        "plugins",
        "bundle",
        "bundles",
        "discovery",
        "distributed_tracing",
        "keys",
        "nd_builtin_cache",
        "persistence_directory",
        "services",
        "status",
    }
    warnings += top.unknown([*known, *REFUSED])
    keys = read_keys(top.block("keys"), warnings)
    services = read_services(top, keys, warnings)
    return Config(
        labels=_labels(top),
        default_decision=_path(top, "default_decision", "/system/main"),
        default_authorization_decision=_path(
            top, "default_authorization_decision", "/system/authz/allow"
        ),
        decision_logs=_decision_logs(top, services, warnings),
        nd_builtin_cache=top.get("nd_builtin_cache", bool, False),
        caching=read_caching(top, warnings),
        evaluation=_evaluation(top.block("evaluation"), warnings),
        server=_server(top.block("server"), warnings),
        authzen=_authzen(top.block("authzen"), warnings),
        shadow=_shadow(top, warnings),
        identity=_identity(top.block("identity"), warnings),
        secrets=_secrets(top),
        plugins=_plugins(top.block("plugins")),
        tracing=read_tracing(top, warnings),
        services=services,
        keys=keys,
        bundles=read_bundles(top, services, keys, warnings),
        discovery=read_discovery(top, services, keys, warnings),
        status=read_status(top, services, warnings),
        persistence_directory=top.get("persistence_directory", str, ".opa"),
        block=top,
        document=top.plain(),
        warnings=tuple(warnings),
    )


def _labels(top: Block) -> dict[str, str]:
    block = top.block("labels")
    return {key: block.get(key, str, "") for key in block.values}


def _path(block: Block, key: str, default: str) -> str:
    return block.get(key, str, default).strip("/")


def _decision_logs(
    top: Block, services: Mapping[str, Service], warnings: list[str]
) -> DecisionLogs:
    block = top.block("decision_logs")
    is_given = top.values.get("decision_logs") is not None
    upload = read_upload(block, services, warnings) if is_given else None
    context = block.block("request_context")
    http = context.block("http")
    reporting = block.block("reporting")
    warnings += block.unknown(
        [
            "claims",
            "console",
            "drop_decision",
            "file",
            "mask_authorization",
            "mask_credentials",
            "mask_decision",
            "partition_name",
            "plugin",
            "protocol",
            "reporting",
            "request_context",
            "resource",
            "rules",
            "service",
            "spool",
        ]
    )
    warnings += reporting.unknown(
        [
            "buffer_size_limit_bytes",
            "buffer_size_limit_events",
            "buffer_type",
            "max_decisions_per_second",
            "max_delay_seconds",
            "min_delay_seconds",
            "trigger",
            "upload_size_limit_bytes",
            "when_full",
        ]
    )
    warnings += context.unknown(["http"]) + http.unknown(["headers"])
    default = DecisionLogs()
    # With a service they bound what waits to be sent.
    limits = Block() if upload else reporting
    return DecisionLogs(
        console=block.get("console", bool, False),
        mask_decision=_path(block, "mask_decision", default.mask_decision),
        drop_decision=_path(block, "drop_decision", default.drop_decision),
        headers=http.strings("headers"),
        mask_credentials=block.get(
            "mask_credentials", bool, block.get("mask_authorization", bool, True)
        ),
        claims=block.get("claims", bool, False),
        rules=block.get("rules", bool, False),
        buffer_size=_positive(limits, "buffer_size_limit_events", default.buffer_size),
        buffer_bytes=_positive(limits, "buffer_size_limit_bytes", default.buffer_bytes),
        when_full=_when_full(reporting),
        upload=upload,
        file=read_file(block, warnings),
    )


def _when_full(reporting: Block) -> Literal["wait", "drop"]:
    value = reporting.get("when_full", str, "wait")
    if value == "wait":
        return "wait"
    if value == "drop":
        return "drop"
    raise ConfigError(
        f"{reporting.location('when_full')} must be `wait` or `drop` but is `{value}`"
    )


def _server(block: Block, warnings: list[str]) -> Server:
    decoding, encoding = block.block("decoding"), block.block("encoding")
    unzip, zip_ = decoding.block("gzip"), encoding.block("gzip")
    warnings += block.unknown(["decision_paths", "decoding", "encoding", "metrics"])
    warnings += decoding.unknown(["gzip", "max_length"]) + encoding.unknown(["gzip"])
    warnings += unzip.unknown(["max_length"]) + zip_.unknown(["compression_level", "min_length"])
    default = Server()
    return Server(
        max_length=_positive(decoding, "max_length", default.max_length),
        gzip_max_length=_positive(unzip, "max_length", default.gzip_max_length),
        gzip_min_length=_positive(zip_, "min_length", default.gzip_min_length),
        gzip_level=_gzip_level(zip_, default.gzip_level),
        buckets=_buckets(block.block("metrics"), warnings),
        decision_paths=_decision_paths(block),
    )


def _gzip_level(block: Block, default: int) -> int:
    level = block.get("compression_level", int, default)
    if level not in (0, 1, 9):
        raise ConfigError(f"{block.location('compression_level')} must be 0, 1 or 9 but is {level}")
    return level


def _buckets(metrics: Block, warnings: list[str]) -> tuple[float, ...]:
    prom = metrics.block("prom")
    duration = prom.block("http_request_duration_seconds")
    warnings += metrics.unknown(["prom"]) + prom.unknown(["http_request_duration_seconds"])
    warnings += duration.unknown(["buckets"])
    return duration.increasing("buckets") or HTTP_BUCKETS


def _secrets(top: Block) -> tuple[tuple[str, ...], ...]:
    paths = tuple(tuple(path.strip("/").split("/")) for path in top.strings("secrets"))
    if not all(map(all, paths)):
        raise ConfigError(f"{top.location('secrets')} must be paths below the root, such as a/b")
    return paths


def _shadow(top: Block, warnings: list[str]) -> Shadow | None:
    if top.values.get("shadow") is None:
        return None
    block = top.block("shadow")
    warnings += block.unknown(["bundles", "max_age_seconds", "paths", "queue", "share"])
    paths, bundles = block.strings("paths"), block.strings("bundles")
    if not paths and not bundles:
        raise ConfigError(
            f"{top.location('shadow')} must name the candidate's `paths` or `bundles`"
        )
    share = block.get("share", float, 0.1)
    if not 0 < share <= 1:
        raise ConfigError(f"{block.location('share')} must be from above 0 to 1 but is {share:g}")
    max_age = block.get("max_age_seconds", float, 1.0)
    if not 0 < max_age <= MAX_DEADLINE:
        location = block.location("max_age_seconds")
        raise ConfigError(f"{location} must be from above 0 to {MAX_DEADLINE:g} but is {max_age:g}")
    return Shadow(paths, bundles, share, max_age, _positive(block, "queue", 1_000))


def _identity(block: Block, warnings: list[str]) -> dict[str, Issuer]:
    issuers: dict[str, Issuer] = {}
    for name in block.values:
        each = block.block(name)
        warnings += each.unknown(["interval_seconds", "issuer", "jwks_url", "login"])
        try:
            issuers[name] = Issuer(
                each.get("issuer", str, ""),
                each.get("jwks_url", str, ""),
                each.get("interval_seconds", float, 300.0),
                _login(each.block("login"), warnings) if "login" in each.values else None,
            )
        except IssuerError as error:
            key = "interval_seconds" if error.key == "interval" else error.key
            raise ConfigError(f"{each.location(key)} {error.message}") from None
    return issuers


def _login(block: Block, warnings: list[str]) -> LoginClient:
    warnings += block.unknown(["client_id", "client_secret", "console_url", "scopes"])
    try:
        return LoginClient(
            block.get("client_id", str, ""),
            block.get("console_url", str, ""),
            block.get("client_secret", str, ""),
            block.strings("scopes") if "scopes" in block.values else (),
        )
    except IssuerError as error:
        raise ConfigError(f"{block.location(error.key)} {error.message}") from None


def _authzen(block: Block, warnings: list[str]) -> Authzen:
    warnings += block.unknown(["decision", "mapping", "policy_decision_point", "search"])
    given = block.block("mapping")
    warnings += given.unknown(_MEMBERS)
    mapping = {name: tuple(given.get(name, str, name).split(".")) for name in _MEMBERS}
    paths = list(mapping.values())
    for name, path in mapping.items():
        others = [other for other in paths if other is not path]
        if not all(path) or any(other[: len(path)] == path for other in others):
            raise ConfigError(f"{given.location(name)} must be a path of its own in the input")
    base = block.get("policy_decision_point", str, "") or None
    listed = block.block("search")
    warnings += listed.unknown(_MEMBERS[:3])
    search = {name: _path(listed, name, "") for name in _MEMBERS[:3] if name in listed.values}
    return Authzen(
        search=search,
        decision=_path(block, "decision", Authzen().decision),
        mapping=mapping,
        policy_decision_point=base,
        base_path=() if base is None else _base_path(block, base),
    )


def _base_path(block: Block, url: str) -> tuple[str, ...]:
    scheme, colon, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if scheme != "https" or not colon or not host or any(each in url for each in "?#"):
        location = block.location("policy_decision_point")
        raise ConfigError(f"{location} must be an https URL without query and fragment")
    return tuple(filter(None, path.split("/")))


def _decision_paths(block: Block) -> tuple[str, ...] | None:
    if block.values.get("decision_paths") is None:
        return None
    paths = tuple(path.strip("/") for path in block.strings("decision_paths"))
    if not all(paths):
        raise ConfigError(f"{block.location('decision_paths')} must not hold the root")
    return paths


def _evaluation(block: Block, warnings: list[str]) -> Evaluation:
    warnings += block.unknown(["deadline_seconds", "max_items"])
    deadline = block.get("deadline_seconds", float, DEADLINE)
    if not 0 < deadline <= MAX_DEADLINE:
        location = block.location("deadline_seconds")
        raise ConfigError(
            f"{location} must be from above 0 to {MAX_DEADLINE:g} but is {deadline:g}"
        )
    max_items = block.get("max_items", int, MAX_ITEMS)
    if max_items < 0:
        raise ConfigError(f"{block.location('max_items')} must not be negative but is {max_items}")
    return Evaluation(deadline, max_items or None)


def _positive(block: Block, key: str, default: int) -> int:
    value = block.get(key, int, default)
    if value <= 0:
        raise ConfigError(f"{block.location(key)} must be greater than 0 but is {value}")
    return value


def _plugins(block: Block) -> dict[str, Block]:
    plugins: dict[str, Block] = {}
    for key in block.values:
        name = _ALIASES.get(key, key)
        if name in plugins:
            raise ConfigError(f"{block.location(key)} is configured twice: `{key}` is `{name}`")
        if name not in _PLUGINS:
            raise ConfigError(f'{block.location(key)}: plugin "{key}" not registered')
        plugins[name] = block.block(key)
    return plugins
