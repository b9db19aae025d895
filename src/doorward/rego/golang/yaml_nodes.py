"""YAML text to a tree of nodes, by the rules and in the words of OPA's YAML library.

PyYAML scans and parses. Where its scanner differs from libyaml, from which OPA's library comes, it
is corrected in `yaml_scanner`; here, anchors that are set again and the texts of errors are. The
meaning of scalars is up to the caller: METADATA and the built-ins for YAML read them by two
different versions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from doorward.base.records import mutable
from doorward.rego.golang.yaml_scanner import loader_class

__all__ = [
    "Node",
    "YamlError",
    "compose",
    "compose_fast",
    "compose_slow",
    "compose_yaml",
    "go_syntax",
]

_CORE: Final = "tag:yaml.org,2002:"


class YamlError(Exception):
    """The text is not valid YAML, or uses something that is refused; the message is that of OPA's
    library.
    """


@mutable(eq=False)
class Node:
    """One YAML node. `kind` is scalar, sequence, mapping or alias; `value` a text, a list of nodes,
    a list of pairs of nodes, or the node that an alias refers to. `tag` is the tag as written, core
    tags as `!!int`, or ""; for an alias it is the anchor's name. `plain`: a scalar without quotes.
    `line` counts from 1.
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


def compose(text: str, *, is_old: bool = False) -> Node | None:
    """Parse the first document of `text` to nodes; None if there is none. YamlError, in the words
    of Go's library, if it is invalid. With `is_old`, as version 2 of that library, a bare `!` is
    the tag `!!str`, and an error has the line of the problem; otherwise as version 3, a bare `!`
    has no tag, and an error has the line where its context begins.
    """
    node = compose_fast(text)
    return compose_slow(text, is_old=is_old) if node is None else node


def compose_slow(text: str, *, is_old: bool = False) -> Node | None:
    """Parse the first document of `text` to nodes by the corrected parser in Python; None if there
    is none. YamlError, in the words of Go's library, if it is invalid. With `is_old`, as version 2
    of that library, a bare `!` is the tag `!!str`, and an error has the line of the problem;
    otherwise as version 3, a bare `!` has no tag, and an error has the line where its context
    begins.
    """
    import yaml  # only policies that use YAML need it

    try:
        loader = loader_class()(text)
        try:
            return _Composer(loader, is_old=is_old).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        is_scanner = isinstance(error, yaml.scanner.ScannerError)
        marks = [error.context_mark, error.problem_mark]
        # As `fail` in Go's library: line 0 counts as no mark, and of lines only the scanner's are
        # counted from 1.
        lines = [mark.line for mark in marks if mark is not None and mark.line]
        position = ""
        if lines:
            position = f"line {lines[-1 if is_old else 0] + is_scanner}: "
        raise YamlError(f"yaml: {position}{_message_of(error)}") from None
    except yaml.reader.ReaderError:
        raise YamlError("yaml: control characters are not allowed") from None
    except (ValueError, OverflowError):  # of `chr`
        raise YamlError("yaml: found invalid Unicode character escape code") from None


# libyaml reads a text in a tenth of the time. It agrees with the parser above on texts without the
# parts below, as tests show; errors and empty texts are left to that parser.

_NOT_SHARED: Final = re.compile(r"[^\n -~]|!|[|>][-+0-9]*#|\\[/']|%YAML|[\[{] *[\]}] *[^\s,\]}]")


_DEEPEST: Final = 100
"""The most open collections for libyaml; deeper texts go to the parser in Python. libyaml visits
each open bracket for every token, so its time grows with the square of the depth. It reads at most
a kilobyte further than the event that it returns.
"""


def _is_shared(text: str) -> bool:
    """Return True if libyaml reads the text in the same way, if it reads it at all."""
    # In brackets Go's library takes each `?` for an indicator, and newer ones of libyaml do not.
    has_mark = "?" in text and ("[" in text or "{" in text)
    return not has_mark and not _NOT_SHARED.search(text)


def compose_fast(text: str) -> Node | None:
    """Parse the first document of `text` to nodes by libyaml. None if libyaml is not installed,
    cannot parse the text, finds no document, or might read it in another way; then `compose_slow`
    decides.
    """
    import yaml

    if not yaml.__with_libyaml__ or not _is_shared(text):
        return None
    cyaml: Any = yaml.cyaml
    parser = cyaml.CParser(text)
    try:
        # For either version: they differ in a bare `!`, which is not shared, and in errors, left to
        # the other.
        return _Composer(parser, is_old=True, deepest=_DEEPEST).document()
    except (yaml.YAMLError, YamlError):
        return None
    finally:
        parser.dispose()


def compose_yaml(text: str) -> list[Any]:
    """Parse all documents of `text` to PyYAML's nodes, with the tags of YAML 1.1: by libyaml if it
    reads the text in the same way, otherwise, and for errors, by the corrected parser in Python.
    PyYAML's YAMLError if it is invalid, RecursionError if it is nested too deeply for Python.
    """
    import yaml

    if yaml.__with_libyaml__ and _is_shared(text):
        cyaml: Any = yaml.cyaml
        try:
            return list(yaml.compose_all(text, _node_loader(cyaml.CParser)))
        except yaml.YAMLError:
            pass
    return list(yaml.compose_all(text, _node_loader(loader_class())))


