"""The interactive shell of `doorward run`: queries and rules typed by hand, on loaded policies.

`Session.answer` turns one line into the text to show, and knows no terminal; `interact` is the loop
around it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final

import click

from doorward.base.collector import gc_paused
from doorward.base.records import mutable, record
from doorward.bundles.loader import Loaded, LoadError, read_document, read_file
from doorward.cli.errors import for_people
from doorward.cli.results import FORMATS, to_document
from doorward.pdp.solutions import solutions_of
from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    Engine,
    Environment,
    Explanation,
    Query,
    Registry,
    RegoError,
    explain,
)
from doorward.rego.golang import indent
from doorward.rego.shared import ParseError, Source, Span
from doorward.rego.tools import BRACKETS, Lexer, Module, Rule, Var, loose_tokens, parse_module

__all__ = ["Session", "interact"]

PROMPT: Final = "> "
CONTINUED: Final = "| "
HISTORY: Final = 1_000
"""The number of lines that the history file stores."""
MAX_TEXT: Final = 1 << 20
"""The largest number of characters in a statement of several lines."""
DEADLINE: Final = 10.0
"""Seconds that a query may take."""

MAX_INPUT: Final = 64 << 20
"""The largest input document in bytes."""

_PACKAGE: Final = "repl"
"""The package of rules that are typed before `package` names another."""
_TRACES: Final = ("full", "notes", "fails")
_HELP: Final = """\
QUERY           evaluate, e.g. `data.authz.allow` or `x := input.roles[_]; x != "guest"`
RULE            define, e.g. `p := 1` or `allow if input.user == "ann"`
why QUERY       which rules were tried for it, and which conditions failed
input FILE      take the input from a JSON or YAML file; `input` alone shows it
package NAME    define rules in this package from now on, and see it in queries
import PATH     add an import to the package, such as `data.roles` or `data.a as b`
show            the rules defined in the package
unset NAME      forget a rule defined in the package
unset-package NAME  forget all that was defined in a package
trace [full|notes|fails]  explain each query, or stop that
json, pretty    how results are shown
exit            leave (or Ctrl-D)

A bracket that is open goes on in the next line; Tab completes names."""


@record
class _Typed:
    """The imports and rules typed in one package."""

    imports: tuple[str, ...] = ()
    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The texts of rules by name."""

    def parts(self) -> list[str]:
        """Return the texts of a module's parts: the imports as one text, if there are any, then
        each rule.
        """
        lines = [f"import {path}" for path in self.imports]
        rules = [text for texts in self.rules.values() for text in texts]
        return ["\n".join(lines), *rules] if lines else rules


