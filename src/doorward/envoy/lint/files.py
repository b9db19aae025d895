"""Paths become findings: each file is read, its kind recognised, and what belongs together joined.

A ConfigMap's texts are files of their own, at their lines in the manifest. Files of other kinds are
passed over in folders, and an error where they are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from doorward.base.os_errors import describe_os_error
from doorward.base.records import mutable, record
from doorward.bundles.located_yaml import Located, LocatedError, read_documents
from doorward.envoy.lint.deployment import (
    check_compose,
    check_manifests,
    check_pdp,
    check_unit,
    is_pdp,
)
from doorward.envoy.lint.finding import Finding
from doorward.envoy.lint.forwarding import (
    check_caddy,
    check_haproxy,
    check_nginx,
    check_traefik,
    is_traefik,
)
from doorward.envoy.lint.policy import check_policies
from doorward.envoy.lint.proxy import check_proxy, is_proxy, read_check_timeout

__all__ = ["Checked", "LintError", "check_documents", "check_files", "check_paths"]

_LARGEST: Final = 4 << 20
_MOST: Final = 1000
_YAML: Final = (".yaml", ".yml", ".json")
_TEXTS: Final = {
    ".conf": check_nginx,
    ".cfg": check_haproxy,
    ".service": check_unit,
    "Caddyfile": check_caddy,
}
"""The check of a text by its file suffix, or by its file name if it has no suffix."""
_KNOWN: Final = frozenset({*_YAML, ".rego", *_TEXTS})


class LintError(Exception):
    """A path cannot be checked: its kind is unknown, it cannot be read, or there are too many
    files.
    """


@record
class Checked:
    """The result of a check: the findings without duplicates, sorted by file and line, the files
    that were checked, and the paths and files in which nothing was.
    """

    findings: Sequence[Finding]
    files: Sequence[Path]
    passed_over: int
    """The number of files that were not checked: of another kind, or YAML of no known kind."""
    empty: Sequence[Path]
    """The named paths in which no file was checked."""


@mutable
class _Gathered:
    """The findings so far, and what is checked at the end: policies (file, lines before, text),
    Kubernetes manifests and Envoy's Check timeouts in seconds.
    """

    findings: list[Finding] = field(default_factory=list)
    policies: list[tuple[str, int, str]] = field(default_factory=list)
    manifests: list[tuple[str, Located]] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)


def check_paths(paths: Sequence[Path]) -> list[Finding]:
    """Return the findings in files and folders without duplicates, sorted by file and line; none
    if there is nothing to check. Raise LintError if a file cannot be checked.
    """
    return list(check_files(paths).findings)


def check_files(paths: Sequence[Path]) -> Checked:
    """Return the findings in files and folders, and which files were checked.

    Policies are checked against the shortest Check timeout found (0.2 s by default). Raise
    LintError if a file cannot be checked.
    """
    gathered = _Gathered()
    checked: list[Path] = []
    empty: list[Path] = []
    passed_over = 0
    for path, files, others in _find(paths):
        known = [
            each for each in files if _gather(gathered, str(each), _kind(each), _read(each), 0)
        ]
        passed_over += others + len(files) - len(known)
        checked += known
        if not known:
            empty.append(path)
    return Checked(_finish(gathered), list(dict.fromkeys(checked)), passed_over, empty)


def check_documents(file: str, documents: Iterable[Located]) -> list[Finding]:
    """Return the findings in the YAML documents of one file, as `check_paths` does."""
    gathered = _Gathered()
    for document in documents:
        _gather_document(gathered, file, document)
    return _finish(gathered)


def _finish(gathered: _Gathered) -> list[Finding]:
    """Check what is checked together, and return all findings, sorted and without duplicates."""
    gathered.findings += check_manifests(gathered.manifests)
    timeout = min(gathered.timeouts, default=0.2)
    gathered.findings += check_policies(gathered.policies, timeout=timeout)
    return sorted(set(gathered.findings))


def _find(paths: Sequence[Path]) -> Iterator[tuple[Path, Sequence[Path], int]]:
    """Yield each path with the files to check, itself or files of known kinds below the folder,
    and the number of files in it that are passed over.

    Templates of Helm charts are passed over. Raise LintError for a named file of another kind or
    more than `_MOST` files.
    """
    count = 0
    for path in paths:
        if path.is_dir():
            # Sorted, for the same findings in the same order on each file system.
            every = sorted(each for each in path.rglob("*") if each.is_file())
            known = [each for each in every if _kind(each) in _KNOWN]
            files = [each for each in known if not _is_template(each)]
            others = len(every) - len(files)
        elif _kind(path) in _KNOWN:
            files, others = [path], 0
        elif not path.exists():
            raise LintError(f"{path}: no such file or directory")
        else:
            kinds = ", ".join(sorted(_KNOWN))
            raise LintError(
                f"{path}: `doorward kit check` does not check this kind of file, only {kinds}"
            )
        count += len(files)
        if count > _MOST:
            raise LintError(
                f"{path}: the folder has more than {_MOST} files: check its folders one by one"
            )
        yield path, files, others


def _is_template(path: Path) -> bool:
    """Return True if a file is a template of a Helm chart, which is YAML only when it is
    rendered."""
    return any(
        folder.name == "templates" and (folder.parent / "Chart.yaml").is_file()
        for folder in path.parents
    )


def _kind(path: Path) -> str:
    """Return the suffix of a file's name, or the whole name if it has none."""
    return path.suffix or path.name


