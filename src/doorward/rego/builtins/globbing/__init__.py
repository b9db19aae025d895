"""Globs: what one matches, and whether two have a text in common."""