@mutable
class Session:
    """The state of a shell: loaded policies and data, the input, and the rules typed in each
    package.

    Making one compiles the policies, and raises RegoError if they have errors.
    """

    loaded: Loaded
    v0: bool = False
    registry: Registry = REGISTRY
    style: str = "pretty"
    input: Any = UNDEFINED
    package: str = _PACKAGE
    trace: str = ""
    """How queries are explained: one of `_TRACES`, or "" for not at all."""
    printed: list[str] = field(default_factory=list)
    _typed: dict[str, _Typed] = field(init=False, default_factory=dict)
    """What was typed in each package."""
    _engine: Engine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._engine = self._compile(self._typed)
        self._engine.check_data()

    def answer(self, line: str) -> str:
        """Execute one line, a command, a rule to define or a query, and return the text to print;
        "" for a blank line.

        Errors are returned as text and not raised.
        """
        word, _, rest = line.strip().partition(" ")
        command = self._commands().get(word)
        try:
            if not word:
                return ""
            if command is not None and (rest.strip() or word not in _NEED_MORE):
                return command(rest.strip())
            return self._define(line) or self._evaluate(line)
        except RegoError as error:
            return for_people(error)
        except LoadError as error:
            return error.messages[0]

    def is_open(self, text: str) -> bool:
        """Return True if a bracket or a raw string in `text` is not closed, so that more lines
        follow.
        """
        lexer = Lexer(Source("", text))
        kinds = [token.kind for token in loose_tokens(lexer, lexer.first())]
        closed = set(BRACKETS.values())
        depth = sum([(kind in BRACKETS) - (kind in closed) for kind in kinds])
        return depth > 0 or text.count("`") % 2 == 1

    def completions(self, text: str) -> list[str]:
        """Return the sorted completions of a name or path: commands, rules, keys of documents.

        [] if the path before the last dot cannot be evaluated.
        """
        above, dot, start = text.rpartition(".")
        if not dot:
            names = [*self._commands(), *self._own.rules, "data", "input"]
        else:
            query = f"[k | _ := {above}[k]; is_string(k)]"
            try:
                names = self._prepare(self._engine, query).value(self.input)
            except RegoError:
                return []
        matching = sorted({each for each in names if each.startswith(start) and _NAME.match(each)})
        return [f"{above}{dot}{each}" for each in matching]

    def _commands(self) -> Mapping[str, Callable[[str], str]]:
        """Return the commands by name; each takes the text after its name and returns its
        output.
        """
        return {
            "help": lambda _: _HELP,
            "why": self._why,
            "input": self._read_input,
            "package": self._enter,
            "import": self._import,
            "show": lambda _: self._show(),
            "trace": self._set_trace,
            "unset": self._unset,
            "unset-package": self._unset_package,
            "json": lambda _: self._set_style("json"),
            "pretty": lambda _: self._set_style("pretty"),
        }

    @property
    def _own(self) -> _Typed:
        return self._typed.get(self.package, _Typed())

    def _change(self, typed_rules: _Typed | None, package: str = "") -> None:
        """Replace what was typed in a package (the current one for ""); None deletes it.

        Raise RegoError, and change nothing, if the policies do not compile with it.
        """
        typed = dict(self._typed)
        typed.pop(package or self.package, None)
        if typed_rules is not None:
            typed[package or self.package] = typed_rules
        self._engine = self._compile(typed)
        self._typed = typed

    def _compile(self, typed: Mapping[str, _Typed]) -> Engine:
        """Return an engine of the loaded policies and the typed rules, one module for each
        package.
        """
        typed_modules = {
            f"package {name}": "\n\n".join([f"package {name}", *each.parts()])
            for name, each in typed.items()
        }
        with gc_paused():
            return Engine(
                modules={**self.loaded.modules, **typed_modules},
                data=self.loaded.data,
                v0=self.v0,
                rego_versions=self.loaded.rego_versions,
                registry=self.registry,
                environment=Environment(on_print=self._print),
            )

    def _show(self) -> str:
        """Return the rules and imports typed so far as a module; without the package line in the
        default package.
        """
        parts = self._own.parts()
        header = [] if self.package == _PACKAGE else [f"package {self.package}"]
        return "\n\n".join([*header, *parts]) if header else "\n".join(parts)

    def _enter(self, name: str) -> str:
        """Make `name` the current package and return ""; raise ParseError if it is not a package
        name.
        """
        self._parse(f"package {name}")
        self.package = name
        return ""

    def _import(self, path: str) -> str:
        """Add an import to the current package and return ""; raise RegoError if it is invalid."""
        typed = self._own
        self._parse(f"package {self.package}\n\nimport {path}")
        if path not in typed.imports:
            self._change(replace(typed, imports=(*typed.imports, path)))
        return ""

    def _parse(self, text: str) -> Module:
        return parse_module(Source("", text), v0=self.v0)

    def _define(self, line: str) -> str:
        """Define the rule on the line and return a message; "" if the line is a query.

        A rule without a body replaces those with its name; one with a body or a key is added to
        them.
        """
        rule = self._rule(line)
        if rule is None:
            return ""
        head = rule.head.ref.head
        assert isinstance(head, Var)
        typed, name = self._own, head.name
        # `x := 1` again is another `x`; a rule with a body is one more definition.
        before = typed.rules.get(name, ()) if rule.body or rule.head.key else ()
        self._change(replace(typed, rules={**typed.rules, name: (*before, line.strip())}))
        return f"Rule '{name}' defined in package {self.package}."

    def _rule(self, line: str) -> Rule | None:
        """Return the rule on a line; None if the line must be evaluated as a query: one that is not
        valid as a single rule, or is only a name such as `allow`.
        """
        try:
            module = self._parse(f"package {self.package}\n\n{line}")
        except ParseError:
            return None
        if len(module.rules) != 1:
            return None
        rule = module.rules[0]
        head = rule.head
        defines = rule.default or rule.body or head.key is not None or head.value is not None
        return rule if defines else None

    def _prepare(self, engine: Engine, text: str) -> Query:
        """Compile a query in the session's package and with its imports; its evaluations end after
        `DEADLINE` seconds. CompileError or ParseError if it is invalid.
        """
        return engine.prepare(
            text, package=self.package, imports=self._own.imports, deadline=DEADLINE
        )

    def _evaluate(self, text: str) -> str:
        """Clear `printed`, evaluate a query, and return its trace, the output of `print` and its
        results as one text.

        Raise RegoError if the query cannot be compiled or its evaluation fails.
        """
        self.printed.clear()
        query = self._prepare(self._engine, text)
        results = list(solutions_of(query, query.rows(self.input)))
        if self.style == "json":
            documents = "[" + ",".join(map(to_document, results)) + "]"
            output = indent(documents, "", "  ")
        else:
            output = FORMATS["pretty"](results, 0).rstrip("\n")
        printed = list(self.printed)
        return "".join([*self._trace(text), *printed, output])

    def _trace(self, text: str) -> list[str]:
        """Return the explanation of a query in the mode of `trace`, in a list; [] if tracing is
        off.
        """
        if not self.trace:
            return []
        explanation = self._explain(text)
        if self.trace == "notes":
            return [f"{note}\n" for note in explanation.notes()]
        return [explanation.text(full=self.trace == "full") + "\n"]

    def _explain(self, text: str) -> Explanation:
        """Evaluate a query in the current package with a trace, for at most `DEADLINE` seconds, and
        return the explanation, which has the error if it fails.
        """
        return explain(
            self._engine,
            text,
            self.input,
            deadline=DEADLINE,
            package=self.package,
            imports=self._own.imports,
        )

    def _why(self, text: str) -> str:
        return self._explain(text).text()

    def _set_trace(self, mode: str) -> str:
        """Set the mode of explanation and return a message. Without a mode, or with the current
        one, turn explanation off, or if it is off on in the mode `full`. An unknown mode changes
        nothing.
        """
        if mode and mode not in _TRACES:
            return f"trace must be one of {', '.join(_TRACES)}"
        self.trace = "" if mode in ("", self.trace) and self.trace else mode or "full"
        return f"trace {self.trace or 'off'}"

    def _read_input(self, path: str) -> str:
        """Set the input to the document of a JSON or YAML file and return a message; without a path
        return the input, as text.

        Raise LoadError if the file cannot be read or parsed or exceeds `MAX_INPUT` bytes, RegoError
        if the input cannot be shown.
        """
        if not path:
            return self._evaluate("input")
        self.input = read_document(path, read_file(path, MAX_INPUT))
        return f"input is {path}"

    def _unset(self, name: str) -> str:
        """Delete the rules typed under a name; return the message to print."""
        typed = self._own
        if name not in typed.rules:
            return f"no rule '{name}' defined here"
        remaining = {other: texts for other, texts in typed.rules.items() if other != name}
        self._change(replace(typed, rules=remaining))
        return f"Rule '{name}' forgotten."

    def _unset_package(self, name: str) -> str:
        """Delete everything typed in a package; return the message to print."""
        if name not in self._typed:
            return f"nothing is defined in package {name}"
        self._change(None, name)
        return f"Package {name} forgotten."

    def _set_style(self, style: str) -> str:
        self.style = style
        return ""

    def _print(self, text: str, _span: Span) -> None:
        self.printed.append(f"{text}\n")


