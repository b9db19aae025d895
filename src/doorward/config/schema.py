"""Keys of the configuration, each declared once with type, bounds, default and description.

A section of the file is a record. A field made with `option` is a key of it:

    @record
    class Server:
        max_length: int = option("decoding.max_length", integer(1), 256 << 20, "bytes of a body")

    read_section(Server, block, warnings) -> Server

The reader, the warnings about unknown keys, the page `docs/configuration.md` and the JSON Schema
for editors are derived from these declarations. Conditions between keys are in `check_keys` of the
class, which gets the block, or in its `__post_init__`, which raises `OptionError`. Fields without
`option` are not keys; they are filled later, from other sections.
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
    "DOCUMENT_PATH",
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
"""The JSON Schema of `${VAR}`, which is allowed for values that are not texts."""


class OptionError(ValueError):
    """A value that cannot be used; `name` is the field of the section. `read_section` turns it into
    a ConfigError with the location.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


@record
class Kind(Generic[T]):
    """A type of configuration values: how a value is read, and how tables and editors describe
    it.
    """

    read: Callable[[Block, str, list[str]], T]
    """Returns the value at a key of a block; raises ConfigError, with the location, if it is not
    valid. The list collects warnings.
    """
    text: str
    """The kind in words: `integer from 1`."""
    schema: Mapping[str, Any]
    """The JSON Schema of a value; the keys of `below` are added to it."""
    below: type | None = None
    """The section class of the value, if it is an object with declared keys."""
    is_named: bool = False
    """True if the value is an object with names that users choose, each with a section `below`."""
    is_listed: bool = False
    """True if a list of objects is accepted in place of objects by name."""


@record
class Option:
    """One key of a section."""

    key: str
    """The dotted path of the key in its section; "" for `inline`, whose keys are in the section
    itself.
    """
    kind: Kind[Any]
    default: object
    text: str
    """The description in Markdown; "" if the keys below it are described."""
    is_opa: bool
    is_reloadable: bool
    """True if a new value takes effect without a restart."""


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
    """Declare a field of a section as a key. `text` describes it in Markdown; `is_opa`: OPA has the
    key too; `is_reloadable`: a change takes effect without a restart; `is_secret` keeps its value
    out of `repr`.
    """
    metadata = {_OPTION: Option(key, kind, default, text, is_opa, is_reloadable)}
    values: Any = {"default": default}
    # A dataclass refuses a dict, which all its instances would share.
    if isinstance(default, dict):
        values = {"default_factory": default.copy}
    return cast("T", field(metadata=metadata, repr=not is_secret, **values))


def options_of(section_class: type) -> Mapping[str, Option]:
    """Return the options of a section by the names of their fields, in order; fields that are not
    keys are left out.
    """
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
    """Read a block as a section; unknown keys are added to `warnings`. `values` sets fields that
    are not keys.

    Raise ConfigError, with file and line, for a value that cannot be used.
    """
    _warn_of_unknown(block, _own_keys(section_class), warnings)
    return _build(section_class, block, warnings, dict(values or {}))


