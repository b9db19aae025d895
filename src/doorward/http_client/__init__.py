"""Responses of others, bounded: the time of a whole exchange, and the size of what is decoded."""