_NEED_MORE: Final = ("why", "unset", "unset-package", "package", "import")
"""Words that are commands only if text follows them; alone they are queries."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z", re.ASCII)


def interact(
    loaded: Loaded,
    *,
    v0: bool = False,
    registry: Registry = REGISTRY,
    style: str = "pretty",
    history: str = "",
) -> int:
    """Answer lines from standard input until it ends or the user types `exit`. Return the exit code
    0. `history` is the file that stores the last `HISTORY` lines typed at a terminal. Raise
    RegoError if the policies do not compile.
    """
    session = Session(loaded, v0=v0, registry=registry, style=style)
    terminal = sys.stdin.isatty()
    if not terminal:
        return _answer_lines(session, is_terminal=False)
    # Brings history and editing to `input`, where there is somebody to use them.
    import readline

    # Without the dot: a path such as `data.roles` is completed as one word.
    readline.set_completer_delims(" \t\n()[]{},;:=|&+*/<>!")
    readline.set_completer(_Completer(session))
    readline.parse_and_bind("tab: complete")
    with suppress(OSError):  # there is none yet, or it cannot be read
        readline.read_history_file(history)
    click.echo("Doorward: a query, a rule, or `help`; Ctrl-D leaves.")
    try:
        return _answer_lines(session, is_terminal=True)
    finally:
        readline.set_history_length(HISTORY)
        with suppress(OSError):
            readline.write_history_file(history)


class _Completer:
    """Completes names for readline, which calls it with `number` 0, 1, … until it returns None."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._names: list[str] = []

    def __call__(self, text: str, number: int) -> str | None:
        if number == 0:
            self._names = self._session.completions(text)
        return self._names[number] if number < len(self._names) else None


def _answer_lines(session: Session, *, is_terminal: bool) -> int:
    """Read lines and print their answers until the input ends or a line is `exit` or `quit`; return
    the exit code 0. A statement that is still open continues on the next line, until it is
    complete, an empty line ends it, or it has `MAX_TEXT` characters. On a terminal, Ctrl-C at the
    prompt drops what was typed, and during an evaluation it ends that evaluation; elsewhere it
    raises KeyboardInterrupt.
    """
    pending = ""
    while True:
        prompt = CONTINUED if pending else PROMPT
        try:
            line = input(prompt if is_terminal else "")
        except EOFError:
            if pending:
                click.echo(session.answer(pending))
            elif is_terminal:
                click.echo()
            return 0
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            pending = ""
            click.echo()
            continue
        if not pending and line.strip() in ("exit", "quit"):
            return 0
        text = f"{pending}\n{line}" if pending else line
        # An empty line ends what is open: the error says where.
        pending = text if line.strip() and len(text) < MAX_TEXT and session.is_open(text) else ""
        try:
            output = "" if pending else session.answer(text)
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            output = "interrupted"
        if output:
            click.echo(output)
