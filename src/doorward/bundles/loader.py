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
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

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
    "data_files",
    "io_message",
    "list_files",
    "load",
    "merge",
    "note",
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
    """Of a bundle's archive, as it is."""
    unpacked_bytes: int = 1 << 30
    """Of the same, unpacked."""

    def of(self, name: str) -> int:
        """The bytes that the file `name` may have."""
        return self.policy_bytes if name.endswith(".rego") else self.data_bytes


class LoadError(Exception):
    """Files that cannot be read, or data that cannot be merged; one message for each.

    `problems`: the same in the order of the files, with what is wrong in policies beside them.
    """

    def __init__(self, problems: Iterable[str | Diagnostic]) -> None:
        self.problems = tuple(problems)
        self.messages = tuple(map(str, self.problems))
        super().__init__(self.messages)

    def __str__(self) -> str:
        messages = [each if isinstance(each, str) else render(each) for each in self.problems]
        if len(messages) == 1:
            return f"1 error occurred during loading: {messages[0]}"
        return "\n".join([f"{len(messages)} errors occurred during loading:", *messages])


@record
class Loaded:
    """Policy texts by file name, one data document, and every file that was read."""

    modules: dict[str, str] = field(default_factory=dict)
    data: dict[Key, Value] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    digest: str = ""
    """Of names and contents; empty where nothing was read from files."""
    rego_versions: dict[str, int] = field(default_factory=dict)
    """0 or 1 for files whose bundle says so."""
    revisions: dict[str, str] = field(default_factory=dict)
    """The revision of each bundle, by its name; empty where its manifest has none."""
    roots: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What each bundle owns, by its name: paths below `data`; "" is all of it."""
    bundle_of: dict[str, str] = field(default_factory=dict)
    """The bundle that a policy is from, by its file."""
    shown_names: dict[str, str] = field(default_factory=dict)
    """The name that errors show for a policy, where that is not its file."""
    notes: tuple[str, ...] = ()
    """Notes for the caller: what was not verified, what is not used."""


@record
class _Entry:
    """One file to read: where it is, and the path of its document below `data`."""

    path: str
    prefix: tuple[str, ...]
    named: bool
    """Whether the user named this very file, so that its kind may be guessed."""


def load(
    paths: Sequence[str],
    *,
    ignore: Sequence[str] = (),
    limits: Limits | None = None,
    timers: Timers | None = None,
    policies_only: bool = False,
    v0: bool = False,
) -> Loaded:
    """Everything at `paths`. LoadError carries a message for each file that cannot be used.

    `policies_only`: files that do not end with `.rego` are not opened. `v0`: how policies are
    parsed, which are parsed here only when other files cannot be used.
    """
    import hashlib  # loads OpenSSL, which commands without files do not need

    limits = limits or Limits()
    timers = timers or Timers()
    modules: dict[str, str] = {}
    data: dict[Key, Value] = {}
    messages: list[str | Source] = []
    entries: list[_Entry] = []
    digest = hashlib.sha256()
    for entry in _find(paths, ignore, limits, messages):
        if policies_only and not entry.path.endswith(".rego"):
            continue
        entries.append(entry)
        try:
            content, document = _take(entry, limits, modules, timers)
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
            note(digest, "\0".join((entry.path, *entry.prefix)), content)
    if any(isinstance(each, str) for each in messages):
        raise LoadError(_problems(messages, v0=v0))
    files = tuple(entry.path for entry in entries)
    return Loaded(modules, data, files, digest.hexdigest())


def _problems(messages: Iterable[str | Source], *, v0: bool) -> Iterator[str | Diagnostic]:
    """The messages, and for each policy among them the errors of parsing it."""
    from doorward.rego.tools import parse_module  # not needed to load what is right

    for each in messages:
        if isinstance(each, str):
            yield each
            continue
        try:
            parse_module(each, v0=v0)
        except ParseError as error:
            yield from error.diagnostics


def note(digest: _Hash, name: str, content: bytes) -> None:
    """Take a file into the digest of all that was read, so that no two sets of files agree."""
    encoded = name.encode(errors="surrogateescape")
    digest.update(b"%d:%b%d:" % (len(encoded), encoded, len(content)))
    digest.update(content)


def list_files(
    paths: Sequence[str], *, ignore: Sequence[str] = (), limits: Limits | None = None
) -> tuple[str, ...]:
    """The files that `load` would read, without reading them; missing ones are left out."""
    return tuple(entry.path for entry in _find(paths, ignore, limits or Limits(), []))


def data_files(
    paths: Sequence[str], *, ignore: Sequence[str] = (), limits: Limits | None = None
) -> list[tuple[str, tuple[str, ...]]]:
    """The files with data that `load` would read, and where the document of each is below `data`.

    Archives are not among them.
    """
    entries = _find(paths, ignore, limits or Limits(), [])
    return [(entry.path, entry.prefix) for entry in entries if entry.path.endswith(_DATA)]


def read_document(path: str, text: str | bytes) -> Value:
    """Parse JSON or YAML; raise `LoadError` that names `path` and the error."""
    try:
        return read_json(text) if isinstance(text, str) else read_data(text)
    except JSONError as error:
        if path.endswith(".json"):
            raise LoadError([f"{path}: {error}"]) from None
    return _read_yaml(path, text)


def _read_yaml(path: str, text: str | bytes) -> Value:
    """Parse YAML as the built-in `yaml.unmarshal` does; `path` is for the error message."""
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
    """Yield the files that the arguments name or contain.

    A missing path adds to `messages`; too many files raise `LoadError`.
    """
    from pathlib import PurePosixPath  # and `urllib`, `ipaddress` with it

    count = 0
    for argument in paths:
        prefix, path = split_prefix(argument)
        if not os.path.exists(path):
            messages.append(f"stat {path}: no such file or directory")
            continue
        for entry in _walk(str(PurePosixPath(path)), prefix, ignore, limits, ()):
            count += 1
            if count > limits.files:
                raise LoadError([f"{argument}: more than {limits.files} files"])
            yield entry


def split_prefix(argument: str) -> tuple[tuple[str, ...], str]:
    """`a.b:file` -> (("a", "b"), "file"); `file://` is taken off."""
    if argument.startswith("file://"):
        return (), argument.removeprefix("file://")
    prefix, colon, path = argument.partition(":")
    if colon and prefix and not os.path.exists(argument):
        return tuple(prefix.split(".")), path.removeprefix("file://")
    return (), argument


def _walk(
    path: str,
    prefix: tuple[str, ...],
    ignore: Sequence[str],
    limits: Limits,
    above: tuple[str, ...],
) -> Iterator[_Entry]:
    """Yield the files of a folder and those below it; `above` are the folders on the way.

    A file named by itself is yielded whatever its extension.
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
        raise LoadError([f"{path}: folders are nested deeper than {limits.depth}"])
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise LoadError([io_message("open", path, error)]) from None
    for name in names:
        if name.startswith("..") or any(_matches(name, pattern) for pattern in ignore):
            continue
        inner = name if path == "." else os.path.join(path, name)
        below = (*prefix, name) if os.path.isdir(inner) else prefix
        yield from _walk(inner, below, ignore, limits, (*above, real))