def _build(section_class: type[S], block: Block, warnings: list[str], values: dict[str, Any]) -> S:
    """Create a section: read each of its keys from the block and add it to `values`, which already
    has the fields that are not keys. Keys that are absent or null get their defaults. Raise
    ConfigError for a value that cannot be used.
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
    """Read plain values as a section; return it with the warnings. Raise ConfigError for a value
    that cannot be used.
    """
    warnings: list[str] = []
    return read_section(section_class, Block.of(values), warnings), tuple(warnings)


def refusal(block: Block, key: str, message: str) -> str:
    """Return the message for the value of a key, with its location in front."""
    return block.location(key) + (message if message.startswith(":") else f" {message}")


def _at(block: Block, path: str) -> tuple[Block, str]:
    """Return the block and the last key of a dotted path; the block is empty if it is missing or
    null. Raise ConfigError if a value on the path is not an object.
    """
    *parents, key = path.split(".")
    for parent in parents:
        block = block.block(parent)
    return block, key


def _own_keys(section_class: type) -> Sequence[str]:
    """Return the dotted keys of a section, with those of sections that share its block."""
    keys: list[str] = []
    for each in options_of(section_class).values():
        if each.key:
            keys.append(each.key)
        elif each.kind.below is not None:
            keys += _own_keys(each.kind.below)
    return keys


def _warn_of_unknown(block: Block, keys: Iterable[str], warnings: list[str]) -> None:
    """Add a warning for each key of the block, also below it, that is not among the dotted
    `keys`.
    """
    below: dict[str, list[str]] = {}
    for key in keys:
        head, _, rest = key.partition(".")
        below.setdefault(head, []).extend([rest] if rest else [])
    warnings += block.unknown(list(below))
    for head, rest_ in below.items():
        if rest_:
            _warn_of_unknown(block.block(head), rest_, warnings)


def convert(of: type[V], change: Callable[[V], T], text: str, schema: Mapping[str, Any]) -> Kind[T]:
    """Return the kind of a key whose value has the type `of` in the file and is converted by
    `change`.

    A ValueError of `change` becomes a ConfigError with its message. `text` describes such values
    for people, `schema` is their JSON Schema.
    """

    def read(block: Block, key: str, _warnings: list[str]) -> T:
        """Read the value and convert it; raise ConfigError with its location if it is not valid."""
        value = cast("V", block.get(key, cast("type[object]", of), None))
        try:
            return change(value)
        except ValueError as error:
            raise ConfigError(refusal(block, key, str(error))) from None

    is_text = schema.get("type") in ("string", "object")
    return Kind(read, text, schema if is_text else {"anyOf": [schema, _VARIABLE]})


def integer(least: int | None = None, most: int | None = None, *, message: str = "") -> Kind[int]:
    """Return the kind of the integers from `least` to `most`, both included; None means unbounded.
    `message` replaces the text of the error.
    """
    expected = message or _bounds(least, most)

    def change(value: int) -> int:
        """Return the integer; raise ValueError if it is out of bounds."""
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
    """Return the kind of the numbers, integers included, within bounds: greater than `above` or at
    least `least`, of which one at most is set, and at most `most`. Without bounds all numbers but
    NaN are valid. `message` replaces the text of the error; `{value}` in it is the value.
    """
    first = f"above {above:g}" if above is not None else f"{least:g}" if least is not None else ""
    expected = f"must be {first}"
    if math.isfinite(most):
        between = f"{first} and at most" if above is not None else f"from {first} to"
        expected = f"must be {between} {most:g}"
    if least == 0 and not math.isfinite(most):
        expected = "must not be negative"

    def change(value: float) -> float:
        """Return the number; raise ValueError if it is out of bounds or NaN."""
        # `not value > above` and not `value <= above`: NaN must not pass.
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
    """Return the text of the error for integers out of bounds."""
    if most is not None:
        return f"must be from {least or 0} to {most}"
    return "must be greater than 0" if least == 1 else "must not be negative"


def _in_words(kind: str, least: int | None, most: int | None) -> str:
    """Return the description of a kind: `integer from 1 to 10`."""
    first = [] if least is None else [f"from {least}"]
    return " ".join([kind, *first, *([] if most is None else [f"to {most}"])])


def choice(*values: T, message: str = "") -> Kind[T]:
    """Return the kind of the listed values, which are texts or integers. `message` is the text of
    the error; `{value}` in it is replaced. "" is accepted if it is among them, but not offered.
    """
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
    """Return the kind of texts that are not blank and, with `pattern`, match it as a whole. The
    error of others is `message`, or "must be " and `noun`, or "must not be empty" without both;
    `noun` also describes such values for people.
    """
    expected = message or f"must be {noun}" if noun or message else "must not be empty"

    def change(value: str) -> str:
        """Return the text; raise ValueError if it is blank or does not match the pattern."""
        if not value.strip() or (pattern is not None and not pattern.fullmatch(value)):
            raise ValueError(expected)
        return value

    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if pattern is not None:
        schema["pattern"] = f"^(?:{pattern.pattern})$"
    return convert(str, change, noun or "text", schema)


def _increasing(values: list[Any]) -> tuple[float, ...]:
    """Return the numbers; raise ValueError unless there is at least one, and they are finite and
    increase.
    """
    numbers = [float(each) for each in values if type(each) in (int, float)]
    is_finite = bool(numbers) and all(map(math.isfinite, numbers))
    if len(numbers) < len(values) or numbers != sorted(set(numbers)) or not is_finite:
        raise ValueError(
            "must be a list of at least one finite number, each larger than the one before"
        )
    return tuple(numbers)


def texts_as(change: Callable[[tuple[str, ...]], T], text: str) -> Kind[T]:
    """Return the kind of a key whose value is a list of texts in the file and is converted by
    `change`; a ValueError of `change` becomes a ConfigError. `text` describes such values for
    people.
    """

    def read(values: list[Any]) -> T:
        """Return what `change` makes of the texts; raise ValueError if an item is not a text."""
        if not all(isinstance(each, str) for each in values):
            raise ValueError("must be a list of strings")
        return change(tuple(values))

    return convert(list, read, text, {"type": "array", "items": {"type": "string"}})


def _read_texts_by_name(block: Block, key: str, _warnings: list[str]) -> Mapping[str, str]:
    """Return the texts of an object by name; ConfigError for another value."""
    inner = block.block(key)
    return {name: inner.get(name, str, "") for name in inner.values}


def _refuse_root(value: str) -> str:
    """Return the path of a document; raise ValueError if it is the root or blank."""
    if not value.strip("/ "):
        raise ValueError("must be the path of a document below the root, such as a/b")
    return value


SWITCH: Final[Kind[bool]] = convert(bool, bool, "true or false", {"type": "boolean"})
TEXT: Final[Kind[str]] = convert(str, str, "text", {"type": "string"})
DOCUMENT: Final[Kind[str]] = convert(
    str, lambda value: value.strip("/"), "path of a document", {"type": "string"}
)
DOCUMENT_PATH: Final[Kind[str]] = convert(
    str, _refuse_root, "path of a document", {"type": "string", "pattern": "[^/]"}
)
"""The path of a document that answers one question, which all of `data` does not; it is returned
unchanged."""
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
"""A block that another room reads; it is returned unchanged."""


def positive_or(default: int) -> Kind[int]:
    """Return the kind of integers in which 0 and negative ones mean `default`, as in OPA."""
    return convert(
        int, lambda value: value if value > 0 else default, "integer", {"type": "integer"}
    )


def text_or(default: str) -> Kind[str]:
    """Return the kind of texts in which the empty one means `default`, as in OPA."""
    return convert(str, lambda value: value or default, "text", {"type": "string"})


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Return `kind` typed as optional, for a key whose default is None."""
    return cast("Kind[T | None]", kind)