@lru_cache(maxsize=2)
def _node_loader(parser: Any) -> Any:
    """Return a loader class for PyYAML that builds nodes in Python from the events of `parser`."""
    import yaml.composer
    import yaml.resolver

    class Loader(yaml.composer.Composer, parser, yaml.resolver.Resolver):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            parser.__init__(self, text)
            yaml.composer.Composer.__init__(self)
            yaml.resolver.Resolver.__init__(self)

    return Loader


def _message_of(error: Any) -> str:
    """Return the message of PyYAML's error in libyaml's words, without `yaml:` and the line;
    PyYAML's own text if these are not known.
    """
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
        (r"^expected a digit, .*", "did not find expected version number"),
        (r"^expected (?:the )?(.*), but (?:got|found) .*", r"did not find expected \1"),
        (r"^found character '.*' that", "found character that"),
        (r"^found unknown escape character .*", "found unknown escape character"),
        (r"^found incompatible YAML document .*", "found incompatible YAML document"),
        (r"^found unexpected document separator", "found unexpected document indicator"),
        (r"^found duplicate YAML directive", "found duplicate %YAML directive"),
        (r"^duplicate tag handle .*", "found duplicate %TAG directive"),
        (r"^found undefined tag handle .*", "found undefined tag handle"),
        (r"^sequence entries are not allowed here", "block sequence entries are not allowed here"),
        (r"not allowed here$", "not allowed in this context"),
    )
)


class _Composer:
    """Builds nodes from parser events without recursion. `deepest` bounds the open collections;
    code that walks the nodes must limit the nesting itself.
    """

    def __init__(self, loader: Any, *, is_old: bool, deepest: float = math.inf) -> None:
        self.loader = loader
        self.deepest = deepest
        self.is_old = is_old
        self.anchors: dict[str, Node] = {}
        self.open: list[Node] = []
        self.root: Node | None = None

    def document(self) -> Node | None:
        """Build the nodes of the first document and return the root; None if there is none.
        YamlError for a version other than YAML 1.1, an unknown anchor, or more than `deepest` open
        collections; PyYAML's errors for invalid text.
        """
        import yaml

        self.loader.get_event()  # the start of the stream
        start = self.loader.get_event()
        if isinstance(start, yaml.StreamEndEvent):
            return None
        if start.version not in (None, (1, 1)):
            raise YamlError("yaml: found incompatible YAML document")
        get_event = self.loader.get_event
        scalar: Any = yaml.ScalarEvent
        while True:
            event = get_event()
            if type(event) is scalar and event.anchor is None and not event.tag:
                # What most events are.
                line = event.start_mark.line + 1
                self._put(Node("scalar", "", event.value, line, not event.style))
            elif isinstance(event, yaml.DocumentEndEvent):
                return self.root
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
            else:
                self._add(event, yaml)

    def _add(self, event: Any, yaml: Any) -> None:
        """Add the node that an event begins to the open collection, or as the root. A mapping or
        sequence stays open; an anchor names its node for later aliases. Tags of YAML's core schema
        are shortened to `!!…`; a tag `!` is dropped unless `is_old`. YamlError for an alias of an
        unknown anchor or for more than `deepest` open collections.
        """
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            target = self.anchors.get(event.anchor)
            if target is None:
                raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
            self._put(Node("alias", event.anchor, target, line))
            return
        tag: str = event.tag or ""
        if tag == "!":
            tag = "!" if self.is_old else ""
        elif tag.startswith(_CORE):
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
            if len(self.open) > self.deepest:
                raise YamlError(f"yaml: nests deeper than {self.deepest} levels")

    def _put(self, node: Node) -> None:
        """Add a node to the innermost open collection, or as the root."""
        if self.open:
            self.open[-1].value.append(node)
        else:
            self.root = node

    def _close(self) -> None:
        """Close the innermost open collection; the nodes of a mapping become pairs of key and
        value.
        """
        node = self.open.pop()
        if node.kind == "mapping":
            parts = iter(node.value)
            node.value = list(zip(parts, parts, strict=True))


def go_syntax(
    node: Node, resolve: Callable[[Node], Any], is_text_map: Callable[[Node], bool]
) -> str:
    """Return a node as Go's `%#v` prints it, for errors. `resolve` returns the value of a scalar;
    `is_text_map` says which mappings have the Go type `map[string]…`.
    """
    node = node.target
    if node.kind == "sequence":
        items = [go_syntax(item, resolve, is_text_map) for item in node.value]
        return "[]interface {}{" + ", ".join(items) + "}"
    if node.kind == "mapping":
        pairs = sorted(
            f"{go_syntax(key, resolve, is_text_map)}:{go_syntax(value, resolve, is_text_map)}"
            for key, value in node.value
        )
        kind = "string" if is_text_map(node) else "interface {}"
        return f"map[{kind}]interface {{}}{{" + ", ".join(pairs) + "}"
    value = resolve(node)
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
