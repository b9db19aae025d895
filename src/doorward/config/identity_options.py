"""Which identity provider is believed, and where its keys are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

__all__ = ["Issuer", "IssuerError", "LoginClient"]

_LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class IssuerError(ValueError):
    """An issuer that cannot be used; `key` names what is wrong."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message


@dataclass(frozen=True, slots=True)
class LoginClient:
    """As whom the console lets people log in at an issuer. IssuerError for what cannot be used."""

    client_id: str
    console_url: str
    """Scheme, host and port by which browsers reach the console; `/console/oidc/NAME/callback`
    below it is registered at the issuer."""
    client_secret: str = field(default="", repr=False)
    """Empty for a public client, which PKCE alone protects."""
    scopes: tuple[str, ...] = ()
    """Besides `openid`: `email`, `groups`."""

    @property
    def host(self) -> str:
        """The name by which browsers reach the console."""
        return urlsplit(self.console_url).hostname or ""

    def __post_init__(self) -> None:
        if not self.client_id:
            raise IssuerError("client_id", "must be the id of the console at the issuer")
        _check_url("console_url", self.console_url)
        if urlsplit(self.console_url).path.strip("/"):
            raise IssuerError("console_url", "must be a scheme and a host without a path")


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose keys are fetched, and how often. IssuerError for what cannot be used."""

    issuer: str
    """The URL that tokens name as `iss`; its discovery document says where the keys are."""
    jwks_url: str = ""
    """Where the keys are, for an issuer without discovery."""
    interval: float = 300.0
    """Seconds between two fetches."""
    login: LoginClient | None = None
    """Where people log in to the console at this issuer."""

    def __post_init__(self) -> None:
        for key, url in (("issuer", self.issuer), ("jwks_url", self.jwks_url)):
            if url or key == "issuer":
                _check_url(key, url)
        if not 1.0 <= self.interval <= 86_400.0:
            raise IssuerError("interval", "must be from 1 to 86400 seconds")

    def is_as_safe(self, url: str) -> bool:
        """Return True if what comes from `url` is as safe as the issuer's own document."""
        scheme = urlsplit(url).scheme
        return scheme == "https" or (scheme == "http" and self.issuer.startswith("http://"))


def _check_url(key: str, url: object) -> None:
    parts = urlsplit(url) if isinstance(url, str) else None
    is_local = parts is not None and parts.hostname in _LOCAL
    if parts is None or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise IssuerError(key, "must be a URL without a user, a query and a fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise IssuerError(key, "must begin with https:// (http:// on this host only)")
