"""A bundle to policies and data: a folder or a `.tar.gz`, as `opa build` makes them.

`*.rego` are policies, `data.json`, `data.yaml` and `data.yml` are data below the folder that they
lie in, `.manifest` says what the bundle may define. Other files are not read. A bundle is refused
as a whole: half of one is a policy that nobody wrote.

Delta bundles change the data of the bundle before them: only one that is downloaded can be one.
WebAssembly is not run: what was compiled to it is left out, with a note. Signatures are verified
on request; a bundle whose signatures nobody looked at says so in a note.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from doorward.base.os_errors import io_message
from doorward.base.records import record
from doorward.bundles.archive import (
    ArchiveError,
    Member,
    folder_names,
    read_archive,
    read_folder,
    unpack,
)
from doorward.bundles.edit import Edit, Operation, Path
from doorward.bundles.file_patterns import matches
from doorward.bundles.loader import (
    Limits,
    LoadError,
    add_to_digest,
    merge,
    policy_text,
    read_document,
)
from doorward.bundles.manifest import (
    Manifest,
    ManifestError,
    check_data,
    check_module,
    is_below_roots,
)
from doorward.bundles.signatures import SignatureError, Verification, verify
from doorward.rego import RegoError, Value
from doorward.rego.golang import JSONError, read_json
from doorward.rego.shared import Key, ParseError, Source, Timers
from doorward.rego.tools import Module, parse_module, read_patch_path

__all__ = [
    "Bundle",
    "BundleError",
    "Change",
    "bundle_files",
    "changed",
    "plain_path",
    "read_bundle",
    "read_download",
    "read_local_bundle",
    "signed_files",
]

MANIFEST: Final = ".manifest"
SIGNATURES: Final = ".signatures.json"
_DATA: Final = ("data.json", "data.yaml", "data.yml")
_PATCH: Final = "patch.json"
_WASM: Final = "policy.wasm"


class BundleError(LoadError):
    """A bundle that cannot be used. `cause` holds the errors of its policies, if these are the
    reason.
    """

    def __init__(self, path: str, message: str, cause: RegoError | None = None) -> None:
        super().__init__([message])
        self.path = path
        self.cause = cause

    def __str__(self) -> str:
        return self.messages[0]


@record
class Change:
    """One operation of a delta bundle: `upsert`, `replace` or `remove`. Another operator is refused
    when it is applied.
    """

    operator: str
    path: Path
    value: Value = None


def changed(document: dict[Key, Value], changes: Sequence[Change]) -> dict[Key, Value]:
    """Return a copy of the document with all changes; containers that no change touches are shared.

    Raise StorageError if a change cannot be applied, and ManifestError for an unknown operator.
    """
    edit = Edit(document)
    for change in changes:
        if change.operator == "upsert":
            # Unlike JSON Patch's `add`, OPA's `upsert` creates missing parents.
            if edit.is_missing(change.path[:-1]):
                edit.make_parents(change.path)
            edit.apply(Operation("add", change.path, change.value))
        elif change.operator == "remove":
            edit.apply(Operation("remove", change.path))
        elif change.operator == "replace":
            edit.apply(Operation("replace", change.path, change.value))
        else:
            raise ManifestError(
                f"bad patch operation: {change.operator}: must be upsert, remove or replace"
            )
    return edit.document


@record
class Bundle:
    """The contents of one bundle, parsed but not compiled."""

    path: str
    manifest: Manifest = field(default_factory=Manifest)
    modules: dict[str, str] = field(default_factory=dict)
    data: dict[Key, Value] = field(default_factory=dict)
    rego_versions: dict[str, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    """Every file that was read."""
    shown_names: dict[str, str] = field(default_factory=dict)
    """The names under which errors show policies, by file, if they differ from the file."""
    changes: tuple[Change, ...] | None = None
    """The operations of a delta bundle; None for any other bundle."""
    digest: str = ""
    """The SHA-256 of all files, in hexadecimal digits; empty unless the configuration names the
    bundle.
    """
    is_signed: bool = False
    notes: tuple[str, ...] = ()


def read_bundle(
    path: str,
    *,
    ignore: Sequence[str] = (),
    v0: bool = False,
    signed: bool = False,
    verification: Verification | None = None,
    limits: Limits | None = None,
    timers: Timers | None = None,
    with_data: bool = True,
) -> Bundle:
    """Read the bundle at `path`, which cannot be a delta. Raise BundleError, with OPA's text, for
    anything that makes it unusable.

    With `signed`, signatures are verified with `verification`; if that is None, a bundle without
    signatures passes and one with signatures is refused. Without `signed`, unverified signatures
    are a note. `with_data=False` parses neither data files nor a patch; data files are in `members`
    all the same. `v0`: policies are Rego v0 unless the manifest sets their version. `limits`: by
    default `Limits()`. Times are added to `timers`, if any.
    """
    path = plain_path(path)
    if not os.path.exists(path):
        missing = f'error reading "{path}": stat {path}: no such file or directory'
        raise BundleError(path, missing)
    try:
        # Signatures cover files that are not used, too; without a key they need not be read.
        everything = signed and verification is not None
        # Sorted, so that neither the order of an archive nor of a file system changes an outcome.
        sorted_members = sorted(_members(path, ignore, limits or Limits(), everything=everything))
    except ArchiveError as error:
        raise BundleError(path, f"bundle {path}: bundle read failed: {error}") from None
    except OSError as error:
        raise BundleError(path, f"bundle {path}: {io_message('open', path, error)}") from None
    try:
        if signed:
            _verify(path, sorted_members, verification)
        members = [(name, content) for name, content in sorted_members if _is_read(name)]
        reader = _Reader(path, members, timers or Timers(), v0=v0)
        bundle = reader.bundle(with_data=with_data)
    except (ManifestError, SignatureError) as error:
        raise BundleError(path, f"bundle {path}: {error}") from None
    except ParseError as error:
        raise BundleError(path, f"bundle {path}: {error}", error) from None
    except LoadError as error:
        raise BundleError(path, f"bundle {path}: {error.messages[0]}") from None
    if bundle.is_signed and not signed:
        unverified = f"bundle {path}: signed, but its signatures are not verified"
        return replace(bundle, notes=(*bundle.notes, unverified))
    return bundle


def read_download(
    name: str,
    content: bytes,
    *,
    v0: bool = False,
    verification: Verification | None = None,
    limits: Limits | None = None,
    timers: Timers | None = None,
) -> Bundle:
    """Read the bundle `name` from the bytes of an archive; it may be a delta bundle. Its `digest`
    is set and its `members` are empty. Raise BundleError if it cannot be used.

    Signatures are verified with `verification` before anything is parsed; if that is None, a bundle
    without signatures passes and one with signatures is refused. `v0`: policies are Rego v0 unless
    the manifest sets their version. `limits`: by default `Limits()`. Times are added to `timers`,
    if any.
    """
    members = unpack(io.BytesIO(content), limits or Limits())
    return _verify_and_read(name, members, v0=v0, verification=verification, timers=timers)


def read_local_bundle(
    name: str,
    path: str,
    *,
    v0: bool = False,
    verification: Verification | None = None,
    limits: Limits | None = None,
    timers: Timers | None = None,
) -> Bundle:
    """Read the bundle at `path`, a file or a folder, under the name `name`; it may be a delta
    bundle. Its `digest` is set and its `members` are empty. Raise BundleError if it cannot be used.

    Signatures are verified with `verification`; if that is None, a bundle without signatures passes
    and one with signatures is refused. `v0`: policies are Rego v0 unless the manifest sets their
    version. `limits`: by default `Limits()`. Times are added to `timers`, if any.
    """
    members = _members(path, (), limits or Limits(), everything=True)
    return _verify_and_read(name, members, v0=v0, verification=verification, timers=timers)


def _verify_and_read(
    name: str,
    members: Iterator[Member],
    *,
    v0: bool,
    verification: Verification | None,
    timers: Timers | None,
) -> Bundle:
    """Verify the signatures of the bundle `name`, then read it from its files, `members`. If
    `verification` is None, a bundle with signatures is refused. Each error, also one of unpacking
    `members`, becomes a `BundleError` with the bundle's name.
    """
    try:
        # In one order, from which the digest and the first error follow.
        everything = sorted(members)
        # Before anything is parsed: an unverified bundle must not reach a parser.
        _verify("", everything, verification)
        read = [(file, content) for file, content in everything if _is_read(file)]
        return _NamedReader(name, read, timers or Timers(), v0=v0).bundle()
    except ArchiveError as error:
        raise BundleError(name, f"bundle read failed: {error}") from None
    except OSError as error:
        raise BundleError(name, io_message("open", name, error)) from None
    except (ManifestError, SignatureError) as error:
        raise BundleError(name, str(error)) from None
    except ParseError as error:
        raise BundleError(name, str(error), error) from None
    except LoadError as error:
        raise BundleError(name, error.messages[0]) from None


def _verify(path: str, members: Sequence[Member], verification: Verification | None) -> None:
    """Verify the signatures of a bundle, if it has any. Raise SignatureError if one is wrong, if
    there are signatures but no `verification`, or if there are none although `verification`
    requires them; LoadError if a data file or the manifest is not valid.
    """
    signatures = dict(members).get(SIGNATURES)
    # An attacker could simply take the file away: with a required verification that is an error.
    if signatures is None:
        if verification is not None and verification.is_required:
            raise SignatureError(f"bundle missing {SIGNATURES} file")
        return
    if verification is None:
        raise SignatureError("verification key not provided")
    files = [member for member in members if member[0] != SIGNATURES]
    verify(files, signatures, verification, folder=path if path and os.path.isdir(path) else "")


def bundle_files(path: str, *, limits: Limits | None = None) -> tuple[str, ...]:
    """Return the paths of the files from which a bundle is read, without reading them: for an
    archive its own path, even if it is missing. () if a folder cannot be read, exceeds a limit or
    contains a link out of it.
    """
    path = plain_path(path)
    if not os.path.isdir(path):
        return (path,)
    try:
        names = folder_names(path, limits or Limits())
    except ArchiveError:
        return ()
    return tuple(os.path.join(path, name) for name in names if _is_read(name))


def plain_path(path: str) -> str:
    """Return the name of a bundle: its path without `file://`, `.` and double slashes."""
    return str(PurePosixPath(path.removeprefix("file://")))


def signed_files(
    path: str, *, ignore: Sequence[str] = (), limits: Limits | None = None
) -> list[Member]:
    """Return the files of a bundle that signatures must cover, under the names that signatures
    list: those of a folder begin with its path. Signatures themselves and files that match `ignore`
    are left out. Raise `BundleError` if they cannot be read.
    """
    path = plain_path(path)
    if not os.path.exists(path):
        missing = f'error reading "{path}": stat {path}: no such file or directory'
        raise BundleError(path, missing)
    # As `opa sign` does it: names in a folder begin with the path that was given.
    folder = f"{path.strip('/')}/" if os.path.isdir(path) and path != "." else ""
    try:
        files = list(_members(path, ignore, limits or Limits(), everything=True))
    except ArchiveError as error:
        raise BundleError(path, f"bundle {path}: bundle read failed: {error}") from None
    except OSError as error:
        raise BundleError(path, f"bundle {path}: {io_message('open', path, error)}") from None
    return [(folder + name, content) for name, content in files if name != SIGNATURES]


def _members(
    path: str, ignore: Sequence[str], limits: Limits, *, everything: bool
) -> Iterator[Member]:
    """Yield the files of a bundle without ignored ones. `everything` includes files that are
    neither policies nor data but must be signed. Raise ArchiveError if the bundle cannot be read or
    exceeds a limit, OSError if an archive cannot be opened.
    """
    if os.path.isdir(path):
        names = [name for name in folder_names(path, limits) if everything or _is_read(name)]
        members = read_folder(path, _remove_ignored(names, ignore), limits)
    elif os.path.isfile(path):
        members = read_archive(path, limits)
    else:
        raise ArchiveError(f"{path}: no such file or folder")
    for name, content in members:
        if (everything or _is_read(name)) and _remove_ignored([name], ignore):
            yield name, content


def _is_read(name: str) -> bool:
    """Return True if a file of this name is used: a policy, data, manifest, signatures, patch or
    WebAssembly.
    """
    base = name.rpartition("/")[2]
    # By its end, as in OPA: a manifest in a folder has to be read to be refused (`_manifest`).
    return name.endswith((".rego", MANIFEST, SIGNATURES)) or base in (*_DATA, _PATCH, _WASM)


def _remove_ignored(names: Sequence[str], ignore: Sequence[str]) -> list[str]:
    """Return the names of which no part matches a pattern.

    Manifest and signatures are never ignored: `--ignore '.*'` must not remove what restricts the
    bundle.
    """
    return [
        name
        for name in names
        if name in (MANIFEST, SIGNATURES)
        or not any(matches(each, part) for part in name.split("/") for each in ignore)
    ]


class _Reader:
    """Reads the files of one local bundle, the manifest first, and makes a `Bundle` of them."""

    def __init__(self, path: str, members: Sequence[Member], timers: Timers, *, v0: bool) -> None:
        self.path = path
        self.members = members
        self.timers = timers
        self.v0 = v0
        self.modules: dict[str, str] = {}
        self.data: dict[Key, Value] = {}
        self.rego_versions: dict[str, int] = {}
        self.shown_names: dict[str, str] = {}
        self.notes: list[str] = []

    def bundle(self, *, with_data: bool = True) -> Bundle:
        """Parse manifest, data and policies. Raise `ManifestError` if the manifest, a data file or
        a patch is not valid or not allowed, something is outside the roots, data conflict, or a
        module of WebAssembly is missing; ParseError for a policy that is not valid, and LoadError
        for one that is not UTF-8. WebAssembly becomes a note. Without `with_data`, data are empty
        and a patch is ignored.
        """
        manifest = self._manifest()
        changes = self._changes(manifest) if with_data else None
        # In OPA's order: what is wrong with data is said first, then policies, then their places.
        for name, content in self.members:
            if with_data and name.rpartition("/")[2] in _DATA:
                self._take_data(name, content)
        policies = [
            self._take_policy(name, content, manifest)
            for name, content in self.members
            if name.endswith(".rego")
        ]
        for source, module in policies:
            check_module(manifest, module, source.name)
        check_data(manifest, self.data)
        names = {name for name, _ in self.members}
        for wasm in manifest.wasm_modules:
            if wasm.lstrip("/") not in names:
                raise ManifestError(
                    f"manifest references wasm module '{wasm}' but the module file does not exist"
                )
        if manifest.wasm_modules or any(_is_named(name, _WASM) for name, _ in self.members):
            self.notes.append(
                f"bundle {self.path}: its WebAssembly rules are ignored: build the bundle with "
                "--target rego"
            )
        return Bundle(
            path=self.path,
            manifest=manifest,
            modules=self.modules,
            data=self.data,
            rego_versions=self.rego_versions,
            members=tuple(self.members),
            shown_names=self.shown_names,
            changes=changes,
            is_signed=any(name == SIGNATURES for name, _ in self.members),
            notes=tuple(self.notes),
        )

    def _manifest(self) -> Manifest:
        """Return the manifest at the root; without one, the default, whose root is all of `data`.
        Raise ManifestError if it is not valid, and for a manifest in a folder below.
        """
        manifest = Manifest()
        for name, content in self.members:
            if name == MANIFEST:
                manifest = Manifest.parse(content)
            elif name.endswith(MANIFEST):
                raise ManifestError(f"{name}: a manifest must be at the root of a bundle")
        return manifest

    def _changes(self, manifest: Manifest) -> tuple[Change, ...] | None:
        """Return None, since a local bundle cannot be a delta; raise `ManifestError` if it contains
        a patch.
        """
        for name, _ in self.members:
            if _is_named(name, _PATCH):
                raise ManifestError(
                    f"{name}: a delta bundle only changes one that was downloaded before: load a "
                    "full bundle here"
                )
        return None

    def _file(self, name: str) -> str:
        """Return the user's name of a file."""
        return name if self.path == "." else os.path.join(self.path, name)

    def _shown_name(self, name: str) -> str:
        """Return the name of a file in errors."""
        return self._file(name)

    def _source(self, file: str, name: str, text: str) -> Source:
        """Return the source of a policy, under the name that errors show."""
        return Source(self._shown_name(name), text)

    def _take_policy(self, name: str, content: bytes, manifest: Manifest) -> tuple[Source, Module]:
        """Parse a policy and return it, after its source. Its text is stored in `self.modules`, and
        a Rego version that the manifest sets in `self.rego_versions`. Raise LoadError if it is not
        UTF-8, ParseError if it is not valid.
        """
        file = self._file(name)
        version = manifest.version_of(name)
        if version is not None:
            self.rego_versions[file] = version
        text = self.modules[file] = policy_text(file, content)
        with self.timers.measure("rego_module_parse"):
            source = self._source(file, name, text)
            module = parse_module(source, v0=self.v0 if version is None else version == 0)
        return source, module

    def _take_data(self, name: str, content: bytes) -> None:
        """Parse a data file and merge its value into `data` at the path of its folder. Raise
        ManifestError if it is not valid, defines a value again, or is in the root of the bundle and
        not an object.
        """
        folder, _, base = name.rpartition("/")
        try:
            with self.timers.measure("rego_data_parse"):
                document = read_document(base, content)
        except LoadError as error:
            reason = error.messages[0].removeprefix(f"{base}: ")
            raise ManifestError(
                f"bundle load failed on {self._shown_name(name)}: {reason}"
            ) from None
        # Leading dots go, as with OPA, where they are what a path relative to the root begins with.
        path = [part for part in folder.lstrip("./").split("/") if part]
        for part in reversed(path):
            document = {part: document}
        if not isinstance(document, dict):
            raise ManifestError(f"bundle load failed on /{name}: root value must be object")
        if not merge(self.data, document):
            reason = f"failed to insert data file from path {'/'.join(path)}"
            raise ManifestError(f"bundle load failed on /{name}: {reason}")


