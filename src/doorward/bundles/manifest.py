"""The `.manifest` of a bundle: its revision, and the roots that policies and data must stay below.

Roots are paths below `data`. They keep bundles of different owners apart: what a bundle defines
outside of its roots, and two bundles with roots of which one contains the other, are errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import permutations
from typing import Any, Final

from doorward.base.records import record
from doorward.rego import REGISTRY, Value
from doorward.rego.golang import JSONError, read_json
from doorward.rego.shared import Key
from doorward.rego.tools import Module

__all__ = [
    "Manifest",
    "ManifestError",
    "check_data",
    "check_module",
    "check_roots",
    "is_below_roots",
]

MAX_DEPTH: Final = 64
"""The most names of a root, as many as a folder of the bundle may have above it: of each root all
paths above it are kept.
"""

MAX_WILDCARDS: Final = 1000
"""The most patterns with wildcards in `file_rego_versions`."""
_SPECIAL: Final = frozenset("*?[]{}\\")

_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "revision": (str, "a string"),
    "roots": (list, "an array of strings"),
    "rego_version": (int, "0 or 1"),
    "file_rego_versions": (dict, "an object"),
    "wasm": (list, "an array"),
    "metadata": (dict, "an object"),
}


class ManifestError(Exception):
    """A manifest that is not valid, or a bundle that violates its manifest."""


@record
class Manifest:
    """The manifest of a bundle."""

    revision: str = ""
    roots: tuple[str, ...] = ("",)
    rego_version: int | None = None
    file_rego_versions: Mapping[str, int] = field(default_factory=dict)
    """Rego versions by `glob.match` pattern; file names begin with a slash here."""
    wasm_modules: tuple[str, ...] = ()
    """Files with rules in WebAssembly, which is not run here."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The manifest's free-form `metadata`."""
    root_paths: frozenset[tuple[str, ...]] = field(init=False, compare=False, repr=False)
    """The roots as paths; () is the whole document."""
    _wildcards: Mapping[str, int] = field(init=False, compare=False, repr=False)
    """The patterns of `file_rego_versions` that are not the name of one file: `opa build` writes a
    name for each file, and each file is compared with all of these.
    """

    @classmethod
    def parse(cls, text: bytes) -> Manifest:
        """Parse the JSON of a manifest. Raise `ManifestError` if it is not valid, or its roots
        overlap; unknown fields are ignored, and null counts as missing.
        """
        try:
            document = read_json(text, trailing=True)
        except JSONError as error:
            raise ManifestError(f"bundle load failed on manifest decode: {error}") from None
        if not isinstance(document, dict):
            raise _wrong("the manifest must be an object")
        for name, (kind, expected) in _KINDS.items():
            value = document.get(name)
            # A boolean is an `int` in Python, but not in JSON.
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise _wrong(f"{name} must be {expected}")
        return cls(
            revision=_field_or_default(document, "revision", ""),
            roots=_roots(_field_or_default(document, "roots", [""])),
            rego_version=_version("rego_version", document.get("rego_version")),
            file_rego_versions=_versions(_field_or_default(document, "file_rego_versions", {})),
            metadata={str(k): v for k, v in _field_or_default(document, "metadata", {}).items()},
            wasm_modules=_wasm_modules(_field_or_default(document, "wasm", [])),
        )

    def __post_init__(self) -> None:
        """Set what is derived from other fields. Raise ManifestError if a root has too many names,
        is listed twice, or contains another one, and for too many patterns of files.
        """
        object.__setattr__(self, "root_paths", frozenset(map(_path, self.roots)))
        wildcards = {k: v for k, v in self.file_rego_versions.items() if not _SPECIAL.isdisjoint(k)}
        object.__setattr__(self, "_wildcards", wildcards)
        if len(wildcards) > MAX_WILDCARDS:
            raise ManifestError(
                f"manifest has more than {MAX_WILDCARDS} patterns with wildcards in "
                "file_rego_versions"
            )
        if deep := next((each for each in self.roots if each.count("/") >= MAX_DEPTH), None):
            raise ManifestError(f"manifest root `{deep[:60]}…` has more than {MAX_DEPTH} levels")
        if len(set(self.roots)) < len(self.roots):
            twice = Counter(self.roots).most_common(1)[0][0]
            raise ManifestError(f"manifest has overlapped roots: '{twice}' and '{twice}'")
        for below in self.roots:
            # By prefixes in a set: a comparison of all pairs of roots would take quadratic time.
            above = _first_above(below.split("/")[:-1], self.root_paths)
            if above is not None and below:
                pair = sorted(["/".join(above), below], key=self.roots.index)
                raise ManifestError(f"manifest has overlapped roots: '{pair[0]}' and '{pair[1]}'")

    def version_of(self, name: str) -> int | None:
        """Return the Rego version of a file, 0 or 1, by its name from the root of the bundle: that
        of its name, else of the first matching pattern, else the bundle's; None if the manifest
        sets none. In OPA it is any of the patterns that match.
        """
        match = REGISTRY["glob.match"].call
        path = f"/{name}"
        if path in self.file_rego_versions and path not in self._wildcards:
            return self.file_rego_versions[path]
        for pattern, version in self._wildcards.items():
            if match(pattern, None, path):
                return version
        return self.rego_version

    @property
    def roots_text(self) -> str:
        """The roots as Go prints a list: `[a b/c]`."""
        return f"[{' '.join(self.roots)}]"


