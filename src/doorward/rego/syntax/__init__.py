"""Text to tree and back: lexer, parser, nodes, formatter. Knows nothing of what policies mean."""
