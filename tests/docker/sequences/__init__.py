"""Sequences of requests by two users on a real daemon, and the canaries that none may reach.

    python -m tests.docker.sequences --minutes 60 --seed 1

`grammars` writes values from the syntax of the parsers behind the daemon, `world` has the daemon
and the canaries, `machine` chooses the calls, decides them by the shipped policies and sends what
is allowed.
"""
