"""Policy texts to syntax trees: one module for each part of the grammar, over one cursor.

`cursor` moves over the tokens and collects errors. `literals`, `references`, `terms`,
`collections`, `templates`, `quantifiers`, `bodies`, `imports`, `heads`, `rules` and `short_rules`
parse the parts that they are named for; `grammar` connects them. `statements` parses whole texts,
`recovery` continues after an error, and `texts` has the entry points.
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
