"""Keys of the configuration, each declared once: its type, bounds, default and meaning.

A section of the file is a record. A field made with `option` is a key of it:

    @record
    class Server:
        max_length: int = option("decoding.max_length", integer(1), 256 << 20, "bytes of a body")

    read_section(Server, block, warnings) -> Server

The reader, the warnings of unknown keys, the page `docs/configuration.md` and the JSON Schema for
editors are derived from that. Conditions between keys stand in `check_keys` of the class, which
gets the block, or in its `__post_init__`, which raises `OptionError`. Fields without `option` are
for what completes the section from other sections.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Final, Generic, TypeVar, cast

from doorward.base.records import record
from doorward.config.blocks import Block, ConfigError

__all__ = [
    "BLOCK",
    "DOCUMENT",
    "INCREASING",
    "OBJECT",
    "SWITCH",
    "TEXT",
    "TEXTS",
    "TEXT_MAP",
    "Kind",
    "Option",
    "OptionError",
    "choice",
    "convert",
    "inline",
    "integer",
    "json_schema",
    "named",
    "nonempty",
    "number",
    "option",
    "optional",
    "options_of",
    "positive_or",
    "read_plain",
    "read_section",
    "section",
    "text_or",
    "texts_as",
    "walk",
]

S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")

_OPTION: Final = "option"
_LINK: Final = re.compile(r"\[([^\[\]]{0,100})\]\([^()]{0,200}\)")
_VARIABLE: Final[Mapping[str, object]] = {"type": "string", "pattern": r"\$\{[^}]+\}"}
"""What may stand in place of a value that is not a text."""


class OptionError(ValueError):
    """A value that cannot be used; `name` is its field in the section."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


@record
class Kind(Generic[T]):
    """A type of values: how one is read, what tables and editors say of it."""

    read: Callable[[Block, str, list[str]], T]
    """Returns the value at a key of a block; ConfigError says with its position what is wrong."""
    text: str
    """For people: `integer from 1`."""
    schema: Mapping[str, Any]
    """The JSON Schema of a value, without its keys where it is an object with declared ones."""
    below: type | None = None
    """The section whose keys stand below the key."""
    is_named: bool = False
    """Whether names that users choose stand between the key and those of `below`."""
    is_listed: bool = False
    """Whether a list of objects may stand in place of objects by name."""


@record
class Option:
    """One key of a section."""

    key: str
    """Its path below the section, dots between; "" for `inline`, whose keys are the section's."""
    kind: Kind[Any]
    default: object
    text: str
    """What it means, in Markdown; "" where the keys below it say that."""
    is_opa: bool
    is_reloadable: bool
    """Whether a changed value is followed while the server runs."""


def option(
    key: str,
    kind: Kind[T],
    default: T,
    text: str = "",
    *,
    is_opa: bool = True,
    is_reloadable: bool = False,
    is_secret: bool = False,
) -> T:
    """Declare a field as the key of a section. `is_secret`: its value is in no `repr`."""
    metadata = {_OPTION: Option(key, kind, default, text, is_opa, is_reloadable)}
    values: Any = {"default": default}
    if isinstance(default, dict):
        values = {"default_factory": default.copy}
    return cast("T", field(metadata=metadata, repr=not is_secret, **values))


def options_of(section_class: type) -> Mapping[str, Option]:
    """Return the keys of a section by the names of their fields."""
    return {
        each.name: each.metadata[_OPTION]
        for each in fields(section_class)
        if _OPTION in each.metadata
    }


def read_section(
    section_class: type[S],
    block: Block,
    warnings: list[str],
    values: Mapping[str, Any] | None = None,
) -> S:
    """Read a block as a section. Warnings name the keys that it does not have.

    `values`: fields that are not keys. ConfigError for what cannot be used.
    """
    _warn_of_unknown(block, _own_keys(section_class), warnings)
    return _build(section_class, block, warnings, dict(values or {}))


