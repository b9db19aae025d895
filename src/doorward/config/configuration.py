"""The configuration file: YAML with OPA's keys becomes one frozen `Config`.

An unknown key is a warning that names it; a value of the wrong type is an error that names file and
line. The block of a plugin is not interpreted here: the plugin gets it unchanged. `yaml_block`
reads the file and replaces `${VAR}`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Literal, TypeAlias

from doorward import __version__
from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.bundles.signatures import Key as SigningKey
from doorward.config.blocks import Block, ConfigError
from doorward.config.bundle_options import (
    BUNDLES,
    BundleOptions,
    DiscoveryBlock,
    DiscoveryOptions,
    OlderBundle,
    with_sources,
)
from doorward.config.cache_options import CacheOptions
from doorward.config.identity_options import Issuer
from doorward.config.limits import DEADLINE, MAX_ITEMS
from doorward.config.schema import (
    DOCUMENT,
    INCREASING,
    OBJECT,
    SWITCH,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Kind,
    OptionError,
    choice,
    convert,
    inline,
    integer,
    json_schema,
    named,
    number,
    option,
    optional,
    read_section,
    section,
    texts_as,
)
from doorward.config.services import KEYS, SERVICES, Service, service_blocks, with_keys
from doorward.config.status_options import StatusOptions
from doorward.config.trace_options import TraceBlock, TraceOptions
from doorward.config.upload_options import FileOptions, UploadOptions
from doorward.rego import Value, from_python
from doorward.rego.shared import Key, mask_credentials, names_all_below, names_credential

__all__ = [
    "EXT_AUTHZ",
    "EXT_PROC",
    "FORWARD_AUTH",
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
    "editor_schema",
    "identified",
    "parse_config",
    "read_config",
]

MAX_BYTES: Final = 4 << 20
MAX_DEADLINE: Final = 3600.0
_SECRET: Final = frozenset({"credentials", "key", "private_key"})
REFUSED: Final = {
    "storage": "data is in memory (`storage.disk` is OPA's)",
}
"""OPA's keys that are not supported, each with the reason."""
EXT_AUTHZ: Final = "envoy_ext_authz_grpc"
EXT_PROC: Final = "envoy_ext_proc_grpc"
FORWARD_AUTH: Final = "forward_auth"
_ALIASES: Final = {"envoy.ext_authz.grpc": EXT_AUTHZ}
_PLUGINS: Final = (EXT_AUTHZ, EXT_PROC, FORWARD_AUTH)
"""The names of plugins in `plugins`, which status reports use too."""


WhenFull: TypeAlias = Literal["wait", "drop"]
_WAIT: Final[WhenFull] = "wait"
_DROP: Final[WhenFull] = "drop"


@record
class DecisionLogs:
    """`decision_logs`: which events are logged, where, and which values are removed from them."""

    console: bool = option(
        "console",
        SWITCH,
        False,
        "write an event for each decision to standard error, one line of JSON in OPA's format",
    )
    mask_decision: str = option(
        "mask_decision", DOCUMENT, "system/log/mask", "the policy that masks events"
    )
    drop_decision: str = option(
        "drop_decision", DOCUMENT, "system/log/drop", "the policy that drops events"
    )
    headers: tuple[str, ...] = option(
        "request_context.http.headers", TEXTS, (), "headers of HTTP API requests to log"
    )
    mask_credentials: bool = option(
        "mask_credentials",
        SWITCH,
        True,
        "remove credentials, recognized by name or form, from every event: "
        "[how](run.md#decision-log)",
        is_opa=False,
    )
    older_mask: bool = option(
        "mask_authorization", SWITCH, True, "an older name of `mask_credentials`", is_opa=False
    )
    claims: bool = option(
        "claims",
        SWITCH,
        False,
        "log the header and the claims of verified tokens under a digest of the token, so that "
        "decisions can be replayed: [how](run.md#decision-log)",
        is_opa=False,
    )
    rules: bool = option(
        "rules",
        SWITCH,
        False,
        "log [which rules answered, and where others failed](run.md#rules-in-the-log); a change "
        "needs a restart",
        is_opa=False,
    )
    when_full: WhenFull = option(
        "reporting.when_full",
        choice(_WAIT, _DROP),
        "wait",
        "if the queue is full: `wait`: the request waits up to 20 ms before its event is dropped; "
        "`drop`: the event is dropped at once",
        is_opa=False,
    )
    sending: UploadOptions = option("", inline(UploadOptions), UploadOptions())
    """The keys of a service, also if events are not uploaded; `upload` says that."""
    file: FileOptions | None = option("file", optional(section(FileOptions)), None)
    upload: UploadOptions | None = None
    """How events are uploaded; None: they are not."""
    buffer_size: int = 10_000
    """The largest number of events in the queue of the log."""
    buffer_bytes: int = 64 << 20
    """The largest memory of the events in the queue, approximately."""

    @property
    def is_enabled(self) -> bool:
        """True if events go to the console, a service or a file."""
        return self.console or self.upload is not None or self.file is not None


