"""The active policies and data, and every way in which they change.

A change builds the next snapshot and activates it as a whole, so a decision sees either all of it
or nothing. Changes of data copy only the containers on their path. Policies are compiled outside of
the lock for changes of data, one change at a time, and bound to the data of the moment.

Documents of files and bundles live together with those that clients write. When files change, their
own documents are replaced, and those that clients added stay. Clients cannot write data that a
bundle owns.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, cast

from doorward.bundles.edit import (
    Edit,
    Operation,
    Path,
    PathNotFoundError,
    StorageError,
    path_text,
    rebase,
)
from doorward.bundles.loader import Loaded
from doorward.bundles.owners import OwnedError, Owners
from doorward.bundles.sources import with_bundles
from doorward.pdp.build_gate import BuildGate
from doorward.pdp.snapshot import Settings, Snapshot, build
from doorward.rego import UNDEFINED, Undefined, Value
from doorward.rego.golang import quote
from doorward.rego.shared import Key, Timers, parse_modules
from doorward.rego.tools import Module

if TYPE_CHECKING:
    from doorward.bundles.bundle import Bundle

__all__ = ["BusyError", "Deciding", "NotReplacedError", "PolicyNotFoundError", "Store"]

_CONFIGURATION: Final = "configuration"
WAIT: Final = 30.0
"""Seconds that a change waits for earlier changes before BusyError."""


class BusyError(Exception):
    """Earlier changes took longer than `WAIT` seconds; nothing was changed."""


class NotReplacedError(Exception):
    """Another snapshot cannot be activated; nothing was changed."""


class Deciding(Protocol):
    """An object that decides by a snapshot: a `PDP`, or the parent of worker processes."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that decides now."""

    @property
    def build_gate(self) -> BuildGate: ...

    def replace(self, snapshot: Snapshot) -> None:
        """Decide by `snapshot` from now on. Raise NotReplacedError if it cannot be activated."""


class PolicyNotFoundError(StorageError):
    """No policy has that name."""

    code = "storage_not_found_error"

    def __init__(self, name: str) -> None:
        super().__init__(f"policy id {quote(name)}")