def _is_named(name: str, base: str) -> bool:
    return name.rpartition("/")[2] == base


class _NamedReader(_Reader):
    """Reads the files of a bundle that has a name in the configuration; it may be a delta
    bundle.
    """

    def bundle(self, *, with_data: bool = True) -> Bundle:
        """Parse manifest, data and policies, and compute the bundle's digest; without `with_data`,
        data are empty and a patch is ignored. `members` is empty, so that the bytes of files are
        not kept in memory. Raise ManifestError, ParseError or LoadError if a part is not valid.
        """
        digest = hashlib.sha256()
        for name, content in self.members:
            add_to_digest(digest, name, content)
        return replace(super().bundle(with_data=with_data), digest=digest.hexdigest(), members=())

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _shown_name(self, name: str) -> str:
        return f"/{name}"

    def _source(self, file: str, name: str, text: str) -> Source:
        self.shown_names[file] = self._shown_name(name)
        return super()._source(file, name, text)

    def _changes(self, manifest: Manifest) -> tuple[Change, ...] | None:
        """Return the operations of a delta bundle; None for a bundle without `patch.json`. Raise
        ManifestError if the patch is not valid or in a folder, or a delta bundle contains other
        files.
        """
        patch = dict(self.members).get(_PATCH)
        if patch is None:
            return super()._changes(manifest)
        others = [name for name, _ in self.members if name not in (_PATCH, MANIFEST, SIGNATURES)]
        if others:
            raise ManifestError(
                f"a delta bundle must not contain other files, but has `{others[0]}`"
            )
        return _read_changes(patch, manifest)


