#!/usr/bin/env -S python -I
"""`doorward` in the image: nothing but what was put into it is imported."""

from __future__ import annotations

import sys

sys.path.insert(0, "/opt/doorward/lib")

from doorward.cli.main import main

main()
