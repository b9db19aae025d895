"""The configuration of the decision point: its keys with their types, limits and defaults."""