def _read_changes(patch: bytes, manifest: Manifest) -> tuple[Change, ...]:
    """Return the changes in `patch`, the content of a delta bundle's `patch.json`; () if its `data`
    or the whole document is null, or `data` is missing. Raise `ManifestError` if it is not valid or
    changes a path outside the roots of `manifest`.
    """
    try:
        document = read_json(patch, trailing=True)
    except JSONError as error:
        raise ManifestError(f"bundle load failed on patch decode: {error}") from None
    # As in Go, null stands for an empty object and for an empty array.
    if not isinstance(document, dict | None):
        raise ManifestError(
            "bundle load failed on patch decode: patch.json must be an object with the array `data`"
        )
    listed = None if document is None else document.get("data")
    if not isinstance(listed, list | None):
        raise ManifestError("bundle load failed on patch decode: `data` must be an array")
    changes = tuple(map(_read_change, listed or ()))
    for change in changes:
        if not is_below_roots(manifest, change.path):
            raise ManifestError(
                f"manifest roots {manifest.roots_text} do not permit data patch at path "
                f"'{'/'.join(change.path)}'"
            )
    return changes


def _read_change(entry: Any) -> Change:
    """Return one patch operation; its value is None if it has none. Raise ManifestError unless it
    is an object whose `op` and `path` are strings; the operator is checked later, in `changed`.
    """
    operator, path = (
        (entry.get("op"), entry.get("path")) if isinstance(entry, dict) else (None, None)
    )
    if not isinstance(operator, str) or not isinstance(path, str):
        raise ManifestError(
            "bundle load failed on patch decode: an operation needs the strings `op` and `path`"
        )
    return Change(operator, read_patch_path(path), entry.get("value"))
