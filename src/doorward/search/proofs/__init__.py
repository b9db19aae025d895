"""Properties of policies, `never_…` rules: refuted by a request, proved, or said not to be known.

    property ─partial evaluation─▶ conjunctions ─Refuter─▶ steps ─checking─▶ none exists
        └──────search────────────▶ counterexample, replayed, or which conditions never held

A proof is a step for each conjunction of the residual; `checking.py` replays the steps, shares no
code with `refuting.py`, and has the last word.
"""

from __future__ import annotations

from doorward.search.proofs.known import KnownProofs, digest_of
from doorward.search.proofs.proving import (
    COUNTEREXAMPLE,
    NONE_EXISTS,
    PROPERTY,
    Property,
    Verdict,
    proofs,
    properties_of,
    prove,
)
from doorward.search.proofs.reports import as_json, lines_of, text

__all__ = [
    "COUNTEREXAMPLE",
    "NONE_EXISTS",
    "PROPERTY",
    "KnownProofs",
    "Property",
    "Verdict",
    "as_json",
    "digest_of",
    "lines_of",
    "proofs",
    "properties_of",
    "prove",
    "text",
]
