"""`doorward`: finds the subcommand, and says in two lines what was wrong with how it was called.

Subcommands are named here and imported only when used, so that a decision on the command line does
not pay for the servers.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from copy import copy
from typing import Any, Final, NoReturn

import click

from doorward import __version__
from doorward.base.collector import gc_frozen
from doorward.base.os_errors import describe_os_error
from doorward.cli.extras import missing_extra
from doorward.cli.go_flags import rewrite_subcommand

__all__ = ["cli", "main"]

_COMMANDS: Final = {
    "bench": "Measure how long a query takes.",
    "build": "Build a bundle.",
    "capabilities": "Print what policies may use, as JSON.",
    "check": "Check policies for errors.",
    "completion": "Print the script that completes commands in a shell.",
    "config": "Check configuration files.",
    "deps": "Show what a query reads.",
    "diff": "Find requests that two versions of a policy decide differently.",
    "docker": "Authorize requests to the Docker daemon.",
    "emit": "Print the generated Python of policies or a query.",
    "envoy": "Configure Envoy, and redirect connections to it.",
    "eval": "Evaluate a query.",
    "exec": "Evaluate a decision for many inputs.",
    "fmt": "Format policies.",
    "help": "Show the help of a command.",
    "input": "Convert a captured request to an input.",
    "inspect": "Show the contents of a bundle.",
    "kit": "Write or check the files of a sidecar deployment.",
    "learn": "Write a policy from the requests in logs.",
    "lsp": "Run the language server for editors.",
    "parse": "Print the syntax tree of a policy.",
    "playground": "Try policies in a browser.",
    "prove": "Prove that no input makes `never_` rules true.",
    "replay": "Evaluate logged decisions with other policies.",
    "run": "Start a server or an interactive shell.",
    "sign": "Sign a bundle.",
    "test": "Run tests written in Rego.",
    "token": "Print a signed token for tests.",
    "version": "Show the version.",
    "who-can": "List who is allowed, and under which conditions.",
}

_EXAMPLES: Final = """\
\b
Examples:
  doorward eval -d policy.rego -i input.json 'data.envoy.authz.allow'
  doorward check policy.rego
  doorward run --server --config-file doorward.yaml policy.rego
"""


class Commands(click.Group):
    """The group of all subcommands; the module of one is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand, importing its module, with options that environment variables set
        (`_read_environment`); None if there is no such command.
        """
        if cmd_name not in _COMMANDS:
            return None
        full_name = f"doorward.cli.{cmd_name.replace('-', '_')}"
        # What an import makes stays: the collector need never look at it.
        with gc_frozen() if full_name not in sys.modules else nullcontext():
            module = importlib.import_module(full_name)
        command: click.Command = module.command
        _read_environment(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and arguments, with flags in any form of Go's pflag rewritten for
        click.
        """
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, rest
        return name, command, rewrite_subcommand(name, command, ctx, rest)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands to the help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


def _read_environment(command: click.Command, name: str) -> None:
    """Let each option of a command be set by a variable such as `DOORWARD_RUN_ADDR` or
    `OPA_RUN_ADDR`.

    Several values of a repeatable option are separated by commas.
    """
    for option in command.params:
        if not isinstance(option, click.Option) or option.envvar is not None:
            continue
        flag = max(option.opts, key=len).lstrip("-")
        suffix = f"{name}_{flag}".upper().replace("-", "_").replace(".", "_")
        option.envvar = [f"DOORWARD_{suffix}", f"OPA_{suffix}"]
        if option.multiple:
            option.type = copy(option.type)
            option.type.envvar_list_splitter = ","  # type: ignore[misc]  # of this copy only


@click.command(
    cls=Commands,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="doorward %(version)s")
def cli() -> None:
    """Decide who may do what, by policies written in Rego."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code, by SystemExit if `arguments` are
    given. Without them, they are those of the process.
    """
    if arguments is not None:
        sys.exit(run(list(arguments)))
    _exit(run(sys.argv[1:]))


def _exit(code: int) -> NoReturn:
    """Flush the output and end the process, without freeing its objects one by one and without C's
    exit handlers. Python's exit handlers run.

    A daemon thread may be inside a C library, reading certificates for example, whose exit handler
    would free memory that it uses: about one server in a hundred ended with a crash. Other threads
    are waited for. Under a profiler or debugger, and if the output cannot be written, the process
    ends in Python's way, which reports it.
    """
    threads = [each for each in threading.enumerate() if each is not threading.main_thread()]
    if all(each.daemon for each in threads) and (threads or not _is_observed()):
        atexit._run_exitfuncs()
        if _flush_output() or threads:
            os._exit(code)
    # All that is left is about to go with the process: Python need not look for cycles in it.
    gc.freeze()
    sys.exit(code)


