"""Policies and data from files and folders, as `opa run FILES…` reads them.

A folder is walked: `*.rego` are policies, `*.json`, `*.yaml` and `*.yml` are data below the name
of the folder they lie in. A file named by itself is data at the root; `a.b:file` puts it at
`data.a.b`.
Two files may not define the same data. What is read here is text and values: nothing is compiled.

Names that begin with `..` are passed over: that is where Kubernetes keeps the versions of a
mounted ConfigMap, whose files show up once more under their own names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from doorward.base.os_errors import io_message
from doorward.base.records import record
from doorward.rego import Diagnostic, Value
from doorward.rego.golang import JSONError, read_data, read_json
from doorward.rego.shared import CALL_ERRORS, Key, ParseError, Source, Timers, render

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = [
    "Limits",
    "LoadError",
    "Loaded",
    "add_to_digest",
    "data_files",
    "list_files",
    "load",
    "merge",
    "policy_text",
    "read_document",
    "read_file",
    "split_prefix",
    "unite_documents",
]

_DATA = (".json", ".yaml", ".yml")
_POLICY = re.compile(rb"(?:\s|#[^\n]*\n)*package\s")


@record
class Limits:
    """The limits of loading: bytes of one file, files altogether, depth of folders."""

    policy_bytes: int = 16 << 20
    data_bytes: int = 512 << 20
    files: int = 100_000
    depth: int = 64
    archive_bytes: int = 256 << 20
    """Largest size of a bundle's archive, compressed."""
    unpacked_bytes: int = 1 << 30
    """Largest size of all files of a bundle together, decompressed."""

    def of(self, name: str) -> int:
        """The bytes that the file `name` may have."""
        return self.policy_bytes if name.endswith(".rego") else self.data_bytes


class LoadError(Exception):
    """Files that cannot be read, or data that cannot be merged; `messages` has one text for each.

    `problems` has the same in the order of the files, with the parse errors of policies as
    diagnostics.
    """

    def __init__(self, problems: Iterable[str | Diagnostic]) -> None:
        self.problems = tuple(problems)
        self.messages = tuple(map(str, self.problems))
        super().__init__(self.messages)

    def __str__(self) -> str:
        """Return all messages under OPA's heading with their number; errors in policies with their
        source line.
        """
        messages = [each if isinstance(each, str) else render(each) for each in self.problems]
        if len(messages) == 1:
            return f"1 error occurred during loading: {messages[0]}"
        return "\n".join([f"{len(messages)} errors occurred during loading:", *messages])


@record
class Loaded:
    """Texts of policies by file name, one data document, and the names of all files that were
    read.
    """

    modules: dict[str, str] = field(default_factory=dict)
    data: dict[Key, Value] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    digest: str = ""
    """The SHA-256 of all names and contents; empty if nothing was read from files, or policies
    only.
    """
    rego_versions: dict[str, int] = field(default_factory=dict)
    """The Rego version, 0 or 1, of files for which a bundle's manifest sets it."""
    revisions: dict[str, str] = field(default_factory=dict)
    """The revision of each bundle, by its name; "" if its manifest has none."""
    roots: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The paths below `data` that each bundle owns, by its name; "" is all of `data`."""
    bundle_of: dict[str, str] = field(default_factory=dict)
    """The name of the bundle that contains a policy, by the policy's file."""
    shown_names: dict[str, str] = field(default_factory=dict)
    """The names under which errors show policies, by file, if they differ from the file."""
    notes: tuple[str, ...] = ()
    """Warnings for the caller: signatures that were not verified, files that are not used."""


@record
class _Entry:
    """One file to read, with the path below `data` of its document."""

    path: str
    prefix: tuple[str, ...]
    named: bool
    """True if the user named this file, so that its content may decide whether it is a policy."""


