"""A command becomes a process that cannot outlive the one that started it.

`supervisor.py PARENT PROGRAM ARGUMENT…` asks the kernel to end it when PARENT ends, for whatever
reason, and then becomes PROGRAM. Run as a script, so that it imports nothing of this project.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main(arguments: Sequence[str]) -> None:
    """Become the program; without one there is nothing to do."""
    parent, *command = arguments
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it ended before the kernel knew
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