def _build(section_class: type[S], block: Block, warnings: list[str], values: dict[str, Any]) -> S:
    """Create a section from its block; `values` are set already.

    Keys that are absent or null get their defaults.
    """
    check = getattr(section_class, "check_keys", None)
    if check is not None:
        check(block)
    options = options_of(section_class)
    for name, each in options.items():
        if not each.key:
            values[name] = each.kind.read(block, "", warnings)
            continue
        inner, key = _at(block, each.key)
        if inner.values.get(key) is not None:
            values[name] = each.kind.read(inner, key, warnings)
    try:
        return section_class(**values)
    except OptionError as error:
        inner, key = _at(block, options[error.name].key)
        raise ConfigError(refusal(inner, key, error.message)) from None


def read_plain(section_class: type[S], values: Mapping[str, object]) -> tuple[S, tuple[str, ...]]:
    """Read plain values as a section; the warnings beside it."""
    warnings: list[str] = []
    return read_section(section_class, Block.of(values), warnings), tuple(warnings)


def refusal(block: Block, key: str, message: str) -> str:
    """Return the line that says what is wrong with the value of a key, and where it stands."""
    return block.location(key) + (message if message.startswith(":") else f" {message}")


def _at(block: Block, path: str) -> tuple[Block, str]:
    """The block and the last key of a dotted path."""
    *parents, key = path.split(".")
    for parent in parents:
        block = block.block(parent)
    return block, key


def _own_keys(section_class: type) -> Sequence[str]:
    """The keys of a section, with those of sections that share its block."""
    keys: list[str] = []
    for each in options_of(section_class).values():
        if each.key:
            keys.append(each.key)
        elif each.kind.below is not None:
            keys += _own_keys(each.kind.below)
    return keys


def _warn_of_unknown(block: Block, keys: Iterable[str], warnings: list[str]) -> None:
    """Add a warning for each key of the block that is not among the dotted `keys`."""
    below: dict[str, list[str]] = {}
    for key in keys:
        head, _, rest = key.partition(".")
        below.setdefault(head, []).extend([rest] if rest else [])
    warnings += block.unknown(list(below))
    for head, rest_ in below.items():
        if rest_:
            _warn_of_unknown(block.block(head), rest_, warnings)


def convert(of: type[V], change: Callable[[V], T], text: str, schema: Mapping[str, Any]) -> Kind[T]:
    """The kind of configuration value that `change` computes from a plain one of type `of`.

    A ValueError of `change` becomes the message of a `ConfigError`.
    """

    def read(block: Block, key: str, _warnings: list[str]) -> T:
        """Read the value and convert it; a ValueError becomes a `ConfigError` with its location."""
        value = cast("V", block.get(key, cast("type[object]", of), None))
        try:
            return change(value)
        except ValueError as error:
            raise ConfigError(refusal(block, key, str(error))) from None

    is_text = schema.get("type") in ("string", "object")
    return Kind(read, text, schema if is_text else {"anyOf": [schema, _VARIABLE]})


def integer(least: int | None = None, most: int | None = None, *, message: str = "") -> Kind[int]:
    """Return the kind of the integers from `least` to `most`."""
    expected = message or _bounds(least, most)

    def change(value: int) -> int:
        if (least is not None and value < least) or (most is not None and value > most):
            raise ValueError(expected if message else f"{expected} but is {value}")
        return value

    schema: dict[str, Any] = {"type": "integer"}
    if least is not None:
        schema["minimum"] = least
    if most is not None:
        schema["maximum"] = most
    return convert(int, change, _in_words("integer", least, most), schema)


def number(
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = math.inf,
    message: str = "",
) -> Kind[float]:
    """Return the kind of the numbers above one, or from one, to another. `message`: of others, as
    `{value}`."""
    first = f"above {above:g}" if above is not None else f"{least:g}" if least is not None else ""
    expected = f"must be from {first} to {most:g}" if math.isfinite(most) else f"must be {first}"
    if least == 0 and not math.isfinite(most):
        expected = "must not be negative"

    def change(value: float) -> float:
        """Return the number; raise ValueError if it is out of bounds or not a number."""
        is_low = above is not None and not value > above
        if is_low or (least is not None and not value >= least) or not value <= most:
            raise ValueError(
                message.format(value=value) if message else f"{expected} but is {value:g}"
            )
        return value

    schema: dict[str, Any] = {"type": "number"}
    if above is not None:
        schema["exclusiveMinimum"] = above
    if least is not None:
        schema["minimum"] = least
    if math.isfinite(most):
        schema["maximum"] = most
    bounds = [f"from {first}" if least is not None else first] if first else []
    bounds += [f"to {most:g}"] if math.isfinite(most) else []
    return convert(float, change, " ".join(["number", *bounds]), schema)


