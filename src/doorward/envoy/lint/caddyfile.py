"""Caddyfiles: their text -> directives with blocks -> the directives of each site in the order in
which Caddy runs them.

The order is the reason for this module: outside of `route`, Caddy sorts directives by their name,
and asks by `forward_auth` before it removes headers by `request_header`, whatever comes first in
the file. Snippets (`import NAME`) and named routes (`invoke`) of the same file are inserted;
imports of other files and environment variables are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from doorward.base.records import mutable

__all__ = ["Directive", "ImportsError", "Site", "read_sites"]

_MOST: Final = 20_000
"""The most directives that imports of one file may insert."""
_TOKEN: Final = re.compile(
    r"\n|\\\r?\n|#[^\n]*|<<(?P<mark>[A-Za-z0-9_-]{1,64})\r?\n"
    r'|"(?P<quoted>(?:[^"\\]|\\.)*+)"|`(?P<raw>[^`]*+)`|(?:[^\s\\]|\\[^\n])++',
    re.DOTALL,
)
_ARGUMENT: Final = re.compile(r"\{args[.\[](\d{1,3})\]?\}")
_ORDER: Final = (
    *("tracing", "map", "vars", "fs", "root", "log_append", "log_skip", "skip_log", "log_name"),
    *("header", "copy_response_headers", "request_body", "redir", "method", "rewrite", "uri"),
    *("try_files", "basicauth", "basic_auth", "forward_auth", "request_header", "encode", "push"),
    *("intercept", "templates", "invoke", "handle", "handle_path", "route", "abort", "error"),
    *("copy_response", "respond", "metrics", "reverse_proxy", "php_fastcgi", "file_server"),
    "acme_server",
)
"""Caddy's order of directives outside of `route`."""


class ImportsError(Exception):
    """Imports of a file contain each other, or insert too many directives."""


@mutable
class Directive:
    """A directive: its words, its line, and the directives in its block."""

    words: list[str]
    line: int
    block: list[Directive] = field(default_factory=list)
    has_block: bool = False

    @property
    def name(self) -> str:
        """The first word; "" if there is none."""
        return self.words[0] if self.words else ""


class Site:
    """The directives of one site; `run_order` gives those of each of its blocks."""

    def __init__(self, file: _File, block: Sequence[Directive]) -> None:
        self._file = file
        self.block = list(block)

    def run_order(self, block: Sequence[Directive], *, is_route: bool) -> list[Directive]:
        """Return the directives of a block, with those that it imports, in the order in which Caddy
        runs them: as they are written in a `route`, else sorted. Raise ImportsError.
        """
        directives = list(self._file.insert(block))
        if is_route:
            return directives
        order = self._file.order
        return sorted(directives, key=lambda each: order.get(each.name, len(order)))


def read_sites(text: str) -> list[Site]:
    """Return the sites of a Caddyfile; a file without braces is one site. Braces that are not
    balanced are tolerated. Raise ImportsError.
    """
    file = _File(_parse(text))
    sites: list[Site] = []
    top = list(file.insert(file.top))
    for index, each in enumerate(top):
        if each.has_block:
            is_site = each.words and not each.name.startswith(("(", "&("))
            sites += [Site(file, each.block)] if is_site else []
        elif each.words:
            # The addresses of the only site; the rest of the file is its block.
            sites.append(Site(file, top[index + 1 :]))
            break
    return sites


class _File:
    """The directives of a file, with what they can insert, and its order of directives."""

    def __init__(self, top: list[Directive]) -> None:
        self.top = top
        self._left = _MOST
        blocks = {each.name: each.block for each in top if each.has_block and each.words}
        self._snippets: Mapping[str, list[Directive]] = {
            name[1:-1]: block for name, block in blocks.items() if name.startswith("(")
        }
        self._routes: Mapping[str, list[Directive]] = {
            name[2:-1]: block for name, block in blocks.items() if name.startswith("&(")
        }
        options = top[0].block if top and top[0].has_block and not top[0].words else []
        self.order = _order(options)

    def insert(self, block: Sequence[Directive]) -> Iterator[Directive]:
        """Yield the directives of a block, with those of snippets in the place of their imports. A
        named route becomes the block of its `invoke`. Raise ImportsError.
        """
        waiting = list(reversed(block))
        while waiting:
            each = waiting.pop()
            name = each.words[1] if len(each.words) > 1 else ""
            if each.name == "import" and name in self._snippets:
                inserted, count = _with_arguments(self._snippets[name], each)
                self._count(count)
                waiting += reversed(inserted)
            elif each.name == "invoke" and each.words[-1] in self._routes:
                self._count(1)
                yield Directive(each.words, each.line, self._routes[each.words[-1]], True)
            else:
                yield each

    def _count(self, inserted: int) -> None:
        """Count inserted directives; raise ImportsError if there are more than `_MOST`."""
        self._left -= 1 + inserted
        if self._left < 0:
            raise ImportsError


