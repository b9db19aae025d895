"""The keys of identity providers, fetched in the background and stored in `data.identity`.

    issuer --discovery--> jwks_uri --> keys --> data.identity.NAME = {"issuer", "jwks", "kids"}

A policy verifies a token with the keys that were fetched last:

    io.jwt.decode_verify(token, {"cert": data.identity.main.jwks, "iss": data.identity.main.issuer})

No decision waits for an issuer. While an issuer does not answer, its known keys stay active: tokens
of known keys are accepted, others are not. A denied request with a token of an unknown key makes
the next fetch come sooner, at most once in `MISS_QUIET` seconds.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

import httpx

from doorward.base.clock import SYSTEM_CLOCK, Clock
from doorward.config.identity_options import Issuer
from doorward.edge import Edge, Part, Parts, loop_thread
from doorward.pdp.issuer_documents import DocumentError, fetch_document, issuer_client
from doorward.pdp.store import Store
from doorward.rego import BuiltinError, Value
from doorward.rego.shared import EvaluationAborted, Key, parse_key_set

__all__ = ["Identity", "IdentityError", "read_keys"]

ROOT: Final = "identity"
"""The name below `data` that contains the keys."""
MAX_KEYS: Final = 100
MISS_QUIET: Final = 10.0
"""The least number of seconds between two fetches because of unknown keys."""
FIRST_RETRY: Final = 1.0
STUCK_AFTER: Final = 120.0
MAX_TOKEN_HEAD: Final = 4096
"""The longest header of a token that is searched for a key id, in characters."""

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("identity", "fetching keys failed")
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_TYPES: Final = frozenset({"EC", "OKP", "RSA"})


class IdentityError(Exception):
    """Keys that cannot be fetched or used; the message is the reason."""


class Identity:
    """Fetches the keys of identity providers, with one thread for each issuer, into
    `data.identity`. The constructor reserves that path in the store. Safe in any number of threads.
    """

    def __init__(
        self,
        issuers: Mapping[str, Issuer],
        store: Store,
        parts: Parts | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        # Before any key is fetched: a client must not be able to put keys of its own there.
        store.reserve(ROOT)
        self._clock = clock
        self._keys = {
            name: _Keys(name, issuer, store, parts or Parts(), transport, clock)
            for name, issuer in issuers.items()
        }

    def start(self, *, within: float) -> list[str]:
        """Start the threads, and wait until every issuer has answered, at most `within` seconds.
        Return the names of those whose keys are not known yet; their threads continue.
        """
        until = self._clock.now() + within
        for keys in self._keys.values():
            keys.start()
        return [
            name
            for name, keys in self._keys.items()
            if not self._clock.wait(keys.is_warm, max(0.0, until - self._clock.now()))
        ]

    @property
    def errors(self) -> dict[str, str]:
        """The reason why the last fetch of an issuer failed, by its name; issuers without an error
        are left out.
        """
        return {name: keys.error for name, keys in self._keys.items() if keys.error}

    def note_denied(self, input: Any) -> None:
        """Fetch the keys again soon if the token in `input` names a key that no issuer has. Called
        for a denied request. Reads the `authorization` header of Envoy's input, and does nothing
        for any other input.
        """
        kid = _kid_of(input)
        if kid is not None and not any(kid in keys.kids for keys in self._keys.values()):
            for keys in self._keys.values():
                keys.miss()

    def close(self) -> None:
        """End the threads and wait for them, at most five seconds each. Keys that were fetched stay
        in the data.
        """
        for keys in self._keys.values():
            keys.close()


class _Keys:
    """The keys of one issuer, and the thread that fetches them."""

    def __init__(
        self,
        name: str,
        issuer: Issuer,
        store: Store,
        parts: Parts,
        transport: httpx.BaseTransport | None,
        clock: Clock,
    ) -> None:
        self.name = name
        self.kids: frozenset[str] = frozenset()
        self.error = ""
        self.is_warm = threading.Event()
        self._issuer = issuer
        self._store = store
        self._parts = parts
        self._transport = transport
        self._clock = clock
        self._text = ""
        self._fetched = -MISS_QUIET
        self._retry = FIRST_RETRY
        self._pause = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._part = Part(f"identity-{name}", within=STUCK_AFTER, clock=clock)
        self._thread = loop_thread(
            self._run_round,
            _EDGE,
            name=self._part.name,
            stop=self._stop,
            part=self._part,
            clock=clock,
        )

    def start(self) -> None:
        """Start the thread that fetches the issuer's keys, and add it to the parts whose health is
        watched.
        """
        self._thread.start()
        self._part.thread = self._thread
        self._parts.add(self._part)

    def close(self) -> None:
        """End the thread, which `/health` no longer watches; wait at most five seconds."""
        self._parts.remove(self._part)
        self._stop.set()
        self._wake.set()
        self._thread.join(5.0)

    def miss(self) -> None:
        """Let the thread fetch the keys now, unless the last fetch began less than `MISS_QUIET`
        seconds ago.
        """
        if self._clock.now() - self._fetched >= MISS_QUIET:
            self._wake.set()

    def _run_round(self) -> bool:
        """Wait for the next fetch, fetch the keys and store them in the data; return False after
        `close`. A failure is logged when its text is new, kept in `error`, and doubles the pause up
        to the issuer's interval.
        """
        self._part.rest()
        self._clock.wait(self._wake, self._pause)
        self._wake.clear()
        if self._stop.is_set():
            return False
        self._part.beat()
        self._fetched = self._clock.now()
        self._pause = min(self._retry, self._issuer.interval)  # where the rest of this fails
        try:
            self._store_keys(self._fetch())
        except IdentityError as error:
            self._retry = min(self._retry * 2, self._issuer.interval)
            # An outage is logged once, and not at each attempt.
            if str(error) != self.error:
                self.error = str(error)
                _log.error(
                    "The issuer's keys could not be fetched; the known keys stay active.",
                    extra={"issuer": self.name, "error": self.error},
                )
        else:
            self._retry, self._pause, self.error = FIRST_RETRY, self._issuer.interval, ""
            self.is_warm.set()
        return True

    def _fetch(self) -> dict[str, Any]:
        """Fetch the issuer's key set, by discovery unless its URL is configured. Raise
        IdentityError if a document cannot be fetched, the discovery document names another issuer,
        or `jwks_uri` is missing or less safe than the issuer.
        """
        issuer = self._issuer
        with issuer_client(self._transport) as client:
            url = issuer.jwks_url
            if not url:
                base = issuer.issuer.rstrip("/")
                document = _get(client, f"{base}/.well-known/openid-configuration")
                # OpenID Connect Discovery 1.0, 4.3: the two must be identical, or one issuer
                # could speak for another.
                if document.get("issuer") != issuer.issuer:
                    raise IdentityError(
                        "`issuer` in the discovery document is not the configured issuer"
                    )
                url = document.get("jwks_uri", "")
                # Keys over plain http could be anybody's, however safely their URL was fetched.
                if not isinstance(url, str) or not issuer.is_as_safe(url):
                    raise IdentityError(
                        "`jwks_uri` in the discovery document is missing, or is http although the "
                        "issuer is https"
                    )
            return _get(client, url)

    def _store_keys(self, document: Mapping[str, Any]) -> None:
        """Store a key set in the data of the policies and log its key ids; nothing happens if it
        has not changed. Raise IdentityError for a set that cannot be used; BusyError,
        NotReplacedError or CompileError if the data cannot be changed.
        """
        keys = read_keys(document, issuer=self.name)
        text = json.dumps({"keys": keys}, sort_keys=True)
        if text == self._text:
            return  # data that changes is bound again
        kids = sorted({key["kid"] for key in keys if "kid" in key})
        value: dict[Key, Value] = {"issuer": self._issuer.issuer, "jwks": text, "kids": [*kids]}
        # Before `_text` is set: a failed change must be tried again with the same keys.
        self._store.keep((ROOT, self.name), value, text=text.encode())
        self._text, self.kids = text, frozenset(kids)
        _log.info("Keys of the issuer are active.", extra={"issuer": self.name, "kids": kids})


def _get(client: httpx.Client, url: str) -> dict[str, Any]:
    """Fetch the JSON object at a URL; IdentityError, with the URL, if that fails."""
    try:
        return fetch_document(client, url)
    except DocumentError as error:
        raise IdentityError(f"{url}: {error}") from None


def read_keys(document: Mapping[str, Any], *, issuer: str = "") -> list[dict[str, Any]]:
    """Return the public keys for signatures of a JWKS document; `issuer` is its name in the log.

    Raise IdentityError if the set has no such key or more than `MAX_KEYS` keys, a private or shared
    key, or two keys with one id: a set that is partly wrong is not used at all. Keys for other
    purposes, and those that `io.jwt` cannot read, are left out, since one of them would make
    `io.jwt` refuse the whole set.
    """
    keys = document.get("keys")
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise IdentityError(
            f"`keys` of the key set is missing, or not a list of at most {MAX_KEYS} keys"
        )
    usable: list[dict[str, Any]] = []
    for key in keys:
        if not isinstance(key, dict):
            raise IdentityError("the key set contains a key that is not an object")
        # RFC 7518, 6.2.2, 6.3.2 and 6.4: a document that shows a secret is not from a sane issuer,
        # and with a shared key everybody who reads it could sign.
        if key.get("kty") == "oct" or not _PRIVATE.isdisjoint(key):
            raise IdentityError(
                "the key set contains a private or shared key: the issuer must publish only public "
                "keys"
            )
        kind = key.get("kty")
        is_known = isinstance(kind, str) and kind in _TYPES
        # `use` is optional (RFC 7517, section 4.2).
        if is_known and key.get("use", "sig") == "sig" and _is_readable(key, issuer):
            usable.append(key)
    kids = [key["kid"] for key in usable if "kid" in key]
    # Of two keys with one id readers may take different ones; RFC 7517, section 4.5, asks for
    # distinct ids.
    if not all(isinstance(kid, str) for kid in kids) or len(set(kids)) < len(kids):
        raise IdentityError(
            "the key set has two keys with the same id, or an id that is not a string"
        )
    if not usable:
        raise IdentityError("the key set contains no key for signatures")
    return usable


def _is_readable(key: dict[str, Any], issuer: str) -> bool:
    """Return True if `io.jwt` can read a key; otherwise log the reason and return False."""
    try:
        return bool(parse_key_set(json.dumps({"keys": [key]})))
    except (BuiltinError, EvaluationAborted) as error:
        _log.warning(
            "A key of the issuer cannot be read and is ignored.",
            extra={"issuer": issuer, "kid": str(key.get("kid")), "error": str(error)},
        )
        return False


def _kid_of(input: Any) -> str | None:
    """Return the key id in the header of the request's bearer token; None if there is no token, no
    id, or its header cannot be decoded or is longer than `MAX_TOKEN_HEAD` characters. The token is
    not verified.
    """
    value: Any = input
    for name in ("attributes", "request", "http", "headers", "authorization"):
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        return None
    # Nothing is verified here: an unknown id is only a reason to fetch the keys again.
    head = value.rpartition(" ")[2].partition(".")[0]
    if not head or len(head) > MAX_TOKEN_HEAD:
        return None
    try:
        document = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        return None
    kid = document.get("kid") if isinstance(document, dict) else None
    return kid if isinstance(kid, str) else None
