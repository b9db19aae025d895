"""A folder with copies of the shipped policies becomes one that has data and additions only.

The policies that were copied before decide what they did then, whatever the package says now. An
upgrade shows how they differ from the package's, which settings their data lacks, and what the
package newly refuses of the requests in an audit log. It changes nothing unless it is told to, and
puts what it takes away beside the folder.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from doorward.base.os_errors import describe_os_error
from doorward.bundles.loader import LoadError
from doorward.docker.decider.embedded import PACK, EmbeddedPdp, shipped_policies, with_shipped
from doorward.docker.install.daemon import DaemonError
from doorward.docker.replay import ReplayError, replay
from doorward.rego import RegoError

__all__ = ["apply_upgrade", "copies", "lacking", "newly_refused", "show_differences"]

_NAME_FOLDER: Final = "name a folder with copies of the shipped policies"


def copies(folder: Path) -> list[Path]:
    """Return the files of a folder that have the names of shipped policies, or of their tests."""
    names = {path.name for path in PACK.glob("*.rego")}
    return sorted(path for path in folder.glob("*.rego") if path.name in names)


def show_differences(folder: Path) -> Iterator[str]:
    """Yield the lines of a diff between the copies in `folder` and the package's policies: `+` is
    in the package. Nothing for policies without a copy. Raise DaemonError if a copy cannot be read.
    """
    for path in shipped_policies():
        copy = folder / path.name
        if copy.exists():
            before = _read_text(copy).splitlines()
            after = path.read_text(encoding="utf-8").splitlines()
            yield from difflib.unified_diff(before, after, str(copy), path.name, lineterm="")


def _read_text(path: Path) -> str:
    """Return the text of a file; raise DaemonError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DaemonError(f"{path}: {describe_os_error(error)}") from None
    except UnicodeDecodeError as error:
        raise DaemonError(f"{path}: the file is not UTF-8 at byte {error.start}") from None


def _read(path: Path) -> dict[str, Any]:
    """Return the document in a JSON file of data, with its object `docker`. Raise DaemonError if
    the file cannot be read, is not JSON, has no object `docker`, or has another value for a section
    that is an object in the shipped data.
    """
    if not path.exists():
        raise DaemonError(f"{path}: no such file or directory: {_NAME_FOLDER}")
    try:
        document = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise DaemonError(f"{path}: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("docker"), dict):
        raise DaemonError(f"{path} has no object `docker`: {_NAME_FOLDER}")
    docker = document["docker"]
    for section in _shipped_sections():
        if not isinstance(docker.get(section, {}), dict):
            raise DaemonError(f"{path}: `docker.{section}` is not an object")
    return document


def _shipped_sections() -> dict[str, dict[str, Any]]:
    """Return the sections of the shipped data that are objects."""
    docker = json.loads((PACK / "data.json").read_text(encoding="utf-8"))["docker"]
    return {section: values for section, values in docker.items() if isinstance(values, dict)}


def lacking(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings that the shipped data has and the folder's lacks, by section and name;
    users are not compared. Raise DaemonError if a `data.json` cannot be used.
    """
    installed = _read(folder / "data.json")["docker"]
    return {
        section: missing
        for section, values in _shipped_sections().items()
        if section != "users"
        if (missing := {n: v for n, v in values.items() if n not in installed.get(section, {})})
    }


def newly_refused(folder: Path, logs: Sequence[Path]) -> Iterator[str]:
    """Yield a line for each request in audit logs that was allowed and that the package's policies,
    with the folder's data, refuse.

    Raise DaemonError if a log cannot be replayed, if the logs contain no request, or if the data
    cannot be loaded.
    """
    data = [str(path) for path in sorted(folder.glob("*.json"))]
    try:
        decider = EmbeddedPdp(with_shipped(data), watch=False)
    except (LoadError, RegoError) as error:
        raise DaemonError(str(error)) from None
    count = 0
    try:
        for each in replay(logs, decider):
            count += 1
            if each.past.decision == "allow" and not each.verdict.allow:
                input_doc = each.input or {}
                action, target = input_doc.get("action", "-"), input_doc.get("target", "")
                yield f"{action} {target}: {each.verdict.reason} ({each.past.location})"
        if not count:
            raise DaemonError(
                "the audit logs contain no requests: name a log that was written with --audit-input"
            )
    except ReplayError as error:
        raise DaemonError(str(error)) from None
    finally:
        decider.close()


def apply_upgrade(folder: Path) -> Iterator[str]:
    """Add the settings that the folder's data lacks, and move the copies of shipped policies out;
    yield a line for each change, which is made during the iteration.

    The old `data.json` and the copies are put into `FOLDER.before-upgrade`, over earlier ones.
    Raise DaemonError if that fails.
    """
    missing = lacking(folder)
    backup = folder.with_name(f"{folder.name}.before-upgrade")
    try:
        backup.mkdir(mode=0o755, exist_ok=True)
        path = folder / "data.json"
        # The old data first: whatever fails below, nothing is lost.
        shutil.copy2(path, backup / path.name)
        if missing:
            document = _read(path)
            for section, values in missing.items():
                document["docker"].setdefault(section, {}).update(values)
                yield f"{path}: {section}: {json.dumps(values)}"
            temporary = path.with_name(f".{path.name}.doorward")
            temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
            shutil.copymode(path, temporary)
            os.replace(temporary, path)
        # After the data, which has the settings that the package's policies read.
        for copy in copies(folder):
            os.replace(copy, backup / copy.name)
            yield f"{copy} is in {backup}"
    except RecursionError as error:
        raise DaemonError(f"{folder}: {error}") from None
    except OSError as error:
        raise DaemonError(f"{folder}: {describe_os_error(error)}") from None
