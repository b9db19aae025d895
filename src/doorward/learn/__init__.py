"""Logs become a policy: what happened, as a policy that a person can review.

    lines ─reading─▶ Access ─observations─▶ cells ─templates─▶ items ─grants─▶ rules, questions
    rules + decisions of a person ─documents─▶ data.json beside a policy that never changes

A log is input of an attacker: no value of it becomes Rego, YAML, Markdown or the name of a file.
Only what enough of a group did, with its own things or those of closed sets, becomes a rule; the
rest is asked. Nothing depends on the order of a log, and memory does not grow with its length.
"""