def load(
    paths: Sequence[str],
    *,
    ignore: Sequence[str] = (),
    limits: Limits | None = None,
    timers: Timers | None = None,
    policies_only: bool = False,
    v0: bool = False,
) -> Loaded:
    """Read the policies and data in all files and folders `paths`. Raise LoadError with a message
    for each file that cannot be used; all files are tried, but an unreadable folder, too many files
    or too deep folders end it at once.

    With `policies_only`, only files that end with `.rego` are opened, and nothing is hashed.
    Policies are read as texts and not parsed, unless a file fails: then their parse errors are
    reported as well, and `v0` is True if they are Rego v0.

    `limits`: by default `Limits()`. Times are added to `timers`, if any.
    """
    limits = limits or Limits()
    timers = timers or Timers()
    modules: dict[str, str] = {}
    data: dict[Key, Value] = {}
    messages: list[str | Source] = []
    entries: list[_Entry] = []
    digest = None if policies_only else _new_digest()
    for entry in _find(paths, ignore, limits, messages):
        if policies_only and not entry.path.endswith(".rego"):
            continue
        entries.append(entry)
        try:
            content, document = _read_file(entry, limits, modules, timers)
            if document is not None and not merge(data, document):
                # To read files again is for the first error: others are of the same kind.
                is_first = not any(isinstance(each, str) for each in messages)
                clash = _clash(entries, limits) if is_first else f"{entry.path}: merge error"
                raise LoadError([clash])
        except LoadError as error:
            messages += error.messages
        else:
            if entry.path in modules:
                messages.append(Source(entry.path, modules[entry.path]))
            if digest is not None:
                # With the prefix: the same file at another path of the data is another state.
                add_to_digest(digest, "\0".join((entry.path, *entry.prefix)), content)
    if any(isinstance(each, str) for each in messages):
        raise LoadError(_problems(messages, v0=v0))
    files = tuple(entry.path for entry in entries)
    return Loaded(modules, data, files, "" if digest is None else digest.hexdigest())


def _new_digest() -> _Hash:
    import hashlib  # loads OpenSSL, which commands that keep no state do not need

    return hashlib.sha256()


def _problems(messages: Iterable[str | Source], *, v0: bool) -> Iterator[str | Diagnostic]:
    """Yield the messages of files that cannot be used. In place of a policy (`Source`), yield its
    parse errors, if it has any.
    """
    from doorward.rego.tools import parse_module  # not needed to load what is right

    for each in messages:
        if isinstance(each, str):
            yield each
            continue
        try:
            parse_module(each, v0=v0)
        except ParseError as error:
            yield from error.diagnostics


def add_to_digest(digest: _Hash, name: str, content: bytes) -> None:
    """Add the name and the content of a file to a digest. The length of each is added too, so that
    different sets of files never give the same bytes.
    """
    encoded = name.encode(errors="surrogateescape")
    digest.update(b"%d:%b%d:" % (len(encoded), encoded, len(content)))
    digest.update(content)


def list_files(
    paths: Sequence[str], *, ignore: Sequence[str] = (), limits: Limits | None = None
) -> tuple[str, ...]:
    """Return the files that `load` would read, without reading them; missing ones are left out.
    Raise LoadError if there are too many, folders are too deep, or one cannot be read.
    """
    return tuple(entry.path for entry in _find(paths, ignore, limits or Limits(), []))


def data_files(
    paths: Sequence[str], *, ignore: Sequence[str] = (), limits: Limits | None = None
) -> list[tuple[str, tuple[str, ...]]]:
    """Return the data files that `load` would read, each with the path of its document below
    `data`. Archives and missing files are left out. Raise LoadError if there are too many files,
    folders are too deep, or one cannot be read.
    """
    entries = _find(paths, ignore, limits or Limits(), [])
    return [(entry.path, entry.prefix) for entry in entries if entry.path.endswith(_DATA)]


def read_document(path: str, text: str | bytes) -> Value:
    """Parse JSON or YAML; raise `LoadError` with `path` and the error. YAML is tried for text that
    is not JSON, unless the name ends with `.json`; bytes in it that are not UTF-8 are replaced.
    """
    try:
        return read_json(text) if isinstance(text, str) else read_data(text)
    except JSONError as error:
        if path.endswith(".json"):
            raise LoadError([f"{path}: {error}"]) from None
    return _read_yaml(path, text)


