"""The options of a command line, read as the command would read them.

`read_options` follows the rules of Go's pflag, with which `docker` is written: options end at the
first word that is none, short ones may be joined (`-it`, `-p80:80`), and a switch takes a value
only behind an equals sign. An option that is not in the table is refused: nobody can say what it
would have meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

__all__ = ["CommandError", "Options", "Setter", "read_options"]

Setter: TypeAlias = Callable[[Any, str], None]
"""Stores the value of an option in the state of a command; raises CommandError for an invalid
value."""
Options: TypeAlias = Mapping[str, Setter]
"""The setter of each option, by its name with its dashes; a switch is in `switches`."""
_NONE: Final[Options] = MappingProxyType({})
_SWITCHED: Final = {"": True, "1": True, "true": True, "0": False, "false": False}


class CommandError(ValueError):
    """A command line of `docker` that cannot be read; the message says why in one line."""


def read_options(
    words: Sequence[str],
    values: Options,
    switches: Options,
    state: Any,
    command: str,
    *,
    turned_off: Options = _NONE,
) -> list[str]:
    """Read the options at the beginning of `words` into `state`; return the remaining words.

    `values` are options with a value and `switches` those without; `turned_off` has setters for
    switches followed by `=false`, which is ignored for other switches. `--` ends the options, and
    `-` alone is not one. Raise CommandError for an unknown option, and for a missing or invalid
    value.
    """
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word.partition("=")
        else:
            name, equals, value = word[:2], "", word[2:]
            if value.startswith("="):
                equals, value = "=", value[1:]
        if name in switches:
            if value and not equals:
                # `-it`: the next switch of the same word.
                left.insert(0, f"-{value}")
                value = ""
            if value not in _SWITCHED:
                raise CommandError(f"`{name}` must be true or false, not `{value}`")
            if _SWITCHED[value]:
                _set(switches, name, state, "")
            elif name in turned_off:
                _set(turned_off, name, state, "")
        elif name in values:
            if not value and not equals:
                if not left:
                    raise CommandError(f"`{name}` needs a value")
                value = left.pop(0)
            _set(values, name, state, value)
        else:
            raise CommandError(f"the option `{name}` of `{command}` is not supported: leave it out")
    return left


def _set(setters: Options, name: str, state: Any, value: str) -> None:
    """Set an option's value in `state`; the message of a CommandError begins with its name."""
    try:
        setters[name](state, value)
    except CommandError as error:
        raise CommandError(f"`{name}`: {error}") from None
