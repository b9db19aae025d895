"""`services` and `keys` of the configuration: where bundles come from, and how requests are signed.

What cannot work is refused here, with its place; OPA refuses most of it at the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from doorward.bundles.signatures import ALGORITHMS, Key
from doorward.config.yaml_block import Block, ConfigError

__all__ = [
    "KMS_ALGORITHMS",
    "AwsKmsKey",
    "AwsSigning",
    "AwsSource",
    "AzureIdentity",
    "Bearer",
    "ClientTls",
    "Credentials",
    "GcpMetadata",
    "OAuth2",
    "Service",
    "read_keys",
    "read_services",
    "service_name",
]

CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token in `Authorization`: `token`, or what the file at `token_path` holds."""

    token: str = field(default="", repr=False)
    token_path: str = ""
    scheme: str = "Bearer"
    is_pair: bool = False
    """Whether it is sent in base64, as registries want `user:password`."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """A client certificate: files in PEM."""

    certificate: str
    private_key: str
    passphrase: str = field(default="", repr=False)


KMS_ALGORITHMS: Final = {
    "ECDSA_SHA_256": "ES256",
    "ECDSA_SHA_384": "ES384",
    "ECDSA_SHA_512": "ES512",
}
"""The algorithms of AWS KMS that sign assertions, each with its name in JWTs."""


@dataclass(frozen=True, slots=True)
class AwsKmsKey:
    """A key in AWS KMS, by its name there, and the keys of AWS with which it is used."""

    name: str
    algorithm: str
    signing: AwsSigning


@dataclass(frozen=True, slots=True)
class OAuth2:
    """A token from `token_url`, for client credentials or for a signed assertion (RFC 7523)."""

    token_url: str
    grant_type: str = "client_credentials"
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    signing_key: Key | None = None
    kms_key: AwsKmsKey | None = None
    claims: Mapping[str, object] = field(default_factory=dict)
    include_jti: bool = False
    thumbprint: str = ""
    assertion: str = field(default="", repr=False)
    assertion_path: str = ""
    assertion_type: str = CLIENT_ASSERTION


@dataclass(frozen=True, slots=True)
class AwsSource:
    """One source of keys of AWS; "" is what the environment says."""

    kind: Literal["environment", "assume_role", "web_identity", "profile", "metadata", "sso"]
    region: str = ""
    profile: str = ""
    path: str = ""
    """The file of profiles."""
    cache_path: str = ""
    """The folder in which `aws sso login` keeps sessions."""
    role: str = ""
    session_name: str = "open-policy-agent"
    domain: str = ""
    signing: AwsSource | None = None
    """Whose keys ask for those of a role."""
    version: Literal["4", "4a"] = "4"
    """How the requests for keys of a role are signed."""


@dataclass(frozen=True, slots=True)
class AwsSigning:
    """Requests signed for AWS, with the keys of the first source that has some; with the service
    `ecr` the password of its registry."""

    sources: tuple[AwsSource, ...]
    service: str = "s3"
    version: Literal["4", "4a"] = "4"
    """Of the signature."""


@dataclass(frozen=True, slots=True)
class GcpMetadata:
    """A token of Google's metadata server."""

    audience: str = ""
    scopes: tuple[str, ...] = ()
    endpoint: str = "http://metadata.google.internal"
    access_token_path: str = "/computeMetadata/v1/instance/service-accounts/default/token"
    identity_token_path: str = "/computeMetadata/v1/instance/service-accounts/default/identity"


@dataclass(frozen=True, slots=True)
class AzureIdentity:
    """A token of Azure's managed identities."""

    endpoint: str = ""
    resource: str = "https://storage.azure.com/"
    api_version: str = ""
    object_id: str = ""
    client_id: str = ""
    mi_res_id: str = ""
    app_service: bool = False
    """Whether it is App Service's endpoint; so is that of `IDENTITY_ENDPOINT`."""


Credentials: TypeAlias = Bearer | ClientTls | OAuth2 | AwsSigning | GcpMetadata | AzureIdentity


