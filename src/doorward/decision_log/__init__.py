"""Decisions become events of the decision log: masked, with the claims of callers, and written as
lines.
"""