def _matches(name: str, pattern: str) -> bool:
    """Go's `filepath.Match` on a single name: negated classes are written `[^…]`."""
    return fnmatchcase(name, pattern.replace("[^", "[!"))


def _take(
    entry: _Entry, limits: Limits, modules: dict[str, str], timers: Timers
) -> tuple[bytes, dict[Key, Value] | None]:
    """Read a file: return its data, or store a policy in `modules` and return None."""
    path = entry.path
    content = read_file(path, limits.of(path))
    if path.endswith(".rego") or (
        entry.named and not path.endswith(_DATA) and _POLICY.match(content)
    ):
        modules[path] = policy_text(path, content)
        return content, None
    with timers.measure("rego_data_parse"):
        document = _data_of(path, content)
    for name in reversed(entry.prefix):
        document = {name: document}
    if not isinstance(document, dict):
        raise LoadError([f"{path}: document must be of type object"])
    return content, document


def _clash(entries: Sequence[_Entry], limits: Limits) -> str:
    """Return the message on the last of some files, which defines a value that an earlier one
    defines: files are read again until that one is known."""
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
    """Read data again from a file read before; None for a policy or an unreadable file."""
    if entry.path.endswith(".rego") or not os.path.isfile(entry.path):
        return {}
    try:
        _, document = _take(entry, limits, {}, Timers())
    except LoadError:
        return {}  # it has a message of its own
    return document or {}


def _common(
    first: Mapping[Key, Value], second: Mapping[Key, Value], path: tuple[Key, ...] = ()
) -> tuple[Key, ...] | None:
    """The path of a value that both documents define; None if they can be merged."""
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


def _data_of(path: str, content: bytes) -> Value:
    """Parse a data file; raise `LoadError` in OPA's words."""
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
    """Read a file; raise `LoadError` if it is unreadable or longer than `limit` bytes."""
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise LoadError([io_message("open", path, error)]) from None
    if len(content) > limit:
        raise LoadError([f"{path}: file is larger than {limit} bytes"])
    return content


def policy_text(path: str, content: bytes) -> str:
    """Decode a policy from UTF-8; raise `LoadError` if it is not valid."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError([f"{path}: policy is not UTF-8 at byte {error.start}"]) from None


def io_message(verb: str, path: str, error: OSError) -> str:
    """`open a.rego: no such file or directory`, as Go says it."""
    return f"{verb} {path}: {(error.strerror or 'failed').lower()}"


def merge(into: dict[Key, Value], document: dict[Key, Value]) -> bool:
    """Put `document` into `into`; False, with `into` half changed, where both define a value."""
    for key, value in document.items():
        if key not in into:
            into[key] = value
            continue
        present = into[key]
        if not (isinstance(present, dict) and isinstance(value, dict) and merge(present, value)):
            return False
    return True


def unite_documents(first: dict[Key, Value], second: dict[Key, Value]) -> dict[Key, Value]:
    """Both documents as one, without a change of either; LoadError where both define a value."""
    merged = dict(first)
    for key, value in second.items():
        present = merged.get(key, value)
        if present is value:
            merged[key] = value
        elif isinstance(present, dict) and isinstance(value, dict):
            merged[key] = unite_documents(present, value)
        else:
            raise LoadError([f"merge error: two files or bundles define `{key}`"])
    return merged
