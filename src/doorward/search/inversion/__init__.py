"""Inputs made by turning conditions round: from what a comparison lacks back to the input.

    tree + input ─Interpreter─▶ values that can be put ─repairs─▶ changed inputs

An interpreter walks the checked tree. Each value knows how the input would have to change for it to
be another one (`lenses`). A condition that failed is made to hold, one that held is made to fail.
The caller decides the inputs by the real engine: a wrong inverse, or something that the
interpreter does not know, loses an input and never invents an answer.
"""

from __future__ import annotations

from doorward.search.inversion.repairs import Goal, Inversion

__all__ = ["Goal", "Inversion"]