@dataclass(frozen=True, slots=True)
class Service:
    """One service, by its name."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    header_timeout: float = 10.0
    """Seconds in which a response must begin; 0: no limit but that of the whole response."""
    allow_insecure_tls: bool = False
    ca_certificate: str = ""
    """A file in PEM: who signs the service's certificate, instead of the system's authorities."""
    system_ca_required: bool = False
    """Whether the system's authorities count beside those."""
    credentials: Credentials | None = None
    is_registry: bool = False
    """Whether it is a registry of OCI artifacts, in which bundles are layers."""


def read_keys(block: Block, warnings: list[str]) -> dict[str, Key]:
    """The keys by their names; ConfigError for one that cannot verify or sign anything."""
    keys: dict[str, Key] = {}
    for name in block.values:
        one = block.block(name)
        warnings += one.unknown(["algorithm", "key", "private_key", "scope"])
        public, private = one.get("key", str, ""), one.get("private_key", str, "")
        if not public and not private:
            raise ConfigError(
                f"{block.location(name)}: invalid keys configuration: "
                f"no keys provided for key ID {name}"
            )
        algorithm = one.get("algorithm", str, "") or "RS256"
        if algorithm not in ALGORITHMS:
            raise ConfigError(f"{one.location('algorithm')}: unsupported algorithm '{algorithm}'")
        keys[name] = Key(public, algorithm, one.get("scope", str, ""), private_key=private)
    return keys


def read_services(top: Block, keys: Mapping[str, Key], warnings: list[str]) -> dict[str, Service]:
    """`services` by their names, in their order: an object, or a list of objects with names."""
    services: dict[str, Service] = {}
    for name, block in _blocks_by_name(top):
        if name in services:
            raise ConfigError(f"{block.location('name')}: the service `{name}` is there twice")
        services[name] = _service(name, block, keys, warnings)
    return services


def _blocks_by_name(top: Block) -> Iterable[tuple[str, Block]]:
    listed = top.values.get("services")
    if not isinstance(listed, list):
        block = top.block("services")
        for name in block.values:
            yield name, block.block(name)
        return
    for each in listed:
        if not isinstance(each, Block):
            raise ConfigError(f"{top.location('services')} must hold objects")
        if not (name := each.get("name", str, "")):
            raise ConfigError(f"{top.location('services')}: a service in a list needs a `name`")
        yield name, each


def service_name(block: Block, services: Iterable[str], *, key: str = "service") -> str:
    """The service that `block` names, or the first there is; ConfigError if it does not exist."""
    known = list(services)
    name = block.get(key, str, "")
    if not name and known:
        return known[0]
    if name not in known:
        raise ConfigError(f'{block.location(key)}: service name "{name}" not found')
    return name


def _service(name: str, block: Block, keys: Mapping[str, Key], warnings: list[str]) -> Service:
    warnings += block.unknown(
        [
            "allow_insecure_tls",
            "credentials",
            "headers",
            "name",
            "response_header_timeout_seconds",
            "tls",
            "type",
            "url",
        ]
    )
    tls = block.block("tls")
    warnings += tls.unknown(["ca_cert", "system_ca_required"])
    url = block.get("url", str, "").rstrip("/")
    if not url.startswith(("http://", "https://")) or not url.partition("://")[2].strip("/"):
        raise ConfigError(f"{block.location('url')} must be an http or https URL")
    kind = block.get("type", str, "")
    is_registry = kind.lower() == "oci"
    if is_registry:
        # As in OPA: references have names of their own below the host.
        url = "://".join([url.partition("://")[0], url.partition("://")[2].partition("/")[0]])
    elif kind:
        warnings.append(f"{block.location('type')}: `{kind}` means nothing, ignored")
    timeout = block.get("response_header_timeout_seconds", int, 10)
    if timeout < 0:
        raise ConfigError(
            f"{block.location('response_header_timeout_seconds')} must not be below 0"
        )
    credentials = _credentials(block.block("credentials"), keys, warnings)
    credentials = _for_kind(credentials, block, is_registry=is_registry)
    authority, and_system = tls.get("ca_cert", str, ""), tls.get("system_ca_required", bool, False)
    if isinstance(credentials, ClientTls) and not authority:
        older = block.block("credentials").block("client_tls")
        authority = older.get("ca_cert", str, "")
        and_system = older.get("system_ca_required", bool, False)
    return Service(
        name=name,
        url=url,
        headers=_texts(block, "headers"),
        header_timeout=float(timeout),
        allow_insecure_tls=block.get("allow_insecure_tls", bool, False),
        ca_certificate=authority,
        system_ca_required=and_system,
        credentials=credentials,
        is_registry=is_registry,
    )


