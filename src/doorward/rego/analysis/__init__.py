"""Trees to a checked program: names resolved, bodies ordered, errors in OPA's words.

`passes` is the ordered list; each pass is a function in the module of its topic. What a pass learns
goes into the `Program`, never onto nodes. Nothing here evaluates a rule or knows generated code.
"""
