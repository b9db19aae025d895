"""The rows of a list: the question of a decision with the rows unknown, as conditions.

    path, input without the rows -> residual (kept) -> conditions at this moment

The clock is a parameter of what is kept: `time.now_ns()` stays in a residual, and is known when the
conditions are read from it. A policy that calculates with the clock, or that asks for more than the
clock (a token that expires), is evaluated for each list, as of one moment.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from doorward.filters import Conditions, FilterError, Masks, fault, read_masks, to_conditions
from doorward.pdp.build_gate import BuildGate
from doorward.pdp.residuals import residual, residual_of_rows
from doorward.pdp.snapshot import PathKey, Snapshot, document_ref
from doorward.rego import Value

__all__ = ["conditions_of_rows", "masks_of_rows"]


def conditions_of_rows(
    snapshot: Snapshot, gate: BuildGate, path: PathKey, unknowns: Sequence[str], input: Value
) -> Conditions:
    """Return the conditions on the rows for which the document at `path` is allowed at this moment.
    `unknowns` are the documents that stand for a row, such as `input.row`.

    The residual, which is what partial evaluation leaves of the document, is cached; the clock is
    read at each call. `gate` lets evaluations take turns while a policy is built. Raise
    FilterError, or another RegoError, if the document cannot become a filter.
    """
    left = residual_of_rows(snapshot, gate, path, unknowns, input)
    try:
        return to_conditions(left, now_ns=time.time_ns())
    except FilterError:
        if "world" not in left.consulted:
            raise
    query = document_ref(path)
    left = residual(snapshot, gate, query, unknowns, input, nondeterministic=True, only_truth=True)
    return to_conditions(left)


def masks_of_rows(snapshot: Snapshot, path: str, input: Value) -> Masks:
    """Return the column masks that the rule at `path` gives for an input without rows.

    Raise FilterError if the rule does not exist or has another shape, RegoError if it fails; the
    caller must then show nothing.
    """
    if snapshot.is_nowhere(path):
        raise fault(f"the mask rule {path}, which names masked columns, does not exist")
    return read_masks(snapshot.document(path).answer(input))