def _order(options: Sequence[Directive]) -> dict[str, int]:
    """Return the position of each directive that has one; the option `order` changes it."""
    names = list(_ORDER)
    for option in options:
        match option.words:
            case ["order", name, "first" | "last" as end]:
                names = [each for each in names if each != name]
                names.insert(0 if end == "first" else len(names), name)
            case ["order", name, "before" | "after" as side, other] if other in names:
                if name != other:
                    names = [each for each in names if each != name]
                    names.insert(names.index(other) + (side == "after"), name)
    return {name: index for index, name in enumerate(names)}


def _with_arguments(
    snippet: Sequence[Directive], importing: Directive
) -> tuple[list[Directive], int]:
    """Return the directives of a snippet for the arguments and the block of an `import`, and how
    many they are with those in their blocks.
    """
    arguments = importing.words[2:]

    def argument(match: re.Match[str]) -> str:
        index = int(match[1])
        return arguments[index] if index < len(arguments) else ""

    inserted: list[Directive] = []
    count = 0
    copies: list[tuple[Sequence[Directive], list[Directive]]] = [(snippet, inserted)]
    for source, target in copies:
        for each in source:
            if each.words == ["{block}"]:
                target += importing.block
                count += len(importing.block)
                continue
            words: list[str] = []
            for word in each.words:
                words += arguments if word == "{args[:]}" else [_ARGUMENT.sub(argument, word)]
            copy = Directive(words, each.line, [], each.has_block)
            copies.append((each.block, copy.block))
            target.append(copy)
            count += 1
    return inserted, count


def _parse(text: str) -> list[Directive]:
    """Return the directives at the top of a Caddyfile, without comments and quotes."""
    root = Directive([], 1)
    open_blocks = [root]
    words: list[str] = []
    begin = line = 1
    position = end = 0
    while match := _TOKEN.search(text, end):
        line += text.count("\n", position, match.start())
        position, end = match.start(), match.end()
        token = match[0]
        if token == "\n":
            # A comma ends an address that is not the last one: the next line continues it.
            if words and not words[-1].endswith(","):
                _close_line(open_blocks, words, begin)
                words = []
            continue
        if token.startswith("#") or (token[0] == "\\" and token[-1] == "\n"):
            continue
        if mark := match["mark"]:
            # As Caddy: where the mark comes first, also within a line.
            stop = text.find(mark, end)
            end = len(text) if stop < 0 else stop + len(mark)
        begin = begin if words else line
        words.append(_unquote(match))
    _close_line(open_blocks, words, begin)
    return root.block


def _unquote(match: re.Match[str]) -> str:
    """Return the text of a token. Quoted braces keep their quotes, since they do not open blocks; a
    text of several lines (`<<END`) is not needed.
    """
    quoted = match["raw"] if match["quoted"] is None else match["quoted"].replace('\\"', '"')
    return match[0] if quoted is None or quoted in ("{", "}") else quoted


def _close_line(open_blocks: list[Directive], words: list[str], line: int) -> None:
    """Add the directive of one line to the innermost open block, and open or close blocks."""
    if words == ["}"]:
        if len(open_blocks) > 1:
            open_blocks.pop()
    elif words:
        opens = words[-1] == "{"
        directive = Directive(words[:-1] if opens else words, line, [], opens)
        open_blocks[-1].block.append(directive)
        if opens:
            open_blocks.append(directive)
