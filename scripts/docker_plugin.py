"""Builds the managed Docker plugin: a root file system of this interpreter, and `config.json`.

usage: scripts/docker_plugin.py FOLDER    then: docker plugin create NAME FOLDER

Nothing is fetched: the interpreter, the libraries that it loads and the packages of this very
environment are copied, as they were installed from the lock.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SITE: Final = "opt/doorward"
EXTRAS: Final = ("httptools", "orjson")
_NOT_NEEDED: Final = """
    __pycache__ test tests idlelib tkinter turtledemo ensurepip site-packages dist-packages lib2to3
    config-* *.a
"""
_SKIPPED: Final = shutil.ignore_patterns(*_NOT_NEEDED.split())
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def main() -> int:
    """Build into the folder that is named."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 1
    folder = Path(sys.argv[1])
    if folder.exists():
        print(f"{folder} is there already")
        return 1
    rootfs = folder / "rootfs"
    python = _copy_interpreter(rootfs)
    _copy_packages(rootfs / SITE)
    for library in sorted(_libraries(rootfs)):
        _copy(Path(library), rootfs)
    _write_entrypoint(rootfs, python)
    shutil.copy(ROOT / "deploy/docker-plugin/config.json", folder / "config.json")
    size = sum(path.lstat().st_size for path in rootfs.rglob("*")) >> 20
    print(f"{folder}: {size} MB; next: docker plugin create NAME {folder}")
    return 0


def _copy_interpreter(rootfs: Path) -> Path:
    """The interpreter at the place where it looks for its library; its path."""
    python = Path(os.path.realpath(sys.executable))
    _copy(python, rootfs)
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, rootfs / library.relative_to("/"), ignore=_SKIPPED, symlinks=True)
    for folder in ("etc", "run/docker/plugins", "tmp", "proc", "sys", "dev", "host", "policies"):
        (rootfs / folder).mkdir(parents=True, exist_ok=True)
    for name in ("etc/hosts", "etc/resolv.conf"):
        (rootfs / name).touch()
    (rootfs / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    return python


def _copy_packages(site: Path) -> None:
    site.mkdir(parents=True)
    shutil.copytree(ROOT / "src/doorward", site / "doorward", ignore=_SKIPPED)
    for name in sorted(_closure(["doorward", *EXTRAS]) - {"doorward"}):
        for file in metadata.files(name) or ():
            source = Path(str(file.locate()))
            if source.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                target = site / str(file)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)


def _closure(names: Iterable[str]) -> set[str]:
    """These distributions and all that they require, extras apart."""
    libraries: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in libraries:
            continue
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform or version of the interpreter
        libraries.add(name)
        waiting += [
            match[0] for text in required if "extra ==" not in text and (match := _NAME.match(text))
        ]
    return libraries


def _libraries(rootfs: Path) -> set[str]:
    """What the programs and extensions in the file system load, at its place on this machine."""
    binaries = [path for path in rootfs.rglob("*") if path.is_file() and _is_elf(path)]
    return {library for path in binaries for library in _loaded_by(path)}


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _loaded_by(path: Path) -> Iterator[str]:
    done = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
    for library in _LIBRARY.findall(done.stdout):
        if not library.startswith(str(path.parent)):
            yield library
    # Names are looked up as they are loaded, with what the C library opens by itself.
    for library in ("libnss_dns.so.2", "libnss_files.so.2"):
        for folder in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu"):
            if (Path(folder) / library).exists():
                yield f"{folder}/{library}"


def _copy(source: Path, rootfs: Path) -> None:
    """A file at its own path, links on the way made folders."""
    target = rootfs / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(source, target)


def _write_entrypoint(rootfs: Path, python: Path) -> None:
    script = rootfs / "doorward"
    # No shell is in there: the interpreter itself is what the first line names.
    script.write_text(
        f"#!{python} -I\n"
        f"import sys\n\nsys.path.insert(0, '/{SITE}')\n"
        "from doorward.cli.main import main\n\n"
        "main(['docker', 'serve', '--socket', '/run/docker/plugins/doorward.sock', "
        "'--host-root', '/host', '--watchdog'])\n"
    )
    script.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
