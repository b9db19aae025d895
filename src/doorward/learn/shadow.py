"""The configuration that tries a learned policy beside the present one.

A shadow decides the document that the present policy decides, so a learned policy needs an entry
by that name. Its name comes from the command line, never from a log.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from doorward.learn.observations import LearnError
from doorward.rego import Engine, RegoError

__all__ = ["entry_for", "shadow_text"]

_DOCUMENT: Final = re.compile(r"[a-zA-Z_]\w{0,60}(?:/[a-zA-Z_]\w{0,60}){1,8}", re.ASCII)

_ENTRY: Final = """\
# The learned policy, under the name that the present policy has.
package {package}

default {rule} := false

{rule} if data.learned.authz.allow
"""

_SHADOW: Final = """\
# Add this to the configuration of `doorward run`, beside the present policy.
shadow:
  paths: {paths}
"""


def entry_for(document: str) -> str:
    """Return the text of a module that answers `document`, such as `envoy/authz/allow`, by the
    learned policy. Raise LearnError if the path is invalid, belongs to the learned policy itself,
    or has a keyword of Rego.
    """
    *package, rule = document.strip("/").split("/")
    text = _ENTRY.format(package=".".join(package), rule=rule)
    if not _DOCUMENT.fullmatch(document.strip("/")) or package[:2] == ["learned", "authz"]:
        raise LearnError(
            f"--shadow: {document!r} is not the path of a document, such as envoy/authz/allow"
        )
    try:
        Engine({"entry.rego": text})
    except RegoError:
        raise LearnError(
            f"--shadow: a name in {document!r} is a keyword of Rego: choose another document"
        ) from None
    return text


def shadow_text(folder: Path) -> str:
    """Return the part of a configuration that runs the learned policy as a shadow."""
    names = ("policy.rego", "data.json", "entry.rego")
    return _SHADOW.format(paths=json.dumps([str(folder / name) for name in names]))
