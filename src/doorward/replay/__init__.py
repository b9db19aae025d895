"""Decision logs decided again: what would other policies have answered?

    bytes ─chunks─▶ events ─decide─▶ outcomes ─compare─▶ Tally ─merge─▶ report

A chunk of lines is read, decided and counted in one process and becomes a `Tally` of bounded size;
tallies are merged in the order of the log. So memory does not grow with the log, and neither the
number of processes nor their order changes a report.
"""

from __future__ import annotations

from doorward.replay.compare import KINDS
from doorward.replay.page import page
from doorward.replay.reading import ReplayError
from doorward.replay.reports import as_json, markdown, text
from doorward.replay.tally import Tally
from doorward.replay.work import Job, replay

__all__ = ["KINDS", "Job", "ReplayError", "Tally", "as_json", "markdown", "page", "replay", "text"]
