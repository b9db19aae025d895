"""Requests that two versions of a policy decide differently, found without a log.

    programs ─shape_of─▶ Shape ─Candidates─▶ inputs ─both decide─▶ differences ─minimise─▶ Finding

The shape says where an input is read and what is compared with it there. Candidates are changed at
random, kept where they reach something new, and decided by both engines; what differs is made small
and decided once more. A search that finds nothing proves nothing: it says how much was tried.
"""

from __future__ import annotations

from doorward.search.findings import absence_test, as_json, markdown, rego_test, text
from doorward.search.searching import Finding, Reach, Search, are_same, entry_points, search

__all__ = [
    "Finding",
    "Reach",
    "Search",
    "absence_test",
    "are_same",
    "as_json",
    "entry_points",
    "markdown",
    "rego_test",
    "search",
    "text",
]
