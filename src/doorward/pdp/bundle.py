"""A bundle to policies and data: a folder or a `.tar.gz`, as `opa build` makes them.

`*.rego` are policies, `data.json`, `data.yaml` and `data.yml` are data below the folder that they
lie in, `.manifest` says what the bundle may define. Other files are not read. A bundle is refused
as a whole: half of one is a policy that nobody wrote.

Delta bundles change data that somebody else holds, and are refused. WebAssembly is not run: what
was compiled to it is left out, with a note. Signatures are verified when asked for; a bundle whose
signatures nobody looked at says so in a note.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from doorward.pdp.archive import ArchiveError, Member, folder_names, read_archive, read_folder
from doorward.pdp.loader import (
    Limits,
    LoadError,
    io_message,
    merge,
    policy_text,
    read_document,
)
from doorward.pdp.manifest import Manifest, ManifestError, check_data, check_module
from doorward.pdp.signatures import SignatureError, Verification, verify
from doorward.rego import Key, ParseError, RegoError, Source, Timers, Value
from doorward.rego.tools import parse_module

__all__ = ["Bundle", "BundleError", "bundle_files", "plain_path", "read_bundle", "signed_files"]

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


@dataclass(frozen=True, slots=True)
class Bundle:
    """What one bundle holds. Nothing of it is compiled."""

    path: str
    manifest: Manifest = field(default_factory=Manifest)
    modules: dict[str, str] = field(default_factory=dict)
    data: dict[Key, Value] = field(default_factory=dict)
    rego_versions: dict[str, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    """Every file that was read."""
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
) -> Bundle:
    """The bundle at `path`. BundleError says in OPA's words what is wrong with it.

    `signed`: signatures are verified, with `verification`; a bundle without them passes if there is
    none to verify with.
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
        bundle = _Reader(path, members, timers or Timers(), v0=v0).bundle()
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


def _verify(path: str, members: Sequence[Member], verification: Verification | None) -> None:
    signatures = dict(members).get(SIGNATURES)
    if signatures is None:
        if verification is not None:
            raise SignatureError(f"bundle missing {SIGNATURES} file")
        return
    if verification is None:
        raise SignatureError("verification key not provided")
    files = [member for member in members if member[0] != SIGNATURES]
    verify(files, signatures, verification, folder=path if os.path.isdir(path) else "")


def bundle_files(path: str, *, limits: Limits | None = None) -> tuple[str, ...]:
    """The files that a bundle is read from, without reading them; nothing if it is missing."""
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
    """The files of a bundle that its signatures list, whatever they are, by the path that they are
    listed under. BundleError where they cannot be read."""
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
        members = read_folder(path, _kept(names, ignore), limits)
    elif os.path.isfile(path):
        members = read_archive(path, limits)
    else:
        raise ArchiveError("neither a file nor a folder")
    for name, content in members:
        if (everything or _is_read(name)) and _kept([name], ignore):
            yield name, content


def _is_read(name: str) -> bool:
    base = name.rpartition("/")[2]
    return name.endswith((".rego", MANIFEST, SIGNATURES)) or base in (*_DATA, _PATCH, _WASM)


def _kept(names: Sequence[str], ignore: Sequence[str]) -> list[str]:
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
        self.notes: list[str] = []

    def bundle(self) -> Bundle:
        manifest = self._manifest()
        for name, content in self.members:
            if name.endswith(".rego"):
                self._take_policy(name, content, manifest)
            elif name.rpartition("/")[2] in _DATA:
                self._take_data(name, content)
        check_data(manifest, self.data)
        if manifest.has_wasm or any(_is_named(name, _WASM) for name, _ in self.members):
            self.notes.append(f"bundle {self.path}: WebAssembly is not run; its rules are missing")
        return Bundle(
            path=self.path,
            manifest=manifest,
            modules=self.modules,
            data=self.data,
            rego_versions=self.rego_versions,
            members=tuple(self.members),
            is_signed=any(name == SIGNATURES for name, _ in self.members),
            notes=tuple(self.notes),
        )

    def _manifest(self) -> Manifest:
        manifest = Manifest()
        for name, content in self.members:
            if _is_named(name, _PATCH):
                raise ManifestError(f"{name}: delta bundles are not supported")
            if name == MANIFEST:
                manifest = Manifest.parse(content)
            elif name.endswith(MANIFEST):
                raise ManifestError(f"{name}: a manifest counts at the root of a bundle only")
        return manifest

    def _file(self, name: str) -> str:
        """What the user calls it."""
        return os.path.join(self.path, name)

    def _take_policy(self, name: str, content: bytes, manifest: Manifest) -> None:
        file = self._file(name)
        version = manifest.version_of(name)
        if version is not None:
            self.rego_versions[file] = version
        text = self.modules[file] = policy_text(file, content)
        with self.timers.measure("rego_module_parse"):
            module = parse_module(
                Source(file, text), v0=self.v0 if version is None else version == 0
            )
        check_module(manifest, module, file)

    def _take_data(self, name: str, content: bytes) -> None:
        folder, _, base = name.rpartition("/")
        try:
            with self.timers.measure("rego_data_parse"):
                document = read_document(base, content)
        except LoadError as error:
            what = error.messages[0].removeprefix(f"{base}: ")
            raise ManifestError(f"bundle load failed on {self._file(name)}: {what}") from None
        # Leading dots go, as with OPA, where they are what a path relative to the root begins with.
        path = [part for part in folder.lstrip("./").split("/") if part]
        for part in reversed(path):
            document = {part: document}
        if not isinstance(document, dict):
            raise ManifestError(f"bundle load failed on /{name}: root value must be object")
        if not merge(self.data, document):
            what = f"failed to insert data file from path {'/'.join(path)}"
            raise ManifestError(f"bundle load failed on /{name}: {what}")


def _is_named(name: str, base: str) -> bool:
    return name.rpartition("/")[2] == base
