"""Pages about a decision point: its present decisions with their reasons, and a playground for
policies.

    PDP ─record─▶ Ring ─▶ Process ─summaries─▶ Console ─server-sent events─▶ page
                             │  └─detail, explained in a thread of its own
                             └─ questions of the other workers, where there are several

Pages are read-only: nothing here changes a policy or data. Inputs are kept in memory as they were
decided, a bounded number of them, and are masked before a page shows them.
"""

from __future__ import annotations

from doorward.console.app import Console
from doorward.console.audit_tail import AuditTail
from doorward.console.log_query import log_files
from doorward.console.pages import NOT_BUILT, is_built
from doorward.console.process import Process
from doorward.console.ring import Ring
from doorward.console.rows import note_for_log
from doorward.console.traffic import Traffic

__all__ = [
    "NOT_BUILT",
    "AuditTail",
    "Console",
    "Process",
    "Ring",
    "Traffic",
    "is_built",
    "log_files",
    "note_for_log",
]
