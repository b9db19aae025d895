"""The signatures of a bundle, verified: the `.signatures.json` that `opa sign` makes.

It holds one JWT, whose payload lists every file of the bundle with its hash. Documents
(`data.json`, `data.yaml`, `.manifest`) are hashed as canonical JSON, other files as they are. A
file that is not listed, a listed one that is missing, and anything that is signed in another way is
an error.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, Final

from doorward.base.records import record
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
"""How the JWT may be signed."""

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
"""What `opa build` calls the way of signing that is not a plugin's."""
_DOCUMENTS: Final = ("data.json", "data.yaml", ".manifest")
_ESCAPED: Final = re.compile(r"\\\\|\\u(003c|003e|0026)")


class SignatureError(Exception):
    """A bundle that is not verified; the text is OPA's where OPA has one."""


@record
class Key:
    """A key by which bundles are verified, or requests signed.

    `public`: a public key or certificate in PEM, or a secret.
    """

    public: str = field(repr=False)
    algorithm: str = "RS256"
    scope: str = ""
    """What signatures with it must be for, unless the verification says that."""
    private_key: str = field(default="", repr=False)


@record
class Verification:
    """With what a bundle must be signed. `key`: a public key or certificate in PEM, or a secret."""

    key: str = field(default="", repr=False)
    algorithm: str = "RS256"
    scope: str = ""
    exclude: tuple[str, ...] = ()
    """Patterns of files that need not be signed."""
    keys: Mapping[str, Key] | None = field(default=None, repr=False)
    """Keys by their names, in place of `key`."""
    key_id: str = ""
    """The one of them; without it the token names one."""
    is_required: bool = True
    """Whether a bundle without signatures is refused."""

    def key_for(self, header: Mapping[Any, Any], payload: Mapping[Any, Any]) -> Key:
        """The key that verifies a token; raise `SignatureError` if there is none."""
        if self.keys is None:
            return Key(self.key, self.algorithm)
        name = self.key_id or header.get("kid") or payload.get("keyid")
        if not name:
            raise SignatureError("verification key ID is empty")
        if not isinstance(name, str):
            raise SignatureError("verification key ID is not a text")
        if name not in self.keys:
            raise SignatureError(f"verification key corresponding to ID {name} not found")
        return self.keys[name]


@record
class _Signed:
    """A file as the payload lists it."""

    hash: str
    algorithm: str


def verify(
    files: Iterable[tuple[str, bytes]],
    signatures: bytes,
    verification: Verification,
    folder: str = "",
) -> None:
    """SignatureError unless every one of `files` is signed, and no other.

    `folder`: where the bundle lies, if it is a folder; `opa sign` lists its files by that path.
    """
    signed = _files_in(_token(signatures), verification)
    for name, content in files:
        full = f"{folder.strip('/')}/{name}" if folder else name
        listed = full if full in signed else name
        entry = signed.pop(listed, None)
        if any(
            _excludes(pattern, each) for pattern in verification.exclude for each in (full, name)
        ):
            continue
        if entry is None:
            raise SignatureError(f"file {full} not included in bundle signature")
        _check(name, content, entry)
    if signed:
        names = " ".join(sorted(signed))
        raise SignatureError(
            f"file(s) [{names}] specified in bundle signatures but not found in the target bundle"
        )


def _token(signatures: bytes) -> str:
    """The single JWT in `.signatures.json`; raise `SignatureError` for any other number."""
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
    if len(tokens) > 1 or not isinstance(tokens[0], str):
        raise SignatureError(".signatures.json: multiple JWTs not supported (expected exactly one)")
    return tokens[0]


def _files_in(token: str, verification: Verification) -> dict[str, _Signed]:
    """Return the files that a token lists and that `verification` covers."""
    parts = token.split(".")
    if len(parts) != 3:
        raise SignatureError("failed to split compact JWT: it has no three parts")
    key = verification.key_for(_decode(parts[0], "header"), _decode(parts[1], "payload"))
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
    """Decode a part of a token to an object; it is not verified yet."""
    try:
        octets = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        document = read_json(octets)
    except (JSONError, ValueError) as error:
        raise SignatureError(f"failed to base64 decode JWT {part}: {error}") from None
    return document if isinstance(document, dict) else {}


def _excludes(pattern: str, name: str) -> bool:
    """Go's `filepath.Match`: a star does not go beyond a slash."""
    pattern_parts, parts = pattern.split("/"), name.split("/")
    return len(pattern_parts) == len(parts) and all(map(fnmatchcase, parts, pattern_parts))


def _check(name: str, content: bytes, entry: _Signed) -> None:
    """Raise `SignatureError` unless the file has the signed digest."""
    if not entry.algorithm:
        raise SignatureError(f"no hashing algorithm provided for file {name}")
    if entry.algorithm not in _HASHES:
        raise SignatureError(f"unsupported hashing algorithm: {entry.algorithm}")
    content = hashed_content(name, content)
    digest = hashlib.new(_HASHES[entry.algorithm], content, usedforsecurity=False).hexdigest()
    if not hmac.compare_digest(digest.encode(), entry.hash.lower().encode()):
        raise SignatureError(f"{name}: digest mismatch (want: {entry.hash}, got: {digest})")


def hashed_content(name: str, content: bytes) -> bytes:
    """Return the content of a file that is hashed; LoadError for a document that cannot be read."""
    base = name.rpartition("/")[2]
    return canonical(read_document(base, content)) if base in _DOCUMENTS else content


def canonical(value: Value) -> bytes:
    """A document as it is hashed: compact JSON, keys in order, nothing escaped for HTML."""
    return _ESCAPED.sub(_plain, marshal(value)).encode(errors="replace")


def _plain(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[0]