def _read_yaml(path: str, text: str | bytes) -> Value:
    """Parse YAML as the built-in `yaml.unmarshal` does; raise LoadError, with `path`, if it is not
    valid. Bytes that are not UTF-8 become replacement characters.
    """
    # The built-in brings the YAML library, which a policy without YAML data need not pay for.
    from doorward.rego.golang import unmarshal

    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    try:
        value: Value = unmarshal(text, max_text=len(text))
    except CALL_ERRORS as error:
        raise LoadError([f"{path}: {error}"]) from None
    return value


def _find(
    paths: Sequence[str], ignore: Sequence[str], limits: Limits, messages: list[str | Source]
) -> Iterator[_Entry]:
    """Yield the files that `paths` name, and those in the folders that they name. A missing path is
    skipped and reported in `messages`; more files than the limit raise LoadError.
    """
    count = 0
    for argument in paths:
        prefix, path = split_prefix(argument)
        if not os.path.exists(path):
            messages.append(f"stat {path}: no such file or directory")
            continue
        for entry in _walk(_plain(path), prefix, ignore, limits, ()):
            count += 1
            if count > limits.files:
                raise LoadError([f"{argument}: more than {limits.files} files"])
            yield entry


def _plain(path: str) -> str:
    """Return a path without empty and `.` parts, as `pathlib` writes it, which takes 3 ms to
    import: `./a//b/` -> `a/b`.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    # POSIX gives two slashes at the beginning a meaning of their own, but not three.
    root = path[: len(path) - len(path.lstrip("/"))]
    return ("//" if root == "//" else root[:1]) + "/".join(parts) or "."


def split_prefix(argument: str) -> tuple[tuple[str, ...], str]:
    """Split an argument into path below `data` and file: `a.b:file` -> `(("a", "b"), "file")`;
    without a prefix, or if a file of the whole name exists, `((), argument)`. `file://` is removed.
    """
    if argument.startswith("file://"):
        return (), argument.removeprefix("file://")
    prefix, colon, path = argument.partition(":")
    # A file may have a colon in its name; one that exists is meant.
    if colon and prefix and not os.path.exists(argument):
        return tuple(prefix.split(".")), path.removeprefix("file://")
    return (), argument


def _is_ignored(name: str, ignore: Sequence[str]) -> bool:
    """Return True if one of the patterns `ignore` matches the name of a file or folder."""
    from doorward.bundles.file_patterns import matches  # few commands ignore anything

    return any(matches(pattern, name) for pattern in ignore)


def _walk(
    path: str,
    prefix: tuple[str, ...],
    ignore: Sequence[str],
    limits: Limits,
    above: tuple[str, ...],
) -> Iterator[_Entry]:
    """Yield the policies and data files in a folder and all folders below it, sorted by name;
    `prefix` is the path of their data below `data`. Files and folders whose names begin with `..`
    or match `ignore` are skipped.

    `above` are the real paths of the folders entered so far, so that a loop of links ends. If it is
    empty and `path` is a file, that is yielded whatever its extension. LoadError if folders are
    nested too deeply or cannot be read.
    """
    if not os.path.isdir(path):
        if not above or path.endswith((".rego", *_DATA)):
            yield _Entry(path, prefix, named=not above)
        return
    real = os.path.realpath(path)
    if real in above:  # a link to a folder that it lies in
        return
    # Links are followed, so that a few folders can make a tree without end.
    if len(above) > limits.depth:
        raise LoadError([f"{path}: folders are nested deeper than {limits.depth} levels"])
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise LoadError([io_message("open", path, error)]) from None
    for name in names:
        if name.startswith("..") or (ignore and _is_ignored(name, ignore)):
            continue
        inner = name if path == "." else os.path.join(path, name)
        below = (*prefix, name) if os.path.isdir(inner) else prefix
        yield from _walk(inner, below, ignore, limits, (*above, real))


def _read_file(
    entry: _Entry, limits: Limits, modules: dict[str, str], timers: Timers
) -> tuple[bytes, dict[Key, Value] | None]:
    """Read a file. Return its bytes and its data, nested at the prefix; a policy is stored in
    `modules` instead, and its data is None. A named file without a known extension is a policy if
    it begins with `package`. LoadError if it cannot be used.
    """
    path = entry.path
    content = read_file(path, limits.of(path))
    if path.endswith(".rego") or (
        entry.named and not path.endswith(_DATA) and _POLICY.match(content)
    ):
        modules[path] = policy_text(path, content)
        return content, None
    with timers.measure("rego_data_parse"):
        document = _parse_data(path, content)
    for name in reversed(entry.prefix):
        # From the inside out: `a.b` becomes `{"a": {"b": document}}`.
        document = {name: document}
    if not isinstance(document, dict):
        raise LoadError([f"{path}: document must be of type object"])
    return content, document


def _clash(entries: Sequence[_Entry], limits: Limits) -> str:
    """Return the error message for the last file of `entries`, whose data defines a value that an
    earlier file defines too. The files are read again to name the value and that earlier file.
    """
    from doorward.rego.tools import path_text  # not needed to load what is right

    *earlier, last = entries
    document = _document_again(last, limits)
    for entry in earlier:
        where = _common(_document_again(entry, limits), document)
        if where is not None:
            return (
                f"{last.path}: merge error: {path_text(where)} is also defined in {entry.path}: "
                "keep it in one file; all JSON and YAML files of a folder are data, inputs too"
            )
    return f"{last.path}: merge error"


def _document_again(entry: _Entry, limits: Limits) -> Mapping[Key, Value]:
    """Read the data of a file again; {} for a policy, and for a file that cannot be read."""
    if entry.path.endswith(".rego") or not os.path.isfile(entry.path):
        return {}
    try:
        _, document = _read_file(entry, limits, {}, Timers())
    except LoadError:
        return {}  # it has a message of its own
    return document or {}


def _common(
    first: Mapping[Key, Value], second: Mapping[Key, Value], path: tuple[Key, ...] = ()
) -> tuple[Key, ...] | None:
    """Return the path of the first value that both documents define; None if they can be merged."""
    for key, value in second.items():
        if key not in first:
            continue
        other = first[key]
        if not (isinstance(other, dict) and isinstance(value, dict)):
            return (*path, key)
        below = _common(other, value, (*path, key))
        if below is not None:
            return below
    return None


def _parse_data(path: str, content: bytes) -> Value:
    """Return the value of the data file `path`: JSON, or YAML unless its name ends with `.json`.
    Raise `LoadError` with OPA's text: the parser's error for `.json`, `.yaml` and `.yml`, and for
    any other name that the type of the file is not known.
    """
    try:
        return read_document(path, content)
    except LoadError as error:
        if path.endswith(".json"):
            raise
        if not path.endswith(_DATA):
            raise LoadError([f"{path}: can't recognize file type"]) from None
        reason = error.messages[0].removeprefix(f"{path}: ")
        raise LoadError([f"{path}: error converting YAML to JSON: {reason}"]) from None


def read_file(path: str, limit: int) -> bytes:
    """Return the bytes of a file; raise `LoadError` if it cannot be read or is longer than `limit`
    bytes.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise LoadError([io_message("open", path, error)]) from None
    if len(content) > limit:
        raise LoadError([f"{path}: file is larger than {limit} bytes"])
    return content


def policy_text(path: str, content: bytes) -> str:
    """Decode a policy from UTF-8; raise `LoadError`, with the first wrong byte, if it is not
    valid.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError([f"{path}: policy is not UTF-8 at byte {error.start}"]) from None


def merge(into: dict[Key, Value], document: dict[Key, Value]) -> bool:
    """Merge `document` into `into`, in place, nested objects too. Values are shared, not copied.
    Return False, with `into` partly changed, if both define a value.
    """
    for key, value in document.items():
        if key not in into:
            into[key] = value
            continue
        present = into[key]
        if not (isinstance(present, dict) and isinstance(value, dict) and merge(present, value)):
            return False
    return True


def unite_documents(first: dict[Key, Value], second: dict[Key, Value]) -> dict[Key, Value]:
    """Return both documents merged, without changing either; values are shared, not copied. Raise
    LoadError if both define a value.
    """
    merged = dict(first)
    for key, value in second.items():
        if key not in merged:
            merged[key] = value
            continue
        present = merged[key]
        if isinstance(present, dict) and isinstance(value, dict):
            merged[key] = unite_documents(present, value)
        else:
            raise LoadError([f"merge error: two files or bundles define `{key}`"])
    return merged
