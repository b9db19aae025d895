"""Policies in an editor: what is wrong and how to fix it, what a name means, how it goes on.

`language` answers from texts alone; `server` carries the answers over the Language Server Protocol.
"""

from __future__ import annotations

from doorward.lsp.calls import Signature
from doorward.lsp.language import Completion, Policies, RenameError

__all__ = ["Completion", "Policies", "RenameError", "Signature"]
