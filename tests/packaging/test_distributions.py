"""What the standard build makes works where nothing else is installed.

Source distribution, wheel from it, fresh environment: the way of `python -m build` and of a user.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest
from tests.packaging.distributions import make_environment, run_in, unpack
from tests.ports import free_port
from tests.waiting import wait_until

from doorward.cli.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HELP = "src/doorward/console/help"
OPTIONAL = PROJECT["optional-dependencies"]


def provided(extra: str) -> set[str]:
    """The extras that an extra holds, itself included."""
    extras = {extra}
    for text in OPTIONAL.get(extra, ()):
        if text.startswith("doorward["):
            for inner in text.removeprefix("doorward[").removesuffix("]").split(","):
                extras |= provided(inner)
    return extras


def build(source: Path, target: str, folder: Path) -> Path:
    """Build a distribution with the project's build backend; returns its file."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def list_tracked_files(*paths: str) -> list[str]:
    """The tracked files below the paths, of the whole checkout without any."""
    command = ["git", "ls-files", "-z", "--", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    # Else removed, and not committed yet.
    return [name for name in filter(None, done.stdout.split("\0")) if (ROOT / name).exists()]


def copy_tracked(source: str, target: Path) -> None:
    """Copy as COPY of a Dockerfile does: a folder's content, or a file into a folder."""
    is_folder = (ROOT / source).is_dir()
    for name in list_tracked_files(source):
        path = Path(name)
        copy = target / (path.relative_to(source) if is_folder else path.name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy, follow_symlinks=False)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files, as a clone has them, with the pages of the console."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in list_tracked_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    pages = "src/doorward/console/static"
    shutil.copytree(ROOT / pages, folder / pages)
    return folder


@pytest.fixture(scope="session")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution; its build makes the pages of Help, which nobody made before."""
    assert not (checkout / HELP).exists()
    return build(checkout, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return build(next(folder.iterdir()), "wheel", folder)


@pytest.fixture(scope="session")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(wheel, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="session")
def standard(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(unpacked, tmp_path_factory.mktemp("standard") / "env", ["standard"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.rego").write_text("package a\n\nallow if input.user == data.user\n")
    (tmp_path / "data.json").write_text('{"user": "ann"}')
    (tmp_path / "input.json").write_text('{"user": "ann"}')
    return tmp_path


def test_the_wheel_holds_what_the_package_holds(checkout: Path, wheel: Path) -> None:
    package = checkout / "src/doorward"
    files = {str(path.relative_to(package.parent)) for path in package.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == files
    assert "doorward/docker/policies/authz.rego" in names
    assert "doorward/console/static/console.js" in names
    assert "doorward/console/help/index.html" in names


def test_two_builds_are_the_same_to_the_byte(
    checkout: Path, sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    assert build(checkout, "sdist", tmp_path / "1").read_bytes() == sdist.read_bytes()
    # A wheel from the checkout is the wheel from the source distribution.
    assert build(checkout, "wheel", tmp_path / "2").read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(
    ("pages", "script", "target"),
    [("static", "build_console.py", "console"), ("help", "docs_site.py", "site")],
)
def test_no_distribution_is_built_without_pages(
    pages: str, script: str, target: str, checkout: Path, wheel: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy)
    shutil.rmtree(copy / "src/doorward/console" / pages)
    (copy / "scripts" / script).write_text("raise SystemExit(1)\n")
    for kind in ("sdist", "wheel"):
        done = subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path / "out")],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert f"Run `make {target}`" in done.stdout + done.stderr
    assert not [*tmp_path.glob("out/*.gz"), *tmp_path.glob("out/*.whl")]


def test_the_image_copies_all_that_its_pages_are_built_from(tmp_path: Path) -> None:
    """The stage `site` of the Dockerfile, without a daemon."""
    stages = re.split(r"^FROM .*$", (ROOT / "deploy/Dockerfile").read_text(), flags=re.MULTILINE)
    (stage,) = [each for each in stages if "scripts/docs_site.py" in each]
    sent = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    for line in re.findall(r"^COPY (.*)$", stage, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            assert {source, *map(str, Path(source).parents)} & sent, source
            copy_tracked(source, tmp_path / target.removeprefix("/src/").rstrip("/"))
    command = [sys.executable, str(tmp_path / "scripts/docs_site.py"), str(tmp_path / "help")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "help/index.html").is_file()


def test_every_command_shows_its_help(standard: Path, folder: Path) -> None:
    listed = run_in(standard, "--help", cwd=folder).stdout.split("Commands:")[1]
    names = re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)
    assert {"docker", "eval", "kit", "run"} <= {*names}
    for name in names:
        done = run_in(standard, name, "--help", cwd=folder)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_a_decision_and_the_policies_of_the_plugin(standard: Path, folder: Path) -> None:
    query = ["eval", "-f=raw", "-d=p.rego", "-d=data.json", "-i=input.json", "data.a.allow"]
    assert run_in(standard, *query, cwd=folder).stdout == "true\n"
    assert run_in(standard, "docker", "policies", "pack", cwd=folder).returncode == 0
    denied = run_in(
        standard, "eval", "-f=raw", "-b=pack", "data.policy.docker.authz.allow", cwd=folder
    )
    assert (denied.returncode, denied.stdout) == (0, "false\n")


def test_the_server_shows_its_console(standard: Path, folder: Path) -> None:
    address, console = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    command = ["run", "--server", "--addr", address, "--console", "--diagnostic-addr", console]
    log = (folder / "log").open("w+")
    server = subprocess.Popen(
        [str(standard / "bin/doorward"), *command, "p.rego", "data.json"],
        cwd=folder,
        stdout=log,
        stderr=log,
    )
    try:

        def read(path: str, server_address: str = address) -> bytes:
            try:
                with urllib.request.urlopen(f"http://{server_address}{path}") as answer:
                    return bytes(answer.read())
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()
                return b""

        wait_until(lambda: read("/health"), "the server is ready")
        assert json.loads(read("/v1/data/user"))["result"] == "ann"
        page = read("/console/", console).decode()
        scripts = re.findall(r'(?:src|href)="([^"]+\.(?:js|css))"', page)
        assert scripts
        for script in scripts:
            path = script if script.startswith("/") else f"/console/{script}"
            assert read(path, console), path
        assert "data-help" in page
        first = read("/console/help/index.html", console).decode()
        pages = {*re.findall(r'href="([a-z-]+\.html)', first)}
        assert {"tutorial.html", "docker.html", "console.html"} <= pages
        for name in pages:
            assert b"</html>" in read(f"/console/help/{name}", console), name
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
        log.close()


@pytest.mark.parametrize("extra", ["", *[each for each in OPTIONAL if provided(each) == {each}]])
def test_an_extra_brings_all_that_its_modules_import(
    extra: str, unpacked: Path, tmp_path: Path
) -> None:
    """Every module of the wheel is imported: with the packages of its extra, or with an error that
    names another extra's package."""
    environment = make_environment(unpacked, tmp_path / "env", [extra] if extra else [])
    code = (
        "import importlib, json, pkgutil, doorward\n"
        "missing = {}\n"
        "try: from django.conf import settings; settings.configure()\n"
        "except ImportError: pass\n"
        "for each in pkgutil.walk_packages(doorward.__path__, 'doorward.', onerror=str):\n"
        "    if '__main__' in each.name: continue\n"
        "    try: importlib.import_module(each.name)\n"
        "    except ImportError as error: missing[each.name] = error.name\n"
        "print(json.dumps(missing))\n"
    )
    done = run_in(environment, "-c", code, cwd=tmp_path, module=True)
    assert done.returncode == 0, done.stderr
    missing = {
        name: (module or "").partition(".")[0]
        for name, module in json.loads(done.stdout.splitlines()[-1]).items()
    }
    # What plugins of pytest and coverage.py import is there when they are asked for.
    missing = {name: module for name, module in missing.items() if not name.endswith("_plugin")}
    brought = provided(extra)
    for name, module in missing.items():
        assert module in EXTRAS, f"{name} imports {module}, which no extra brings"
        assert EXTRAS[module] not in brought, f"{name}: {extra} does not bring {module}"


def test_all_is_every_extra() -> None:
    assert provided("all") == {*OPTIONAL}


@pytest.mark.parametrize(
    ("extra", "arguments", "missing"),
    [
        ("", ["run", "--server", "p.rego"], "server"),
        ("", ["lsp"], "lsp"),
        ("", ["docker", "doctor"], "docker"),
        ("lsp", ["run", "--server", "p.rego"], "server"),
    ],
)
def test_a_missing_extra_is_one_clear_line(
    extra: str, arguments: list[str], missing: str, unpacked: Path, folder: Path
) -> None:
    environment = make_environment(unpacked, folder / "env", [extra] if extra else [])
    done = run_in(environment, *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"Error: .* needs the extra `{missing}` .*\n", done.stderr), done.stderr
