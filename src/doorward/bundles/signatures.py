"""Verify the signatures of a bundle: the `.signatures.json` that `opa sign` writes.

It contains one JWT, whose payload lists every file of the bundle with its hash. Documents
(`data.json`, `data.yaml`, `.manifest`) are hashed as canonical JSON, other files as their bytes. A
file that is not listed, a listed file that is missing, and any other way of signing are errors.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from doorward.base.records import record
from doorward.bundles.file_patterns import matches
from doorward.bundles.loader import read_document
from doorward.rego import REGISTRY, Context, Environment, Value
from doorward.rego.golang import JSONError, marshal, read_json
from doorward.rego.shared import CALL_ERRORS

__all__ = [
    "ALGORITHMS",
    "Key",
    "SignatureError",
    "Verification",
    "canonical",
    "hashed_content",
    "verify",
]

ALGORITHMS: Final = tuple(
    f"{family}{size}" for family in ("ES", "HS", "PS", "RS") for size in (256, 384, 512)
)
"""The algorithms with which the JWT may be signed."""

_HASHES: Final = {
    "MD5": "md5",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA-512-224": "sha512_224",
    "SHA-512-256": "sha512_256",
}
_DEFAULT_VERIFIER: Final = "_default"
"""The name in `plugin` for OPA's own way of signing."""
_DOCUMENTS: Final = ("data.json", "data.yaml", ".manifest")
# An escaped backslash is matched, too, since what follows it is text: `\\u003c` stays.
_ESCAPED: Final = re.compile(r"\\\\|\\u(003c|003e|0026)")


class SignatureError(Exception):
    """A bundle whose signatures are missing or wrong, or a key that cannot be used; the message is
    OPA's if OPA has one.
    """


@record
class Key:
    """A key that verifies bundles or signs requests.

    `public` is a public key or certificate in PEM, or a secret; `private_key` is the key that
    signs.
    """

    public: str = field(repr=False)
    algorithm: str = "RS256"
    scope: str = ""
    """The scope that signatures with this key must have, unless the verification sets one."""
    private_key: str = field(default="", repr=False)


@record
class Verification:
    """The options with which the signatures of a bundle are verified. `key` is a public key or
    certificate in PEM, or a secret; it is ignored if `keys` is set.
    """

    key: str = field(default="", repr=False)
    algorithm: str = "RS256"
    scope: str = ""
    exclude: tuple[str, ...] = ()
    """Patterns of files that need not be covered by the signatures."""
    keys: Mapping[str, Key] | None = field(default=None, repr=False)
    """Keys by name, instead of `key`; None if there is only `key`."""
    key_id: str = ""
    """The name of the key in `keys`; "": the token names it."""
    is_required: bool = True
    """True if a bundle without signatures is refused."""

    def key_for(self, header: Mapping[Any, Any], payload: Mapping[Any, Any]) -> Key:
        """Return the key that verifies a token: the one of `key_id`, else of the token's `kid` or
        `keyid`. Raise `SignatureError` if the token names none, or it is not configured. Without
        `keys` it is always `key`, whatever the token names.
        """
        if self.keys is None:
            return Key(self.key, self.algorithm)
        name = self.key_id or header.get("kid") or payload.get("keyid")
        if not name:
            raise SignatureError("verification key ID is empty")
        # The token is not verified yet: its sender may have put a list here, which cannot be a key.
        if not isinstance(name, str):
            raise SignatureError(
                "verification key ID must be a string: `kid` in the JWT's header, or its claim "
                "`keyid`"
            )
        if name not in self.keys:
            raise SignatureError(f"verification key corresponding to ID {name} not found")
        return self.keys[name]


@record
class _Signed:
    """The hash of a file in the payload, and its algorithm."""

    hash: str
    algorithm: str


def verify(
    files: Iterable[tuple[str, bytes]],
    signatures: bytes,
    verification: Verification,
    folder: str = "",
) -> None:
    """Raise SignatureError unless the signatures cover exactly `files` (names and contents), with
    the right hashes, and LoadError for a data file or manifest that is not valid. Files that match
    `verification.exclude` need not be covered.

    `folder` is the path of a bundle that is a folder: `opa sign` lists its files below that path.
    """
    signed = _verify_token(_read_token(signatures), verification)
    for name, content in files:
        full = f"{folder.strip('/')}/{name}" if folder else name
        listed = full if full in signed else name
        # Before the patterns: what they match may be listed, too, and must not be left over below.
        entry = signed.pop(listed, None)
        if any(matches(pattern, each) for pattern in verification.exclude for each in (full, name)):
            continue
        if entry is None:
            raise SignatureError(f"file {full} not included in bundle signature")
        _check(name, content, entry)
    # A listed file that is missing was taken away: less policy may allow more.
    if signed:
        names = " ".join(sorted(signed))
        raise SignatureError(
            f"file(s) [{names}] specified in bundle signatures but not found in the target bundle"
        )


