"""Identity providers whose tokens are accepted, and the sources of their keys."""

from __future__ import annotations

from typing import Final

from doorward.base.records import record
from doorward.base.urls import split_url
from doorward.config.schema import TEXT, TEXTS, OptionError, number, option, optional, section

__all__ = ["Issuer", "LoginClient"]

_LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@record
class LoginClient:
    """The console as a client of an issuer at which people log in. The constructor raises
    OptionError for a missing id, or a URL that is not safe.
    """

    client_id: str = option("client_id", TEXT, "", "the id of the console at the issuer")
    console_url: str = option(
        "console_url",
        TEXT,
        "",
        "scheme, host and port by which browsers reach the console; `/console/oidc/NAME/callback` "
        "below it must be registered as redirect URI at the issuer",
    )
    client_secret: str = option(
        "client_secret",
        TEXT,
        "",
        "the secret of the console at the issuer; empty for a public client, which PKCE alone "
        "protects",
        is_secret=True,
    )
    scopes: tuple[str, ...] = option(
        "scopes",
        TEXTS,
        (),
        "scopes to request in addition to `openid`, such as `email` and `groups`",
    )

    @property
    def host(self) -> str:
        """The host name by which browsers reach the console."""
        return split_url(self.console_url).hostname or ""

    def __post_init__(self) -> None:
        """Raise OptionError without an id, or if the console's URL is not safe or has a path."""
        if not self.client_id:
            raise OptionError(
                "client_id", "must not be empty: set the client ID that the issuer gave the console"
            )
        _check_url("console_url", self.console_url)
        if split_url(self.console_url).path.strip("/"):
            raise OptionError(
                "console_url", "must be a URL without a path, such as https://console.example.com"
            )


@record
class Issuer:
    """An issuer whose keys are fetched. The constructor raises OptionError for a URL that is not
    safe, or an interval out of bounds.
    """

    issuer: str = option(
        "issuer",
        TEXT,
        "",
        "the URL that tokens name as `iss`. Its discovery document says where the keys are, which "
        "are downloaded into `data.identity.NAME`: [how](python.md#keys-of-identity-providers). "
        "The server waits 5 seconds for them before it serves; until they arrive, the tokens are "
        "refused. Only with one process",
        is_opa=False,
    )
    jwks_url: str = option(
        "jwks_url", TEXT, "", "URL of the keys, for an issuer without discovery", is_opa=False
    )
    interval: float = option(
        "interval_seconds",
        number(least=1.0, most=86_400.0),
        300.0,
        "seconds between two downloads of the keys",
        is_opa=False,
    )
    login: LoginClient | None = option(
        "login",
        optional(section(LoginClient)),
        None,
        "lets people log in to the [console](console.md) at this issuer",
        is_opa=False,
    )

    def __post_init__(self) -> None:
        """Raise OptionError if a URL is not safe, or the interval is out of bounds."""
        for key, url in (("issuer", self.issuer), ("jwks_url", self.jwks_url)):
            if url or key == "issuer":
                _check_url(key, url)
        if not 1.0 <= self.interval <= 86_400.0:
            raise OptionError("interval", "must be from 1 to 86400 seconds")

    def is_as_safe(self, url: str) -> bool:
        """Return True if `url` is https, or http with an issuer that is http too."""
        scheme = split_url(url).scheme
        return scheme == "https" or (scheme == "http" and self.issuer.startswith("http://"))


def _check_url(key: str, url: object) -> None:
    """Raise `OptionError` unless the URL is https, or http on this host, and has no user, password,
    query or fragment.
    """
    parts = split_url(url) if isinstance(url, str) else None
    is_local = parts is not None and parts.hostname in _LOCAL
    # Any `@`, since a password may come without a user.
    if parts is None or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise OptionError(
            key,
            "must be a URL without a user, password, query and fragment, such as "
            "https://login.example.com",
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise OptionError(
            key, "must begin with https://, or with http:// for a server on this host"
        )
