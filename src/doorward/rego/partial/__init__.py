"""Partial evaluation: a program and unknowns become residual queries and support rules.

    modules -> `program` (`lower`) -> `search` -> `propagation` -> `residual`

A search with terms that are bound, unbound or unknown, on syntax trees: it neither generates code
nor runs generated code, and only evaluates built-ins whose operands are known.
"""