HTTP_BUCKETS: Final = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 0.01, 0.1, 1.0)


def _document_paths(texts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return document paths without slashes around them, never None, which is the default of the
    option; raise ValueError if one is the root.
    """
    paths = tuple(path.strip("/") for path in texts)
    if not all(paths):
        raise ValueError("must be paths of documents below the root, such as a/b")
    return paths


@record
class Server:
    """`server`: limits of the HTTP API in bytes, and the documents that it serves."""

    max_length: int = option(
        "decoding.max_length", integer(1), 256 << 20, "maximum size of a request body, in bytes"
    )
    gzip_max_length: int = option(
        "decoding.gzip.max_length",
        integer(1),
        512 << 20,
        "maximum size of a request body after decompression, in bytes",
    )
    gzip_min_length: int = option(
        "encoding.gzip.min_length",
        integer(1),
        1024,
        "minimum size of a response that is compressed, in bytes",
    )
    gzip_level: int = option(
        "encoding.gzip.compression_level",
        choice(9, 0, 1, message="must be 0, 1 or 9 but is {value}"),
        9,
        "gzip level of responses; 0: not compressed",
    )
    buckets: tuple[float, ...] = option(
        "metrics.prom.http_request_duration_seconds.buckets",
        INCREASING,
        HTTP_BUCKETS,
        "buckets of the histogram `http_request_duration_seconds`, in seconds",
    )
    decision_paths: tuple[str, ...] | None = option(
        "decision_paths",
        texts_as(_document_paths, "list of documents"),
        None,
        "the documents that the HTTP API serves, with everything below them; requests for others "
        "get 403. Without this list clients can read all of `data`, including secrets",
        is_opa=False,
    )


@record
class Shadow:
    """`shadow`: candidate policies that decide the inputs of live decisions again, without effect
    (not OPA's).
    """

    paths: tuple[str, ...] = option(
        "paths",
        TEXTS,
        (),
        "files and folders with candidate policies, which decide a second time without effect, and "
        "their data",
        is_opa=False,
    )
    bundles: tuple[str, ...] = option(
        "bundles",
        TEXTS,
        (),
        "bundles with candidate policies, in addition to `paths` or instead of it",
        is_opa=False,
    )
    share: float = option(
        "share",
        number(above=0, most=1),
        0.1,
        "maximum share of one processor that the candidate policies use",
        is_opa=False,
    )
    max_age: float = option(
        "max_age_seconds",
        number(above=0, most=MAX_DEADLINE),
        1.0,
        "seconds that a decision waits for the candidate policies before it is dropped",
        is_opa=False,
    )
    queue: int = option(
        "queue",
        integer(1),
        1_000,
        "maximum number of decisions that wait for the candidate policies; more are dropped",
        is_opa=False,
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if a candidate has neither paths nor bundles."""
        if not block.strings("paths") and not block.strings("bundles"):
            raise ConfigError(
                f"{block.location('paths')}: the candidate has no policies: set `paths` or "
                "`bundles`"
            )


_MEMBERS: Final = ("subject", "action", "resource", "context")
_LISTED: Final = _MEMBERS[:3]


def _read_mapping(top: Block, key: str, warnings: list[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the path in the input of each member of an AuthZEN request, by default its name. Raise
    ConfigError if a path has an empty part, or is equal to or below another one.
    """
    block = top.block(key)
    warnings += block.unknown(_MEMBERS)
    mapping = {name: tuple(block.get(name, str, name).split(".")) for name in _MEMBERS}
    paths = list(mapping.values())
    for name, path in mapping.items():
        # By identity: two members with equal paths are as wrong.
        others = [other for other in paths if other is not path]
        if not all(path) or any(other[: len(path)] == path for other in others):
            raise ConfigError(
                f"{block.location(name)} must be a path in the input, such as a.b, "
                "that is not equal to, above or below the path of another of "
                f"{', '.join(_MEMBERS)}"
            )
    return mapping


def _read_search(top: Block, key: str, warnings: list[str]) -> Mapping[str, str]:
    """Return, for `subject`, `resource` and `action`, the path of the document that lists the
    candidates of a search for it; those that are absent, null or empty are left out. Unknown keys
    are added to `warnings`.
    """
    block = top.block(key)
    warnings += block.unknown(_LISTED)
    return {n: text.strip("/") for n in _LISTED if (text := block.get(n, str, ""))}


def _texts_schema(names: Sequence[str]) -> Mapping[str, Any]:
    """Return the JSON Schema of an object whose only keys are `names`, with texts as values."""
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "additionalProperties": False}


@record
class Authzen:
    """`authzen`: OpenID's Authorization API (OPA has none)."""

    decision: str = option(
        "decision",
        DOCUMENT,
        "authzen/allow",
        "the document that decides AuthZEN's requests",
        is_opa=False,
    )
    mapping: Mapping[str, tuple[str, ...]] = option(
        "mapping",
        Kind(_read_mapping, "paths by name", _texts_schema(_MEMBERS)),
        {name: (name,) for name in _MEMBERS},
        "the paths in `input` of `subject`, `action`, `resource` and `context`, such as "
        "`{subject: request.who}`",
        is_opa=False,
    )
    policy_decision_point: str = option(
        "policy_decision_point",
        TEXT,
        "",
        "the https URL by which clients call this server; without it no metadata is served",
        is_opa=False,
    )
    search: Mapping[str, str] = option(
        "search",
        Kind(_read_search, "documents by name", _texts_schema(_LISTED)),
        {},
        "documents that list the candidates of searches, such as `{subject: authzen/subjects, "
        "resource: …, action: …}`",
        is_opa=False,
    )

    def __post_init__(self) -> None:
        """Raise OptionError if `decision` is the root, or if `policy_decision_point` is neither
        empty nor an https URL without user, password, query and fragment.
        """
        if not self.decision:
            raise OptionError(
                "decision", "must be the path of a document below the root, such as a/b"
            )
        scheme, colon, rest = self.policy_decision_point.partition("://")
        host = rest.partition("/")[0]
        is_url = scheme == "https" and colon and host and "@" not in host
        is_plain = not any(each in self.policy_decision_point for each in "?#")
        if self.policy_decision_point and not (is_url and is_plain):
            raise OptionError(
                "policy_decision_point",
                "must be an https URL without a user, password, query and fragment",
            )

    @property
    def base_path(self) -> tuple[str, ...]:
        """The segments of the path in `policy_decision_point`; () without one."""
        path = self.policy_decision_point.partition("://")[2].partition("/")[2]
        return tuple(filter(None, path.split("/")))


def _limit(value: int) -> int | None:
    """Return the limit; None (unlimited) for 0. Raise ValueError if it is negative."""
    if value < 0:
        raise ValueError(f"must not be negative but is {value}")
    return value or None


@record
class Evaluation:
    """`evaluation`: limits of one decision. OPA has none, except that the caller may give up."""

    deadline: float = option(
        "deadline_seconds",
        number(above=0, most=MAX_DEADLINE),
        DEADLINE,
        "time limit of one decision, in seconds; a decision that exceeds it fails and is a denial",
        is_opa=False,
    )
    max_items: int | None = option(
        "max_items",
        convert(int, _limit, "integer from 0", {"type": "integer", "minimum": 0}),
        MAX_ITEMS,
        "maximum number of items that one decision creates; 0: no limit: "
        "[limits](run.md#limits-of-a-decision)",
        is_opa=False,
    )


def _secret_paths(texts: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Split paths at slashes: `keys/signing` -> `("keys", "signing")`; slashes at the ends are
    ignored. Raise ValueError for the root, or an empty segment.
    """
    paths = tuple(tuple(path.strip("/").split("/")) for path in texts)
    if not all(map(all, paths)):
        raise ValueError("must be paths of documents below the root, such as a/b, without `//`")
    return paths


def _read_plugins(top: Block, key: str, _warnings: list[str]) -> Mapping[str, Block]:
    """Return the blocks of plugins by their newest names; null is an empty block. Raise
    `ConfigError` for an unknown plugin, and for one that is configured under two names.
    """
    block = top.block(key)
    plugins: dict[str, Block] = {}
    for written in block.values:
        name = _ALIASES.get(written, written)
        if name in plugins:
            raise ConfigError(
                f"{block.location(written)} is configured twice: `{written}` is "
                f"another name of `{name}`"
            )
        if name not in _PLUGINS:
            raise ConfigError(f'{block.location(written)}: plugin "{written}" not registered')
        plugins[name] = block.block(written)
    return plugins


@record
class Config:
    """The checked configuration, with defaults for missing keys."""

    labels: Mapping[str, str] = option(
        "labels",
        TEXT_MAP,
        {},
        "labels in every event and status, in addition to `id` and `version`",
        is_reloadable=True,
    )
    default_decision: str = option(
        "default_decision",
        DOCUMENT,
        "system/main",
        "the document that `POST /` evaluates",
        is_reloadable=True,
    )
    default_authorization_decision: str = option(
        "default_authorization_decision",
        DOCUMENT,
        "system/authz/allow",
        "the document that decides requests to the HTTP API, with `--authorization=basic`",
        is_reloadable=True,
    )
    decision_logs: DecisionLogs = option(
        "decision_logs", section(DecisionLogs), DecisionLogs(), is_reloadable=True
    )
    nd_builtin_cache: bool = option(
        "nd_builtin_cache",
        SWITCH,
        False,
        "log the answers of built-ins that depend on the environment, such as `http.send`, for "
        "[replay](replay.md); at most 1000 answers of each built-in. Unless `mask_credentials` is "
        "off, `io.jwt.*`, `opa.runtime` and calls with credentials are left out; so are all calls "
        "of a built-in that got or returned a value of `secrets`",
    )
    caching: CacheOptions = option("caching", section(CacheOptions), CacheOptions())
    evaluation: Evaluation = option("evaluation", section(Evaluation), Evaluation())
    server: Server = option("server", section(Server), Server())
    authzen: Authzen = option("authzen", section(Authzen), Authzen())
    shadow: Shadow | None = option("shadow", optional(section(Shadow)), None)
    identity: Mapping[str, Issuer] = option("identity", named(Issuer), {})
    """Issuers whose keys are fetched into `data.identity`, by name (not OPA's)."""
    secrets: tuple[tuple[str, ...], ...] = option(
        "secrets",
        texts_as(_secret_paths, "list of paths"),
        (),
        "paths of data, such as `keys/signing`, that policies read but clients never see: requests "
        "for them get 403, and documents above them are returned and logged without them. "
        "`/v1/query` and changes of policies get 403 too. A rule can still return a secret",
        is_opa=False,
    )
    plugins: Mapping[str, Block] = option(
        "plugins", Kind(_read_plugins, "objects by name", {"type": "object"}), {}
    )
    """The block of each plugin, under its newest name."""
    traces: TraceBlock = option("distributed_tracing", section(TraceBlock), TraceBlock())
    keys: Mapping[str, SigningKey] = option("keys", KEYS, {}, is_secret=True, is_reloadable=True)
    services: Mapping[str, Service] = option("services", SERVICES, {}, is_reloadable=True)
    bundles: Mapping[str, BundleOptions] = option("bundles", BUNDLES, {}, is_reloadable=True)
    older_bundle: OlderBundle | None = option(
        "bundle",
        optional(section(OlderBundle)),
        None,
        "an older form of `bundles`",
        is_reloadable=True,
    )
    discovered: DiscoveryBlock | None = option("discovery", optional(section(DiscoveryBlock)), None)
    status: StatusOptions | None = option(
        "status", optional(section(StatusOptions)), None, is_reloadable=True
    )
    storage: Mapping[str, object] = option(
        "storage", OBJECT, {}, f"not supported: {REFUSED['storage']}"
    )
    persistence_directory: str = option(
        "persistence_directory",
        TEXT,
        ".opa",
        "folder in which bundles are saved for the next start",
    )
    tracing: TraceOptions | None = None
    discovery: DiscoveryOptions | None = None
    block: Block = field(default_factory=Block, repr=False)
    """The block from which the configuration was read."""
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole file as plain values."""
    warnings: tuple[str, ...] = ()

    @property
    def default_path(self) -> tuple[str, ...]:
        """The parts of the path `default_decision`; () for `/`, which is all of `data`, as in
        OPA.
        """
        return tuple(self.default_decision.split("/")) if self.default_decision else ()

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Check the keys of the whole configuration before they are read: raise ConfigError if one
        in `REFUSED` has a value that is not empty, and if both `bundle` and `bundles` are set.
        """
        for key, instead in REFUSED.items():
            if block.values.get(key):
                raise ConfigError(f"{block.location(key)} is not supported: {instead}")
        if all(block.values.get(key) is not None for key in ("bundle", "bundles")):
            raise ConfigError(
                f"{block.location('bundles')}: set either `bundle` or `bundles`, not both"
            )


def editor_schema(plugins: Mapping[str, type]) -> dict[str, Any]:
    """Return the JSON Schema of a configuration file, for editors. `plugins` are the section
    classes of plugins by name; older names are added.
    """
    parts = {f"plugins.{name}": section_class for name, section_class in plugins.items()}
    parts |= {f"plugins.{old}": plugins[new] for old, new in _ALIASES.items() if new in plugins}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of Doorward",
        **json_schema(Config, parts),
    }


def read_config(
    path: str | None,
    *,
    overrides: Sequence[str] = (),
    files: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read the configuration file at `path` (None: no file), with the assignments of `--set`
    (`overrides`) and `--set-file` (`files`) applied in this order. Raise ConfigError if it cannot
    be read, exceeds `MAX_BYTES` or is not valid.
    """
    text = ""
    if path is not None:
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"open {path}: {describe_os_error(error)}") from None
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: the configuration file is larger than {MAX_BYTES} bytes")
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{path}: the configuration file is not UTF-8 at byte {error.start}"
            ) from None
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
    """Read the configuration in `text`; `file` is its name in messages, `environment` by default
    the process's. `overrides` are the settings of `--set`, and `files` those of `--set-file`, which
    are applied after them. Raise ConfigError if it is not valid.
    """
    environment = os.environ if environment is None else environment
    if not (text or overrides or files):
        return config_of(Block(file=file))
    # It brings a parser of YAML, which a server without a configuration has no need of.
    from doorward.config.yaml_block import override, override_by_file, read_block

    top = read_block(text, file=file, environment=environment)
    for setting in overrides:
        top = override(top, setting, environment=environment)
    for setting in files:
        top = override_by_file(top, setting)
    return config_of(top)


def config_of(top: Block, *, labels: Mapping[str, str] | None = None) -> Config:
    """Return the checked configuration of a block; `labels` override its own. Raise ConfigError if
    it is not valid. Warnings are in the result.
    """
    # The labels of the start stay when a discovered configuration is read: `id` names this
    # process.
    config = _config(top)
    return config if labels is None else replace(config, labels={**config.labels, **labels})


def identified(config: Config) -> Config:
    """Return the configuration with the labels `id` (a new UUID) and `version` added; a label that
    it already has stays.
    """
    labels = {"id": str(uuid.uuid4()), "version": __version__, **config.labels}
    return replace(config, labels=labels)


def active_config(config: Config) -> dict[Key, Value]:
    """Return the active configuration as `/v1/config` shows it, without keys that may contain
    credentials.
    """
    document = _without_credentials(config.document)
    document["labels"] = dict(config.labels.items())
    for name in ("default_decision", "default_authorization_decision"):
        document.setdefault(name, f"/{getattr(config, name)}")
    return document


def _without_credentials(document: Mapping[str, Any]) -> dict[Key, Value]:
    """Return a copy without the keys that may contain credentials, at any depth."""
    public: dict[Key, Value] = {}
    for name, value in document.items():
        is_text = isinstance(value, (str, list)) and names_credential(name)
        if name not in _SECRET and not is_text and not names_all_below(name):
            public[name] = _show(value)
    return public


def _show(value: Any) -> Value:
    """Return a value as `/v1/config` shows it: without credentials, at any depth."""
    if isinstance(value, Mapping):
        return _without_credentials(value)
    if isinstance(value, list):
        return [_show(each) for each in value]
    return mask_credentials(value) if isinstance(value, str) else from_python(value)


def _config(top: Block) -> Config:
    """Read all sections, then complete those that refer to services or keys. Raise ConfigError."""
    warnings = list(top.warnings)
    read = read_section(Config, top, warnings, {"block": top, "document": top.plain()})
    blocks = service_blocks(top)
    services = {
        name: with_keys(each, blocks[name], read.keys, warnings)
        for name, each in read.services.items()
    }
    discovered = read.discovered
    return replace(
        read,
        services=services,
        bundles=_bundles(read, top, services, warnings),
        decision_logs=_decision_logs(read.decision_logs, top, services),
        tracing=read.traces.options(),
        discovery=(
            discovered.options(top.block("discovery"), services, read.keys) if discovered else None
        ),
        status=read.status.with_service(top.block("status"), services) if read.status else None,
        warnings=tuple(warnings),
    )


def _bundles(
    read: Config, top: Block, services: Mapping[str, Service], warnings: list[str]
) -> dict[str, BundleOptions]:
    """Return the bundles with their services. The older key `bundle` is accepted in place of
    `bundles`, with a warning in `warnings`. Raise ConfigError for a service or signing key that
    does not exist, and for `signing` without a key.
    """
    older = read.older_bundle
    if older is not None:
        warnings.append(f"{top.location('bundle')} is an older form of `bundles`: use `bundles`")
        options, block = older.options(), top.block("bundle")
        return {older.name: with_sources(options, block, services, read.keys)}
    block = top.block("bundles")
    return {
        name: with_sources(each, block.block(name), services, read.keys)
        for name, each in read.bundles.items()
    }


def _decision_logs(read: DecisionLogs, top: Block, services: Mapping[str, Service]) -> DecisionLogs:
    """Complete the decision logs: `upload` with its service (None: no upload), the limits of the
    queue, and `mask_credentials` from its older name.
    """
    block = top.block("decision_logs")
    is_elsewhere = read.console or read.file is not None
    is_named = block.values.get("mask_credentials") is not None
    upload = None
    if top.values.get("decision_logs") is not None:
        upload = read.sending.with_service(block, services, is_elsewhere=is_elsewhere)
    masks = read.mask_credentials if is_named else read.older_mask
    # Without a service the limits are those of what waits to be written.
    limits = UploadOptions() if upload is not None else read.sending
    return replace(
        read,
        mask_credentials=masks,
        upload=upload,
        buffer_size=limits.buffer_events,
        buffer_bytes=limits.buffer_bytes,
    )
