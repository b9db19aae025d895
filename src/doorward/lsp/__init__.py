"""Policies in an editor: what is wrong, what a name means, where it stands, how it goes on.

`language` answers from texts alone; `server` carries the answers over the Language Server Protocol.
"""

from __future__ import annotations

from doorward.lsp.language import Completion, Policies

__all__ = ["Completion", "Policies"]
