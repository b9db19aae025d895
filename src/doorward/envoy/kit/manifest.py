"""Documents become YAML files with comments, texts in them as readable blocks.

Serves manifests only: mappings with text keys, lists, text, numbers, booleans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from doorward.envoy.kit.explained_yaml import explain

__all__ = ["Text", "write_manifest"]

_MARK: Final = "TEXT_"


class Text(str):
    """A multi-line text that is written as a YAML block: the content of a file."""

    __slots__ = ()


def write_manifest(
    documents: Sequence[Mapping[str, Any]], why: Mapping[str, str], head: Sequence[str] = ()
) -> str:
    """Return documents as one YAML text; `why` has comments by `key` or `parent.key`, `head` the
    first comment lines.
    """
    lines = [f"# {line}" for line in head]
    for number, document in enumerate(documents):
        lines += ["---"] if number else []
        texts: list[Text] = []
        for line in explain(_mark(document, texts), why):
            lines += _expand(line, texts)
    return "\n".join([*lines, ""])


def _mark(value: Any, texts: list[Text]) -> Any:
    """Return a copy of a document in which each `Text` is appended to `texts` and replaced by a
    mark with its index there.
    """
    match value:
        case Text():
            texts.append(value)
            return f"{_MARK}{len(texts) - 1}"
        case dict():
            return {key: _mark(item, texts) for key, item in value.items()}
        case list():
            return [_mark(item, texts) for item in value]
        case _:
            return value


def _expand(line: str, texts: Sequence[Text]) -> Iterator[str]:
    """Yield a line of YAML; a line that ends with a mark becomes a key with the text as its
    block.
    """
    head, mark, number = line.partition(f": {_MARK}")
    if not mark:
        yield line
        return
    text = texts[int(number)]
    pad = " " * (len(head) - len(head.lstrip(" -")) + 2)
    # The depth is said, since a text may begin with spaces.
    yield f"{head}: |2{_chomping(text)}"
    for part in text.removesuffix("\n").split("\n"):
        yield f"{pad}{part}" if part else ""


def _chomping(text: str) -> str:
    """Return YAML's chomping indicator: `-` without a final newline, `+` for several, "" for
    one.
    """
    if not text.endswith("\n"):
        return "-"
    return "+" if text.endswith("\n\n") else ""
