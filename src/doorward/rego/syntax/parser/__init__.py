"""Policy texts to syntax trees: one module for each part of the grammar, over one cursor.

`cursor` moves over the tokens and collects errors. `literals`, `references`, `terms`,
`collections`, `templates`, `quantifiers`, `bodies`, `imports`, `heads`, `rules` and `short_rules`
read what they are named for; `grammar` puts them together. `statements` reads whole texts,
`recovery` continues behind an error, and `texts` are the ways in.
"""

from doorward.rego.syntax.parser.texts import (
    MAX_ERRORS,
    Parsed,
    parse_import,
    parse_module,
    parse_query,
    parse_term,
    parse_with_recovery,
)

__all__ = [
    "MAX_ERRORS",
    "Parsed",
    "parse_import",
    "parse_module",
    "parse_query",
    "parse_term",
    "parse_with_recovery",
]
