"""`services` and `keys` of the configuration: the servers of bundles and logs, and how requests to
them are authenticated.

A configuration that cannot work is refused here, with its location; OPA refuses most of them at the
first request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from doorward.base.records import record
from doorward.base.urls import split_url
from doorward.bundles.signatures import ALGORITHMS, Key
from doorward.config.blocks import Block, ConfigError
from doorward.config.schema import (
    OBJECT,
    SWITCH,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Kind,
    choice,
    convert,
    integer,
    nonempty,
    option,
    optional,
    options_of,
    read_section,
    section,
    text_or,
)

__all__ = [
    "KEYS",
    "KMS_ALGORITHMS",
    "SERVICES",
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
    "find_service",
    "service_blocks",
    "with_keys",
]

CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SignatureVersion: TypeAlias = Literal["4", "4a"]


@record
class Bearer:
    """A token for the header `Authorization`: `token`, or the content of the file `token_path`."""

    token: str = option("token", TEXT, "", "the token", is_secret=True)
    token_path: str = option("token_path", TEXT, "", "a file with the token, read for each request")
    scheme: str = option("scheme", text_or("Bearer"), "Bearer", "the scheme in `Authorization`")
    is_pair: bool = False
    """True if the token is `user:password` and is sent in base64, as registries expect."""

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if both a token and a file are set."""
        if block.get("token", str, "") and block.get("token_path", str, ""):
            raise ConfigError(
                f"{block.location('token_path')}: specify a value for either the "
                '"token" or "token_path" field'
            )