def _for_kind(
    credentials: Credentials | None, block: Block, *, is_registry: bool
) -> Credentials | None:
    """Credentials as a registry takes them, or another service."""
    where = block.location("credentials")
    if isinstance(credentials, AwsSigning):
        service = credentials.service or ("ecr" if is_registry else "s3")
        if is_registry and service != "ecr":
            raise ConfigError(
                f'{where}: cannot use aws service "{service}" with service type "oci"'
            )
        if not is_registry and service == "ecr":
            raise ConfigError(f'{where}: aws service "ecr" must be used with service type "oci"')
        return replace(credentials, service=service)
    if is_registry and isinstance(credentials, AzureIdentity):
        raise ConfigError(f"{where}: azure managed identities auth: OCI service not supported")
    if is_registry and isinstance(credentials, Bearer):
        # Its token is `user:password` in clear.
        return replace(credentials, is_pair=True)
    return credentials


def _texts(block: Block, key: str) -> dict[str, str]:
    inner = block.block(key)
    return {name: inner.get(name, str, "") for name in inner.values}


def _credentials(block: Block, keys: Mapping[str, Key], warnings: list[str]) -> Credentials | None:
    given = [name for name in block.values if block.values[name] is not None]
    if not given:
        return None
    if len(given) > 1:
        raise ConfigError(
            f"{block.location(given[1])}: a maximum one credential method must be specified"
        )
    name = given[0]
    readers: dict[str, Callable[[Block, list[str]], Credentials]] = {
        "bearer": _bearer,
        "client_tls": _client_tls,
        "s3_signing": _aws,
        "gcp_metadata": _gcp,
        "azure_managed_identity": _azure,
    }
    if name == "oauth2":
        return _oauth2(block.block(name), keys, warnings)
    if name not in readers:
        raise ConfigError(f"{block.location(name)}: there are no such credentials")
    return readers[name](block.block(name), warnings)


def _bearer(block: Block, warnings: list[str]) -> Bearer:
    warnings += block.unknown(["scheme", "token", "token_path"])
    token, path = block.get("token", str, ""), block.get("token_path", str, "")
    if token and path:
        raise ConfigError(
            f"{block.location('token_path')}: specify a value for either the "
            '"token" or "token_path" field'
        )
    return Bearer(token, path, block.get("scheme", str, "") or "Bearer")


def _client_tls(block: Block, warnings: list[str]) -> ClientTls:
    warnings += block.unknown(
        [
            "ca_cert",
            "cert",
            "cert_reread_interval_seconds",  # changed files are read again at once
            "private_key",
            "private_key_passphrase",
            "system_ca_required",
        ]
    )
    certificate, key = block.get("cert", str, ""), block.get("private_key", str, "")
    if not certificate or not key:
        missing = "private_key" if certificate else "cert"
        raise ConfigError(f"{block.location(missing)} is needed when client TLS is enabled")
    return ClientTls(certificate, key, block.get("private_key_passphrase", str, ""))


_OAUTH2: Final = (
    "additional_claims",
    "additional_headers",
    "additional_parameters",
    "aws_kms",
    "aws_signing",
    "client_assertion",
    "client_assertion_path",
    "client_assertion_type",
    "client_id",
    "client_secret",
    "grant_type",
    "include_jti_claim",
    "scopes",
    "signing_key",
    "thumbprint",
    "token_url",
)