def section(section_class: type[S]) -> Kind[S]:
    """Return the kind of objects with the keys of a section class; unknown keys are warnings."""

    def read(block: Block, key: str, warnings: list[str]) -> S:
        return read_section(section_class, block.block(key), warnings)

    return Kind(read, "object", {"type": "object"}, section_class)


def inline(section_class: type[S]) -> Kind[S]:
    """Return the kind of a section whose keys are in the same object as those of the section around
    it; its option has the key "".
    """

    def read(block: Block, _key: str, warnings: list[str]) -> S:
        return _build(section_class, block, warnings, {})

    return Kind(read, "", {"type": "object"}, section_class)


def named(section_class: type[S], *, skips_null: bool = False) -> Kind[Mapping[str, S]]:
    """Return the kind of an object whose keys are names that users choose and whose values are
    sections of `section_class`. A field `name` of the class that is not an option is set to the
    section's key. Null means a section of defaults; with `skips_null` such a name is left out.
    """
    names = {each.name for each in fields(section_class)}  # type: ignore[arg-type]
    has_name = "name" in names - options_of(section_class).keys()

    def read(block: Block, key: str, warnings: list[str]) -> Mapping[str, S]:
        """Read each value of an object as a section, by name; ConfigError if one is not valid."""
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
    """Yield pairs of full dotted path and option, for a section and the sections below it; `NAME`
    stands for names that users choose.
    """
    for each in options_of(section_class).values():
        path_of_option = ".".join(filter(None, [path, each.key]))
        if each.key:
            yield path_of_option, each
        if each.kind.below is not None:
            yield from walk(
                each.kind.below, f"{path_of_option}.NAME" if each.kind.is_named else path_of_option
            )


def json_schema(section_class: type, parts: Mapping[str, type] | None = None) -> dict[str, Any]:
    """Return the JSON Schema of a section. `parts` has the section classes of blocks inside of it
    that other packages define, such as those of plugins, by the path of each block.
    """
    properties: dict[str, Any] = {}
    _fill(properties, section_class, parts or {})
    return _object(properties)


def _fill(properties: dict[str, Any], section_class: type, parts: Mapping[str, type]) -> None:
    """Add the schemas of a section's keys to `properties`, nested as the dotted keys are. `parts`
    has the section classes of blocks that other packages define, by the path of each block.
    """
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
    """Return the JSON Schema of an object with these properties and no others; null is allowed."""
    return {
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
    }


def _schema_of(each: Option, parts: Mapping[str, type]) -> dict[str, Any]:
    """Return the JSON Schema of one option: that of its kind, or of the section below it, with its
    description, without links, and its default. `parts` are section classes by dotted path, such as
    `plugins.NAME`, of which those below this option replace its schema.
    """
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
