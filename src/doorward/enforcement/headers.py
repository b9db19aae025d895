"""Request headers by which a client could pass for another, or ask for another request.

A proxy or a middleware takes them away before anybody reads them, unless what is in front of it
sets them itself.
"""

from __future__ import annotations

from typing import Final

__all__ = ["IDENTITIES", "OAUTH2_PROXY", "ORIGINS", "OVERRIDES", "ROOTS", "UNTRUSTED"]

# Envoy guards most of its own `x-envoy-*`; these came through (1.40).
OVERRIDES: Final = (
    "x-envoy-attempt-count",
    "x-envoy-auth-partial-body",
    "x-envoy-original-host",
    "x-envoy-original-path",
    "x-envoy-peer-metadata",
    "x-envoy-peer-metadata-id",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
)
"""Headers that name another method, path or host than the one that is decided on."""
IDENTITIES: Final = (
    "remote-user",
    "x-auth-request-email",
    "x-auth-request-groups",
    "x-auth-request-user",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    "x-forwarded-user",
    "x-remote-group",
    "x-remote-user",
)
"""Headers that name the user."""
OAUTH2_PROXY: Final = (
    "x-auth-request-user",
    "x-auth-request-email",
    "x-auth-request-groups",
    "x-auth-request-preferred-username",
)
"""The headers with which oauth2-proxy names the user to applications."""
ORIGINS: Final = (
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-real-ip",
    "x-scheme",
    "x-script-name",
)
"""Headers in which proxies describe the client; without a proxy in front, clients can forge
them."""
ROOTS: Final = ("script-name",)
"""The header that names the part of the path before the application; gunicorn trusts proxies that
send it."""
UNTRUSTED: Final = frozenset({*OVERRIDES, *IDENTITIES, *ORIGINS, *ROOTS, "x-forwarded-proto"})
"""All headers that a client must not set itself."""
