"""Tests written in Rego under pytest: each rule `test_…` is one test, beside those in Python.

Collected are `test_*.rego` and `*_test.rego` (`rego_files`), together with the policies and data at
`rego_paths`, by default everything in the folder of the test file. Built-ins of the project are
those of `rego_builtins`, or of `[tool.doorward]`. A failure shows the conditions that did not hold,
with their values; what a test prints is shown as pytest shows output. A rule `never_…` in such a
file is a property: it fails with a counterexample, and is skipped where nothing is known.

Two fixtures are for tests in Python: `undecided_routes`, which routes of an application have no
decision (`doorward.testing.routes`), and `assert_filter_matches`, whether its lists hold what
decisions allow (`doorward.testing.filters`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from doorward.rego import Registry
    from doorward.search.proofs import Property
    from doorward.testing.runner import Suite, Test

__all__ = [
    "RegoFailure",
    "RegoFile",
    "RegoItem",
    "RegoProperty",
    "assert_filter_matches",
    "builtins_for",
    "undecided_routes",
]

_SUITES = pytest.StashKey[dict[tuple[str, ...], "Suite"]]()


class RegoFailure(Exception):
    """A test in Rego did not pass; the message says why."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's options in pytest's configuration."""
    parser.addini(
        "rego_files", "Names of files with tests in Rego", "args", ["test_*.rego", "*_test.rego"]
    )
    parser.addini(
        "rego_paths",
        "Policies and data that tests in Rego see, from the root of the project",
        "args",
    )
    parser.addini("rego_builtins", "Registries of built-ins in Python, MODULE:NAME", "args")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> RegoFile | None:
    """Return a collector for a `.rego` file whose name matches `rego_files`; None for other
    files.
    """
    patterns = parent.config.getini("rego_files")
    if file_path.suffix == ".rego" and any(fnmatch(file_path.name, each) for each in patterns):
        collected: RegoFile = RegoFile.from_parent(parent, path=file_path)
        return collected
    return None


class RegoFile(pytest.File):
    """A Rego file with tests, as a collector of pytest."""

    def collect(self) -> Iterator[RegoItem | RegoProperty]:
        """Yield the tests and properties that this file defines. CollectError if its policies or
        data, or others in `rego_paths`, cannot be loaded or do not compile.
        """
        # Imported by the first test in Rego only: others shall not pay for the plugin.
        from doorward.bundles.loader import LoadError
        from doorward.rego import RegoError

        try:
            suite = self._suite()
        except LoadError as error:
            raise self.CollectError(str(error)) from None
        except RegoError as error:
            raise self.CollectError(error.render()) from None
        path = os.path.abspath(self.path)
        for test in suite.tests:
            if os.path.abspath(test.span.file) == path:
                item: RegoItem = RegoItem.from_parent(self, name=test.name, suite=suite, test=test)
                yield item
        if suite.has_properties:
            yield from self._properties(suite, path)

    def _properties(self, suite: Suite, path: str) -> Iterator[RegoProperty]:
        """Yield an item for each property that is defined in this file."""
        from doorward.search.proofs import properties_of

        for each in properties_of(suite.engine):
            if os.path.abspath(each.span.file) == path:
                item: RegoProperty = RegoProperty.from_parent(
                    self, name=each.path[-1], paths=self._paths(), subject=each
                )
                yield item

    def _paths(self) -> tuple[str, ...]:
        """Return the paths to load: those of `rego_paths`, or the file's folder; and the file
        itself if it is not below them.
        """
        root = self.config.rootpath
        options = [str(root / each) for each in self.config.getini("rego_paths")]
        paths = tuple(options or [str(self.path.parent)])
        inside = any(self.path.is_relative_to(os.path.abspath(each)) for each in paths)
        return paths if inside else (*paths, str(self.path))

    def _suite(self) -> Suite:
        """Return the suite for these paths, loaded and compiled once per session. LoadError or
        RegoError if that fails.
        """
        from doorward.bundles.loader import load
        from doorward.testing.runner import Suite

        paths = self._paths()
        suites = self.config.stash.setdefault(_SUITES, {})
        if paths not in suites:
            suites[paths] = Suite(
                load([_near(path) for path in paths]), registry=builtins_for(self.config, paths)
            )
        return suites[paths]


