"""Why an answer is what it is: a traced evaluation becomes a tree of what was tried.

    explanation = explain(engine, "data.envoy.authz.allow", input)
    print(explanation.text())

What is here only reads what traced code reports; it decides nothing and knows no file.
"""

from __future__ import annotations

from doorward.rego.explanation.explain import Explanation, explain
from doorward.rego.explanation.recorder import Attempt, Recorder, Step, Tried
from doorward.rego.explanation.secrets import Mask
from doorward.rego.explanation.trail import Location, Trail, definition_text, trail_of

__all__ = [
    "Attempt",
    "Explanation",
    "Location",
    "Mask",
    "Recorder",
    "Step",
    "Trail",
    "Tried",
    "definition_text",
    "explain",
    "trail_of",
]
