"""Tickets of teams, and comments on them."""
