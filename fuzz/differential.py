"""Random programs, answered by the engine and by a plain interpreter; each difference is a defect.

    python fuzz/differential.py [--seconds 60 | --programs N] [--seed 1] [--keep FOLDER]
                                [--opa PATH]

Prints how many programs were tried in a second and every difference, with the program made as small
as it can be; the exit code is 1 if there was one. The same seed makes the same programs. With
`--opa`, the answers of the program `opa` are compared as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.campaign import main

if __name__ == "__main__":
    sys.exit(main(__doc__))
