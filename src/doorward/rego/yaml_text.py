"""YAML text to a tree of nodes, by the rules and in the words of OPA's YAML library.

PyYAML scans and parses. What it does otherwise than libyaml, from which OPA's library comes, is put
right here: tabs, unknown directives, anchors that are set again, the texts of errors. What a scalar
means is for the caller: METADATA and the built-ins for YAML read it by two different versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

__all__ = ["Node", "YamlError", "compose"]

_BLANKS: Final = " \t\r\n\x85\u2028\u2029"
_CORE: Final = "tag:yaml.org,2002:"


class YamlError(Exception):
    """The text is not YAML, or says what it may not say; the words are those of OPA's library."""


@dataclass(eq=False, slots=True)
class Node:
    """One node: `value` is a text, a list of nodes, a list of pairs of them, or an alias's node.

    `tag` is what was written, core tags as `!!int`, or "". `plain`: a scalar without quotes.
    """

    kind: str
    tag: str
    value: Any
    line: int
    plain: bool = False

    @property
    def target(self) -> Node:
        """The node itself, or the one that an alias stands for."""
        return self.value if self.kind == "alias" else self


def compose(text: str, *, problem_first: bool = False) -> Node | None:
    """The first document of `text`; None if there is none.

    `problem_first`: an error is placed where the problem is, not where its context begins, as in
    the older version of the library.
    """
    import yaml  # only policies that use YAML need it

    try:
        loader = _loader_class()(text)
        try:
            return _Composer(loader).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        is_scanner = isinstance(error, yaml.scanner.ScannerError)
        marks = [error.context_mark, error.problem_mark]
        lines = [mark.line for mark in marks if mark is not None and mark.line]
        place = ""
        if lines:
            place = f"line {lines[-1 if problem_first else 0] + is_scanner}: "
        raise YamlError(f"yaml: {place}{_said(error)}") from None
    except yaml.reader.ReaderError:
        raise YamlError("yaml: control characters are not allowed") from None
    except (ValueError, OverflowError):  # of `chr`
        raise YamlError("yaml: found invalid Unicode character escape code") from None


def _said(error: Any) -> str:
    """PyYAML's words for a problem as libyaml says them."""
    text: str = error.problem or "unknown problem parsing YAML content"
    if text.startswith("expected <block end>"):
        is_list = "collection" in (error.context or "")
        return f"did not find expected {QUOTED_DASH if is_list else 'key'}"
    for pattern, words in _WORDINGS:
        text = pattern.sub(words, text)
    return text


QUOTED_DASH: Final = "'-' indicator"
_WORDINGS: Final = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"^expected '<document start>'.*", "did not find expected <document start>"),
        (r"^expected the node content.*", "did not find expected node content"),
        (r"^expected indentation indicator .*", "found an indentation indicator equal to 0"),
        (
            r"^expected (?:chomping or indentation indicators|a comment or a line break),.*",
            "did not find expected comment or line break",
        ),
        (r"^expected escape sequence of .*", "did not find expected hexdecimal number"),
        (r"^expected URI escape sequence .*", "did not find URI escaped octet"),
        (r"^expected URI, .*", "did not find expected tag URI"),
        (r"^expected '>', .*", "did not find the expected '>'"),
        (r"^expected ' ', .*", "did not find expected whitespace or line break"),
        (r"^expected a digit or .*", "did not find expected digit or '.' character"),
        (r"^expected (?:the )?(.*), but (?:got|found) .*", r"did not find expected \1"),
        (r"^found character '.*' that", "found character that"),
        (r"^found unknown escape character .*", "found unknown escape character"),
        (r"^found incompatible YAML document .*", "found incompatible YAML document"),
        (r"^found duplicate YAML directive", "found duplicate %YAML directive"),
        (r"^duplicate tag handle .*", "found duplicate %TAG directive"),
        (r"^found undefined tag handle .*", "found undefined tag handle"),
        (r"^sequence entries are not allowed here", "block sequence entries are not allowed here"),
        (r"not allowed here$", "not allowed in this context"),
    )
)


class _Composer:
    """Events to nodes, without recursion: nesting is for those to bound who walk the nodes."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.anchors: dict[str, Node] = {}
        self.open: list[Node] = []
        self.root: Node | None = None

    def document(self) -> Node | None:
        import yaml

        self.loader.get_event()  # the start of the stream
        start = self.loader.get_event()
        if isinstance(start, yaml.StreamEndEvent):
            return None
        if start.version not in (None, (1, 1)):
            raise YamlError("yaml: found incompatible YAML document")
        while True:
            event = self.loader.get_event()
            if isinstance(event, yaml.DocumentEndEvent):
                return self.root
            if isinstance(event, yaml.CollectionEndEvent):
                self._close()
            else:
                self._add(event, yaml)

    def _add(self, event: Any, yaml: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            target = self.anchors.get(event.anchor)
            if target is None:
                raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
            self._put(Node("alias", "", target, line))
            return
        tag = (event.tag or "").removesuffix("!") if event.tag == "!" else event.tag or ""
        if tag.startswith(_CORE):
            tag = "!!" + tag.removeprefix(_CORE)
        if isinstance(event, yaml.ScalarEvent):
            node = Node("scalar", tag, event.value, line, plain=not event.style)
        else:
            kind = "sequence" if isinstance(event, yaml.SequenceStartEvent) else "mapping"
            node = Node(kind, tag, [], line)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self._put(node)
        if node.kind != "scalar":
            self.open.append(node)

    def _put(self, node: Node) -> None:
        if self.open:
            self.open[-1].value.append(node)
        else:
            self.root = node

    def _close(self) -> None:
        node = self.open.pop()
        if node.kind == "mapping":
            parts = iter(node.value)
            node.value = list(zip(parts, parts, strict=True))


@lru_cache(maxsize=1)
def _loader_class() -> Any:
    import yaml
    import yaml.parser
    import yaml.reader
    import yaml.scanner

    class Loader(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
        """PyYAML's, with libyaml's ideas of tabs and directives."""

        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)

        def scan_to_next_token(self) -> None:
            while True:
                super().scan_to_next_token()
                if self.peek() != "\t" or not (self.flow_level or not self.allow_simple_key):
                    return
                while self.peek() == "\t":
                    self.forward()

        def scan_directive_name(self, start_mark: Any) -> Any:
            name = super().scan_directive_name(start_mark)
            if name not in ("YAML", "TAG"):
                problem = "found unknown directive name"
                raise yaml.scanner.ScannerError(
                    "while scanning a directive", start_mark, problem, self.get_mark()
                )
            return name

        def scan_plain_spaces(self, indent: int, start_mark: Any) -> list[str] | None:
            blanks, first, breaks = "", "", []
            while self.peek() in _BLANKS:
                if self.peek() in " \t":
                    if first and self.peek() == "\t" and self.column < indent:
                        problem = "found a tab character that violates indentation"
                        raise yaml.scanner.ScannerError(
                            "while scanning a plain scalar", start_mark, problem, self.get_mark()
                        )
                    blanks += self.peek()
                    self.forward()
                    continue
                found = self.scan_line_break()
                if first:
                    breaks.append(found)
                first = first or found
                self.allow_simple_key = True
                if self.prefix(3) in ("---", "...") and self.peek(3) in "\0" + _BLANKS:
                    return None
            if not first:
                return [blanks] if blanks else []
            return [*([first] if first != "\n" else [] if breaks else [" "]), *breaks]

    return Loader
