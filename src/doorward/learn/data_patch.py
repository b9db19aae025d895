"""Members are cut out of the text of a data file, so that the rest stays as it was written.

A cut is only used if the text that is left means the data without those members, by the reader
that loads it: else there is no patch for the file. Lines of YAML are cut where a member begins on a
line of its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

import yaml

from doorward.base.records import mutable
from doorward.bundles.loader import LoadError, read_document
from doorward.learn.unused_data import Location, without_inner, without_members
from doorward.rego import to_json

__all__ = ["DataFile", "cut_members"]

Tree: TypeAlias = dict[Any, Any]

_BLANK: Final = " \t\n\r"


@mutable
class DataFile:
    """A data file: its text, and the location `prefix` of its document below `data`."""

    path: str
    prefix: tuple[str, ...]
    text: str
    rows: dict[Location, int] = field(default_factory=dict)
    """The line of each member that the patch removes."""

    def inside(self, locations: Iterable[Location]) -> list[Location]:
        """Return those of the locations below `data` that lead to a member in this file, as
        locations in its document. Raise LoadError if its text is not valid.
        """
        document = read_document(self.path, self.text.encode())
        number = len(self.prefix)
        return [
            location[number:]
            for location in locations
            if location[:number] == self.prefix
            and len(location) > number
            and _has_member(document, location[number:])
        ]


def _has_member(document: Any, location: Location) -> bool:
    """Return True if the document has a member at the location; the keys of arrays are integers."""
    for key in location:
        if isinstance(document, dict):
            if key not in document:
                return False
        elif not isinstance(document, list) or type(key) is not int or key >= len(document):
            return False
        document = document[key]
    return True


def cut_members(file: DataFile, locations: Sequence[Location]) -> str | None:
    """Return the file's text without members of its document, comments and layout kept; None if
    they cannot be cut out. Stores the line of each member in `file.rows`.
    """
    tree: Tree = {}
    for location in without_inner(locations):
        inner = tree
        for key in location[:-1]:
            inner = inner.setdefault(key, {})
        inner[location[-1]] = None
    text = file.text
    try:
        cuts = list(_cuts_of(file, tree))
        # From the end on, so that the places of the cuts before stay valid.
        for start, end in sorted(cuts, reverse=True):
            text = text[:start] + text[end:]
        expected = without_members(read_document(file.path, file.text.encode()), locations)
        same = to_json(read_document(file.path, text.encode())) == to_json(expected)
    except (LoadError, ValueError, IndexError, RecursionError, yaml.YAMLError):
        return None
    return text if same else None


def _cuts_of(file: DataFile, tree: Tree) -> Iterator[tuple[int, int]]:
    """Yield the spans of the text, as (start, end), whose removal deletes the members in the tree;
    the text is read as JSON or, in a file without the ending `.json`, else as YAML.

    Stores the row of each member in `file.rows`. Raise ValueError or YAMLError if the file has a
    format or style that cannot be cut.
    """
    try:
        yield from _JSON(file, tree).cuts()
    except ValueError:
        if file.path.endswith(".json"):
            raise
        yield from _YAML(file, tree).cuts()


class _JSON:
    """Finds the spans of a JSON text whose removal deletes members of its document."""

    def __init__(self, file: DataFile, tree: Tree) -> None:
        self._file = file
        self._text = file.text
        self._tree = tree
        self._decoder = json.JSONDecoder()
        self._cuts: list[tuple[int, int]] = []

    def cuts(self) -> list[tuple[int, int]]:
        """Return the spans of the text, as (start, end), whose removal deletes the members in the
        tree, commas included, and store the row of each member in `file.rows`. ValueError if the
        text is not JSON.
        """
        end = self._read_value(self._blank(0), self._tree, ())
        # A YAML text may begin like JSON: `"a": 1` does with a string.
        if self._text[end:].strip(_BLANK):
            raise ValueError
        return self._cuts

    def _blank(self, at: int) -> int:
        """Return the offset of the next character that is not white space; ValueError if there is
        none.
        """
        while at < len(self._text) and self._text[at] in _BLANK:
            at += 1
        if at == len(self._text):
            raise ValueError
        return at

    def _read_value(self, at: int, tree: Tree | None, location: Location) -> int:
        """Read the value at offset `at`, which is not blank, and return the offset after it. `tree`
        has the members to cut below it, None for none; their spans are added to those to cut, and
        their rows to `file.rows`. `location` is the path of the value.

        Raise ValueError, or IndexError at the end of the text, for malformed JSON.
        """
        if not tree or self._text[at] not in "{[":
            return self._decoder.raw_decode(self._text, at)[1]
        is_object = self._text[at] == "{"
        close = "}" if is_object else "]"
        spans: list[tuple[int, int, bool]] = []
        at = self._blank(at + 1)
        while self._text[at] != close:
            start = at
            key: Any = len(spans)
            if is_object:
                if self._text[at] != '"':
                    raise ValueError
                key, at = self._decoder.raw_decode(self._text, at)
                at = self._blank(at)
                if self._text[at] != ":":
                    raise ValueError
                at = self._blank(at + 1)
            is_cut = key in tree and tree[key] is None
            inner = None if is_cut else tree.get(key)
            at = self._read_value(at, inner, (*location, key))
            spans.append((start, at, is_cut))
            if is_cut:
                self._file.rows[*location, key] = self._text.count("\n", 0, start) + 1
            at = self._blank(at)
            if self._text[at] == ",":
                at = self._blank(at + 1)
            elif self._text[at] != close:
                raise ValueError
        self._cut(spans)
        return at + 1

    def _cut(self, spans: list[tuple[int, int, bool]]) -> None:
        """Record the spans to cut from one object or array; `spans` has start, end and True for
        removal of each member. The comma after a removed member is cut too, or the one before if no
        member remains after it.
        """
        last = max([n for n, span in enumerate(spans) if not span[2]], default=-1)
        for number, (start, _, is_cut) in enumerate(spans):
            if is_cut and number < last:
                self._cuts.append((start, spans[number + 1][0]))
        if last + 1 < len(spans):
            start = spans[last][1] if last >= 0 else spans[0][0]
            self._cuts.append((start, spans[-1][1]))


class _YAML:
    """Finds the lines of a YAML text in block style whose removal deletes members."""

    def __init__(self, file: DataFile, tree: Tree) -> None:
        self._file = file
        self._tree = tree
        self._starts = [0]
        for line in file.text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._cuts: list[tuple[int, int]] = []

    def cuts(self) -> list[tuple[int, int]]:
        """Return the spans of the text, as (start, end), whose removal deletes the members in the
        tree, and store the row of each member in `file.rows`. ValueError for styles other than
        block style, YAMLError if the text is not YAML.
        """
        node = yaml.compose(self._file.text, Loader=yaml.SafeLoader)
        self._node(node, self._tree, (), len(self._starts) - 1)
        return self._cuts

    def _node(self, node: Any, tree: Tree, location: Location, end: int) -> None:
        """Record the lines of a node's members that are in the tree; the node ends before line
        `end`.

        Raise ValueError for a node without members, for the flow style `{a: b}` and for two members
        on one line, which cannot be cut by lines, and for a key that is missing or repeated.
        """
        if node is None or getattr(node, "flow_style", True):
            raise ValueError
        items: list[tuple[Any, Any, Any]]
        if isinstance(node, yaml.MappingNode):
            items = [(key.value, key, value) for key, value in node.value]
        else:
            items = [(number, value, value) for number, value in enumerate(node.value)]
        lines = [*(first.start_mark.line for _, first, _ in items), end]
        if len(set(lines)) != len(lines):
            raise ValueError
        by_key = defaultdict(list)
        for number, (key, _, _) in enumerate(items):
            by_key[key].append(number)
        for key, inner in tree.items():
            (number,) = by_key[key]
            stop = lines[number + 1]
            if inner is not None:
                self._node(items[number][2], inner, (*location, key), stop)
                continue
            # A comment below a member mostly belongs to the next one, and stays.
            while stop - 1 > lines[number] and self._is_comment(stop - 1):
                stop -= 1
            self._file.rows[*location, key] = lines[number] + 1
            self._cuts.append((self._starts[lines[number]], self._starts[stop]))

    def _is_comment(self, line: int) -> bool:
        text = self._file.text[self._starts[line] : self._starts[line + 1]].strip()
        return not text or text.startswith("#")
