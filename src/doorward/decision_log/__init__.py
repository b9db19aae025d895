"""Decisions on record: events, the claims of callers, what is masked, and where the lines go."""
