"""`python -m doorward`: the command line, for tools that start modules."""

from __future__ import annotations

from doorward.cli.main import main

if __name__ == "__main__":
    main()