def _read(path: Path) -> str:
    """Return the text of a file; raise LintError if it is too large, unreadable or not UTF-8."""
    try:
        if path.stat().st_size > _LARGEST:
            raise LintError(f"{path}: the file is larger than {_LARGEST >> 20} MiB")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise LintError(f"{path}: {describe_os_error(error)}") from None
    except UnicodeDecodeError as error:
        raise LintError(f"{path}: the file is not UTF-8 at byte {error.start}") from None


def _gather(gathered: _Gathered, file: str, kind: str, text: str, offset: int) -> bool:
    """Check a text by its kind, and collect policies and manifests that are checked together
    later. Return False if the text is of no known kind.

    `kind` is what `_kind` returns for the name of the text, and `offset` the number of lines before
    the text in `file`. YAML that cannot be parsed is a finding `unreadable`.
    """
    if kind == ".rego":
        gathered.policies.append((file, offset, text))
    elif kind in _TEXTS:
        for each in _TEXTS[kind](file, text):
            gathered.findings.append(replace(each, line=offset + each.line))
    elif kind in _YAML:
        try:
            documents = read_documents(text, offset)
        except LocatedError as error:
            gathered.findings.append(Finding(file, error.line, "unreadable", str(error)))
            return True
        # A list: each document is checked, also after one of a known kind.
        return any([_gather_document(gathered, file, document) for document in documents])
    else:
        return False
    return True


def _gather_document(gathered: _Gathered, file: str, document: Located) -> bool:
    """Check one YAML document by its kind, or collect it for later. Return False, and do nothing,
    for other kinds.

    The texts of a ConfigMap and the items of a List are checked as documents of their own.
    """
    if is_proxy(document):
        gathered.findings += check_proxy(file, document)
        gathered.timeouts.append(read_check_timeout(document))
    elif is_traefik(document):
        gathered.findings += check_traefik(file, document)
    elif is_pdp(document):
        gathered.findings += check_pdp(file, document)
    elif "services" in document.fields() and "kind" not in document.fields():
        gathered.findings += check_compose(file, document)
    elif "kind" in document.fields():
        gathered.manifests.append((file, document))
        if document.get("kind").value == "List":
            for each in document.get("items").items():
                _gather_document(gathered, file, each)
        if document.get("kind").value == "ConfigMap":
            for name, text in document.get("data").fields().items():
                if isinstance(text.value, str):
                    kind = _kind(Path(name))
                    _gather(gathered, file, kind, text.value, text.text_line - 1)
    else:
        return False
    return True
