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
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Final

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
from doorward.bundles.loader import (
    Limits,
    LoadError,
    io_message,
    merge,
    note,
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
    """A bundle that cannot be used. `cause`: what is wrong with its policies, where that is it."""

    def __init__(self, path: str, message: str, cause: RegoError | None = None) -> None:
        super().__init__([message])
        self.path = path
        self.cause = cause

    def __str__(self) -> str:
        return self.messages[0]


@record
class Change:
    """One operation of a delta bundle: `upsert`, `replace` or `remove`, or what nobody knows."""

    operator: str
    path: Path
    value: Value = None


def changed(document: dict[Key, Value], changes: Sequence[Change]) -> dict[Key, Value]:
    """The document with all changes; only the containers on their paths are copied.

    StorageError, or ManifestError for an operation that there is not.
    """
    edit = Edit(document)
    for change in changes:
        if change.operator == "upsert":
            if edit.is_missing(change.path[:-1]):
                edit.make_parents(change.path)
            edit.apply(Operation("add", change.path, change.value))
        elif change.operator == "remove":
            edit.apply(Operation("remove", change.path))
        elif change.operator == "replace":
            edit.apply(Operation("replace", change.path, change.value))
        else:
            raise ManifestError(f"bad patch operation: {change.operator}")
    return edit.document


@record
class Bundle:
    """The content of one bundle, not compiled."""

    path: str
    manifest: Manifest = field(default_factory=Manifest)
    modules: dict[str, str] = field(default_factory=dict)
    data: dict[Key, Value] = field(default_factory=dict)
    rego_versions: dict[str, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    """Every file that was read."""
    shown_names: dict[str, str] = field(default_factory=dict)
    """The name that errors show for a policy, where that is not its file."""
    changes: tuple[Change, ...] | None = None
    """Of a delta bundle: what it changes."""
    digest: str = ""
    """Of everything in it; of a bundle that was downloaded only."""
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
    """The bundle at `path`. BundleError says in OPA's words what is wrong with it.

    `signed`: signatures are verified, with `verification`; a bundle without them passes if there is
    none to verify with. `with_data`: False leaves data, and the changes of a delta bundle, as the
    files that they are.
    """
    path = plain_path(path)
    if not os.path.exists(path):
        missing = f'error reading "{path}": stat {path}: no such file or directory'
        raise BundleError(path, missing)
    try:
        everything = signed and verification is not None
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
        unverified = f"bundle {path}: its signatures are not verified"
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
    """The bundle `name` that an archive holds, a delta bundle too. BundleError as for a file."""
    members = unpack(io.BytesIO(content), limits or Limits())
    return _read_here(name, members, v0=v0, verification=verification, timers=timers)


def read_local_bundle(
    name: str,
    path: str,
    *,
    v0: bool = False,
    verification: Verification | None = None,
    limits: Limits | None = None,
    timers: Timers | None = None,
) -> Bundle:
    """The same for a file or a folder, under a name of its own."""
    members = _members(path, (), limits or Limits(), everything=True)
    return _read_here(name, members, v0=v0, verification=verification, timers=timers)


def _read_here(
    name: str,
    members: Iterator[Member],
    *,
    v0: bool,
    verification: Verification | None,
    timers: Timers | None,
) -> Bundle:
    """Read a bundle from its files; every error becomes a `BundleError` with the bundle's name."""
    try:
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
    """Check the signatures; raise `SignatureError` if they are missing, wrong or not checkable."""
    signatures = dict(members).get(SIGNATURES)
    if signatures is None:
        if verification is not None and verification.is_required:
            raise SignatureError(f"bundle missing {SIGNATURES} file")
        return
    if verification is None:
        raise SignatureError("verification key not provided")
    files = [member for member in members if member[0] != SIGNATURES]
    verify(files, signatures, verification, folder=path if path and os.path.isdir(path) else "")


def bundle_files(path: str, *, limits: Limits | None = None) -> tuple[str, ...]:
    """The files from which a bundle is read, without reading them; empty if it is missing."""
    path = plain_path(path)
    if not os.path.isdir(path):
        return (path,)
    try:
        names = folder_names(path, limits or Limits())
    except ArchiveError:
        return ()
    return tuple(os.path.join(path, name) for name in names if _is_read(name))


def plain_path(path: str) -> str:
    """The name that a bundle is known by."""
    return str(PurePosixPath(path.removeprefix("file://")))


def signed_files(
    path: str, *, ignore: Sequence[str] = (), limits: Limits | None = None
) -> list[Member]:
    """The files of a bundle that its signatures must list, under the paths that they list.

    Raise `BundleError` if they cannot be read.
    """
    path = plain_path(path)
    if not os.path.exists(path):
        missing = f'error reading "{path}": stat {path}: no such file or directory'
        raise BundleError(path, missing)
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
    """The files of a bundle; `everything`: those as well that say nothing, but are signed."""
    if os.path.isdir(path):
        names = [name for name in folder_names(path, limits) if everything or _is_read(name)]
        members = read_folder(path, _remove_ignored(names, ignore), limits)
    elif os.path.isfile(path):
        members = read_archive(path, limits)
    else:
        raise ArchiveError("neither a file nor a folder")
    for name, content in members:
        if (everything or _is_read(name)) and _remove_ignored([name], ignore):
            yield name, content


def _is_read(name: str) -> bool:
    base = name.rpartition("/")[2]
    return name.endswith((".rego", MANIFEST, SIGNATURES)) or base in (*_DATA, _PATCH, _WASM)


def _remove_ignored(names: Sequence[str], ignore: Sequence[str]) -> list[str]:
    """The names of which no part is to be ignored.

    Never ignored is what restricts the bundle: `--ignore '.*'` shall not lift it.
    """
    patterns = [pattern.replace("[^", "[!") for pattern in ignore]
    return [
        name
        for name in names
        if name in (MANIFEST, SIGNATURES)
        or not any(fnmatchcase(part, each) for part in name.split("/") for each in patterns)
    ]


class _Reader:
    """Takes the files of one bundle, the manifest first."""

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
        """Read manifest, data and policies; raise `ManifestError` for what is outside the roots."""
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
            self.notes.append(f"bundle {self.path}: WebAssembly is not run; its rules are missing")
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
        """The manifest at the root; the default one, with all of data as root, if there is none."""
        manifest = Manifest()
        for name, content in self.members:
            if name == MANIFEST:
                manifest = Manifest.parse(content)
            elif name.endswith(MANIFEST):
                raise ManifestError(f"{name}: a manifest counts at the root of a bundle only")
        return manifest

    def _changes(self, manifest: Manifest) -> tuple[Change, ...] | None:
        """None, as a local bundle cannot be a delta; raise `ManifestError` if it has a patch."""
        for name, _ in self.members:
            if _is_named(name, _PATCH):
                raise ManifestError(f"{name}: only a bundle that is downloaded can be a delta")
        return None

    def _file(self, name: str) -> str:
        """Return the user's name of a file."""
        return name if self.path == "." else os.path.join(self.path, name)

    def _show(self, name: str) -> str:
        """Return the name of a file in errors."""
        return self._file(name)

    def _source(self, file: str, name: str, text: str) -> Source:
        """A policy, with the name that errors show for it."""
        return Source(self._show(name), text)

    def _take_policy(self, name: str, content: bytes, manifest: Manifest) -> tuple[Source, Module]:
        """Parse a policy and keep its text; the manifest may set its Rego version."""
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
        """Parse a data file and merge it into `data` at the path of its folder."""
        folder, _, base = name.rpartition("/")
        try:
            with self.timers.measure("rego_data_parse"):
                document = read_document(base, content)
        except LoadError as error:
            reason = error.messages[0].removeprefix(f"{base}: ")
            raise ManifestError(f"bundle load failed on {self._show(name)}: {reason}") from None
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
    """Takes the files of a bundle that the configuration names; it may be a delta bundle."""

    def bundle(self, *, with_data: bool = True) -> Bundle:
        """Read the bundle and its digest; the bytes of its files are not kept."""
        digest = hashlib.sha256()
        for name, content in self.members:
            note(digest, name, content)
        return replace(super().bundle(with_data=with_data), digest=digest.hexdigest(), members=())

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _show(self, name: str) -> str:
        return f"/{name}"

    def _source(self, file: str, name: str, text: str) -> Source:
        self.shown_names[file] = self._show(name)
        return super()._source(file, name, text)

    def _changes(self, manifest: Manifest) -> tuple[Change, ...] | None:
        """The patch operations of a delta bundle; None for a snapshot."""
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
    """Parse `patch.json`; raise `ManifestError` for a path outside the roots."""
    try:
        document = read_json(patch, trailing=True)
    except JSONError as error:
        raise ManifestError(f"bundle load failed on patch decode: {error}") from None
    listed = document.get("data") if isinstance(document, dict) else None
    if not isinstance(listed or [], list):
        raise ManifestError("bundle load failed on patch decode: data must be an array")
    changes = tuple(map(_read_change, listed or ()))  # type: ignore[arg-type]  # a list, just seen
    for change in changes:
        if not is_below_roots(manifest, change.path):
            raise ManifestError(
                f"manifest roots {manifest.roots_text} do not permit data patch at path "
                f"'{'/'.join(change.path)}'"
            )
    return changes


def _read_change(entry: Any) -> Change:
    """Read one patch operation; its operator is checked when it is applied."""
    operator, path = (
        (entry.get("op"), entry.get("path")) if isinstance(entry, dict) else (None, None)
    )
    if not isinstance(operator, str) or not isinstance(path, str):
        raise ManifestError("bundle load failed on patch decode: an operation needs op and path")
    return Change(operator, read_patch_path(path), entry.get("value"))