def _read_token(signatures: bytes) -> str:
    """Return the single JWT in `.signatures.json`. Raise `SignatureError` if the file is not JSON,
    if there are none or several, if one is not a string, or if a plugin must verify them.
    """
    try:
        document = read_json(signatures, trailing=True)
    except JSONError as error:
        raise SignatureError(f"bundle load failed on signatures decode: {error}") from None
    fields = document if isinstance(document, dict) else {}
    plugin = fields.get("plugin")
    if plugin not in (None, "", _DEFAULT_VERIFIER):
        raise SignatureError(f"no verifier exists under id {plugin}")
    tokens = fields.get("signatures")
    if not isinstance(tokens, list) or not tokens:
        raise SignatureError(".signatures.json: missing JWT (expected exactly one)")
    texts = [token for token in tokens if isinstance(token, str)]
    if len(texts) < len(tokens):
        raise SignatureError(".signatures.json: each item of `signatures` must be a string")
    # Which of two a reader takes would be up to the reader.
    if len(texts) > 1:
        raise SignatureError(".signatures.json: multiple JWTs not supported (expected exactly one)")
    return texts[0]


def _verify_token(token: str, verification: Verification) -> dict[str, _Signed]:
    """Verify a token and return the files that it lists, by name; {} if its payload has no `files`.
    Raise `SignatureError` if the key, algorithm, signature, scope or payload is wrong.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise SignatureError("failed to split compact JWT: it does not have three parts")
    # Header and payload are not verified yet: they only choose among the configured keys.
    key = verification.key_for(_decode(parts[0], "header"), _decode(parts[1], "payload"))
    # INVARIANT: the algorithm is the key's, never the token's `alg` (RFC 8725, 3.1).
    # A key that only signs has no public part, and anybody can sign with an empty secret.
    if not key.public:
        raise SignatureError("the key has no part that verifies (`key`): it can only sign")
    if key.algorithm not in ALGORITHMS:
        raise SignatureError(f"unknown signature algorithm: {key.algorithm}")
    check = REGISTRY[f"io.jwt.verify_{key.algorithm.lower()}"].call
    try:
        is_valid = check(Context(Environment()), token, key.public)
    except CALL_ERRORS as error:
        raise SignatureError(f"failed to verify JWT signature: {error}") from None
    if not is_valid:
        reason = ": invalid HMAC signature" if key.algorithm.startswith("HS") else ""
        raise SignatureError(f"failed to verify JWT signature{reason}")
    payload = _decode(parts[1], "payload")
    # Only now: before the signature is verified, anybody could have written the payload.
    if payload.get("scope", "") != (verification.scope or key.scope):
        raise SignatureError("scope mismatch")
    files = payload.get("files")
    try:
        return {str(each["name"]): _read_entry(each) for each in files or ()}
    except (TypeError, KeyError):
        raise SignatureError(
            ".signatures.json: `files` of the payload must be objects with `name` and `hash`"
        ) from None


def _read_entry(entry: Mapping[str, Any]) -> _Signed:
    return _Signed(str(entry["hash"]), str(entry.get("algorithm", "")))


def _decode(text: str, part: str) -> dict[Any, Any]:
    """Decode a part of a token, which need not be verified yet; {} if it is not an object. Raise
    SignatureError if it is not base64 of JSON.
    """
    try:
        # RFC 7515, 2: base64url without padding; Python wants it back.
        octets = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        document = read_json(octets)
    except (JSONError, ValueError) as error:
        raise SignatureError(f"failed to base64 decode JWT {part}: {error}") from None
    return document if isinstance(document, dict) else {}


def _check(name: str, content: bytes, entry: _Signed) -> None:
    """Raise `SignatureError` unless the file has the listed hash, with a known algorithm, and
    LoadError for a data file or manifest that is not valid.
    """
    if not entry.algorithm:
        raise SignatureError(f"no hashing algorithm provided for file {name}")
    if entry.algorithm not in _HASHES:
        raise SignatureError(f"unsupported hashing algorithm: {entry.algorithm}")
    content = hashed_content(name, content)
    digest = hashlib.new(_HASHES[entry.algorithm], content, usedforsecurity=False).hexdigest()
    # As bytes, since `compare_digest` raises TypeError for a text that is not ASCII.
    if not hmac.compare_digest(digest.encode(), entry.hash.lower().encode()):
        raise SignatureError(f"{name}: digest mismatch (want: {entry.hash}, got: {digest})")


def hashed_content(name: str, content: bytes) -> bytes:
    """Return the bytes of a file that are hashed: canonical JSON for documents, else `content`.
    Raise LoadError for a document that is not valid.
    """
    base = name.rpartition("/")[2]
    return canonical(read_document(base, content)) if base in _DOCUMENTS else content


def canonical(value: Value) -> bytes:
    """Return a document as it is hashed: compact JSON with sorted keys, in which `<`, `>` and `&`
    are not escaped and a lone surrogate is `?`.
    """
    return _ESCAPED.sub(_plain, marshal(value)).encode(errors="replace")


def _plain(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[0]
