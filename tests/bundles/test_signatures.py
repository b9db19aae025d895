"""A signed bundle is what was signed, or it is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.bundles.archives import write_archive
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows

from doorward.bundles.bundle import BundleError, read_bundle, read_download
from doorward.bundles.signatures import Key, SignatureError, Verification, canonical, verify
from doorward.bundles.sources import Sources
from doorward.rego import Engine, from_json

FILES = {
    ".manifest": '{"revision": "r1",  "roots": ["app", "cfg"]}',
    "app/p.rego": "package app\n\nallow if data.cfg.on\n",
    "cfg/data.json": '{ "on": true, "text": "<&>" }',
    "README": "not read, but signed",
}
KEY = Verification("secret", "HS256", scope="write")


def hashed(name: str, text: str) -> str:
    structured = name.endswith(("data.json", ".manifest"))
    content = canonical(from_json(text)) if structured else text.encode()
    return hashlib.sha256(content).hexdigest()


def listed(files: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"name": name, "hash": hashed(name, text), "algorithm": "SHA-256"}
        for name, text in files.items()
    ]


def signed(payload: Any, *, secret: str = "secret") -> str:
    """A `.signatures.json` over `payload`."""
    key = Engine().prepare("base64url.encode_no_pad(input)").value(secret)
    token = (
        Engine()
        .prepare("io.jwt.encode_sign(input.header, input.payload, input.key)")
        .value(
            {
                "header": {"alg": "HS256", "typ": "JWT"},
                "payload": payload,
                "key": {"kty": "oct", "k": key},
            }
        )
    )
    return json.dumps({"signatures": [token]})


def payload(files: dict[str, str] = FILES) -> dict[str, Any]:
    return {"files": listed(files), "scope": "write"}


def written(tmp_path: Path, signatures: str, files: dict[str, str] = FILES) -> str:
    return write_archive(tmp_path / "b.tar.gz", {**files, ".signatures.json": signatures})


def refused(path: str, verification: Verification | None = KEY) -> str:
    with pytest.raises(BundleError) as caught:
        read_bundle(path, signed=True, verification=verification)
    return str(caught.value).removeprefix(f"bundle {path}: ")


def test_a_bundle_that_is_what_was_signed_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, signed(payload()))
    loaded = Sources(bundles=[path], signed=True, verification=KEY).load()
    assert loaded.data["cfg"] == {"on": True, "text": "<&>"}
    assert loaded.notes == ()


SIGNED_BY_OPA = list(read_rows(GOLDEN / "signed-bundles.jsonl.gz"))


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in SIGNED_BY_OPA])
def test_what_opa_signed_is_taken_where_opa_takes_it(row: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(base64.b64decode(row["archive"]))
    key, scope, name = Key(row["key"], row["alg"]), row["scope"] or "", row["key_id"] or ""
    # As the command line asks, and as the configuration does, with the scope in either place.
    verifications = [Verification(row["key"], row["alg"], scope)]
    for of_key in (key, replace(key, scope=scope)):
        keys = {name or "default": of_key}
        of_bundle = "" if of_key.scope else scope
        verifications.append(Verification(scope=of_bundle, keys=keys, key_id=name or "default"))
    for verification in verifications:
        try:
            read_bundle(str(path), signed=True, verification=verification)
            read_download("b", path.read_bytes(), verification=verification)
            accepted = True
        except BundleError:
            accepted = False
        assert accepted is row["want"]["accepted"]


def test_a_scope_is_asked_for_where_the_configuration_has_none(tmp_path: Path) -> None:
    path = written(tmp_path, signed(payload()))
    read_bundle(path, signed=True, verification=KEY)
    assert refused(path, Verification("secret", "HS256")) == "scope mismatch"
    keys = {"k": Key("secret", "HS256"), "writing": Key("secret", "HS256", "write")}
    assert refused(path, Verification(keys=keys, key_id="k")) == "scope mismatch"
    read_bundle(path, signed=True, verification=Verification(keys=keys, key_id="writing"))
    other = Verification(scope="read", keys=keys, key_id="writing")
    assert refused(path, other) == "scope mismatch"
    unscoped = written(tmp_path, signed({"files": listed(FILES)}))
    assert refused(unscoped) == "scope mismatch"
    read_bundle(unscoped, signed=True, verification=Verification("secret", "HS256"))


def test_a_folder_may_be_signed_by_the_path_to_it(tmp_path: Path) -> None:
    files = {f"{str(tmp_path).strip('/')}/b/{name}": text for name, text in FILES.items()}
    for name, text in {**FILES, ".signatures.json": signed(payload(files))}.items():
        file = tmp_path / "b" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    read_bundle(str(tmp_path / "b"), signed=True, verification=KEY)
    (tmp_path / "b/app/p.rego").write_text("package app\n\nallow := true\n")
    assert "digest mismatch" in refused(str(tmp_path / "b"))


@pytest.mark.parametrize(
    ("signatures", "files", "message"),
    [
        (signed(payload()), {**FILES, "app/q.rego": "package app"}, "file app/q.rego not included"),
        (signed(payload()), {**FILES, "new": "x"}, "file new not included in bundle signature"),
        (
            signed(payload()),
            {name: text for name, text in FILES.items() if name != "README"},
            "file(s) [README] specified in bundle signatures but not found in the target bundle",
        ),
        (
            signed(payload()),
            {**FILES, "app/p.rego": "package app\n\nallow := true\n"},
            "app/p.rego: digest mismatch (want: ",
        ),
        (signed({**payload(), "scope": "read"}), FILES, "scope mismatch"),
        (signed({**payload(), "files": 1}), FILES, "must be objects with `name`"),
        (signed({**payload(), "files": [{"name": "x"}]}), FILES, "must be objects with `name`"),
        (signed(payload(), secret="other"), FILES, "failed to verify JWT signature"),
        ('{"signatures": ["a.b"]}', FILES, "failed to split compact JWT"),
        ('{"signatures": []}', FILES, ".signatures.json: missing JWT (expected exactly one)"),
        ('{"signatures": ["a", "b"]}', FILES, "multiple JWTs not supported"),
        (
            '{"signatures": [1]}',
            FILES,
            ".signatures.json: each item of `signatures` must be a string",
        ),
        ('{"signatures"', FILES, "bundle load failed on signatures decode: unexpected EOF"),
        ('{"plugin": "x", "signatures": ["a"]}', FILES, "no verifier exists"),
        ("[1]", FILES, "missing JWT"),
        (
            signed({"scope": "write", "files": [{"name": "README", "hash": "0"}]}),
            {"README": "x"},
            "no hashing algorithm provided for file README",
        ),
    ],
)
def test_a_bundle_that_is_not_what_was_signed_is_refused(
    signatures: str, files: dict[str, str], message: str, tmp_path: Path
) -> None:
    assert message in refused(written(tmp_path, signatures, files))


def test_white_space_of_documents_is_not_signed(tmp_path: Path) -> None:
    files = {**FILES, "cfg/data.json": '{"text":"\\u003c&>","on":true}'}
    read_bundle(written(tmp_path, signed(payload()), files), signed=True, verification=KEY)


def test_a_document_is_hashed_as_opa_hashes_it() -> None:
    document = canonical(from_json('{"revision": "quickbrownfaux"}'))
    assert document == b'{"revision":"quickbrownfaux"}'
    number = "123.45678911111111111111111111111111111111111111111111111"
    text = '{"b": [1, ' + number + '], "a": "<&>\\\\u003c™"}'
    expected = '{"a":"<&>\\\\u003c™","b":[1,' + number + "]}"
    assert canonical(from_json(text)) == expected.encode()


def test_who_has_a_key_takes_no_bundle_without_signatures(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "b.tar.gz", FILES)
    assert refused(path) == "bundle missing .signatures.json file"
    assert read_bundle(path, signed=True).notes == ()


def test_who_has_no_key_takes_no_bundle_with_signatures(tmp_path: Path) -> None:
    assert refused(written(tmp_path, signed(payload())), None) == "verification key not provided"


def test_files_may_be_excluded_one_folder_at_a_time(tmp_path: Path) -> None:
    path = written(tmp_path, signed(payload()), {**FILES, "README": "changed"})
    assert "digest mismatch" in refused(path)
    read_bundle(
        path, signed=True, verification=Verification("secret", "HS256", "write", ("READ*",))
    )
    changed = {**FILES, "app/p.rego": "package app"}
    path = written(tmp_path, signed(payload()), changed)
    assert "digest mismatch" in refused(path, Verification("secret", "HS256", "write", ("*",)))


@pytest.mark.parametrize("algorithm", ["", "MD6"])
def test_a_hash_that_nobody_knows_verifies_nothing(algorithm: str) -> None:
    entry = {"name": "x", "hash": "00", "algorithm": algorithm}
    signatures = signed({"files": [entry], "scope": "write"}).encode()
    with pytest.raises(SignatureError, match="hashing algorithm"):
        verify([("x", b"")], signatures, KEY)


def test_a_secret_is_no_public_key_and_is_not_shown() -> None:
    signatures = signed(payload()).encode()
    files = [(name, text.encode()) for name, text in FILES.items()]
    verify(files, signatures, KEY)
    with pytest.raises(SignatureError, match="failed to verify"):
        verify(files, signatures, Verification("secret", "RS256", "write"))
    with pytest.raises(SignatureError, match="unknown signature algorithm: none"):
        verify(files, signatures, Verification("secret", "none", "write"))
    assert "secret" not in repr(KEY)


def test_a_token_of_a_key_that_is_not_among_several_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, signed({**payload(), "keyid": "other"}))
    keys = Verification(keys={"main": Key("secret", "HS256")}, scope="write")
    assert "verification key corresponding to ID other not found" in refused(path, keys)
    chosen = replace(keys, key_id="main")
    read_bundle(path, signed=True, verification=chosen)
    wrong = replace(keys, keys={"other": Key("wrong", "HS256")})
    assert "failed to verify JWT signature: invalid HMAC signature" in refused(path, wrong)
    path = written(tmp_path, signed(payload()))
    assert "verification key ID is empty" in refused(path, keys)
    for name in (["main"], {"main": 1}, 1, True):
        path = written(tmp_path, signed({**payload(), "keyid": name}))
        assert "verification key ID must be a string" in refused(path, keys)


def test_a_key_that_only_signs_verifies_nothing() -> None:
    # It has no secret to verify with, and anybody can sign with an empty one. The engine here
    # does not sign with it, so the token is made by hand.
    parts = [json.dumps(each).encode() for each in ({"alg": "HS256"}, {"files": [], "keyid": "k"})]
    signed_part = b".".join([base64.urlsafe_b64encode(each).rstrip(b"=") for each in parts])
    digest = base64.urlsafe_b64encode(hmac.digest(b"", signed_part, "sha256")).rstrip(b"=")
    signatures = json.dumps({"signatures": [b".".join([signed_part, digest]).decode()]}).encode()
    key = Key("", "HS256", private_key="secret")
    for verification in (Verification(keys={"k": key}), Verification("", "HS256")):
        with pytest.raises(SignatureError, match="it can only sign"):
            verify([], signatures, verification)
