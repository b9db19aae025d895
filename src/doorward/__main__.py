"""`python -m doorward`: the command line, for tools that start modules.

Python looks into the working directory first for what a module started by `-m` imports. Policies
may be other people's: no `yaml.py` that lies beside them may run. A folder `doorward` there comes
before anything of ours, so that only `python -P -m doorward`, or the script, is safe from it.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]

    from doorward.cli.main import main

    main()
