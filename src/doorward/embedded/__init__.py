"""A decision point in the process of an application."""
