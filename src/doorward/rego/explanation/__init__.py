"""Why an answer is what it is: a traced evaluation becomes a tree of what was tried.

    explanation = explain(engine, "data.envoy.authz.allow", input)
    print(explanation.text())

What is here only reads what traced code reports; it decides nothing and knows no file.
"""

from __future__ import annotations

from doorward.rego.explanation.explain import Explanation, explain
from doorward.rego.explanation.recorder import Attempt, Recorder, Step, Tried
from doorward.rego.explanation.secrets import Mask

__all__ = ["Attempt", "Explanation", "Mask", "Recorder", "Step", "Tried", "explain"]
