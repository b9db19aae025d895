"""Inputs made by inverting conditions: from the value that a comparison lacks back to the input.

    tree + input ─Interpreter─▶ lenses (values that can be changed) ─repairs─▶ changed inputs

An interpreter evaluates the checked tree. Each value knows how the input would have to change for
it to be another one (`lenses`). A condition that failed is made to hold, one that held is made to
fail. The caller decides the inputs by the real engine: a wrong inverse or an unknown construct
loses an input, but never invents an answer.
"""

from __future__ import annotations

from doorward.search.inversion.repairs import Goal, Inversion

__all__ = ["Goal", "Inversion"]
