"""Observability of a decision point: metrics, traces, health and lines of the log."""