def builtins_for(config: pytest.Config, paths: Sequence[str]) -> Registry:
    """Return the built-ins for the policies at some paths: OPA's, and those of `rego_builtins` or,
    if that is not set, of the project's `[tool.doorward]`.
    """
    from doorward.pdp.extensions import Extensions, project_extensions

    names = config.getini("rego_builtins")
    if names:
        return Extensions(names, [str(config.rootpath)]).registry()
    return project_extensions(paths).registry()


class RegoItem(pytest.Item):
    """One test in Rego, as an item of pytest."""

    def __init__(self, *, suite: Suite, test: Test, **known: object) -> None:
        super().__init__(**known)  # type: ignore[arg-type]  # what pytest hands to every node
        self.suite = suite
        self.test = test

    def runtest(self) -> None:
        """Run the test and write what it prints to standard output. RegoFailure if it fails, with
        the conditions that did not hold, or if its evaluation has an error; a `todo_test_` rule is
        skipped.
        """
        from doorward.testing.runner import run_one, why

        result = run_one(self.suite, self.test)
        sys.stdout.write(result.output)
        if result.outcome == "SKIPPED":
            pytest.skip("todo")
        if result.error is not None:
            raise RegoFailure(result.error.render())
        if not result.passed:
            failed = [name for name, case in result.cases.items() if not case.passed]
            lead = f"cases that failed: {', '.join(failed)}\n" if failed else ""
            raise RegoFailure(lead + why(self.suite, result))

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: str | None = None,
    ) -> str | TerminalRepr:
        """Return the explanation of a failed test without a Python traceback; other exceptions are
        shown as pytest does.
        """
        if isinstance(excinfo.value, RegoFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.test.span.row - 1, str(self.test)


class RegoProperty(pytest.Item):
    """One property as an item of pytest: it fails if there is a counterexample, and is skipped if
    it is neither proved nor refuted.
    """

    def __init__(self, *, paths: Sequence[str], subject: Property, **known: object) -> None:
        super().__init__(**known)  # type: ignore[arg-type]  # what pytest hands to every node
        self.paths = paths
        self.subject = subject

    def runtest(self) -> None:
        """Check the property: RegoFailure with a counterexample; skipped if it is neither proved
        nor refuted.
        """
        from doorward.bundles.loader import load
        from doorward.search.proofs import NONE_EXISTS, lines_of
        from doorward.testing.properties import check_properties

        registry = builtins_for(self.config, self.paths)
        loaded = load([_near(path) for path in self.paths])
        (verdict,) = check_properties(loaded, registry=registry, names=[self.subject.name])
        text = "\n".join(lines_of(verdict))
        if verdict.is_broken:
            raise RegoFailure(text)
        if verdict.outcome != NONE_EXISTS:
            pytest.skip(text)

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: str | None = None,
    ) -> str | TerminalRepr:
        """Return the counterexample without a Python traceback; other exceptions are shown as
        pytest does.
        """
        if isinstance(excinfo.value, RegoFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.subject.span.row - 1, self.subject.name


def _near(path: str) -> str:
    """Return a path relative to the current folder if it is inside, otherwise unchanged."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


@pytest.fixture
def undecided_routes() -> Callable[..., list[str]]:
    """Fixture: a function that returns an application's routes without a policy decision."""
    from doorward.testing.routes import undecided_routes

    return undecided_routes


@pytest.fixture
def assert_filter_matches() -> Callable[..., list[int]]:
    """Fixture: a function that compares a filter's rows with the decisions about each row."""
    from doorward.testing.filters import assert_filter_matches

    return assert_filter_matches
