"""Bounds for responses of other servers: the time of a whole exchange, and the size after
decoding.
"""
