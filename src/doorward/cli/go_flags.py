"""A command line in any form that Go's pflag reads, rewritten to the one form that click reads.

OPA's commands are built on pflag, and scripts use every form of a flag that it accepts:

    --format json   --format=json   -f json   -fjson   -f=json   -Sf json
    --strict   --strict=true   -S   -S=0

click reads `-f=json` as the value `=json` and knows no value for a boolean flag. So the words are
read here by pflag's rules; each flag is passed on as `--name=value` or `--name`, and all operands
follow a `--`. Nothing else reads a flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import click

__all__ = ["CommandOfProgram", "rewrite_flags", "rewrite_subcommand"]

# What Go's strconv.ParseBool accepts.
_BOOLEANS: Final = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


class CommandOfProgram(click.Command):
    """A command whose operands may be the command line of another program, such as `docker run -it
    alpine`: after the operand `program`, all words are operands and none is an option of this
    command.
    """

    program = ""
    """The name of the program."""


def rewrite_flags(
    command: click.Command, ctx: click.Context, arguments: Sequence[str]
) -> list[str]:
    """Return the arguments of `command` in click's form: `-f=json` -> `--format=json`.

    The arguments of a group end at the name of its subcommand, whose own arguments follow. Raise
    UsageError for an unknown flag, or a value that is missing or not a boolean.
    """
    words = _Words(command, ctx, arguments)
    program = command.program if isinstance(command, CommandOfProgram) else ""
    flags, operands = words.read(interspersed=not isinstance(command, click.Group), program=program)
    if isinstance(command, click.Group) and operands:
        subcommand = command.get_command(ctx, operands[0])
        if subcommand is not None:
            rest = rewrite_subcommand(operands[0], subcommand, ctx, operands[1:])
            return [*flags, operands[0], *rest]
        return [*flags, *operands]
    return [*flags, "--", *operands] if operands else flags


def rewrite_subcommand(
    name: str, subcommand: click.Command, ctx: click.Context, arguments: Sequence[str]
) -> list[str]:
    """Return the arguments of a subcommand of the group `ctx` belongs to, in click's form.

    Raise UsageError for an unknown flag, or a value that is missing or not a boolean.
    """
    inner = click.Context(
        subcommand, info_name=name, parent=ctx, resilient_parsing=ctx.resilient_parsing
    )
    return rewrite_flags(subcommand, inner, arguments)


class _Words:
    """Reads the words of one command line from left to right, and rewrites its flags in click's
    form.
    """

    def __init__(self, command: click.Command, ctx: click.Context, words: Sequence[str]) -> None:
        self.ctx = ctx
        self.words = iter(words)
        self.options: dict[str, click.Option] = {}
        self.negations: dict[str, click.Option] = {}
        for option in command.get_params(ctx):
            if isinstance(option, click.Option):
                self.options |= dict.fromkeys(option.opts, option)
                self.negations |= dict.fromkeys(option.secondary_opts, option)
        help_option = command.get_help_option(ctx)
        if help_option is not None:
            # click keeps the names that the help had where it was first asked for.
            self.options |= dict.fromkeys(command.get_help_option_names(ctx), help_option)
        self.values: list[str] = []
        self.booleans: dict[str, tuple[click.Option, bool]] = {}

    def read(self, *, interspersed: bool, program: str = "") -> tuple[list[str], list[str]]:
        """Read all words; return the flags in click's form, and the operands in their order.

        Without `interspersed` the first operand ends the flags, as does `--`, which is dropped, or
        a first operand that equals `program`. Raise UsageError for an unknown flag, or a value that
        is missing or not a boolean, unless a shell completes the line.
        """
        operands: list[str] = []
        for word in self.words:
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                operands.append(word)
                if not interspersed or operands == [program]:
                    break
            elif word.startswith("--"):
                self._read_long(word)
            else:
                self._read_cluster(word)
        operands += self.words
        # Of a boolean flag that is given twice, the last value counts.
        return [*self.values, *self._booleans_written_out()], operands

    def _booleans_written_out(self) -> Iterator[str]:
        """Yield the boolean flags in click's form: `--flag` for a true one; `--no-flag` for a false
        one that has this form, else nothing.
        """
        for option, value in self.booleans.values():
            if value:
                yield _long_name(option)
            elif option.secondary_opts:
                yield option.secondary_opts[0]

    def _read_long(self, word: str) -> None:
        """Record the flag in a word such as `--name` or `--name=value`; without `=` a value is the
        next word. Raise NoSuchOption for an unknown name, UsageError for a wrong value or none;
        during shell completion ignore such a flag.
        """
        name, equals, value = word.partition("=")
        option = self.options.get(name) or self.negations.get(name)
        if option is None:
            known = [*self.options, *self.negations]
            self._fail(click.NoSuchOption(name, possibilities=_near(name, known), ctx=self.ctx))
        elif option.is_flag:
            self._set_boolean(option, name, value if equals else None)
        else:
            self._set_value(option, name, value if equals else None)

    def _read_cluster(self, word: str) -> None:
        """Record the short flags in a word such as `-abc`, up to the first with a value, which gets
        the rest of the word (without a `=` before it) or, if that is empty, the next word. Errors
        are those of `_read_long`.
        """
        letters = word[1:]
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            option = self.options.get(name) or self.negations.get(name)
            if option is None:
                message = f"unknown shorthand flag: '{name[1]}' in {word}"
                self._fail(click.UsageError(message, self.ctx))
                return
            # As in pflag, to which the value of `-f=` is `=`.
            if letters.startswith("=") and len(letters) > 1:
                value, letters = letters[1:], ""
                if option.is_flag:
                    self._set_boolean(option, name, value)
                else:
                    self._set_value(option, name, value)
            elif option.is_flag:
                self._set_boolean(option, name, None)
            else:
                self._set_value(option, name, letters or None)
                return

    def _set_boolean(self, option: click.Option, name: str, text: str | None) -> None:
        """Record a boolean flag: true without a text; the last of several counts, as in pflag.

        Raise UsageError for a text that is not a boolean of Go.
        """
        value = True if text is None else _BOOLEANS.get(text)
        if value is None:
            self._fail(
                click.UsageError(
                    f'invalid argument "{text}" for "{", ".join(option.opts)}" flag: '
                    f'strconv.ParseBool: parsing "{text}": invalid syntax',
                    self.ctx,
                )
            )
            return
        key = _long_name(option)
        # Removed first, so that the flag moves to its last position.
        self.booleans.pop(key, None)
        self.booleans[key] = option, value != (name in option.secondary_opts)

    def _set_value(self, option: click.Option, name: str, text: str | None) -> None:
        """Record a value for a flag: `text` or, if that is None, the next word; raise UsageError if
        there is none. `name` is the flag as it was written, for the message.
        """
        value = next(self.words, None) if text is None else text
        if value is None:
            where = f": {name}" if name.startswith("--") else f": '{name[1]}' in {name}"
            self._fail(click.UsageError(f"flag needs an argument{where}", self.ctx))
            return
        long_name = _long_name(option)
        separator = "=" if long_name.startswith("--") else ""
        self.values.append(f"{long_name}{separator}{value}")

    def _fail(self, error: click.UsageError) -> None:
        """Raise an error of the command line. During shell completion do nothing: the shell shows
        only candidates.
        """
        # A shell that completes a line shows nothing but the candidates.
        if not self.ctx.resilient_parsing:
            raise error


def _long_name(option: click.Option) -> str:
    return max(option.opts, key=len)


def _near(name: str, known: Sequence[str]) -> list[str]:
    """Return the known names that are spelled like `name`, best first; [] if none is."""
    from difflib import get_close_matches  # only who mistypes pays for it

    return get_close_matches(name, known)