def _wrong(reason: str) -> ManifestError:
    return ManifestError(f"bundle load failed on manifest decode: {reason}")


def _field_or_default(document: Mapping[Key, Any], name: str, default: Any) -> Any:
    """Return a field of a manifest; `default` if it is missing or null."""
    value = document.get(name)
    return default if value is None else value


def _roots(listed: Sequence[Value]) -> tuple[str, ...]:
    """Return the roots without slashes around them; ManifestError if one is not a string."""
    if not all(isinstance(root, str) for root in listed):
        raise _wrong("roots must be an array of strings")
    return tuple(str(root).strip("/") for root in listed)


def _wasm_modules(listed: Sequence[Any]) -> tuple[str, ...]:
    """Return the file names of the WebAssembly modules in the manifest; raise ManifestError for an
    entry without one.
    """
    modules = [entry.get("module") for entry in listed if isinstance(entry, dict)]
    texts = tuple(module for module in modules if isinstance(module, str))
    if len(texts) < len(listed):
        raise _wrong("wasm must be an array of objects with a module")
    return texts


def _version(name: str, value: Value) -> int | None:
    """Return a Rego version, 0 or 1; None for null. Raise ManifestError for any other value."""
    if value is None:
        return None
    if type(value) is not int or value not in (0, 1):
        raise _wrong(f"{name} must be 0 or 1")
    return value


def _versions(document: Mapping[Key, Value]) -> dict[str, int]:
    """Return the Rego versions by file pattern, without null ones; ManifestError for any but 0 and
    1.
    """
    versions = {
        str(name): _version(f"file_rego_versions `{name}`", v) for name, v in document.items()
    }
    return {name: version for name, version in versions.items() if version is not None}


# Roots. A manifest may name many: nothing here compares each with each.


def _path(root: str) -> tuple[str, ...]:
    """Return the segments of a root; () for "", which owns everything."""
    return tuple(root.split("/")) if root else ()


def _first_above(path: Sequence[str], roots: Collection[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the shortest root that contains `path` or equals it; None if there is none."""
    longest = min(len(path), MAX_DEPTH)
    return next((above for n in range(longest + 1) if (above := tuple(path[:n])) in roots), None)


def is_below_roots(manifest: Manifest, path: Sequence[str]) -> bool:
    """Return True if `path` is one of the roots, or below one."""
    return _first_above(path, manifest.root_paths) is not None


def check_module(manifest: Manifest, module: Module, file: str) -> None:
    """Raise `ManifestError` if the package of a policy is outside the roots."""
    path = module.package.path
    if _first_above(path, manifest.root_paths) is None:
        package = ".".join(path)
        raise ManifestError(
            f"manifest roots {manifest.roots_text} do not permit 'package {package}' "
            f"in module '{file}'"
        )


def check_data(manifest: Manifest, data: Mapping[Key, Value]) -> None:
    """Raise ManifestError if `data` has a value outside of the roots of `manifest`; the message has
    the path of the first one.
    """
    roots = manifest.root_paths
    if () in roots:
        return
    above = {root[:n] for root in roots for n in range(1, len(root))}
    for path in _outside(data, (), roots, above):
        raise ManifestError(
            f"manifest roots {manifest.roots_text} do not permit data at path "
            f"'/{'/'.join(path)}' (hint: check bundle directory structure)"
        )


def _outside(
    data: Mapping[Key, Value],
    path: tuple[str, ...],
    roots: Collection[tuple[str, ...]],
    above: Collection[tuple[str, ...]],
) -> Iterator[tuple[str, ...]]:
    """Yield the paths of values in `data` that lie outside of all `roots`. `path` is the path of
    `data` itself; `above` are the paths of objects that contain a root.
    """
    for key, value in data.items():
        inner = (*path, str(key))
        if inner in roots:
            continue
        # An object on the way to a root may contain nothing but the root.
        if isinstance(value, dict) and inner in above:
            yield from _outside(value, inner, roots, above)
        else:
            yield inner


def check_roots(manifests: Mapping[str, Manifest]) -> None:
    """Raise ManifestError if the roots of two bundles, given by name, overlap, so that they may
    define the same document.
    """
    conflicts: set[str] = set()
    bundles: set[str] = set()
    paths = {name: manifest.root_paths for name, manifest in manifests.items()}
    # In both directions, as `_first_above` finds only roots that lie above.
    for (one, first), (other, second) in permutations(paths.items(), 2):
        for root in first:
            above = _first_above(root, second)
            if above is not None:
                conflicts.add(" overlaps ".join(sorted(["/".join(root), "/".join(above)])))
                bundles |= {one, other}
    if not bundles:
        return
    names = ", ".join(sorted(bundles))
    empty = ", ".join(sorted(name for name in bundles if () in paths[name]))
    if empty:
        raise ManifestError(
            f"bundles [{names}] have overlapping roots and cannot be activated simultaneously "
            f"because bundle(s) [{empty}] specify empty root paths ('') which overlap with any "
            "other bundle root"
        )
    raise ManifestError(
        f"detected overlapping roots in manifests for these bundles: [{names}] "
        f"({', '.join(sorted(conflicts))})"
    )