@record
class ClientTls:
    """A client certificate and its key, in files in PEM."""

    certificate: str = option("cert", TEXT, "", "a file with the certificate, in PEM")
    private_key: str = option("private_key", TEXT, "", "a file with its private key, in PEM")
    passphrase: str = option(
        "private_key_passphrase", TEXT, "", "the passphrase of the private key", is_secret=True
    )
    reread_seconds: int = option(
        "cert_reread_interval_seconds", integer(0), 0, "ignored: changed files are read at once"
    )
    ca_certificate: str = option(
        "ca_cert", TEXT, "", "an older name of the service's `tls.ca_cert`"
    )
    system_ca_required: bool = option(
        "system_ca_required", SWITCH, False, "an older name of `tls.system_ca_required`"
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError unless both a certificate and a key are set."""
        for key in ("cert", "private_key"):
            if not block.get(key, str, ""):
                raise ConfigError(f"{block.location(key)} is needed when client TLS is enabled")


KMS_ALGORITHMS: Final = {
    "ECDSA_SHA_256": "ES256",
    "ECDSA_SHA_384": "ES384",
    "ECDSA_SHA_512": "ES512",
}
"""The algorithms of AWS KMS that can sign assertions, each with its name in JWTs."""


@record
class AwsSource:
    """One source of AWS keys; for fields that are "", the environment variables of AWS apply."""

    kind: Literal["environment", "assume_role", "web_identity", "profile", "metadata", "sso"]
    region: str = ""
    profile: str = ""
    path: str = ""
    """The file with profiles."""
    cache_path: str = ""
    """The folder in which `aws sso login` stores sessions."""
    role: str = ""
    session_name: str = "open-policy-agent"
    domain: str = ""
    signing: AwsSource | None = None
    """The source of the keys that request the keys of a role; None for other kinds."""
    version: SignatureVersion = "4"
    """The version of the signatures of requests for a role's keys."""


def _read_version(block: Block, key: str, _warnings: list[str]) -> SignatureVersion:
    """Return the version of AWS signatures; ConfigError unless it is 4 or 4a."""
    # YAML reads 4 as a number.
    version = str(block.values.get(key))
    if version not in ("4", "4a"):
        raise ConfigError(f"{block.location(key)} must be 4 or 4a but is `{version}`")
    return "4a" if version == "4a" else "4"


_VERSION: Final = Kind(_read_version, "`4` or `4a`", {"enum": [4, "4", "4a"]})
_REGION: Final = "the region; by default `AWS_REGION`"
_DOMAIN: Final = "the domain of AWS STS, which issues the keys; by default `AWS_DOMAIN`"
_SESSION: Final = "the name of the session"
_DEFAULT_SESSION: Final = "open-policy-agent"


@record
class _Environment:
    """Keys in the environment variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`."""

    def source(self) -> AwsSource:
        return AwsSource("environment")


@record
class _Profile:
    """Keys in the credentials file that AWS tools share."""

    path: str = option(
        "path",
        TEXT,
        "",
        "the file with profiles; by default `AWS_SHARED_CREDENTIALS_FILE`, or else "
        "`~/.aws/credentials`",
    )
    profile: str = option("profile", TEXT, "", "the profile; by default `AWS_PROFILE`")
    region: str = option("aws_region", TEXT, "", _REGION)

    def source(self) -> AwsSource:
        return AwsSource("profile", self.region, self.profile, self.path)


@record
class _Metadata:
    """Keys of the machine's role, from the metadata service."""

    region: str = option("aws_region", TEXT, "", "the region; required")
    role: str = option("iam_role", TEXT, "", "the role; by default that of the container")

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError without `aws_region`: here no environment variable replaces it."""
        if not block.get("aws_region", str, ""):
            where = block.location("aws_region")
            raise ConfigError(f"{where} must be specified for AWS metadata credential service")

    def source(self) -> AwsSource:
        return AwsSource("metadata", self.region, role=self.role)


@record
class _WebIdentity:
    """Keys of a role, obtained with the token in the file `AWS_WEB_IDENTITY_TOKEN_FILE`."""

    region: str = option("aws_region", TEXT, "", _REGION)
    session_name: str = option("session_name", TEXT, _DEFAULT_SESSION, _SESSION)
    domain: str = option("aws_domain", TEXT, "", _DOMAIN)

    def source(self) -> AwsSource:
        name = self.session_name or _DEFAULT_SESSION
        return AwsSource("web_identity", self.region, session_name=name, domain=self.domain)


@record
class _SingleSignOn:
    """Keys of a role, obtained with a session of `aws sso login`."""

    path: str = option("path", TEXT, "", "the file with profiles; by default `~/.aws/config`")
    profile: str = option("profile", TEXT, "", "the profile; by default `AWS_PROFILE`")
    cache_path: str = option(
        "cache_path", TEXT, "", "the folder with sessions; by default `~/.aws/sso/cache`"
    )

    def source(self) -> AwsSource:
        return AwsSource("sso", profile=self.profile, path=self.path, cache_path=self.cache_path)


@record
class _RoleSigning:
    """The source of the keys that sign the request for a role's keys."""

    environment: _Environment | None = option(
        "environment_credentials",
        optional(section(_Environment)),
        None,
        "`{}`: keys in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`",
    )
    profile: _Profile | None = option("profile_credentials", optional(section(_Profile)), None)
    metadata: _Metadata | None = option("metadata_credentials", optional(section(_Metadata)), None)
    service: str = option("service", TEXT, "", "ignored: the service is `sts`")
    version: SignatureVersion = option(
        "signature_version", _VERSION, "4", "the version of AWS signatures"
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError unless the keys of the environment, a profile or the metadata service
        are configured.
        """
        if not _has_any(block, ["environment", "profile", "metadata"]):
            raise ConfigError(
                f"{block.path}: unsupported AWS signing plugin with AssumeRole credential provider"
            )


@record
class _AssumedRole:
    """Keys of a role, requested with the keys of another source."""

    role: str = option("iam_role_arn", TEXT, "", "the role; by default `AWS_ROLE_ARN`")
    session_name: str = option("session_name", TEXT, _DEFAULT_SESSION, _SESSION)
    region: str = option("aws_region", TEXT, "", _REGION)
    domain: str = option("aws_domain", TEXT, "", _DOMAIN)
    signing: _RoleSigning = option("aws_signing", section(_RoleSigning), _RoleSigning())

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise `ConfigError` without `aws_signing`, the source of the keys that request the
        role.
        """
        if block.values.get("aws_signing") is None:
            raise ConfigError(
                f"{block.location('aws_signing')}: a AWS signing plugin must be specified when "
                "AssumeRole credential provider is enabled"
            )

    def source(self) -> AwsSource:
        """Return the source that assumes the role; the first configured source in `aws_signing`
        signs its requests.
        """
        sources = (self.signing.environment, self.signing.profile, self.signing.metadata)
        asking = next((each.source() for each in sources if each is not None), None)
        name = self.session_name or _DEFAULT_SESSION
        return AwsSource(
            "assume_role",
            self.region,
            role=self.role,
            session_name=name,
            domain=self.domain,
            signing=asking,
            version=self.signing.version,
        )


def _has_any(block: Block, sources: Iterable[str]) -> bool:
    return any(block.values.get(f"{name}_credentials") is not None for name in sources)


_SOURCES: Final = ("environment", "assume_role", "web_identity", "profile", "metadata", "sso")


@record
class _AwsBlock:
    """`s3_signing` and `aws_signing`: sources of keys, in the order in which they are tried."""

    environment: _Environment | None = option(
        "environment_credentials",
        optional(section(_Environment)),
        None,
        "`{}`: keys in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION`",
    )
    role: _AssumedRole | None = option(
        "assume_role_credentials", optional(section(_AssumedRole)), None
    )
    web_identity: _WebIdentity | None = option(
        "web_identity_credentials", optional(section(_WebIdentity)), None
    )
    profile: _Profile | None = option("profile_credentials", optional(section(_Profile)), None)
    metadata: _Metadata | None = option("metadata_credentials", optional(section(_Metadata)), None)
    sign_on: _SingleSignOn | None = option(
        "sso_credentials", optional(section(_SingleSignOn)), None
    )
    service: str = option("service", TEXT, "", "`s3`, `ecr` or another service of AWS")
    version: SignatureVersion = option(
        "signature_version", _VERSION, "4", "the version of AWS signatures"
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError unless one of the keys `…_credentials` is set, which are the sources of
        AWS keys; `{}` counts as set.
        """
        if not _has_any(block, _SOURCES):
            where = f"{block.file}: {block.path}" if block.file else block.path
            raise ConfigError(
                f"{where}: a AWS credential service must be specified when S3 signing is enabled"
            )

    def signing(self) -> AwsSigning:
        """Return the configured sources of keys in the order in which they are tried, with service
        and version of the signatures.
        """
        sources = (
            self.environment,
            self.role,
            self.web_identity,
            self.profile,
            self.metadata,
            self.sign_on,
        )
        used = tuple(each.source() for each in sources if each is not None)
        return AwsSigning(used, self.service.lower(), self.version)


@record
class AwsSigning:
    """The options with which requests are signed for AWS, by the keys of the first source that has
    any. With the service `ecr`, requests are not signed: the keys obtain the password of the
    registry.
    """

    sources: tuple[AwsSource, ...]
    service: str = "s3"
    version: SignatureVersion = "4"
    """The version of the signature."""


@record
class _KmsBlock:
    """`aws_kms`: a key in AWS KMS that signs assertions."""

    name: str = option("name", nonempty("the name of a key"), "", "the name of the key in AWS KMS")
    algorithm: str = option("algorithm", TEXT, "", f"one of {', '.join(KMS_ALGORITHMS)}")

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if the `name` of the key in AWS KMS is missing or empty, or if
        `algorithm` is missing or not in `KMS_ALGORITHMS`.
        """
        if not block.get("name", str, ""):
            raise ConfigError(
                f"{block.location('name')} must not be empty: name the key in AWS KMS"
            )
        if (algorithm := block.get("algorithm", str, "")) not in KMS_ALGORITHMS:
            where = block.location("algorithm")
            raise ConfigError(f"{where}: unsupported sign algorithm {algorithm}")


@record
class AwsKmsKey:
    """The name and algorithm of a key in AWS KMS, and how requests to KMS are signed."""

    name: str
    algorithm: str
    signing: AwsSigning


_SECRETS: Final = ("client_secret", "signing_key", "client_assertion", "client_assertion_path")


@record
class OAuth2:
    """An access token from `token_url`, for client credentials or a signed assertion (RFC 7523)."""

    token_url: str = option("token_url", TEXT, "", "the https URL of the server that issues tokens")
    grant_type: str = option(
        "grant_type",
        choice(
            "",
            "client_credentials",
            "jwt_bearer",
            message="must be either client_credentials or jwt_bearer",
        ),
        "client_credentials",
        "`client_credentials` with a secret or a signed assertion, or `jwt_bearer`",
    )
    client_id: str = option("client_id", TEXT, "", "the client ID")
    client_secret: str = option("client_secret", TEXT, "", "the client secret", is_secret=True)
    scopes: tuple[str, ...] = option("scopes", TEXTS, (), "scopes to request")
    headers: Mapping[str, str] = option(
        "additional_headers", TEXT_MAP, {}, "more headers of the token request", is_secret=True
    )
    parameters: Mapping[str, str] = option(
        "additional_parameters",
        TEXT_MAP,
        {},
        "more parameters of the token request",
        is_secret=True,
    )
    signing_key_name: str = option(
        "signing_key", TEXT, "", "the key of `keys` that signs the assertion"
    )
    claims: Mapping[str, object] = option(
        "additional_claims", OBJECT, {}, "more claims of the assertion"
    )
    include_jti: bool = option(
        "include_jti_claim", SWITCH, False, "add the claim `jti` to the assertion"
    )
    thumbprint: str = option(
        "thumbprint", TEXT, "", "the SHA-1 thumbprint of the certificate, as hexadecimal digits"
    )
    assertion: str = option(
        "client_assertion", TEXT, "", "an assertion that is already signed", is_secret=True
    )
    assertion_path: str = option(
        "client_assertion_path", TEXT, "", "a file with an assertion that is already signed"
    )
    assertion_type: str = option(
        "client_assertion_type", TEXT, CLIENT_ASSERTION, "the type of the assertion"
    )
    kms: _KmsBlock | None = option("aws_kms", optional(section(_KmsBlock)), None)
    aws: _AwsBlock | None = option("aws_signing", optional(section(_AwsBlock)), None)
    signing_key: Key | None = None
    kms_key: AwsKmsKey | None = None

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError for `azure_keyvault` and `azure_signing`, which are not supported, and
        for `aws_kms` without `aws_signing`. The other conditions need the keys, and are checked by
        `complete_keys`.
        """
        for name in ("azure_keyvault", "azure_signing"):
            if block.values.get(name) is not None:
                raise ConfigError(
                    f"{block.location(name)}: keys in Azure Key Vault are not supported"
                )
        if block.values.get("aws_kms") is not None and block.values.get("aws_signing") is None:
            raise ConfigError(f"{block.location('aws_kms')}: aws_kms and aws_signing required")

    def complete_keys(self, block: Block, keys: Mapping[str, Key]) -> OAuth2:
        """Return a copy with the defaults filled in and the signing key (from `keys`) or KMS key
        that the options name. `block` is the one of `oauth2`.

        Raise ConfigError if the URL is not https, a key does not exist, or the options do not fit
        the grant. `client_credentials` needs exactly one of `_SECRETS` and `aws_kms`, and a client
        ID unless a key signs; `jwt_bearer` needs `signing_key`, and not `aws_kms`.
        """
        if not self.token_url.startswith("https://"):
            raise ConfigError(f"{block.location('token_url')} required to use https scheme")
        grant = self.grant_type or "client_credentials"
        used = [name for name in _SECRETS if block.get(name, str, "")]
        kms_key = self._kms_key(block)
        if kms_key is not None:
            used.append("aws_kms")
            if grant != "client_credentials":
                raise ConfigError(
                    f"{block.location('aws_kms')} can only be used with the grant type "
                    "client_credentials"
                )
        if grant == "client_credentials":
            if len(used) != 1:
                raise ConfigError(
                    f"{block.location('client_secret')}: set exactly one of "
                    f"{', '.join(_SECRETS)}, aws_kms"
                )
            if used not in (["signing_key"], ["aws_kms"]) and not self.client_id:
                raise ConfigError(f"{block.location('client_id')} and {used[0]} required")
        return replace(
            self,
            grant_type=grant,
            assertion_type=self.assertion_type or CLIENT_ASSERTION,
            signing_key=self._key(block, keys, is_needed=grant == "jwt_bearer"),
            kms_key=kms_key,
        )

    def _kms_key(self, block: Block) -> AwsKmsKey | None:
        """Return the AWS KMS key that signs assertions; None if none is configured. ConfigError
        unless its requests are signed for the service `kms`.
        """
        if self.kms is None or self.aws is None:
            return None
        signing = self.aws.signing()
        if signing.service != "kms":
            where = block.block("aws_signing").location("service")
            raise ConfigError(f"{where} must be `kms`, since `aws_kms` signs the client assertion")
        return AwsKmsKey(self.kms.name, self.kms.algorithm, signing)

    def _key(self, block: Block, keys: Mapping[str, Key], *, is_needed: bool) -> Key | None:
        """Return the key that signs assertions; None if none is named and none is needed.
        ConfigError if it is needed and not named, does not exist, or has no private key.
        """
        name = self.signing_key_name
        if not name and not is_needed:
            return None
        if name not in keys:
            raise ConfigError(f"{block.location('signing_key')} refers to non-existent key")
        if not keys[name].private_key:
            raise ConfigError(
                f"{block.location('signing_key')}: the key `{name}` has no `private_key`: add it"
            )
        return keys[name]


_METADATA: Final = "http://metadata.google.internal"
_STORAGE: Final = "https://storage.azure.com/"
_GOOGLE: Final = "/computeMetadata/v1/instance/service-accounts/default"


@record
class GcpMetadata:
    """A token from Google's metadata server."""

    audience: str = option("audience", TEXT, "", "the audience of an identity token")
    scopes: tuple[str, ...] = option("scopes", TEXTS, (), "the scopes of an access token")
    endpoint: str = option("endpoint", text_or(_METADATA), _METADATA, "the metadata server")
    access_token_path: str = option(
        "access_token_path",
        text_or(f"{_GOOGLE}/token"),
        f"{_GOOGLE}/token",
        "path of access tokens below the endpoint",
    )
    identity_token_path: str = option(
        "identity_token_path",
        text_or(f"{_GOOGLE}/identity"),
        f"{_GOOGLE}/identity",
        "path of identity tokens below the endpoint",
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError unless exactly one of audience and scopes is set."""
        if bool(block.get("audience", str, "")) == bool(block.strings("scopes")):
            raise ConfigError(
                f"{block.location('audience')}: set exactly one of audience and scopes"
            )


@record
class AzureIdentity:
    """A token of one of Azure's managed identities."""

    endpoint: str = option(
        "endpoint",
        TEXT,
        "",
        "the URL of the service that issues tokens; by default `IDENTITY_ENDPOINT`, or Azure's "
        "metadata service",
    )
    resource: str = option(
        "resource", text_or(_STORAGE), _STORAGE, "the resource for which the token is requested"
    )
    api_version: str = option("api_version", TEXT, "", "the version of the API of the endpoint")
    object_id: str = option("object_id", TEXT, "", "the object ID of the identity")
    client_id: str = option("client_id", TEXT, "", "the client ID of the identity")
    mi_res_id: str = option("mi_res_id", TEXT, "", "the resource ID of the identity")
    app_service: bool = option(
        "use_app_service_msi",
        SWITCH,
        False,
        "the endpoint is that of App Service; implied if it is taken from `IDENTITY_ENDPOINT`",
    )


Credentials: TypeAlias = Bearer | ClientTls | OAuth2 | AwsSigning | GcpMetadata | AzureIdentity


@record
class _Methods:
    """`credentials`: at most one of these methods."""

    bearer: Bearer | None = option("bearer", optional(section(Bearer)), None)
    client_tls: ClientTls | None = option("client_tls", optional(section(ClientTls)), None)
    oauth2: OAuth2 | None = option("oauth2", optional(section(OAuth2)), None)
    s3_signing: _AwsBlock | None = option("s3_signing", optional(section(_AwsBlock)), None)
    gcp_metadata: GcpMetadata | None = option("gcp_metadata", optional(section(GcpMetadata)), None)
    azure_managed_identity: AzureIdentity | None = option(
        "azure_managed_identity", optional(section(AzureIdentity)), None
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if `credentials` has more than one method that is not null, or one that
        is not known. No method is valid: requests are then sent without credentials.
        """
        used = [name for name, value in block.values.items() if value is not None]
        if len(used) > 1:
            raise ConfigError(
                f"{block.location(used[1])}: a maximum one credential method must be specified"
            )
        if used and used[0] not in options_of(cls):
            known = ", ".join(options_of(cls))
            raise ConfigError(f"{block.location(used[0])}: unknown credentials; use one of {known}")


def _seconds(value: int) -> float:
    """Return the seconds as float; raise ValueError if they are negative."""
    if value < 0:
        raise ValueError("must be 0 seconds or more")
    return float(value)


@record
class Service:
    """The options of one service under `services`: its URL, credentials and headers."""

    name: str
    url: str = option(
        "url",
        convert(str, lambda text: text.rstrip("/"), "URL", {"type": "string", "format": "uri"}),
        "",
        "base URL of the service, http or https",
    )
    headers: Mapping[str, str] = option(
        "headers", TEXT_MAP, {}, "headers of each request", is_secret=True
    )
    header_timeout: float = option(
        "response_header_timeout_seconds",
        convert(int, _seconds, "integer from 0", {"type": "integer", "minimum": 0}),
        10.0,
        "time limit for the start of a response, in seconds; 0: only the limit of the whole "
        "response applies",
    )
    allow_insecure_tls: bool = option(
        "allow_insecure_tls", SWITCH, False, "accept any certificate: only for tests"
    )
    ca_certificate: str = option(
        "tls.ca_cert",
        TEXT,
        "",
        "a file in PEM with the authorities that sign the service's certificate, instead of the "
        "system's",
    )
    system_ca_required: bool = option(
        "tls.system_ca_required",
        SWITCH,
        False,
        "accept certificates of the system's authorities too",
    )
    kind: str = option("type", TEXT, "", "`oci`: a registry, in which bundles are layers")
    listed_name: str = option("name", TEXT, "", "the name of the service, if `services` is a list")
    methods: _Methods = option("credentials", section(_Methods), _Methods())
    credentials: Credentials | None = None
    is_registry: bool = False
    """True if the service is a registry of OCI artifacts, in which bundles are layers."""

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise `ConfigError` unless the URL is http or https with a host, and its port, if it has
        one, a number up to 65535.
        """
        parts = split_url(block.get("url", str, ""))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"{block.location('url')} must be an http:// or https:// URL with a host, and a "
                "port, if it has one, must be a number up to 65535"
            )


def with_keys(
    service: Service, block: Block, keys: Mapping[str, Key], warnings: list[str]
) -> Service:
    """Complete a service: its credentials with their keys, and for a registry (`type: oci`) a URL
    without a path. Options of certificate authorities under `client_tls`, their older place, count
    unless the service has its own.

    An unknown type is a warning; credentials that the type does not accept are a ConfigError.
    """
    is_registry = service.kind.lower() == "oci"
    url = service.url
    if is_registry:
        # As in OPA: references have names of their own below the host.
        url = "://".join([url.partition("://")[0], url.partition("://")[2].partition("/")[0]])
    elif service.kind:
        warnings.append(
            f"{block.location('type')}: `{service.kind}` is not a known type and is ignored: use "
            "`oci`, or remove the key"
        )
    credentials = _credentials(service.methods, block.block("credentials"), keys)
    credentials = _for_kind(credentials, block, is_registry=is_registry)
    tls = credentials if isinstance(credentials, ClientTls) else None
    is_older = tls is not None and not service.ca_certificate
    return replace(
        service,
        url=url,
        credentials=credentials,
        is_registry=is_registry,
        ca_certificate=tls.ca_certificate if tls and is_older else service.ca_certificate,
        system_ca_required=(
            tls.system_ca_required if tls and is_older else service.system_ca_required
        ),
    )


def _credentials(methods: _Methods, block: Block, keys: Mapping[str, Key]) -> Credentials | None:
    """Return the credentials of the configured method; None if there is none. ConfigError if the
    options of `oauth2` contradict each other or name a key that is missing.
    """
    if methods.oauth2 is not None:
        return methods.oauth2.complete_keys(block.block("oauth2"), keys)
    if methods.s3_signing is not None:
        return methods.s3_signing.signing()
    if methods.bearer is not None:
        return replace(methods.bearer, scheme=methods.bearer.scheme or "Bearer")
    return methods.client_tls or methods.gcp_metadata or methods.azure_managed_identity


def _for_kind(
    credentials: Credentials | None, block: Block, *, is_registry: bool
) -> Credentials | None:
    """Adapt credentials to a registry or another service; ConfigError if it does not accept them.
    The token of a registry is `user:password`; AWS signatures are by default for `ecr` or `s3`.
    None (no credentials) is returned unchanged.
    """
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


def _read_services(top: Block, key: str, warnings: list[str]) -> Mapping[str, Service]:
    """Read `services`, an object or a list of objects with names, in their order. ConfigError for a
    repeated name or an invalid service.
    """
    services: dict[str, Service] = {}
    for name, block in _blocks_by_name(top, key):
        if name in services:
            raise ConfigError(f"{block.location('name')}: the service `{name}` is configured twice")
        services[name] = read_section(Service, block, warnings, {"name": name})
    return services


def _blocks_by_name(top: Block, key: str) -> Iterator[tuple[str, Block]]:
    """Yield pairs of name and service, from an object or from a list; ConfigError for an item that
    is not an object, or an item of the list without a `name`.
    """
    listed = top.values.get(key)
    if not isinstance(listed, list):
        block = top.block(key)
        for name in block.values:
            yield name, block.block(name)
        return
    for each in listed:
        if not isinstance(each, Block):
            raise ConfigError(f"{top.location(key)} must be a list of objects")
        if not (name := each.get("name", str, "")):
            raise ConfigError(f"{top.location(key)}: a service in a list needs a `name`")
        yield name, each


def service_blocks(top: Block) -> Mapping[str, Block]:
    """Return the blocks of the services by their names."""
    return dict(_blocks_by_name(top, "services"))


SERVICES: Final = Kind(
    _read_services,
    "objects by name, or a list",
    {},
    Service,
    is_named=True,
    is_listed=True,
)


def find_service(block: Block, name: str, services: Iterable[str]) -> str:
    """Return the name of a service: `name`, or the first one if it is "". Raise `ConfigError` if
    there is no such service.
    """
    known = list(services)
    if not name and known:
        return known[0]
    if name not in known:
        raise ConfigError(f'{block.location("service")}: service name "{name}" not found')
    return name


def _algorithm(value: str) -> str:
    """Return the algorithm, `RS256` for ""; raise ValueError if it is not supported."""
    if value and value not in ALGORITHMS:
        raise ValueError(f": unsupported algorithm '{value}'")
    return value or "RS256"


@record
class _KeyBlock:
    """One key under `keys`, as the file declares it."""

    name: str
    key: str = option(
        "key", TEXT, "", "the key that verifies: a public key in PEM, or a secret", is_secret=True
    )
    private_key: str = option(
        "private_key",
        TEXT,
        "",
        "the key that signs: a private key in PEM, or a secret",
        is_secret=True,
    )
    algorithm: str = option(
        "algorithm",
        convert(
            str, _algorithm, ", ".join(ALGORITHMS), {"type": "string", "enum": list(ALGORITHMS)}
        ),
        "RS256",
        "the algorithm of signatures",
    )
    scope: str = option("scope", TEXT, "", "the scope that signatures must have")


def _read_keys(top: Block, key: str, warnings: list[str]) -> Mapping[str, Key]:
    """Return the keys by name; ConfigError for one with neither a public nor a private key."""
    block = top.block(key)
    keys: dict[str, Key] = {}
    for name in block.values:
        one = read_section(_KeyBlock, block.block(name), warnings, {"name": name})
        if not one.key and not one.private_key:
            raise ConfigError(
                f"{block.location(name)}: invalid keys configuration: "
                f"no keys provided for key ID {name}"
            )
        keys[name] = Key(one.key, one.algorithm, one.scope, private_key=one.private_key)
    return keys


KEYS: Final = Kind(_read_keys, "objects by name", {}, _KeyBlock, is_named=True)