def _bounds(least: int | None, most: int | None) -> str:
    if most is not None:
        return f"must be from {least or 0} to {most}"
    return "must be greater than 0" if least == 1 else "must not be negative"


def _in_words(kind: str, least: int | None, most: int | None) -> str:
    first = [] if least is None else [f"from {least}"]
    return " ".join([kind, *first, *([] if most is None else [f"to {most}"])])


def choice(*values: T, message: str = "") -> Kind[T]:
    """Return the kind of some values (texts or integers). `message`: of another one, as `{value}`.
    "" among texts is not offered, and stands for the first."""
    offered = [value for value in values if value != ""]
    listed = ", ".join(f"`{value}`" for value in offered[:-1]) + f" or `{offered[-1]}`"
    expected = message or f"must be {listed} but is `{{value}}`"

    def change(value: T) -> T:
        """Return the known value that equals `value`; raise ValueError if there is none."""
        for known in values:
            if value == known:
                return known
        raise ValueError(expected.format(value=value))

    of: Any = type(values[0])
    kind = "string" if of is str else "integer"
    return convert(of, change, listed, {"type": kind, "enum": list(values)})


def nonempty(
    noun: str = "", *, pattern: re.Pattern[str] | None = None, message: str = ""
) -> Kind[str]:
    """Return the kind of the texts that are not empty, or match a pattern as a whole."""
    expected = message or f"must be {noun}" if noun or message else "must not be empty"

    def change(value: str) -> str:
        if not value.strip() or (pattern is not None and not pattern.fullmatch(value)):
            raise ValueError(expected)
        return value

    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if pattern is not None:
        schema["pattern"] = f"^(?:{pattern.pattern})$"
    return convert(str, change, noun or "text", schema)


def _increasing(values: list[Any]) -> tuple[float, ...]:
    """Return the numbers; raise ValueError unless they are finite and increase."""
    numbers = [float(each) for each in values if type(each) in (int, float)]
    is_finite = bool(numbers) and all(map(math.isfinite, numbers))
    if len(numbers) < len(values) or numbers != sorted(set(numbers)) or not is_finite:
        raise ValueError("must be numbers that increase")
    return tuple(numbers)


def texts_as(change: Callable[[tuple[str, ...]], T], text: str) -> Kind[T]:
    """Return the kind of values that `change` makes of lists of texts, as `convert` does."""

    def read(values: list[Any]) -> T:
        if not all(isinstance(each, str) for each in values):
            raise ValueError("must be a list of strings")
        return change(tuple(values))

    return convert(list, read, text, {"type": "array", "items": {"type": "string"}})


def _read_texts_by_name(block: Block, key: str, _warnings: list[str]) -> Mapping[str, str]:
    inner = block.block(key)
    return {name: inner.get(name, str, "") for name in inner.values}


SWITCH: Final[Kind[bool]] = convert(bool, bool, "true or false", {"type": "boolean"})
TEXT: Final[Kind[str]] = convert(str, str, "text", {"type": "string"})
DOCUMENT: Final[Kind[str]] = convert(
    str, lambda value: value.strip("/"), "path of a document", {"type": "string"}
)
TEXTS: Final[Kind[tuple[str, ...]]] = texts_as(lambda texts: texts, "list of texts")
INCREASING: Final[Kind[tuple[float, ...]]] = convert(
    list, _increasing, "increasing numbers", {"type": "array", "items": {"type": "number"}}
)
TEXT_MAP: Final[Kind[Mapping[str, str]]] = Kind(
    _read_texts_by_name,
    "texts by name",
    {"type": "object", "additionalProperties": {"type": "string"}},
)
OBJECT: Final[Kind[Mapping[str, object]]] = Kind(
    lambda block, key, _warnings: block.block(key).plain(), "object", {"type": "object"}
)
BLOCK: Final[Kind[Block | None]] = Kind(
    lambda block, key, _warnings: block.block(key), "object", {"type": "object"}
)
"""What another room reads."""


