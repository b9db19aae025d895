"""The caller, if an input names one: a user and roles, for lists and filters.

The names of fields are those that clients of policies use. Claims of a token count unmarked only if
the policy verified the token; others are marked with `?`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from doorward.base.digits import parse_digits
from doorward.rego import Environment, from_json
from doorward.rego.shared import mask_credentials, verified_token

__all__ = ["Caller", "caller_of"]

LONGEST: Final = 80
"""The characters to which a name, and the list of roles, is cut."""
MOST_ROLES: Final = 8
_TOKEN: Final = 16 << 10
"""The most characters of a token that is read; a longer one is ignored."""
_USERS: Final = ("user", "User", "subject", "principal", "username", "user_name", "identity")
_NAMES: Final = ("preferred_username", "username", "name", "email", "id", "sub")
_ROLES: Final = ("role", "roles", "groups")
_UNVERIFIED: Final = "?"


class Caller(NamedTuple):
    """The user and roles of one input; "" where it names none. Unverified claims end with `?`."""

    user: str = ""
    role: str = ""


def caller_of(input: Any, environment: Environment | None = None, *, claims: Any = None) -> Caller:
    """Return the caller that an input names: by its own fields, otherwise by the claims of a token,
    marked with `?` if the token was not verified.

    `environment`: that of the engine that decided, whose cache knows verified tokens; None: all
    count as unverified. `claims`: those of a verified token that the input does not contain any
    more.
    """
    if not isinstance(input, dict):
        return Caller()
    user = next((text for name in _USERS if (text := _name(input.get(name)))), "")
    role = _roles(input) or next((t for name in _USERS if (t := _roles(input.get(name)))), "")
    if user and role:
        return Caller(user, role)
    is_verified = isinstance(claims, dict)
    if not is_verified:
        claims, is_verified = _claims(input, environment)
    mark = "" if is_verified else _UNVERIFIED
    named, roles = _name(claims), _roles(claims)
    return Caller(user or (named and named + mark), role or (roles and roles + mark))


def _name(value: Any) -> str:
    """Return the name in a user's value, a string or an object; "" if there is none."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return next((_text(value[n]) for n in _NAMES if isinstance(value.get(n), str)), "")
    return ""


def _roles(value: Any) -> str:
    """Return the first `MOST_ROLES` roles in a user's value, otherwise in its `properties`,
    otherwise in its `claims`, joined by commas and cut to `LONGEST` characters; "" if there are
    none.
    """
    if not isinstance(value, dict):
        return ""
    for below in (value, value.get("properties"), value.get("claims")):
        roles = [role for name in _ROLES for role in _texts(_get(below, name))]
        if roles:
            return ", ".join(roles[:MOST_ROLES])[:LONGEST]
    return ""


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _texts(value: Any) -> Iterator[str]:
    """Yield a string, or the strings of a collection, each as it may be displayed."""
    if isinstance(value, str):
        yield _text(value)
    elif isinstance(value, (list, frozenset)):
        texts = [each for each in value if isinstance(each, str)]
        yield from map(_text, texts if isinstance(value, list) else sorted(texts))


def _text(value: str) -> str:
    """Return a name for display, masked and cut; one in base64url, as some issuers write it, with
    its decoded form before it.
    """
    masked = mask_credentials(value)[:LONGEST]
    decoded = _decode_value(value)
    return f"{decoded} ({masked})" if decoded else masked


def _decode_value(value: str) -> str:
    """Return the plain ASCII name that a base64url value encodes; "" if it encodes none, and for
    fewer than 4 or more than `LONGEST` characters, digits and words in lower case, which are base64
    only by chance.
    """
    if (
        # Numbers and plain words are base64 as well, by chance.
        not 4 <= len(value) <= LONGEST
        or parse_digits(value) is not None
        or (value.isalpha() and value.islower())
    ):
        return ""
    try:
        text = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode("ascii")
    except (ValueError, binascii.Error):
        return ""
    # Encoded again below, since `b64decode` skips characters that are not base64.
    is_name = all(each.isalnum() or each in "._-@ " for each in text)
    return (
        text
        if is_name
        and base64.urlsafe_b64encode(text.encode()).decode().rstrip("=") == value.rstrip("=")
        else ""
    )


def _claims(
    input: Mapping[Any, Any], environment: Environment | None
) -> tuple[Mapping[Any, Any], bool]:
    """Return the claims of the token in a request's Authorization header, and True if the policy
    verified it; {} and False without a token, or if the header is longer than `_TOKEN`.
    """
    http = _get(_get(_get(input, "attributes"), "request"), "http")
    headers = _get(http, "headers") or input.get("headers")
    header = _get(headers, "authorization") or _get(headers, "Authorization")
    header = header[0] if isinstance(header, list) and header else header
    if not isinstance(header, str) or len(header) > _TOKEN:
        return {}, False
    token = header.rpartition(" ")[2]
    verified = None if environment is None else verified_token(environment, token)
    if verified is not None:
        return verified[1], True
    return _payload(token), False


def _payload(token: str) -> Mapping[Any, Any]:
    """Return the claims of a JWT without verifying it; {} if it cannot be read."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = from_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return claims if isinstance(claims, dict) else {}
