"""Policies in an editor: their errors, how to fix them, the meaning of names, and completions.

`language` answers from texts alone; `server` connects it to the Language Server Protocol.
"""

from __future__ import annotations

from doorward.lsp.calls import Signature
from doorward.lsp.language import Completion, Policies, RenameError

__all__ = ["Completion", "Policies", "RenameError", "Signature"]
