"""Signed tokens: keys (RFC 7517), algorithms (RFC 7518), and those that were verified."""
