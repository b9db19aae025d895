"""The pytest plugin: tests in Rego are collected, run and reported as tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = "pytester"

POLICY = "package authz\n\nallow if input.role in data.admins\n"
TESTS = """package authz_test

import data.authz

test_admin if authz.allow with input as {"role": "root"}

test_guest if {
    print("as guest")
    authz.allow with input as {"role": "guest"}
}

todo_test_later if false

test_odd if limit > 1

limit := 1

limit := 2

test_roles[name] if {
    some name, role in {"one": "root", "two": "nobody"}
    authz.allow with input as {"role": role}
}
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    (pytester.path / "authz.rego").write_text(POLICY)
    (pytester.path / "data.json").write_text('{"admins": ["root"]}')
    (pytester.path / "authz_test.rego").write_text(TESTS)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # The plugins of other packages take half a second to load.
    plugin = ("--disable-plugin-autoload", "-p", "doorward.testing.pytest_plugin")
    return project.runpytest_inprocess(*plugin, "-p", "no:cacheprovider", *arguments)


def test_an_installation_loads_the_plugin(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"doorward": "doorward.testing.pytest_plugin"}


def test_each_rule_is_one_test(project: pytest.Pytester) -> None:
    result = run(project, "-v")
    result.assert_outcomes(passed=1, failed=3, skipped=1)
    result.stdout.fnmatch_lines(["authz_test.rego::test_admin PASSED*"])


def test_a_failure_shows_the_condition_and_its_values(project: pytest.Pytester) -> None:
    result = run(project, "-k", "test_guest")
    result.stdout.fnmatch_lines(
        [
            "data.authz_test.test_guest is undefined",
            "*authz_test.rego:9: `authz.allow with input as {*}` does not hold",
            "*data.authz.allow is undefined",
            "*authz.rego:3: `input.role in data.admins` does not hold",
            '*input.role: "guest"',
            '*data.admins: ?"root"?',
            "*Captured stdout*",
            "as guest",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_error_shows_its_place(project: pytest.Pytester) -> None:
    result = run(project, "-k", "test_odd")
    result.stdout.fnmatch_lines(["authz_test.rego:*: eval_conflict_error: *"])


def test_a_table_names_the_cases_that_failed(project: pytest.Pytester) -> None:
    result = run(project, "-k", "test_roles")
    result.stdout.fnmatch_lines(["cases that failed: two"])


def test_policies_elsewhere_are_named_in_the_configuration(project: pytest.Pytester) -> None:
    tests = project.path / "tests"
    tests.mkdir()
    (project.path / "authz_test.rego").rename(tests / "test_authz.rego")
    project.makeini("[pytest]\nrego_paths = authz.rego data.json\n")
    run(project, "-k", "test_admin").assert_outcomes(passed=1, deselected=4)


def test_policies_that_do_not_compile_are_an_error_of_collection(
    project: pytest.Pytester,
) -> None:
    (project.path / "authz.rego").write_text("package authz\n\nallow if x\n")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["authz.rego:3:10: rego_unsafe_var_error: var x is unsafe"])


def test_other_files_in_rego_are_no_tests(project: pytest.Pytester) -> None:
    (project.path / "authz_test.rego").unlink()
    run(project).assert_outcomes()


BUILTIN = """from doorward.rego import Registry, types

registry = Registry()


@registry.builtin("acme.roles", types.string, returns=types.array(types.string))
def acme_roles(name: str) -> tuple[str, ...]:
    if name == "nobody":
        raise LookupError(name)
    return ("root",)
"""


@pytest.mark.parametrize("where", ["pytest", "doorward"])
def test_builtins_of_the_project_are_named_in_the_configuration(
    project: pytest.Pytester, where: str
) -> None:
    (project.path / "lib").mkdir()
    (project.path / f"lib/{where}_functions.py").write_text(BUILTIN)
    (project.path / "authz_test.rego").write_text(
        "package t\n\n"
        'test_ann if "root" in acme.roles("ann")\n\n'
        'test_nobody if not "root" in acme.roles("nobody")\n'
    )
    name = f"{where}_functions:registry"
    table = f'[tool.doorward]\nbuiltins = ["{name}"]\npythonpath = ["lib"]\n'
    if where == "pytest":
        table = f'[tool.pytest.ini_options]\nrego_builtins = ["lib.{name}"]\n'
    project.makepyprojecttoml(table)
    result = run(project)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "authz_test.rego:5:*: eval_builtin_error: acme.roles: the built-in raised LookupError",
            f"hint: LookupError: nobody (*{where}_functions.py:9, in acme_roles)",
        ]
    )


def test_builtins_that_cannot_be_imported_are_an_error_of_collection(
    project: pytest.Pytester,
) -> None:
    project.makepyprojecttoml('[tool.doorward]\nbuiltins = ["nowhere_at_all:registry"]\n')
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["no module `nowhere_at_all` in the installed packages and *"])
