"""Rego in coverage.py: `coverage run` measures policies, `coverage html` shows them.

    [tool.coverage.run]
    plugins = ["doorward.testing.coverage_plugin"]
    source = ["policies"]

The generated code of a policy has the policy's file name and rows, so coverage.py only needs to
know which files are policies and which of their rows can be reached.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from coverage import CoveragePlugin, FileReporter, FileTracer
from coverage.plugin_support import Plugins

from doorward.rego.shared import Source
from doorward.rego.tools import parse_module
from doorward.testing.coverage import lines_of

__all__ = ["PolicyPlugin", "coverage_init"]


class PolicyPlugin(CoveragePlugin):
    """A plugin of coverage.py that measures `*.rego` files."""

    def file_tracer(self, filename: str) -> FileTracer | None:
        return PolicyTracer(filename) if filename.endswith(".rego") else None

    def file_reporter(self, filename: str) -> PolicyReporter:
        return PolicyReporter(filename)

    def find_executable_files(self, src_dir: str) -> Iterable[str]:
        """Yield the policies below a folder, so that those that are never loaded count as not
        covered. Links to folders are not followed; folders that cannot be read are skipped.
        """
        for folder, _, names in os.walk(src_dir):
            yield from [os.path.join(folder, name) for name in names if name.endswith(".rego")]


class PolicyTracer(FileTracer):
    """Tells coverage.py that generated code belongs to the policy with the same file name and
    rows.
    """

    def __init__(self, filename: str) -> None:
        self.filename = os.path.abspath(filename)

    def source_filename(self) -> str:
        return self.filename


class PolicyReporter(FileReporter):
    """Lists the rows of a policy that can be reached; ParseError if it cannot be parsed."""

    def lines(self) -> set[int]:
        return lines_of(parse_module(Source(self.filename, self.source())))


def coverage_init(reg: Plugins, options: dict[str, str]) -> None:
    """Register the plugin; coverage.py calls this."""
    reg.add_file_tracer(PolicyPlugin())
