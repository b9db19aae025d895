"""The words of a `docker` command become the call of the engine API about which a policy is asked.

`options` reads words as the command line does, `values` a value of an option, `run` and `build` the
commands with most options, and `calls` holds the table of commands. No daemon is called and no file
of the client is read.
"""

from __future__ import annotations

__all__: list[str] = []
