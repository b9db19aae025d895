"""Certificates: DER and PEM become objects, keys and verified chains."""
