"""Policies in an editor: what is wrong, how to fix it, what a name means, what can be typed next.

`language` answers from texts alone; `server` carries the answers over the Language Server Protocol.
"""

from __future__ import annotations

from doorward.lsp.calls import Signature
from doorward.lsp.language import Completion, Policies, RenameError

__all__ = ["Completion", "Policies", "RenameError", "Signature"]