def _oauth2(block: Block, keys: Mapping[str, Key], warnings: list[str]) -> OAuth2:
    for name in ("azure_keyvault", "azure_signing"):
        if block.values.get(name) is not None:
            raise ConfigError(f"{block.location(name)}: keys in Azure Key Vault are not supported")
    warnings += block.unknown(_OAUTH2)
    grant = block.get("grant_type", str, "") or "client_credentials"
    if grant not in ("client_credentials", "jwt_bearer"):
        raise ConfigError(
            f"{block.location('grant_type')} must be either client_credentials or jwt_bearer"
        )
    url = block.get("token_url", str, "")
    if not url.startswith("https://"):
        raise ConfigError(f"{block.location('token_url')} required to use https scheme")
    secrets = ("client_secret", "signing_key", "client_assertion", "client_assertion_path")
    given = [name for name in secrets if block.get(name, str, "")]
    kms_key = _kms_key(block, warnings)
    if kms_key is not None:
        given.append("aws_kms")
        if grant != "client_credentials":
            raise ConfigError(f"{block.location('aws_kms')} is for client_credentials only")
    if grant == "client_credentials":
        if len(given) != 1:
            raise ConfigError(
                f"{block.location('client_secret')}: give one of {', '.join(secrets)}, aws_kms"
            )
        if given not in (["signing_key"], ["aws_kms"]) and not block.get("client_id", str, ""):
            raise ConfigError(f"{block.location('client_id')} and {given[0]} required")
    return OAuth2(
        token_url=url,
        grant_type=grant,
        client_id=block.get("client_id", str, ""),
        client_secret=block.get("client_secret", str, ""),
        scopes=block.strings("scopes"),
        headers=_texts(block, "additional_headers"),
        parameters=_texts(block, "additional_parameters"),
        signing_key=_signing_key(block, keys, is_needed=grant == "jwt_bearer"),
        kms_key=kms_key,
        claims=block.block("additional_claims").plain(),
        include_jti=block.get("include_jti_claim", bool, False),
        thumbprint=block.get("thumbprint", str, ""),
        assertion=block.get("client_assertion", str, ""),
        assertion_path=block.get("client_assertion_path", str, ""),
        assertion_type=block.get("client_assertion_type", str, "") or CLIENT_ASSERTION,
    )


def _kms_key(block: Block, warnings: list[str]) -> AwsKmsKey | None:
    if block.values.get("aws_kms") is None:
        return None
    if block.values.get("aws_signing") is None:
        raise ConfigError(f"{block.location('aws_kms')}: aws_kms and aws_signing required")
    key, signing = block.block("aws_kms"), _aws(block.block("aws_signing"), warnings)
    warnings += key.unknown(["algorithm", "name"])
    name, algorithm = key.get("name", str, ""), key.get("algorithm", str, "")
    if not name:
        raise ConfigError(f"{key.location('name')} must be the name of a key")
    if algorithm not in KMS_ALGORITHMS:
        raise ConfigError(f"{key.location('algorithm')}: unsupported sign algorithm {algorithm}")
    if signing.service != "kms":
        where = block.block("aws_signing").location("service")
        raise ConfigError(f"{where} must be `kms` to sign assertions")
    return AwsKmsKey(name, algorithm, signing)


def _signing_key(block: Block, keys: Mapping[str, Key], *, is_needed: bool) -> Key | None:
    name = block.get("signing_key", str, "")
    if not name and not is_needed:
        return None
    if name not in keys:
        raise ConfigError(f"{block.location('signing_key')} refers to non-existent key")
    if not keys[name].private_key:
        raise ConfigError(f"{block.location('signing_key')}: `{name}` has no private key")
    return keys[name]


_AWS_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "environment_credentials": (),
    "assume_role_credentials": (
        "aws_domain",
        "aws_region",
        "aws_signing",
        "iam_role_arn",
        "session_name",
    ),
    "web_identity_credentials": ("aws_domain", "aws_region", "session_name"),
    "profile_credentials": ("aws_region", "path", "profile"),
    "metadata_credentials": ("aws_region", "iam_role"),
    "sso_credentials": ("cache_path", "path", "profile"),
}
"""The sources in the order in which they are tried, each with its keys."""
_ASKING: Final = ("environment_credentials", "profile_credentials", "metadata_credentials")
"""Sources whose keys may ask for those of a role."""


