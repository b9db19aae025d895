"""The interactive shell of `doorward run`: queries and rules typed by hand, on loaded policies.

`Session.answer` turns one line into the text to show, and knows no terminal; `interact` is the loop
around it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click

from doorward.cli.errors import for_people
from doorward.cli.results import FORMATS, to_document
from doorward.pdp.loader import Loaded, LoadError, read_document
from doorward.pdp.solutions import solutions_of
from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    Engine,
    Environment,
    ParseError,
    Registry,
    RegoError,
    Source,
    Span,
    explain,
    gc_paused,
)
from doorward.rego.golang import indent
from doorward.rego.tools import Rule, Var, parse_module

__all__ = ["Session", "interact"]

PROMPT: Final = "> "
DEADLINE: Final = 10.0
"""Seconds that one query may take."""

MAX_INPUT: Final = 64 << 20
"""Bytes of an input document."""

_PACKAGE: Final = "repl"
_HELP: Final = """\
QUERY           evaluate, e.g. `data.authz.allow` or `x := input.roles[_]; x != "guest"`
RULE            define, e.g. `p := 1` or `allow if input.user == "ann"`
why QUERY       which rules were tried for it, and which conditions failed
input FILE      take the input from a JSON or YAML file; `input` alone shows it
show            the rules defined here
unset NAME      forget a rule defined here
json, pretty    how results are shown
exit            leave (or Ctrl-D)"""


@dataclass(slots=True)
class Session:
    """What has been loaded and typed so far."""

    loaded: Loaded
    v0: bool = False
    registry: Registry = REGISTRY
    style: str = "pretty"
    input: Any = UNDEFINED
    rules: dict[str, list[str]] = field(default_factory=dict)
    """The texts of the rules defined here, by name."""
    printed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._engine = self._compiled(self.rules)
        self._engine.check_data()

    _engine: Engine = field(init=False, repr=False)

    def answer(self, line: str) -> str:
        """What to show for one line; errors are shown, never raised."""
        word, _, rest = line.strip().partition(" ")
        command = self._commands().get(word)
        try:
            if not word:
                return ""
            if command is not None and (rest or word not in ("why", "unset")):
                return command(rest.strip())
            return self._define(line) or self._evaluate(line)
        except RegoError as error:
            return for_people(error)
        except LoadError as error:
            return error.messages[0]

    def _commands(self) -> Mapping[str, Callable[[str], str]]:
        return {
            "help": lambda _: _HELP,
            "why": self._why,
            "input": self._read_input,
            "show": lambda _: "\n".join(text for own in self.rules.values() for text in own),
            "unset": self._unset,
            "json": lambda _: self._set_style("json"),
            "pretty": lambda _: self._set_style("pretty"),
        }

    def _compiled(self, rules: Mapping[str, list[str]]) -> Engine:
        texts = [text for own in rules.values() for text in own]
        own = "\n\n".join([f"package {_PACKAGE}", *texts])
        with gc_paused():
            return Engine(
                modules={**self.loaded.modules, _PACKAGE: own},
                data=self.loaded.data,
                v0=self.v0,
                rego_versions=self.loaded.rego_versions,
                registry=self.registry,
                environment=Environment(on_print=self._print),
            )

    def _define(self, line: str) -> str:
        """Add the rule that `line` is; "" where it is a query."""
        rule = self._rule(line)
        if rule is None:
            return ""
        name = rule.head.ref.head
        assert isinstance(name, Var)
        # `x := 1` again is another `x`; a rule with a body is one more definition.
        before = self.rules.get(name.name, []) if rule.body or rule.head.key else []
        rules = {**self.rules, name.name: [*before, line.strip()]}
        self._engine = self._compiled(rules)
        self.rules = rules
        return f"Rule '{name.name}' defined in package {_PACKAGE}."

    def _rule(self, line: str) -> Rule | None:
        try:
            module = parse_module(Source("", f"package {_PACKAGE}\n\n{line}"), v0=self.v0)
        except ParseError:
            return None
        if len(module.rules) != 1:
            return None
        rule = module.rules[0]
        head = rule.head
        defines = rule.default or rule.body or head.key is not None or head.value is not None
        return rule if defines else None

    def _evaluate(self, text: str) -> str:
        self.printed.clear()
        query = self._engine.prepare(text, package=_PACKAGE, deadline=DEADLINE)
        results = solutions_of(query, query.rows(self.input))
        if self.style == "json":
            documents = "[" + ",".join(map(to_document, results)) + "]"
            shown = indent(documents, "", "  ")
        else:
            shown = FORMATS["pretty"](results, 0).rstrip("\n")
        return "".join([*self.printed, shown])

    def _why(self, text: str) -> str:
        # What is explained stands by itself: the rules defined here are reached by their path.
        return explain(self._engine, text, self.input, deadline=DEADLINE).text()

    def _read_input(self, path: str) -> str:
        if not path:
            return self._evaluate("input")
        try:
            with open(path, "rb") as file:
                content = file.read(MAX_INPUT + 1)
        except OSError as error:
            raise LoadError([f"open {path}: {(error.strerror or 'failed').lower()}"]) from None
        if len(content) > MAX_INPUT:
            raise LoadError([f"{path}: larger than {MAX_INPUT} bytes"])
        self.input = read_document(path, content)
        return f"input is {path}"

    def _unset(self, name: str) -> str:
        if name not in self.rules:
            return f"no rule '{name}' defined here"
        rules = {other: texts for other, texts in self.rules.items() if other != name}
        self._engine = self._compiled(rules)
        self.rules = rules
        return f"Rule '{name}' forgotten."

    def _set_style(self, style: str) -> str:
        self.style = style
        return ""

    def _print(self, text: str, _span: Span) -> None:
        self.printed.append(f"{text}\n")


def interact(loaded: Loaded, *, v0: bool = False, registry: Registry = REGISTRY) -> int:
    """Answer lines from standard input until it ends, or `exit` is said."""
    session = Session(loaded, v0=v0, registry=registry)
    terminal = sys.stdin.isatty()
    if terminal:
        # Brings history and editing to `input`, where there is somebody to use them.
        import readline  # noqa: F401 - imported for what it does to `input`

        click.echo("Doorward: a query, a rule, or `help`; Ctrl-D leaves.")
    while True:
        try:
            line = input(PROMPT if terminal else "")
        except EOFError:
            if terminal:
                click.echo()
            return 0
        except KeyboardInterrupt:
            click.echo()
            continue
        if line.strip() in ("exit", "quit"):
            return 0
        shown = session.answer(line)
        if shown:
            click.echo(shown)
