"""Proofs of earlier runs, each with a digest of everything that it depends on.

A proof is valid as long as nothing that the property reads has changed: its rules, the package and
the imports of their modules, the data that these read, and the release of Doorward. The digest is
one of texts, so a changed comment in a rule costs a new proof.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from doorward.base.os_errors import describe_os_error
from doorward.rego import UNDEFINED, Engine, to_json
from doorward.replay import ReplayError

__all__ = ["KnownProofs", "digest_of"]

MAX_BYTES: Final = 16 << 20
"""A file of proofs with more bytes than this is refused."""
_FORMAT: Final = 1


class KnownProofs:
    """The proofs of an earlier run and those of this run: for each property's name, a digest and
    the number of refuted conjunctions.
    """

    def __init__(self, proofs: dict[str, tuple[str, int]] | None = None) -> None:
        self._before = proofs or {}
        self._proofs: dict[str, tuple[str, int]] = {}

    @classmethod
    def read(cls, path: Path) -> KnownProofs:
        """Read the proofs of an earlier run; none if the file does not exist or is of another
        release.

        Raise ReplayError if it cannot be read, is too large, or has another form.
        """
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise ReplayError(f"{path}: {describe_os_error(error)}") from None
        try:
            if len(content) > MAX_BYTES:
                raise ValueError
            return cls(dict(_entries(json.loads(content))))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ReplayError(
                f"{path}: not a file that `doorward prove --known` wrote: name another, or remove "
                "it if it is damaged"
            ) from None

    def conjunctions(self, name: str, digest: str) -> int | None:
        """Return the number of conjunctions refuted in a proof with this digest; None if there is
        no such proof.
        """
        known, count = self._before.get(name, ("", 0))
        return count if known == digest else None

    def add(self, name: str, digest: str, conjunctions: int) -> None:
        """Record a proof of this run, for `write`; `conjunctions` does not find it."""
        self._proofs[name] = digest, conjunctions

    def write(self, path: Path) -> None:
        """Write the proofs that were added in this run, and replace the file atomically. OSError on
        failure; the old file then stays.
        """
        proofs = {
            name: {"digest": digest, "conjunctions": count}
            for name, (digest, count) in sorted(self._proofs.items())
        }
        document = {"format": _FORMAT, "doorward": version("doorward"), "proofs": proofs}
        # Replaced atomically: a run that is stopped leaves the old file.
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            part.write_text(json.dumps(document, indent=2) + "\n")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _entries(document: Any) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the name, digest and number of conjunctions of each proof in the document; nothing if
    it is of another format or release. ValueError, KeyError, TypeError or AttributeError if it is
    invalid.
    """
    if document["format"] != _FORMAT or document["doorward"] != version("doorward"):
        return
    for name, entry in document["proofs"].items():
        digest, count = entry["digest"], entry["conjunctions"]
        if type(digest) is not str or type(count) is not int:
            raise ValueError
        yield name, (digest, count)


def digest_of(engine: Engine, name: str) -> str:
    """Return the SHA-256 (hexadecimal) of the texts of all rules that the property `name`, a
    reference, reads, of the packages and imports of their modules, and of the base data that it
    reads. The release of Doorward is not in it.
    """
    query = engine.prepare(name)
    sha = hashlib.sha256()

    def add(*texts: str) -> None:
        for text in texts:
            # With its length, so that no two lists of texts give the same digest.
            sha.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))

    modules: dict[str, None] = {}
    for node in sorted(query.rules_read, key=lambda node: str(node.path)):
        for definition in node.definitions:
            span = definition.rule.span
            modules[span.file] = None
            add("rule", span.file, span.source.text[span.start : span.end])
    for file in sorted(modules):
        add("module", file, str(engine.options.is_v0(file)))
        module = engine.trees[file]
        for span in (module.package.span, *(each.span for each in module.imports)):
            add(span.source.text[span.start : span.end])
    for path in sorted(query.documents.base, key=str):
        names = []
        for each in path[1:]:
            if not isinstance(each, (str, int)):
                break
            names.append(each)
        if path[0] == "data":
            value = engine.base_document(names)
            add("data", json.dumps(names), "" if value is UNDEFINED else to_json(value))
    return sha.hexdigest()