class Store:
    """Changes the policies and data by which `pdp` decides. Safe in any number of threads.

    Every change may raise OwnedError (the path belongs to a bundle or to the configuration),
    BusyError, NotReplacedError, and CompileError if rules and data define the same path. After an
    error nothing is changed.
    """

    def __init__(
        self,
        pdp: Deciding,
        loaded: Loaded | None = None,
        settings: Settings | None = None,
        *,
        prepare: Callable[[Snapshot], object] = lambda _snapshot: None,
        building: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Take over the changes of `pdp`, which decides by the snapshot of `loaded`. `prepare` is
        called with each snapshot of new policies before it is active. `building` is a context
        manager around their compilation and `prepare`.
        """
        self._pdp = pdp
        self._settings = settings or Settings()
        self._prepare = prepare
        self._building = building
        self._files = loaded or Loaded()
        """The contents of files, and of bundles that are files."""
        self._bundles: Mapping[str, Bundle] = {}
        """The active bundles that were downloaded, by name."""
        self._loaded = self._files
        """The contents of files and downloaded bundles together."""
        self._modules = pdp.snapshot.engine.policies.texts
        self._own: dict[Path, Value] = {}
        self._reserved = Owners({}, kind=_CONFIGURATION)
        # INVARIANT: `_compiling` is taken before `_publishing`, never after it. The first is held
        # for seconds, the second only for a change of data.
        self._compiling = threading.Lock()
        self._publishing = threading.Lock()

    @property
    def policies(self) -> Mapping[str, Module]:
        """The active policies as parsed, by name. Names of bundles' policies begin with the
        bundle's name, as in OPA.
        """
        snapshot = self._pdp.snapshot
        trees, bundle_of = snapshot.engine.trees, snapshot.bundle_of
        return {
            f"{bundle_of[name]}/{name}" if name in bundle_of else name: module
            for name, module in trees.items()
        }

    def policy(self, name: str) -> Module:
        """Return the active policy of that name; raise `PolicyNotFoundError` if there is none."""
        module = self.policies.get(name)
        if module is None:
            raise PolicyNotFoundError(name)
        return module

    # What the server itself puts into data

    def reserve(self, root: str) -> None:
        """Reserve `root`, a name directly below `data`, for `keep`: clients and bundles that write
        there get OwnedError. Replaces an earlier reservation.
        """
        with self._hold_lock(self._publishing):
            # Inside the lock, so that a write under way cannot slip in below the root.
            self._reserved = Owners({root: [root]}, kind=_CONFIGURATION)

    def keep(self, path: Path, value: Value, *, text: bytes = b"") -> None:
        """Store `value` at a reserved `path`, with missing parents; later bundles and reloads do
        not remove it. The new revision depends on `text`. Nothing checks that `path` is reserved or
        free. Raise WriteConflictError if a parent of it, other than the first one, is not an
        object; BusyError, NotReplacedError or CompileError as every change may.
        """
        with self._hold_lock(self._publishing):
            snapshot, edit = self._begin()
            _put(edit, path, value)
            self._publish_data(snapshot, edit, "keep", path_text(path), text)
            # Not before: a value that cannot be activated must not return with the next load.
            self._own[path] = value

    def _with_own(self, data: dict[Key, Value]) -> dict[Key, Value]:
        """Return `data` with the values stored by `keep`; `data` itself is not changed."""
        if not self._own:
            return data
        edit = Edit(data)
        for path, value in self._own.items():
            _put(edit, path, value)
        return edit.document

    def _check_free(self, snapshot: Snapshot, path: Path) -> None:
        """Raise OwnedError if a bundle or the configuration owns `path`."""
        snapshot.owners.check(path)
        self._reserved.check(path)

    # Data

    def put(self, path: Path, value: Value, *, text: bytes = b"", only_new: bool = False) -> bool:
        """Store `value` at `path`, creating objects for missing parents; return True. At an index
        of an array it is inserted, as in OPA, and replaces nothing.

        With `only_new`, an existing value is not changed and False is returned. `text` is the JSON
        text of the value, which the new revision depends on. Raise StorageError if a parent is not
        an object, or the root would not be one; OwnedError, BusyError, NotReplacedError and
        CompileError as every change may.
        """
        with self._hold_lock(self._publishing):
            snapshot, edit = self._begin()
            self._check_free(snapshot, path)
            if edit.is_missing(path):
                edit.make_parents(path)
            elif only_new:
                return False
            edit.apply(Operation("add", path, value))
            self._publish_data(snapshot, edit, "put", path_text(path), text)
        return True

    def patch(self, operations: Sequence[Operation], *, text: bytes = b"") -> None:
        """Apply all operations or none; raise `StorageError` if one cannot be applied; OwnedError,
        BusyError, NotReplacedError and CompileError as every change may.
        """
        with self._hold_lock(self._publishing):
            snapshot, edit = self._begin()
            for operation in operations:
                # Within the loop: an operation at the root of the patch says nothing
                # about the others.
                self._check_free(snapshot, operation.path)
                edit.apply(operation)
            self._publish_data(snapshot, edit, "patch", "", text)

    def delete(self, path: Path) -> None:
        """Remove the value at `path`; raise `PathNotFoundError` if there is none,
        `InvalidPatchError` for the root; OwnedError, BusyError, NotReplacedError and CompileError
        as every change may.
        """
        with self._hold_lock(self._publishing):
            snapshot, edit = self._begin()
            self._check_free(snapshot, path)
            if edit.read(path) is UNDEFINED:
                raise PathNotFoundError(path)
            edit.apply(Operation("remove", path))
            self._publish_data(snapshot, edit, "delete", path_text(path))

    def _begin(self) -> tuple[Snapshot, Edit]:
        """Return the active snapshot and an `Edit` that copies its data where it changes; call with
        the lock held.
        """
        snapshot = self._pdp.snapshot
        return snapshot, Edit(snapshot.engine.data)

    def _publish_data(
        self, snapshot: Snapshot, edit: Edit, verb: str, name: str, text: bytes = b""
    ) -> None:
        """Activate the snapshot with the edited data. Its new revision is derived from the one
        before and from the change, which `verb`, `name` and `text` describe.
        """
        revision = _revision_after(snapshot.revision, verb, name, text)
        # INVARIANT: with `_publishing` held, so that the snapshot edited is still the active one.
        self._pdp.replace(snapshot.with_data(edit.document, revision))

    # Policies

    def put_policy(self, name: str, text: str, *, timers: Timers | None = None) -> bool:
        """Compile and activate a policy; return False, changing nothing, if it is active already
        with the same text.

        Raise `CompileError` with all errors of the policy, including those of parsing and those
        that it would cause in other policies; OwnedError, BusyError and NotReplacedError as every
        change may. Times of parsing and compilation are added to `timers`.
        """
        timers = timers or Timers()
        with self._hold_lock(self._compiling):
            if name in self._modules:
                self._check_owner(self._pdp.snapshot.engine.trees[name])
                if self._modules[name] == text:
                    return False
            with timers.measure("rego_module_parse"):
                (module,) = parse_modules({name: text}, self._settings.options()).values()
            # The new text may have another package than the one before, which a bundle may own.
            self._check_owner(module)
            modules = {**self._modules, name: text}
            with timers.measure("rego_module_compile"):
                self._publish_policies(modules, "put policy", name, text)
        return True

    def delete_policy(self, name: str, *, timers: Timers | None = None) -> None:
        """Remove a policy. Raise `PolicyNotFoundError` if there is none, `CompileError` if other
        policies need it; OwnedError, BusyError and NotReplacedError as every change may.
        """
        timers = timers or Timers()
        with self._hold_lock(self._compiling):
            self._check_owner(self.policy(name))
            modules = {key: text for key, text in self._modules.items() if key != name}
            with timers.measure("rego_module_compile"):
                self._publish_policies(modules, "delete policy", name)

    def _check_owner(self, module: Module) -> None:
        """Raise OwnedError if a bundle or the configuration owns the module's package."""
        self._check_free(self._pdp.snapshot, module.package.path)

    def _publish_policies(
        self, modules: dict[str, str], verb: str, name: str, text: str = ""
    ) -> None:
        """Compile `modules`, the texts of all policies, and activate them with the newest data. The
        new revision is derived from the change, which `verb`, `name` and `text` describe.
        CompileError leaves the active snapshot unchanged.
        """
        # For the check of rules against data; the data of the moment replaces it below.
        data = self._pdp.snapshot.engine.data
        loaded = replace(self._loaded, modules=modules, data=data)
        snapshot = self._compile(loaded, self._pdp.snapshot.revision)
        with self._hold_lock(self._publishing):
            # Clients may have changed data while the policies were compiled: publish the newest.
            now = self._pdp.snapshot
            change = text.encode(errors="surrogatepass")
            revision = _revision_after(now.revision, verb, name, change)
            self._pdp.replace(snapshot.with_data(now.engine.data, revision))
            self._modules = modules

    def _compile(self, loaded: Loaded, revision: str | None = None) -> Snapshot:
        """Build and prepare a snapshot; the active one continues to decide. Evaluations take turns
        meanwhile. Raise CompileError if the policies are wrong.
        """
        with self._pdp.build_gate.building(), self._building():
            snapshot = build(
                loaded,
                self._settings,
                revision=revision,
                is_parsed=True,
                before=self._pdp.snapshot,
            )
            self._prepare(snapshot)
        return snapshot

    # Files and bundles

    def load(self, loaded: Loaded) -> Snapshot:
        """Activate the new contents of files and return the snapshot; policies and data that
        clients added through the API stay. Besides the errors of every change (OwnedError,
        BusyError, NotReplacedError), it raises LoadError and ManifestError if files and downloaded
        bundles may define the same path, and CompileError for any error of the policies.
        """
        with self._hold_lock(self._compiling):
            return self._replace(loaded, self._bundles)

    @property
    def bundles(self) -> Mapping[str, Bundle]:
        """The active bundles that were downloaded, by name."""
        return self._bundles

    def activate(self, bundles: Mapping[str, Bundle], *, timers: Timers | None = None) -> Snapshot:
        """Activate downloaded bundles beside the others, all of them or none, and return the
        snapshot.

        Data and policies that clients wrote below the roots of the bundles are removed. If all
        bundles are active already, nothing changes: a service without `ETag` sends the same bundle
        again. Besides the errors of every change (OwnedError, BusyError, NotReplacedError,
        CompileError), it raises LoadError and ManifestError if bundles and files may define the
        same path, and for a delta bundle StorageError, or ManifestError if it does not fit the
        active bundle.
        """
        timers = timers or Timers()
        with self._hold_lock(self._compiling):
            if all(self._is_active(name, bundle) for name, bundle in bundles.items()):
                return self._pdp.snapshot
            # All deltas before anything is activated: bundles come together or not at all.
            full = {name: self._apply_delta(name, bundle) for name, bundle in bundles.items()}
            # A single delta changes only data, so that nothing has to be compiled.
            if len(bundles) == 1 and (delta := next(iter(bundles.values()))).changes is not None:
                return self._change(full, delta)
            with timers.measure("rego_module_compile"):
                return self._replace(self._files, {**self._bundles, **full})

    def deactivate(self, names: Collection[str]) -> Snapshot:
        """Remove the policies and data of the named downloaded bundles, and return the new
        snapshot; unknown names are ignored. Raise CompileError if other policies need them.
        """
        with self._hold_lock(self._compiling):
            left = {name: each for name, each in self._bundles.items() if name not in names}
            return self._replace(self._files, left)

    def _is_active(self, name: str, bundle: Bundle) -> bool:
        """Return True if the active bundle `name` has the same digest; False without a digest, and
        for a delta bundle.
        """
        active = self._bundles.get(name)
        is_same = active is not None and bundle.digest and active.digest == bundle.digest
        return bool(is_same and bundle.changes is None)

    def _apply_delta(self, name: str, bundle: Bundle) -> Bundle:
        """Return the bundle to activate: a delta applied to the active bundle of that name, any
        other bundle unchanged. Raise ManifestError if there is no active bundle or its roots
        differ, StorageError if a change cannot be applied.
        """
        if bundle.changes is None:
            return bundle
        from doorward.bundles.bundle import changed
        from doorward.bundles.manifest import ManifestError

        before = self._bundles.get(name)
        if before is None:
            raise ManifestError(f"delta bundle '{name}' comes without a snapshot bundle before it")
        if bundle.manifest.root_paths != before.manifest.root_paths:
            raise ManifestError(
                f"delta bundle '{name}' has wasm resolvers or manifest roots that are different "
                "from those in the store"
            )
        return replace(
            before,
            data=changed(before.data, bundle.changes),
            manifest=replace(before.manifest, revision=bundle.manifest.revision),
            digest=hashlib.sha256(f"{before.digest}{bundle.digest}".encode()).hexdigest(),
        )

    def _change(self, full: Mapping[str, Bundle], delta: Bundle) -> Snapshot:
        """Activate the data that a delta bundle changes, without compiling; `full` maps its name to
        the bundle with the changes applied. Values that clients wrote elsewhere stay.
        """
        from doorward.bundles.bundle import changed

        changes = delta.changes or ()
        bundles = {**self._bundles, **full}
        revisions = {name: bundle.manifest.revision for name, bundle in bundles.items()}
        loaded = replace(
            self._loaded,
            data=changed(self._loaded.data, changes),
            revisions={**self._loaded.revisions, **revisions},
        )
        with self._hold_lock(self._publishing):
            now = self._pdp.snapshot
            # No client has written since: the changed document need not be made twice.
            is_plain = now.engine.data is self._loaded.data
            data = self._with_own(loaded.data if is_plain else changed(now.engine.data, changes))
            revision = _revision_after(now.revision, "delta", "", delta.digest.encode())
            snapshot = now.with_data(data, revision, bundles=loaded.revisions)
            self._pdp.replace(snapshot)
            self._bundles, self._loaded = bundles, loaded
        return snapshot

    def _replace(self, files: Loaded, bundles: Mapping[str, Bundle]) -> Snapshot:
        """Compile and activate the policies of files and bundles, and return the snapshot.

        Policies added through the API stay unless a bundle owns their package; so does the data of
        clients outside the roots of bundles.
        """
        loaded = with_bundles(files, bundles)
        before = self._loaded.modules
        owners = Owners({name: bundle.manifest.roots for name, bundle in bundles.items()})
        trees = self._pdp.snapshot.engine.trees
        # What files and bundles did not have before came from clients.
        added = {
            name: text
            for name, text in self._modules.items()
            if name not in before and not _is_owned(owners, trees[name].package.path)
        }
        modules = added | loaded.modules
        snapshot = self._compile(replace(loaded, modules=modules))
        with self._hold_lock(self._publishing):
            # Inside the lock: clients may have written data while the policies were compiled.
            data = self._with_own(_rebase(self._pdp.snapshot.engine.data, self._loaded, loaded))
            if added or data is not loaded.data:
                # The contents of the files alone would give one revision with and without the
                # documents of clients.
                change = self._pdp.snapshot.revision.encode()
                revision = _revision_after(snapshot.revision, "load", "", change)
                snapshot = snapshot.with_data(data, revision)
            self._pdp.replace(snapshot)
            self._modules, self._loaded = modules, loaded
            self._files, self._bundles = files, dict(bundles)
        return snapshot

    @contextmanager
    def _hold_lock(self, lock: threading.Lock) -> Iterator[None]:
        """Context manager that holds a lock; BusyError if it is not free within `WAIT` seconds."""
        if not lock.acquire(timeout=WAIT):
            raise BusyError(
                f"earlier changes took longer than {WAIT:g} seconds: nothing was changed, try again"
            )
        try:
            yield
        finally:
            lock.release()


def _put(edit: Edit, path: Path, value: Value) -> None:
    """Put `value` at `path` and create missing parents; a value directly below `data` that is not
    an object is replaced by one. WriteConflictError if another parent is not an object.
    """
    if not isinstance(edit.read(path[:1]), dict):
        edit.apply(Operation("add", path[:1], {}))
    edit.make_parents(path)
    edit.apply(Operation("add", path, value))


def _is_owned(owners: Owners, path: Sequence[str]) -> bool:
    """Return True if a bundle owns the path."""
    try:
        owners.check(path)
    except OwnedError:
        return True
    return False


def _revision_after(revision: str, verb: str, name: str, text: bytes) -> str:
    """Return twelve hexadecimal digits for the state after a change, derived from the revision
    before and the change: the same changes give the same revision.
    """
    digest = hashlib.sha256(b"\0".join([revision.encode(), verb.encode(), b""]))
    digest.update(name.encode(errors="surrogatepass") + b"\0")
    digest.update(text)
    return digest.hexdigest()[:12]


def _rebase(current: dict[Key, Value], before: Loaded, after: Loaded) -> dict[Key, Value]:
    """Return the data of `after`, with the keys that clients added to the data of `before`.

    Below the roots of bundles such keys are dropped.
    """
    merged = rebase(current, before.data, after.data)
    edit = Edit(cast(dict[Key, Value], merged))
    if merged is after.data:
        return edit.document
    edit_of_data = Edit(after.data)
    for roots in after.roots.values():
        for root in roots:
            path = tuple(root.split("/")) if root else ()
            value = edit_of_data.get(path)
            if not isinstance(value, Undefined):
                edit.make_parents(path)
                edit.apply(Operation("add", path, value))
            elif not edit.is_missing(path):
                edit.apply(Operation("remove", path))
    return edit.document
