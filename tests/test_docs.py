"""What the pages show exists and runs: examples, recipes, names in backticks, paths."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests.names import docstrings, known_names, quoted_names
from tests.test_house_rules import EDGES

from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import to_input
from doorward.rego import REGISTRY

pytestmark = pytest.mark.usefixtures("trees")

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
OF_OTHERS = {
    "DOORWARD_RUN_ADDR",
    "OPA_RUN_ADDR",
    "DataAuthzTestTestAllow",
    "FindAll",
    "HttpRequest",
    "MarshalIndent",
    "allowed_headers",
    "strconv.IsPrint",
    "go_gc_duration_seconds",
    "go_gc_duration_seconds_count",
    "go_goroutines",
    "go_info",
    "go_memstats_alloc_bytes",
    "go_memstats_frees_total",
    "go_memstats_heap_alloc_bytes",
    "go_memstats_heap_inuse_bytes",
    "go_memstats_last_gc_time_seconds",
    "go_memstats_mallocs_total",
    "go_memstats_next_gc_bytes",
    "go_memstats_sys_bytes",
    "go_threads",
    "process_max_fds",
    "test_missing_key_is_undefined",
}
"""Names of Go's and Envoy's, and examples."""

_PATH = re.compile(r"(?:src|tests|docs|scripts|examples|benchmarks|fuzz|deploy)/[\w./-]*\w")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code_of(page: Path, language: str = "python") -> list[str]:
    fence = rf"^( *)```{language}\n(.*?)^ *```"
    blocks = re.findall(fence, page.read_text(), re.MULTILINE | re.DOTALL)
    return [dedent(block) for _, block in blocks]


@pytest.mark.parametrize("page", ["filters.md", "frameworks.md", "mcp.md", "python.md"])
def test_the_examples_of_a_page_run_in_order(page: str) -> None:
    code = "\n".join(code_of(ROOT / "docs" / page))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_recipes_show_code_that_exists() -> None:
    policies = sorted((ROOT / "src").rglob("*.rego"))
    for language, files in (("python", MODULES), ("rego", policies)):
        shown = code_of(ROOT / "CONTRIBUTING.md", language)
        assert shown
        texts = [path.read_text() for path in files]
        for block in shown:
            assert any(block.strip() in text for text in texts), block


@pytest.fixture(scope="module")
def names() -> set[str]:
    builtins = {part for builtin in REGISTRY for part in builtin.name.split(".")}
    return known_names(ROOT) | builtins


def unknown(text: str, names: set[str]) -> list[str]:
    return [
        name
        for name in quoted_names(text)
        if name not in OF_OTHERS and not names.issuperset(name.split("."))
    ]


def test_names_in_docstrings_exist(names: set[str]) -> None:
    wrong = [
        f"{named(path)}:{line}: {name}"
        for path in MODULES
        for line, text in docstrings(path)
        for name in unknown(text, names)
    ]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_names_and_paths_on_a_page_exist(page: Path, names: set[str]) -> None:
    text = page.read_text()
    assert not unknown(text, names)
    quoted = [q for q in re.findall(r"`([^`\n]+)`", text) if _PATH.fullmatch(q)]
    linked = [page.parent / to for to in re.findall(r"\]\(([\w./-]+)\)", text)]
    missing = [str(each) for each in [*(ROOT / q for q in quoted), *linked] if not each.exists()]
    assert not missing


def test_the_map_names_every_room_once() -> None:
    text = (ROOT / "docs/internals.md").read_text().partition("## The rooms")[2]
    rooms = re.findall(r"^\| `([\w/]+)`", text.partition("\n## ")[0], re.MULTILINE)
    home = ROOT / "src/doorward"
    packages = {str(path.parent.relative_to(home)) for path in home.rglob("*.py")} - {"."}
    shallow = {name for name in packages if name.count("/") == name.startswith("rego/")}
    assert len(rooms) == len(set(rooms))
    assert shallow <= set(rooms) <= packages


def test_every_edge_is_on_the_page() -> None:
    text = (ROOT / "docs/internals.md").read_text().partition("## Guarded edges")[2]
    listed = re.findall(r"`([\w/.]+)`", text.partition("## Boundaries")[0])
    missing = [edge for edge in EDGES if not any(edge.startswith(name) for name in listed)]
    # The `PDP` is named by its methods there.
    assert missing == ["pdp/pdp.py"]


def test_the_list_of_pages_has_all_pages() -> None:
    listed = re.findall(r"^\| \[([\w.-]+)\]", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(
        {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    )


def test_the_page_of_docker_shows_every_field_of_the_input() -> None:
    text = (ROOT / "docs/docker.md").read_text().partition("## The input")[2]
    rows = re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
    shown = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert to_input(AuthzRequest("GET", "/v1.41/info")).keys() <= shown
