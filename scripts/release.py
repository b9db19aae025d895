"""Make a release: version, changelog and tag, then the files that are published.

    python scripts/release.py 0.2.0             what `make release VERSION=0.2.0` runs
    python scripts/release.py 0.2.0 --dry-run   the files only: nothing is committed or tagged

In `dist/` are then the source distribution, the wheel, the list of components (CycloneDX) of what
`doorward[standard]` installs, and SHA256SUMS. Each distribution is built twice, in two folders; two
results that differ stop the release.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
VERSION_FILE: Final = ROOT / "src/doorward/__init__.py"
FRAGMENTS: Final = ROOT / "changelog.d"
DIST: Final = ROOT / "dist"
HELP: Final = ROOT / "src/doorward/console/help/index.html"
"""The documentation under Help of the console, which `make site` builds."""
COMPONENTS: Final = ROOT / "requirements/standard.txt"


class ReleaseError(Exception):
    """What stops the release, for the person who makes it."""


def main(arguments: list[str]) -> int:
    versions = [each for each in arguments if not each.startswith("-")]
    if len(versions) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", versions[0]):
        sys.stderr.write("usage: python scripts/release.py MAJOR.MINOR.PATCH [--dry-run]\n")
        return 2
    try:
        release(versions[0], is_dry="--dry-run" in arguments)
    except ReleaseError as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    return 0


def release(version: str, *, is_dry: bool) -> None:
    """Make the release; with `is_dry` only its files, of the version that stands in the code."""
    if not HELP.is_file():
        raise ReleaseError("the documentation of the console is missing: run `make site`")
    if not is_dry:
        check_checkout(version)
        set_version(version)
        split_fragments()
        run("python", "-m", "towncrier", "build", "--yes", "--version", version)
        run("git", "commit", "--all", "--message", f"Release {version}")
    DIST.mkdir(exist_ok=True)
    files = [*build_twice(), list_components(version)]
    sums = DIST / "SHA256SUMS"
    sums.write_text("".join([f"{digest(file)}  {file.name}\n" for file in files]))
    if not is_dry:
        run("git", "tag", "--annotate", f"v{version}", "--message", f"Doorward {version}")
    for file in [*files, sums]:
        sys.stdout.write(f"{file.relative_to(ROOT)}\n")


def check_checkout(version: str) -> None:
    """Refuse a checkout with changes, and a version that was released before."""
    if output("git", "status", "--porcelain", "--untracked-files=no"):
        raise ReleaseError("the checkout has changes: commit or stash them first")
    if output("git", "tag", "--list", f"v{version}"):
        raise ReleaseError(f"version {version} is tagged already")


def set_version(version: str) -> None:
    text = VERSION_FILE.read_text()
    VERSION_FILE.write_text(
        re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', text, flags=re.M)
    )


def split_fragments() -> None:
    """Write each entry of the fragments into a file of its own, so that the changelog lists it.

    General features, which have no issue, come first.
    """
    numbers: dict[str, int] = {}
    for file in sorted(FRAGMENTS.glob("*.*.md")):
        name, kind, _ = file.name.split(".")
        start = f"{'0' if name.startswith('+') else name}.{kind}"
        entries = split_entries(file.read_text())
        file.unlink()
        for entry in entries:
            numbers[start] = numbers.get(start, 0) + 1
            (FRAGMENTS / f"{start}.{numbers[start]}.md").write_text(f"{entry}\n")
    run("git", "add", "--all", str(FRAGMENTS))


def split_entries(fragment: str) -> list[str]:
    """The entries of a fragment, each on one line.

    One begins after a blank line, and after a line that ends a sentence; not with a sentence that
    is about the one before it.
    """
    entries: list[str] = []
    is_over = True
    for line in map(str.strip, fragment.splitlines()):
        if line and is_over and not (entries and line.startswith(("It ", "They ", "Roles "))):
            entries.append(line)
        elif line:
            entries[-1] += f" {line}"
        is_over = not line or line.endswith((".", ".)"))
    return entries


def build_twice() -> list[Path]:
    """Build source distribution and wheel in two folders; those of the first, in `dist/`."""
    built = [build(), build()]
    first, second = [{file.name: digest(file) for file in files} for files in built]
    if first != second:
        raise ReleaseError(f"two builds differ: {first} {second}")
    return [Path(shutil.copy(file, DIST)) for file in built[0]]


def build() -> list[Path]:
    folder = Path(tempfile.mkdtemp(prefix="doorward-build-"))
    run("python", "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return sorted(folder.iterdir())


def list_components(version: str) -> Path:
    """Write what `doorward[standard]` installs as a CycloneDX document."""
    target = DIST / f"doorward-{version}.cdx.json"
    arguments = ["requirements", str(COMPONENTS), "--pyproject", "pyproject.toml"]
    arguments += ["--mc-type", "application", "--output-reproducible"]
    run("python", "-m", "cyclonedx_py", *arguments, "--output-file", str(target))
    return target


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def run(program: str, *arguments: str) -> None:
    """Run a program, with this Python for `python`; ReleaseError where it fails."""
    command = [sys.executable if program == "python" else program, *arguments]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise ReleaseError(f"`{program} {' '.join(arguments)}` failed")


def output(*command: str) -> str:
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