def _is_observed() -> bool:
    """Return True if a profiler or debugger watches this process."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    # Since Python 3.12 profilers, among them cProfile, need neither.
    monitoring: Any = getattr(sys, "monitoring", None)
    return monitoring is not None and any(monitoring.get_tool(number) for number in range(_TOOLS))


_TOOLS: Final = 6
"""The number of tools that `sys.monitoring` can have."""


def _flush_output() -> bool:
    """Write what is buffered for standard output and error; return False if that fails."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # None where it was closed before the start
                stream.flush()
    except (OSError, ValueError):
        return False
    return True


def run(arguments: list[str]) -> int:
    """Run the command line and return the exit code: that of the command, 1 after a usage error, a
    missing extra or an error of the system, 130 after an interrupt, 141 if the reader of the output
    is gone. Errors are printed on standard error; those of our code are raised.
    """
    try:
        code: Any = cli.main(arguments, prog_name="doorward", standalone_mode=False)
    # A UsageError as well, whose text is the help: so it comes first.
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        click.echo(f"Error: {_message_of(error)}\nUsage:\n{_usage(error)}", err=True)
        return 1
    except click.ClickException as error:
        click.echo(f"Error: {error.format_message()}", err=True)
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except ImportError as error:
        message = missing_extra(error, arguments)
        if not message:
            raise
        click.echo(f"Error: {message}", err=True)
        return 1
    except BrokenPipeError:
        # The reader of our output has closed it; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (OSError, UnicodeError) as error:
        # Commands say more about what they expect; what remains still ends with one line.
        click.echo(f"Error: {_reason_of(error)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _reason_of(error: OSError | UnicodeError) -> str:
    """Return the file, if it is known, and the reason of an error of the system."""
    if isinstance(error, UnicodeError):
        return str(error)
    reason = describe_os_error(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


_NOUNS: Final = {
    "integer range": "an integer",
    "integer": "an integer",
    "float range": "a number",
    "float": "a number",
}
"""Names of Click's types, and the nouns that its messages have in their place."""


def _message_of(error: click.UsageError) -> str:
    """Return one line that says what was wrong with a call: click's message, reworded after OPA's
    for an unknown flag or command, a missing or unexpected argument and a value that is not valid.
    """
    if isinstance(error, click.NoSuchOption):
        return f"unknown flag: {error.option_name}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        # Its own message is empty.
        names = ", ".join(error.param.opts)
        if isinstance(error.param, click.Argument):
            names = error.param.human_readable_name.removesuffix("...")
        return f"{names} is required"
    if isinstance(error, click.BadParameter) and error.param is not None:
        names = ", ".join(error.param.opts) or error.param.name
        reason = error.message.rstrip(".")
        for kind, noun in _NOUNS.items():
            reason = reason.replace(f"not a valid {kind}", f"not {noun}")
        return f'invalid value for "{names}": {reason}'
    if "No such command" in error.message:
        return "unknown command" + error.message.removeprefix("No such command").rstrip(".")
    if error.message.startswith("Got unexpected extra argument"):
        return f"unexpected argument: {error.message.partition('(')[2].rstrip(').')}"
    return error.format_message()


def _near(wrong: str, group: click.Command) -> list[str]:
    """Return a hint with the subcommand that is most similar to the mistyped one, in a list; [] if
    none is.
    """
    from difflib import get_close_matches  # only who mistypes pays for it

    names = group.list_commands(click.Context(group)) if isinstance(group, click.Group) else []
    return [f"hint: did you mean {name}?" for name in get_close_matches(wrong, names, 1)]


def _operand_of(error: click.UsageError) -> str:
    """Return the name of the operand that an unknown flag such as `--file` stands for; "" if it
    stands for none.
    """
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    from doorward.cli.arguments import Argument  # imported before, unless the flag is the program's

    for param in error.ctx.command.get_params(error.ctx):
        if isinstance(param, Argument) and error.option_name in param.flags:
            return param.human_readable_name
    return ""


def _usage(error: click.UsageError) -> str:
    """Return the indented lines below a usage error: usage, the command for help, and a hint."""
    if error.ctx is None:
        return "  doorward --help"
    lines = [error.ctx.get_usage().removeprefix("Usage: "), f"{error.ctx.command_path} --help"]
    operand = _operand_of(error)
    if operand:
        lines.append(f"hint: {operand} is an argument without a flag")
    elif isinstance(error, click.NoSuchOption) and error.possibilities:
        lines.append(f"hint: did you mean {error.possibilities[0]}?")
    elif hint := getattr(error, "hint", ""):
        lines.append(f"hint: {hint}")
    elif "No such command" in error.message:
        lines += _near(error.message.split("'")[1], error.ctx.command)
    return "\n".join([f"  {line}" for line in lines])
