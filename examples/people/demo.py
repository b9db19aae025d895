"""One command becomes the whole example, running: `make demo`, `make demo-check`.

Starts the People API, the decision point and Envoy on loopback, runs the acceptance matrix through
Envoy, and stays up until Ctrl-C, or ends when asked to check only. Whatever happens, every part
ends with it. This module talks to the person at the terminal; the parts are in `acceptance`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from acceptance.check import Outcome, run_row
from acceptance.matrix import ROWS
from acceptance.ports import Ports, PortTaken, choose_ports, free_ports
from acceptance.responses import RESPONSES, ResponseStack, check_responses
from acceptance.stack import EXAMPLE, PartFailed, Stack
from acceptance.tokens import make_tokens

ROOT: Final = EXAMPLE.parent.parent
FAILED: Final = 1
UNUSABLE: Final = 2
RED, GREEN, BOLD, PLAIN = "\033[31m", "\033[32m", "\033[1m", "\033[0m"


class Terminated(BaseException):
    """Somebody wants the demo to end: SIGTERM or SIGHUP."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 only when every row of the matrix holds."""
    options = _read_options(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        return _run(options)
    except PortTaken as error:
        print(f"{error}\nOther ports: `make {options.goal} PORT_BASE=18000`", file=sys.stderr)
        return UNUSABLE
    except PartFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return FAILED
    except Terminated:
        return FAILED
    except KeyboardInterrupt:
        print("\nStopped before the matrix was through.", file=sys.stderr)
        return FAILED


def _run(options: argparse.Namespace) -> int:
    ports = choose_ports(options.port_base)
    with _folder() as folder, Stack(folder, ports) as stack:
        tokens = make_tokens(stack.secret)
        _print_welcome(stack, tokens["guest"], tokens["admin"])
        failures = _print_matrix(_run_rows(stack, tokens))
        stack.check_parts()
        failures += _print_responses(folder / "responses")
        if options.check:
            return FAILED if failures else 0
        print()
        _print_welcome(stack, tokens["guest"], tokens["admin"])  # again, where it can be seen
        _stay(stack)
        return FAILED if failures else 0


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The People API behind Envoy and Doorward.")
    parser.add_argument("--check", action="store_true", help="run the matrix and end")
    parser.add_argument(
        "--port-base",
        type=int,
        default=os.environ.get("PORT_BASE") or None,
        help="take the first three free ports from here on (0: any); else 8000, 8080 and 8282",
    )
    options = parser.parse_args(arguments)
    if options.port_base is not None and not 0 <= options.port_base < 65536:
        parser.error("--port-base must be a port")
    options.goal = "demo-check" if options.check else "demo"
    return options


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


@contextmanager
def _folder() -> Iterator[Path]:
    """A private folder of this run inside the checkout; one with a failed part is kept a while."""
    (ROOT / "build").mkdir(exist_ok=True)
    _sweep(ROOT / "build")
    folder = Path(tempfile.mkdtemp(prefix=f"demo-{os.getpid()}-", dir=ROOT / "build"))
    try:
        yield folder
    except PartFailed:
        (folder / "secrets.json").unlink(missing_ok=True)
        print(f"\nThe logs are in {folder}", file=sys.stderr)
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def _sweep(build: Path) -> None:
    """Remove the folders of demos that are gone: of failed ones, and of those that were killed."""
    for folder in build.glob("demo-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _run_rows(stack: Stack, tokens: dict[str, str]) -> Iterator[Outcome]:
    for row in ROWS:
        yield run_row(stack, row, tokens)


def _print_welcome(stack: Stack, guest: str, admin: str) -> None:
    address = f"http://127.0.0.1:{stack.ports.envoy}/people"
    print(
        f"{_paint('Envoy', BOLD)}           {address}\n"
        f"People API      http://127.0.0.1:{stack.ports.people}  (nobody asks there)\n"
        f"Decision point  http://localhost/v1/data/envoy/authz on {stack.folder}/api.sock, "
        f"health and metrics on {stack.ports.diagnostic}\n"
        f"Console         http://127.0.0.1:{stack.ports.diagnostic}/console\n"
        f"Logs            {stack.folder}\n"
        "\n"
        f"GUEST={guest}\n"
        f"ADMIN={admin}\n"
        "\n"
        "Paste the two lines above, then:\n"
        "\n"
        f'  curl -i -H "Authorization: Bearer $GUEST" {address}\n'
        f'  curl -i -H "Authorization: Bearer $ADMIN" -H "Content-Type: application/json" '
        f'-d \'{{"firstname":"Charlie","lastname":"Opa"}}\' {address}\n'
        f'  curl -i -H "Authorization: Bearer $ADMIN" -H "Content-Type: application/json" '
        f'-d \'{{"firstname":"Bob","lastname":"Rego"}}\' {address}   # 403: Bob is the admin\n'
        f'  curl -i -X DELETE -H "Authorization: Bearer $ADMIN" {address}/1   # 403: no rule\n'
        f"  curl -i {address}   # 403: no token\n"
    )


def _print_matrix(outcomes: Iterable[Outcome]) -> int:
    """Print one line per row; how many do not hold."""
    group, total, arrived, failures = "", 0, 0, 0
    for outcome in outcomes:
        row = outcome.row
        if row.group != group:
            group = row.group
            print(f"\n{_paint(group, BOLD)}")
        total += 1
        arrived += len(outcome.arrivals)
        failures += bool(outcome.problems)
        _print_outcome(outcome)
    print(
        f"\n{total - failures} of {total} rows hold; "
        f"{arrived} requests reached the application, {total - arrived} did not."
    )
    return failures


def _print_responses(folder: Path) -> int:
    """Start the example again with decisions on responses; print a line for each row, and how many
    do not hold."""
    folder.mkdir()
    ports = Ports(*free_ports(3))
    policies = ("policy.rego", "response.rego")
    print(f"\n{_paint('responses', BOLD)}")
    failures = 0
    with ResponseStack(folder, ports, policies) as stack:
        for row, answer, holds in check_responses(stack, make_tokens(stack.secret)):
            failures += not holds
            mark = _paint("ok  ", GREEN) if holds else _paint("FAIL", RED)
            print(f"  {mark} {answer.status!s:4}{'application':12} {row.name:44} {row.why}")
        stack.check_parts()
    print(f"\n{len(RESPONSES) - failures} of {len(RESPONSES)} responses are right.")
    return failures


def _print_outcome(outcome: Outcome) -> None:
    row = outcome.row
    mark = _paint("FAIL", RED) if outcome.problems else _paint("ok  ", GREEN)
    status = outcome.answer.status if outcome.answer else "---"
    decided_by = "application" if outcome.arrivals else "-"
    print(f"  {mark} {status!s:4}{decided_by:12} {row.name:44} {row.why}".rstrip(), flush=True)
    for problem in outcome.problems:
        print(f"       {_paint(problem, RED)}")


def _stay(stack: Stack) -> None:
    """Wait for Ctrl-C. PartFailed when a part ends before."""
    print("Everything stays up until Ctrl-C.", flush=True)
    try:
        while True:
            stack.check_parts()
            time.sleep(0.2)
    except (KeyboardInterrupt, Terminated):
        # The parts are ended within seconds, by force if need be: another signal would leave some.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        print("\nStopping.", flush=True)


def _paint(text: str, colour: str) -> str:
    return f"{colour}{text}{PLAIN}" if sys.stdout.isatty() else text


if __name__ == "__main__":
    sys.exit(main())
