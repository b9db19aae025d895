"""Registries by name: where their modules are looked up, and what is wrong with a name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.imports import forgetting

from doorward.pdp import extensions
from doorward.pdp.extensions import ExtensionError, Extensions, project_extensions
from doorward.rego import REGISTRY

MODULE = """from doorward.rego import Registry, types

registry = Registry()


@registry.builtin("{name}", types.number, returns=types.number)
def double(x: int) -> int:
    return 2 * x
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in a folder of its own, where we do not stand; imports are forgotten again."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "project"
    (folder / "src/acme_functions").mkdir(parents=True)
    (folder / "src/acme_functions/__init__.py").write_text("")
    (folder / "src/acme_functions/numbers.py").write_text(MODULE.format(name="acme.double"))
    with forgetting(tmp_path):
        yield folder


def configure(project: Path, table: str) -> None:
    (project / "pyproject.toml").write_text(f"[project]\nname = 'p'\n\n{table}\n")


def test_without_names_there_are_opas_builtins() -> None:
    assert Extensions().registry() is REGISTRY
    assert project_extensions([]).registry() is REGISTRY


def test_a_module_is_imported_from_a_folder_that_is_named(project: Path) -> None:
    name = "acme_functions.numbers:registry"
    registry = Extensions([name], [str(project / "src")]).registry()
    assert registry["acme.double"].call(21) == 42
    assert "count" in registry


def test_a_module_in_the_working_directory_is_not_imported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "src")
    with pytest.raises(ExtensionError) as caught:
        Extensions(["acme_functions.numbers:registry"]).registry()
    assert str(caught.value) == (
        "no module `acme_functions` in the installed packages: for a file, use FILE.py:NAME"
    )


def test_nothing_installed_is_replaced_by_a_folder_of_ours(project: Path) -> None:
    (project / "src/json.py").write_text("raise ValueError")
    Extensions(["acme_functions.numbers:registry"], [str(project / "src")]).registry()
    assert sys.path[-1] == str(project / "src")


def test_a_file_is_imported_and_finds_what_lies_beside_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "own.py").write_text("from own_names import NAME\n" + MODULE.format(name="own.f"))
    (project / "own_names.py").write_text("NAME = 1\n")
    for name in (str(project / "own.py"), "../project/own.py"):
        assert Extensions([f"{name}:registry"]).registry()["own.f"].call(1) == 2
    monkeypatch.chdir(project)
    assert "own.f" in Extensions(["own.py:registry"]).registry()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("own", "", "`own` is not the name of a registry: use MODULE:NAME or FILE.py:NAME"),
        ("own:", "", "`own:` is not the name of a registry: use MODULE:NAME or FILE.py:NAME"),
        ("own.py:registry", None, "the file `own.py` with built-ins does not exist"),
        ("own.py:registry", "x = 1", "`own.py` has no `registry`"),
        ("own.py:registry.x", "registry = 1", "`own.py` has no `registry.x`"),
        ("own.py:registry", "registry = 1", "`own.py:registry` is not a Registry"),
        (
            "own.py:registry",
            "from doorward.rego import Registry\nregister = Registry()",
            "`own.py` has no `registry`: did you mean `register`?",
        ),
        ("own.py:registry", "1 / 0", "importing `own.py` failed: ZeroDivisionError: division by"),
        ("own.py:registry", "def", "importing `own.py` failed: "),
        ("own.py:registry", "import nowhere_at_all", "importing `own.py` failed: ModuleNotFound"),
        ("own:registry", "import nowhere_at_all", "importing `own` failed: ModuleNotFoundError"),
        ("own.below:registry", "", "no module `own.below` in the installed packages and"),
        (
            "own.py:registry",
            MODULE.format(name="count"),
            "importing `own.py` failed: ValueError: built-in `count` is one of OPA's",
        ),
    ],
)
def test_what_is_wrong_with_a_name_is_said(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | None, said: str
) -> None:
    monkeypatch.chdir(project)
    if text is not None:
        (project / "own.py").write_text(text)
    with pytest.raises(ExtensionError) as caught:
        Extensions([name], [str(project)]).registry()
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("where", ["policies", "working directory", "none"])
def test_a_project_is_found_upwards_from_policies_and_from_where_we_stand(
    project: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    table = 'builtins = "acme_functions.numbers:registry"\npythonpath = ["src"]'
    configure(project, f"[tool.doorward]\n{table}")
    policies = project / "policies/deep"
    policies.mkdir(parents=True)
    (policies / "pyproject.toml").write_text("[tool.other]\n")
    if where == "working directory":
        monkeypatch.chdir(policies)
    paths = [str(policies), "no/such/folder"] if where == "policies" else []
    registry = project_extensions(paths).registry()
    assert ("acme.double" in registry) == (where != "none")


def test_a_project_names_files_and_modules_from_its_own_folder(project: Path) -> None:
    (project / "own.py").write_text(MODULE.format(name="own.f"))
    (project / "beside.py").write_text(MODULE.format(name="own.g"))
    configure(project, '[tool.doorward]\nbuiltins = ["own.py:registry", "beside:registry"]')
    registry = project_extensions([str(project)]).registry()
    assert {"own.f", "own.g"} <= {builtin.name for builtin in registry}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[tool.doorward]\nbuiltin = ['a:b']", "[tool.doorward] has no key `builtin`, only"),
        ("[tool.doorward]\nbuiltins = 1", "`builtins` must be a list of strings"),
        ("[tool.doorward]\nbuiltins = [1]", "`builtins` must be a list of strings"),
        ("[tool]\ndoorward = 1", "`tool.doorward` must be a table"),
        ("[tool.doorward", "Expected ']'"),
        ("[project.urls]\ndoorward = 1\n[[tool]]", "`tool` must be a table"),
    ],
)
def test_what_is_wrong_with_a_project_is_said(project: Path, table: str, said: str) -> None:
    configure(project, table)
    with pytest.raises(ExtensionError) as caught:
        project_extensions([str(project)])
    assert str(project / "pyproject.toml") in str(caught.value)
    assert said in str(caught.value)


def test_a_project_that_names_nothing_changes_nothing(project: Path) -> None:
    configure(project, "# doorward is not configured here")
    assert project_extensions([str(project)]) == Extensions()
    configure(project, "[tool.doorward]\npythonpath = ['src']")
    assert project_extensions([str(project)]) == Extensions()


def test_code_of_another_user_is_not_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "own.py").write_text("raise SystemExit('it ran')")
    configure(project, "[tool.doorward]\nbuiltins = ['own.py:registry']")
    owner = (project / "pyproject.toml").stat().st_uid
    if os.geteuid() == 0:
        os.chown(project / "pyproject.toml", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ExtensionError, match="belongs to another user") as caught:
        project_extensions([str(project)])
    assert "use --builtins own.py:registry" in str(caught.value)


def test_a_project_file_that_is_too_large_is_not_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.doorward]\nbuiltins = []\n" + "#" * 100)
    monkeypatch.setattr(extensions, "MAX_PROJECT", 100)
    with pytest.raises(ExtensionError, match="larger than 100 bytes"):
        project_extensions([str(tmp_path)])
