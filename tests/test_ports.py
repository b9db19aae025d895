"""Processes of the tests take no ports from each other."""

from __future__ import annotations

import subprocess
import sys

from tests.ports import free_ports

CODE = """
import sys
from tests.ports import free_ports
print(*free_ports(3), flush=True)
sys.stdin.read()
"""


def test_each_process_has_ports_of_its_own() -> None:
    ours = set(free_ports(50))
    command = [sys.executable, "-c", CODE]
    others = [
        subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    # They end together, when both have said theirs.
    said = [each.stdout.readline() for each in others if each.stdout is not None]
    for each in others:
        each.communicate()
    theirs = [set(map(int, line.split())) for line in said]
    assert (len(ours), *map(len, theirs)) == (50, 3, 3)
    assert ours.isdisjoint(theirs[0] | theirs[1])
    assert theirs[0].isdisjoint(theirs[1])


def test_a_port_is_not_chosen_again_soon() -> None:
    first = free_ports(40)
    assert set(first).isdisjoint(free_ports(40))