def _aws(block: Block, warnings: list[str]) -> AwsSigning:
    warnings += block.unknown([*_AWS_SOURCES, "service", "signature_version"])
    version = _signature_version(block)
    names = [name for name in _AWS_SOURCES if block.values.get(name) is not None]
    if not names:
        where = f"{block.file}: {block.path}" if block.file else block.path
        raise ConfigError(
            f"{where}: a AWS credential service must be specified when S3 signing is enabled"
        )
    sources = [_aws_source(name, block.block(name), warnings) for name in names]
    return AwsSigning(tuple(sources), block.get("service", str, "").lower(), version)


def _signature_version(block: Block) -> Literal["4", "4a"]:
    given = str(block.values.get("signature_version") or "4")
    if given == "4a":
        return "4a"
    if given != "4":
        where = block.location("signature_version")
        raise ConfigError(f"{where} must be 4 or 4a but is `{given}`")
    return "4"


def _aws_source(name: str, block: Block, warnings: list[str]) -> AwsSource:
    warnings += block.unknown(list(_AWS_SOURCES[name]))
    signing: AwsSource | None = None
    version: Literal["4", "4a"] = "4"
    if name == "assume_role_credentials":
        signing = _asking(block, warnings)
        version = _signature_version(block.block("aws_signing"))
    region = block.get("aws_region", str, "")
    if name == "metadata_credentials" and not region:
        where = block.location("aws_region")
        raise ConfigError(f"{where} must be specified for AWS metadata credential service")
    kind: Any = name.removesuffix("_credentials")
    return AwsSource(
        kind,
        region=region,
        profile=block.get("profile", str, ""),
        path=block.get("path", str, ""),
        cache_path=block.get("cache_path", str, ""),
        role=block.get("iam_role_arn", str, "") or block.get("iam_role", str, ""),
        session_name=block.get("session_name", str, "") or AwsSource(kind).session_name,
        domain=block.get("aws_domain", str, ""),
        signing=signing,
        version=version,
    )


def _asking(block: Block, warnings: list[str]) -> AwsSource:
    """Whose keys ask for those of a role."""
    if block.values.get("aws_signing") is None:
        raise ConfigError(
            f"{block.location('aws_signing')}: a AWS signing plugin must be specified when "
            "AssumeRole credential provider is enabled"
        )
    inner = block.block("aws_signing")
    warnings += inner.unknown([*_ASKING, "service", "signature_version"])
    names = [name for name in _ASKING if inner.values.get(name) is not None]
    if not names:
        raise ConfigError(
            f"{inner.path}: unsupported AWS signing plugin with AssumeRole credential provider"
        )
    return _aws_source(names[0], inner.block(names[0]), warnings)


def _gcp(block: Block, warnings: list[str]) -> GcpMetadata:
    warnings += block.unknown(
        ["access_token_path", "audience", "endpoint", "identity_token_path", "scopes"]
    )
    audience, scopes = block.get("audience", str, ""), block.strings("scopes")
    if bool(audience) == bool(scopes):
        raise ConfigError(f"{block.location('audience')}: give either audience or scopes, not both")
    default = GcpMetadata()
    return GcpMetadata(
        audience,
        scopes,
        block.get("endpoint", str, "") or default.endpoint,
        block.get("access_token_path", str, "") or default.access_token_path,
        block.get("identity_token_path", str, "") or default.identity_token_path,
    )


def _azure(block: Block, warnings: list[str]) -> AzureIdentity:
    names = ["api_version", "client_id", "endpoint", "mi_res_id", "object_id", "resource"]
    warnings += block.unknown([*names, "use_app_service_msi"])
    given = {name: block.get(name, str, "") for name in names}
    return AzureIdentity(
        app_service=block.get("use_app_service_msi", bool, False),
        **{name: value for name, value in given.items() if value},
    )