def positive_or(default: int) -> Kind[int]:
    """Return the kind of integers of which those below 1 stand for `default`, as in OPA."""
    return convert(
        int, lambda value: value if value > 0 else default, "integer", {"type": "integer"}
    )


def text_or(default: str) -> Kind[str]:
    """Return the kind of texts of which the empty one stands for `default`, as in OPA."""
    return convert(str, lambda value: value or default, "text", {"type": "string"})


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Return `kind` for a key that has no value where it is missing."""
    return cast("Kind[T | None]", kind)


def section(section_class: type[S]) -> Kind[S]:
    """Return the kind of objects with the keys of a section."""

    def read(block: Block, key: str, warnings: list[str]) -> S:
        return read_section(section_class, block.block(key), warnings)

    return Kind(read, "object", {"type": "object"}, section_class)


def inline(section_class: type[S]) -> Kind[S]:
    """Return the kind of a section whose keys stand in the same object as those of another."""

    def read(block: Block, _key: str, warnings: list[str]) -> S:
        return _build(section_class, block, warnings, {})

    return Kind(read, "", {"type": "object"}, section_class)


def named(section_class: type[S], *, skips_null: bool = False) -> Kind[Mapping[str, S]]:
    """Return the kind of sections by names that users choose; a field `name` gets the name, where
    it is not a key."""
    names = {each.name for each in fields(section_class)}  # type: ignore[arg-type]
    has_name = "name" in names - options_of(section_class).keys()

    def read(block: Block, key: str, warnings: list[str]) -> Mapping[str, S]:
        """Read an object whose values are sections, by name."""
        below = block.block(key)
        return {
            name: read_section(
                section_class, below.block(name), warnings, {"name": name} if has_name else None
            )
            for name, value in below.values.items()
            if value is not None or not skips_null
        }

    return Kind(read, "objects by name", {"type": "object"}, section_class, is_named=True)


def walk(section_class: type, path: str = "") -> Iterator[tuple[str, Option]]:
    """Yield the options of a section and of those below it, each with its whole path; `NAME`
    stands for names that users choose."""
    for each in options_of(section_class).values():
        path_of_option = ".".join(filter(None, [path, each.key]))
        if each.key:
            yield path_of_option, each
        if each.kind.below is not None:
            yield from walk(
                each.kind.below, f"{path_of_option}.NAME" if each.kind.is_named else path_of_option
            )


def json_schema(section_class: type, parts: Mapping[str, type] | None = None) -> dict[str, Any]:
    """Return the JSON Schema of a section. `parts`: the sections that other rooms read, by the
    path of their blocks."""
    properties: dict[str, Any] = {}
    _fill(properties, section_class, parts or {})
    return _object(properties)


def _fill(properties: dict[str, Any], section_class: type, parts: Mapping[str, type]) -> None:
    """Add the schemas of a section's keys to `properties`, nested as the dotted keys are."""
    for each in options_of(section_class).values():
        if not each.key:
            assert each.kind.below is not None
            _fill(properties, each.kind.below, parts)
            continue
        *parents, key = each.key.split(".")
        inside = properties
        for parent in parents:
            inside = inside.setdefault(parent, _object({}))["properties"]
        inside[key] = _schema_of(each, parts)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these properties and no others; null is allowed."""
    return {
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
    }


def _schema_of(each: Option, parts: Mapping[str, type]) -> dict[str, Any]:
    """The JSON schema of an option, with its description and default."""
    schema: dict[str, Any] = dict(each.kind.schema)
    if each.kind.below is not None:
        inner = json_schema(each.kind.below)
        schema = inner
        if each.kind.is_named:
            schema = {"type": ["object", "null"], "additionalProperties": inner}
        if each.kind.is_listed:
            schema = {"anyOf": [schema, {"type": "array", "items": inner}]}
    properties = {
        path.partition(".")[2]: json_schema(part)
        for path, part in parts.items()
        if path.partition(".")[0] == each.key
    }
    if properties:
        schema = _object(properties)
    if each.text:
        schema["description"] = _LINK.sub(r"\1", each.text)
    if isinstance(each.default, (bool, int, float, str)) and each.default != "":
        schema["default"] = each.default
    return schema
