"""A bundle becomes policies and data, or is refused as a whole."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.bundles.archives import write_archive

from doorward.bundles.bundle import (
    BundleError,
    bundle_files,
    read_bundle,
    read_download,
    signed_files,
)
from doorward.bundles.loader import Limits, LoadError
from doorward.bundles.signatures import Verification
from doorward.bundles.sources import Sources
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import read

FILES = {
    "/.manifest": '{"revision": "r1", "roots": ["app", "cfg"]}',
    "/app/p.rego": "package app\n\nallow if data.cfg.on\n",
    "/cfg/data.json": '{"on": true}',
    "/cfg/sub/data.yaml": "s: 1\n",
    "/cfg/other.json": '{"not": "read"}',
}


def folder(path: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        file = path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(path)


def refused(tmp_path: Path, files: dict[str, str]) -> str:
    """The message for a folder and for an archive, which is the same."""
    messages = []
    for path in (folder(tmp_path / "b", files), write_archive(tmp_path / "b.tar.gz", files)):
        with pytest.raises(BundleError) as caught:
            read_bundle(path)
        messages.append(str(caught.value).replace(path, "B"))
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_a_bundle_is_read_from_a_folder_or_an_archive(kind: str, tmp_path: Path) -> None:
    make = folder if kind == "folder" else write_archive
    path = make(tmp_path / "b", FILES)
    bundle = read_bundle(path)
    assert bundle.modules == {f"{path}/app/p.rego": FILES["/app/p.rego"]}
    assert bundle.data == {"cfg": {"on": True, "sub": {"s": 1}}}
    assert bundle.manifest.revision == "r1"
    assert bundle.notes == ()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({".manifest": '{"roots": ['}, "bundle load failed on manifest decode: unexpected EOF"),
        ({".manifest": '{"roots": 1}'}, "manifest decode: roots must be an array of strings"),
        ({".manifest": '{"roots": [1]}'}, "manifest decode: roots must be an array of strings"),
        ({".manifest": '{"revision": 1}'}, "manifest decode: revision must be a string"),
        ({".manifest": '{"rego_version": 2}'}, "manifest decode: rego_version must be 0 or 1"),
        ({".manifest": '{"rego_version": true}'}, "rego_version must be 0 or 1"),
        ({".manifest": "[]"}, "the manifest must be an object"),
        ({".manifest": '{"roots": ["a", "a/b"]}'}, "manifest has overlapped roots: 'a' and 'a/b'"),
        ({"sub/.manifest": "{}"}, "sub/.manifest: a manifest must be at the root of a bundle"),
        (
            {"patch.json": '{"data": []}'},
            "patch.json: a delta bundle only changes one that was downloaded before: load a "
            "full bundle here",
        ),
        ({"a/data.json": '{"a":'}, "bundle load failed on B/a/data.json: unexpected EOF"),
        ({"a/data.yaml": "a: [1"}, "bundle load failed on B/a/data.yaml: yaml: line"),
        ({"data.json": "[1]"}, "bundle load failed on /data.json: root value must be object"),
        (
            {"data.json": '{"a": 1}', "a/data.json": "{}"},
            "bundle load failed on /data.json: failed to insert data file from path",
        ),
        (
            {".manifest": '{"roots": ["z"]}', "p.rego": "package a.b"},
            "bundle B: manifest roots [z] do not permit 'package a.b' in module 'B/p.rego'",
        ),
        (
            {".manifest": '{"roots": ["a/b"]}', "data.json": '{"a": {"b": 1, "c": 2}}'},
            "manifest roots [a/b] do not permit data at path '/a/c' (hint: check bundle",
        ),
        (
            {".manifest": '{"roots": []}', "p.rego": "package a"},
            "manifest roots [] do not permit 'package a'",
        ),
        ({"p.rego": "package a\n\np {"}, "bundle B: 1 error occurred: B/p.rego:3: rego_parse_err"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_opa(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    assert message in refused(tmp_path, files)


@pytest.mark.parametrize("seed", range(4))
def test_an_archive_with_wrong_bytes_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "b.tar.gz"
    write_archive(path, FILES)
    whole = gzip.decompress(path.read_bytes())
    for _ in range(200):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 2, 8])):
            changed[chance.randrange(len(changed))] = chance.choice(b"0 \0/\x80\xff~")
        for header in range(0, len(changed) - 512, 512):
            if changed[header + 257 : header + 262] == b"ustar":
                _sign(changed, header)
        path.write_bytes(gzip.compress(changed, 1))
        # Anything but a bundle or this error fails.
        with contextlib.suppress(BundleError):
            read_bundle(str(path), signed=chance.random() < 0.5)


def _sign(archive: bytearray, header: int) -> None:
    """Put the checksum right, so that what is behind it is looked at."""
    archive[header + 148 : header + 156] = b" " * 8
    total = sum(archive[header : header + 512])
    archive[header + 148 : header + 156] = b"%06o\0 " % total


def test_a_bundle_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r'error reading "none": stat none: no such file'):
        read_bundle("none")
    assert bundle_files("none") == ("none",)


def test_versions_of_rego_are_those_of_the_manifest(tmp_path: Path) -> None:
    old = "package v\n\np { true }\n"
    manifest = json.dumps({"rego_version": 1, "file_rego_versions": {"/v/*.rego": 0}})
    path = folder(tmp_path, {".manifest": manifest, "v/old.rego": old, "w/p.rego": "package w"})
    assert read_bundle(path).rego_versions == {f"{path}/v/old.rego": 0, f"{path}/w/p.rego": 1}


def test_webassembly_and_signatures_are_told_of(tmp_path: Path) -> None:
    files = {
        "policy.wasm": "\0asm",
        ".signatures.json": '{"signatures": ["x"]}',
        "p.rego": "package p",
    }
    path = write_archive(tmp_path / "b.tar.gz", files)
    loaded = Sources(bundles=[path]).load()
    assert loaded.notes == (
        f"bundle {path}: its WebAssembly rules are ignored: build the bundle with --target rego",
        f"bundle {path}: signed, but its signatures are not verified",
    )
    assert list(loaded.modules) == [f"{path}/p.rego"]


def test_ignored_names_are_left_out_of_bundles(tmp_path: Path) -> None:
    files = {"a/p_test.rego": "package p", "b/data.json": "{}", "p.rego": "package p"}
    for path in (folder(tmp_path / "b", files), write_archive(tmp_path / "b.tar.gz", files)):
        bundle = read_bundle(path, ignore=["*_test.rego", "b"])
        assert list(bundle.modules) == [f"{path}/p.rego"]
        assert bundle.data == {}


def test_what_restricts_a_bundle_is_never_ignored(tmp_path: Path) -> None:
    for path in (folder(tmp_path / "b", FILES), write_archive(tmp_path / "b.tar.gz", FILES)):
        assert read_bundle(path, ignore=[".*", "*"]).manifest.roots == ("app", "cfg")
    signed = write_archive(tmp_path / "s.tar.gz", {**FILES, ".signatures.json": "{}"})
    with pytest.raises(BundleError, match="verification key not provided"):
        read_bundle(signed, ignore=[".*"], signed=True)


def test_files_that_say_nothing_are_not_read_unless_they_are_signed(tmp_path: Path) -> None:
    path = folder(tmp_path / "b", FILES)
    (tmp_path / "b/large.bin").write_bytes(b"x" * 1000)
    limits = Limits(data_bytes=500)
    assert read_bundle(path, signed=True, limits=limits).data
    with pytest.raises(BundleError, match=r"large.bin size exceeds"):
        read_bundle(path, signed=True, verification=Verification("k", "HS256"), limits=limits)


# Several sources


def test_two_bundles_may_not_overlap(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", {".manifest": '{"roots": ["a/b"]}'})
    two = folder(tmp_path / "two", {".manifest": '{"roots": ["a", "c"]}'})
    free = folder(tmp_path / "free", {".manifest": '{"roots": ["ab"]}'})
    whole = folder(tmp_path / "whole", {"data.json": "{}"})
    with pytest.raises(LoadError) as caught:
        Sources(bundles=[one, two, free]).load()
    assert caught.value.messages == (
        f"detected overlapping roots in manifests for these bundles: [{one}, {two}] "
        "(a overlaps a/b)",
    )
    with pytest.raises(LoadError, match=r"because bundle\(s\) \[.*whole\] specify empty root"):
        Sources(bundles=[free, whole]).load()
    assert set(Sources(bundles=[one, free, one]).load().revisions) == {one, free}


def test_files_and_bundles_are_read_together(tmp_path: Path) -> None:
    bundle = folder(tmp_path / "b", FILES)
    extra = folder(tmp_path / "extra", {"x.rego": "package x", "cfg/y.json": '{"y": 1}'})
    loaded = Sources(paths=[extra], bundles=[bundle]).load()
    assert set(loaded.modules) == {f"{extra}/x.rego", f"{bundle}/app/p.rego"}
    assert loaded.data == {"cfg": {"y": 1, "on": True, "sub": {"s": 1}}}
    for value in ("false", "true"):  # also the same value
        (tmp_path / "extra/cfg/y.json").write_text(f'{{"on": {value}}}')
        with pytest.raises(LoadError, match="merge error"):
            Sources(paths=[extra], bundles=[bundle]).load()


def test_an_archive_among_files_is_read_and_shares_its_roots(tmp_path: Path) -> None:
    one = write_archive(tmp_path / "one.tar.gz", {"p.rego": "package p", "a/data.json": "{}"})
    two = write_archive(tmp_path / "two.tar.gz", {"p.rego": "package p", "a/b/data.json": "1"})
    sources = Sources(paths=[one, two, folder(tmp_path / "x", {"x.rego": "package x"})])
    loaded = sources.load()
    assert set(loaded.modules) == {f"{one}/p.rego", f"{two}/p.rego", f"{tmp_path}/x/x.rego"}
    assert loaded.data == {"a": {"b": 1}}
    assert {one, two} <= set(sources.files())
    with pytest.raises(LoadError, match="overlapping roots"):
        Sources(bundles=[one, two]).load()
    with pytest.raises(LoadError, match=r"stat none.tar.gz: no such file"):
        Sources(paths=["none.tar.gz"]).load()


def test_what_was_read_has_a_digest_that_differs_with_any_of_it(tmp_path: Path) -> None:
    bundle = folder(tmp_path / "b", FILES)
    sources = Sources(bundles=[bundle])
    before = sources.load().digest
    assert sources.load().digest == before
    (tmp_path / "b/.manifest").write_text('{"revision": "r2", "roots": ["app", "cfg"]}')
    assert sources.load().digest != before


def test_the_files_to_watch_are_those_that_are_read(tmp_path: Path) -> None:
    bundle = folder(tmp_path / "b", FILES)
    archive = write_archive(tmp_path / "b.tar.gz", FILES)
    names = Sources(bundles=[bundle, archive]).files()
    assert f"{bundle}/.manifest" in names
    assert f"{bundle}/cfg/other.json" not in names
    assert names[-1] == archive


def test_who_decides_by_an_archive_takes_none_that_is_not_verified(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "b.tar.gz", FILES)
    assert PDP(read([path])).decide("app/allow").result is True
    write_archive(tmp_path / "b.tar.gz", {**FILES, ".signatures.json": '{"signatures": ["x"]}'})
    with pytest.raises(BundleError, match="verification key not provided"):
        read([path])


def test_the_files_that_are_signed_have_the_name_of_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b/p.rego", "b/.signatures.json", "b/sub/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("package p\n")
    names = ["p.rego", "sub/notes.txt"]
    assert sorted(name for name, _ in signed_files("b")) == [f"b/{name}" for name in names]
    archive = write_archive(tmp_path / "b.tar.gz", dict.fromkeys(names, "package p\n"))
    assert sorted(name for name, _ in signed_files(archive)) == names
    monkeypatch.chdir(tmp_path / "b")
    assert sorted(name for name, _ in signed_files(".")) == names
    with pytest.raises(BundleError, match="no such file or directory"):
        signed_files("other")
    os.mkfifo("pipe")
    with pytest.raises(BundleError, match="no such file or folder"):
        signed_files("pipe")
    with pytest.raises(
        BundleError, match="archive is larger than 3 bytes when unpacked: split the bundle"
    ):
        signed_files(archive, limits=Limits(unpacked_bytes=3))


@pytest.mark.parametrize(
    "operation",
    [1, {}, {"op": "upsert"}, {"path": "/a"}, {"op": 1, "path": "/a"}, {"op": "remove", "path": 1}],
)
def test_an_operation_of_a_delta_has_a_name_and_a_path(operation: Any, tmp_path: Path) -> None:
    delta = {".manifest": "{}", "patch.json": json.dumps({"data": [operation]})}
    content = Path(write_archive(tmp_path / "d.tar.gz", delta)).read_bytes()
    with pytest.raises(BundleError, match="an operation needs the strings `op` and `path`"):
        read_download("d", content)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([{"op": "remove", "path": "/a"}], "patch.json must be an object with the array `data`"),
        ("x", "patch.json must be an object with the array `data`"),
        ({"data": {}}, "`data` must be an array"),
        ({"data": False}, "`data` must be an array"),
        ({"data": 0}, "`data` must be an array"),
    ],
)
def test_a_patch_of_another_form_is_refused(patch: Any, message: str, tmp_path: Path) -> None:
    delta = {".manifest": "{}", "patch.json": json.dumps(patch)}
    content = Path(write_archive(tmp_path / "d.tar.gz", delta)).read_bytes()
    with pytest.raises(BundleError, match=f"bundle load failed on patch decode: {message}"):
        read_download("d", content)


@pytest.mark.parametrize("patch", [None, {}, {"data": None}, {"data": []}])
def test_a_patch_without_operations_changes_nothing(patch: Any, tmp_path: Path) -> None:
    delta = {".manifest": "{}", "patch.json": json.dumps(patch)}
    content = Path(write_archive(tmp_path / "d.tar.gz", delta)).read_bytes()
    assert read_download("d", content).changes == ()
