"""All sources of policies and data, read together: files, folders and bundles.

No two sources may define the same document. The sources remember what was requested, so that they
can be read again and watched.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from doorward.base.collector import gc_paused
from doorward.base.records import record
from doorward.bundles.loader import (
    Limits,
    Loaded,
    LoadError,
    add_to_digest,
    list_files,
    load,
    merge,
    split_prefix,
    unite_documents,
)
from doorward.rego.shared import Timers

if TYPE_CHECKING:
    from doorward.bundles.bundle import Bundle
    from doorward.bundles.signatures import Verification

__all__ = ["Sources", "with_bundles"]


@record
class Sources:
    """The sources of policies and data that a program was started with: `paths` are files and
    folders, `bundles` are bundles.

    A member of `paths` that ends with `.tar.gz` is read as a bundle too, but others may define
    values below its roots.
    """

    paths: Sequence[str] = ()
    bundles: Sequence[str] = ()
    ignore: Sequence[str] = ()
    v0: bool = False
    """True if policies are parsed as Rego v0, unless a manifest sets their version."""
    signed: bool = False
    """True if the signatures of bundles are verified, with `verification`."""
    verification: Verification | None = None
    limits: Limits | None = None
    policies_only: bool = False
    """True if only files that end with `.rego` are read from `paths`."""

    def __bool__(self) -> bool:
        return bool(self.paths or self.bundles)

    @property
    def all_paths(self) -> Sequence[str]:
        """The arguments for files and folders, then those for bundles."""
        return (*self.paths, *self.bundles)

    @property
    def roots(self) -> Sequence[str]:
        """The files and folders themselves, without the prefix for a path in `data`: `a.b:file` ->
        `file`.
        """
        return [split_prefix(path)[1] for path in self.all_paths]

    def load(self, timers: Timers | None = None) -> Loaded:
        """Read all sources. Raise `BundleError` or `LoadError` if one cannot be used or two define
        the same value. The time is added to `timers`.
        """
        timers = timers or Timers()
        with timers.measure("rego_load_files"), gc_paused():
            loaded = Loaded()
            paths = [path for path in self.paths if not _is_archive(path)]
            if paths:
                loaded = load(
                    paths,
                    ignore=self.ignore,
                    limits=self.limits,
                    timers=timers,
                    policies_only=self.policies_only,
                    v0=self.v0,
                )
            if not self.bundles and (self.policies_only or len(paths) == len(self.paths)):
                return loaded
            return _join(loaded, self._read(timers), owners=self.bundles)

    def files(self) -> tuple[str, ...]:
        """Return the files that `load` would read, without reading them. Missing ones are left out,
        and folders of bundles that cannot be read; the archive of a bundle is always listed.
        LoadError if there are too many, or a folder in `paths` is too deep or cannot be read.
        """
        listed = list_files(self.paths, ignore=self.ignore, limits=self.limits)
        if not self.bundles:
            return listed
        from doorward.bundles.bundle import bundle_files

        return sum((bundle_files(path, limits=self.limits) for path in self.bundles), listed)

    def _read(self, timers: Timers) -> list[Bundle]:
        """Read the bundles in `bundles` and the archives among `paths`, each path once. Raise
        `BundleError` if one cannot be used, `LoadError` if the roots of `bundles` overlap; those of
        archives may.
        """
        # Who reads plain files does not pay for archives and signatures.
        from doorward.bundles.bundle import read_bundle
        from doorward.bundles.manifest import ManifestError, check_roots

        archives = [path for path in self.paths if _is_archive(path)]
        bundles = {
            path: read_bundle(
                path,
                ignore=self.ignore,
                v0=self.v0,
                signed=self.signed,
                verification=self.verification,
                limits=self.limits,
                timers=timers,
            )
            # A path that is given both ways is read once.
            for path in dict.fromkeys([*self.bundles, *archives])
        }
        try:
            check_roots({bundles[path].path: bundles[path].manifest for path in self.bundles})
        except ManifestError as error:
            raise LoadError([str(error)]) from None
        return list(bundles.values())


def _is_archive(path: str) -> bool:
    """Return True if a path is an existing file whose name says that it is a packed bundle."""
    return path.endswith(".tar.gz") and os.path.isfile(path.removeprefix("file://"))


def _join(loaded: Loaded, bundles: Sequence[Bundle], *, owners: Collection[str]) -> Loaded:
    """Return `loaded` with the policies and data of the bundles added; raise LoadError if two of
    them define the same value.

    `owners` are the paths of those bundles whose roots are recorded in the result, so that nobody
    else may write there. Archives among plain files are not in it.
    """
    import hashlib

    from doorward.bundles.bundle import bundle_files, plain_path

    digest = hashlib.sha256(loaded.digest.encode())
    data, modules = dict(loaded.data), dict(loaded.modules)
    files, notes = list(loaded.files), list(loaded.notes)
    versions: dict[str, int] = {}
    owned = set(map(plain_path, owners))
    for bundle in bundles:
        if not merge(data, bundle.data):
            raise LoadError(
                [f"{bundle.path}: merge error: another file or bundle defines one of its values"]
            )
        # A policy that is given by itself as well is the same file.
        modules |= bundle.modules
        versions |= bundle.rego_versions
        files += bundle_files(bundle.path)
        notes += bundle.notes
        for name, content in bundle.members:
            add_to_digest(digest, f"{bundle.path}\0{name}", content)
    return Loaded(
        modules=modules,
        data=data,
        files=tuple(files),
        digest=digest.hexdigest(),
        rego_versions=versions,
        revisions={bundle.path: bundle.manifest.revision for bundle in bundles},
        roots={b.path: b.manifest.roots for b in bundles if b.path in owned},
        bundle_of={file: b.path for b in bundles if b.path in owned for file in b.modules},
        notes=tuple(notes),
    )


def with_bundles(loaded: Loaded, bundles: Mapping[str, Bundle]) -> Loaded:
    """Return the files with downloaded bundles added, which are given by name; neither is changed.
    Raise `LoadError` if two define the same value, `ManifestError` if roots overlap.
    """
    if not bundles:
        return loaded
    import hashlib

    from doorward.bundles.manifest import Manifest, check_roots

    owners = {name: Manifest(roots=roots) for name, roots in loaded.roots.items()}
    # In one order, so that the same bundles give the same revision.
    named = {name: bundles[name] for name in sorted(bundles)}
    check_roots({**owners, **{name: bundle.manifest for name, bundle in named.items()}})
    digest = hashlib.sha256(loaded.digest.encode())
    data, modules = loaded.data, dict(loaded.modules)
    versions, short_names = dict(loaded.rego_versions), dict(loaded.shown_names)
    for name, bundle in named.items():
        data = unite_documents(data, bundle.data)
        modules |= bundle.modules
        versions |= bundle.rego_versions
        short_names |= bundle.shown_names
        add_to_digest(digest, name, bundle.digest.encode())
    return Loaded(
        modules=modules,
        data=data,
        files=loaded.files,
        digest=digest.hexdigest(),
        rego_versions=versions,
        revisions={
            **loaded.revisions,
            **{name: bundle.manifest.revision for name, bundle in named.items()},
        },
        roots={
            **loaded.roots,
            **{name: bundle.manifest.roots for name, bundle in named.items()},
        },
        bundle_of=loaded.bundle_of,
        shown_names=short_names,
        notes=loaded.notes,
    )
