"""The API, its tests and the flags of commands -> docs/opa.md; `--check` compares."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from doorward.cli.main import cli  # noqa: E402  # found from the root
from doorward.cli.run import REFUSED_FLAGS  # noqa: E402  # the same
from doorward.config.configuration import REFUSED  # noqa: E402  # the same
from doorward.rest.openapi import document  # noqa: E402  # src is on the path
from doorward.rest.route import Routes  # noqa: E402  # the same
from doorward.rest.routes import ROUTES  # noqa: E402  # the same

PAGE: Final = ROOT / "docs/opa.md"
COMMANDS: Final = (
    "run",
    "bench",
    "build",
    "capabilities",
    "check",
    "deps",
    "eval",
    "exec",
    "fmt",
    "inspect",
    "parse",
    "sign",
    "test",
)
"""Those that OPA has."""
HEAD: Final = """# Coming from OPA

Made by `make docs` from the OpenAPI document, the tests and the flags; do not edit. What OPA has
and this page does not name is not supported yet. Deliberate differences of answers are in
[differences.md](differences.md); what a server takes, with its configuration, in [run.md](run.md).

"""
_ACCESS: Final = """`server.decision_paths` names the documents that the API serves, by default
all of them; `secrets` names data that it never serves.
"""


def endpoints(routes: Routes = ROUTES) -> str:
    lines = ["## Endpoints\n", _ACCESS, "| | | available |\n|---|---|---|"]
    for path, operations in document(routes)["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                who = operation["description"].removeprefix("Available ").removesuffix(".")
                lines.append(f"| `{method.upper()} {path}` | {operation['summary']} | {who} |")
    return "\n".join(lines)


def recorded() -> str:
    rules = tomllib.loads((ROOT / "tests/rest/differences.toml").read_text())["difference"]
    lines = [
        "## What differs in the API\n",
        "Recorded requests that are not in this list are answered alike, byte for byte.\n",
        "| rows | kind | what differs |\n|---|---|---|",
    ]
    lines += [f"| {len(rule['ids'])} | {rule['kind']} | {rule['reason']} |" for rule in rules]
    return "\n".join(lines)


SERVING: Final = {
    "a method that HTTP does not define, such as `FOO` or `get`, is 400 and ends the connection; "
    "OPA says 405": "the parser of HTTP, llhttp, knows the methods",
    "a target with bytes outside of ASCII is 400; OPA takes them as if they were escaped": "proxies"
    " do not agree on them",
    "several `Host` or `Content-Length` headers, a length beside chunks, folded headers, lines "
    "that end in LF alone, versions besides HTTP/1.0 and 1.1 are 400": "two servers could read "
    "such a request differently",
    "`PUT`, `PATCH` and `DELETE` are 403 with `--workers` above 1": "each change would be a new "
    "generation of processes; data that changes comes by bundles, or to one process",
    "`identity` needs one process": "its keys are data that changes every few minutes",
}
"""What differs, whatever the endpoint, and why."""


def serving() -> str:
    lines = ["## What differs in serving\n", "| | why |\n|---|---|"]
    return "\n".join([*lines, *[f"| {what} | {why} |" for what, why in SERVING.items()]])


def clients() -> str:
    tree = ast.parse((ROOT / "tests/clients/test_opa_python_client.py").read_text())
    tables = {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    names = {
        name: list(map(ast.literal_eval, keys_of(tables[name]))) for name in ("OPERATIONS", "LATER")
    }
    later = tables["LATER"]
    assert isinstance(later, ast.Dict)
    reasons = zip(names["LATER"], map(ast.literal_eval, later.values), strict=True)
    return "\n".join(
        [
            "## Clients\n",
            "Clients of others run unchanged in the tests: `opa-python-client` and `fastapi-opa` of"
            " PyPI, `@open-policy-agent/opa` of npm.\n",
            "| operation of `opa-python-client` | |\n|---|---|",
            *[f"| `{name}` | works |" for name in names["OPERATIONS"]],
            *[f"| `{name}` | later: {reason} |" for name, reason in reasons],
            "\n| operation of `@open-policy-agent/opa` | |\n|---|---|",
            *[f"| `{name}` | works |" for name in ("executePolicy", *operations_of_npm())],
        ]
    )


def operations_of_npm() -> list[str]:
    tree = ast.parse((ROOT / "tests/clients/test_opa_npm.py").read_text())
    (table,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "OPERATIONS"
    ]
    return list(map(ast.literal_eval, keys_of(table)))


def keys_of(table: ast.expr | None) -> list[ast.expr]:
    assert isinstance(table, ast.Dict)
    return [key for key in table.keys if key is not None]


def commands() -> str:
    """OPA's commands."""
    lines = ["## Commands\n", "| command | |\n|---|---|"]
    for name in (*COMMANDS, "completion", "help", "version"):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        lines.append(f"| `{name}` | {command.get_short_help_str(limit=200)} |")
    lines.append("\nDoorward's own are in the help: `doorward --help`.")
    return "\n".join(lines)


def keys() -> str:
    """The keys of the configuration that are refused."""
    lines = [
        "## Configuration\n",
        "Every key that is followed, with its default, is in [run.md](run.md); one that nobody",
        "reads is a warning with its place. Refused:\n",
        "| key | |\n|---|---|",
        *[f"| `{name}` | {instead} |" for name, instead in sorted(REFUSED.items())],
    ]
    return "\n".join(lines)


def flags(name: str) -> str:
    """The flags of one command."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    lines = [f"## Flags of `{name}`\n", "| flag | |\n|---|---|"]
    for each in command.params:
        if not isinstance(each, click.Option):
            continue
        flag = max(each.opts, key=len)
        if name == "run" and each.name in REFUSED_FLAGS:
            lines.append(f"| `{flag}` | refused: {REFUSED_FLAGS[each.name]} |")
        elif each.hidden:
            lines.append(f"| `{flag}` | {each.help or 'accepted, without effect here'} |")
        else:
            lines.append(f"| `{flag}` | {(each.help or 'as in OPA').replace('|', '/')} |")
    return "\n".join(lines)


def main() -> int:
    parts = [
        endpoints(),
        recorded(),
        serving(),
        clients(),
        keys(),
        commands(),
        *map(flags, COMMANDS),
    ]
    text = HEAD + "\n\n".join(parts) + "\n"
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print("docs/opa.md is not current: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
