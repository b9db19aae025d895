"""docs/ and the pages beside it -> build/docs -> build/site, which any web server can show.

    docs/*.md, README.md, …  ─ links between them ─▶  build/docs  ─ zensical ─▶  build/site

usage: python scripts/docs_site.py [FOLDER]    (`make site`; FOLDER gets a copy of the site)

A page may link to any file of the repository; a link to one that is not a page of the site becomes
its path, as code. Warnings of the generator are errors.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
BESIDE = {
    "README.md": "about.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "deploy/README.md": "deploy.md",
    "docs/README.md": "contents.md",
    "examples/people/README.md": "people.md",
}
"""Pages that are elsewhere in the repository, by their name in the site."""
LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
"""A code span of a table with a bar in it: GitHub wants it escaped, the generator shows it so."""


FIGURES = 7
"""Lines of the first table of the README."""


def index_text() -> str:
    """The home page, with the figures of the README."""
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("|")]
    figures = "\n".join(rows[:FIGURES]).replace("docs/performance.md", "performance.md")
    return (ROOT / "scripts/site_home.md").read_text().replace("FIGURES", figures)


def pages() -> dict[str, Path]:
    """The source of each page, by its name in the site."""
    written = {each.name: each for each in (ROOT / "docs").glob("*.md") if each.name != "README.md"}
    return written | {name: ROOT / source for source, name in BESIDE.items()}


def page_text(source: Path) -> str:
    """A page with its links as they are in the site."""
    names = {path: name for name, path in pages().items()}

    def link(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group()
        path = (source.parent / target).resolve()
        if path.is_dir() and (path / "README.md") in names:
            path = path / "README.md"
        if path in names:
            return f"{mark}[{text}]({names[path]}{anchor or ''})"
        if path.is_relative_to(ROOT / "docs") and path.is_file():
            return f"{mark}[{text}]({path.relative_to(ROOT / 'docs')})"
        if not path.exists():
            raise SystemExit(f"{source.relative_to(ROOT)}: there is no {target}")
        shown = str(path.relative_to(ROOT))
        return f"`{shown}`" if text.strip("`") in (shown, target) else f"{text} (`{shown}`)"

    parts = re.split(r"(^ *```.*?^ *```$)", source.read_text(), flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if n % 2 else CODE.sub(_code, LINK.sub(link, part)) for n, part in enumerate(parts)
    )


def _code(match: re.Match[str]) -> str:
    text = html.escape(match[1].replace("\\|", "|"), quote=False).replace("|", "&#124;")
    return f"<code>{text}</code>"


def put_together(folder: Path) -> None:
    """Write all pages, and what they show, into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "index.md").write_text(index_text())
    for name, source in pages().items():
        (folder / name).write_text(page_text(source))
    for path in (ROOT / "docs").rglob("*"):
        if path.suffix in (".css", ".js", ".png", ".svg"):
            copy = folder / path.relative_to(ROOT / "docs")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


_EMPTY_HEADER = re.compile(r"<th(?: style=\"[^\"]*\")?></th>")


def clear_empty_headers(folder: Path) -> None:
    """Write empty header cells as plain cells: a header without a text says nothing to a screen
    reader."""
    for path in folder.rglob("*.html"):
        text = path.read_text()
        path.write_text(_EMPTY_HEADER.sub("<td></td>", text))


def main() -> int:
    put_together(BUILD / "docs")
    shutil.rmtree(BUILD / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical"]
    command += ["build", "--strict", "--clean", "--config-file", "mkdocs.yml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0 or "Warning" in done.stdout + done.stderr:
        sys.stderr.write(done.stdout + done.stderr)
        return 1
    clear_empty_headers(BUILD / "site")
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(BUILD / "site", folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
