"""`doorward playground`: policies in a browser, evaluated here; for one person, on this machine."""

from __future__ import annotations

import signal
from types import FrameType

import click
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from doorward.bundles.loader import Loaded, LoadError
from doorward.bundles.sources import Sources
from doorward.cli.arguments import argument
from doorward.cli.errors import for_people
from doorward.console import Console
from doorward.edge import FAULTS, Edge, SignalSafeEvent
from doorward.rego import to_python
from doorward.rest.answers import internal_error, redirect, unknown_path
from doorward.rest.server import BindError, HttpServer, Listener, bind

__all__ = ["command"]

_EDGE = Edge("playground", "a request of the playground failed")


@click.command(
    "playground",
    epilog="""\b
Examples:
  doorward playground                              # an example to begin with
  doorward playground policies/
  doorward playground --addr 127.0.0.1:9000 policy.rego data.json
""",
)
@argument("paths", nargs=-1, help="Files and folders with the policies to begin with.")
@click.option(
    "--addr",
    default="127.0.0.1:8484",
    show_default=True,
    help="Address on which the playground listens.",
)
def command(paths: tuple[str, ...], addr: str) -> int:
    """Serve a page on which to write, check, test and evaluate policies, until Ctrl-C.

    The page starts with the policies in PATHS. Changes stay in the browser: no file is written.
    Policies are evaluated with a deadline, without network and environment.
    """
    try:
        loaded = Sources(paths).load() if paths else Loaded()
        console = Console(files=loaded.modules or None, data=to_python(loaded.data))
        address = bind(addr)
        server = HttpServer([Listener(addr, address, _App(console), connections=100)])
        stop = _stop_on_signals()  # before it can be asked anything
        server.start()
    except LoadError as error:
        raise click.ClickException(for_people(error)) from None
    except BindError as error:
        raise click.ClickException(str(error)) from None
    host, port = address.getsockname()[:2]
    click.echo(f"http://{f'[{host}]' if ':' in host else host}:{port}/console/playground")
    stop.wait()
    console.close()
    server.close()
    return 0


def _stop_on_signals() -> SignalSafeEvent:
    """Return an event that SIGINT and SIGTERM set from now on, instead of ending the process."""
    stop = SignalSafeEvent()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop


class _App:
    """An ASGI application that serves the console below `/console`; `/` redirects to the
    playground.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of the browser; a fault is reported and becomes a 500."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        match tuple(scope["path"].split("/")[1:]):
            case ("console", *rest):
                try:
                    answer = await self._console.answer(request, tuple(rest))
                except FAULTS as fault:
                    answer = internal_error(_EDGE.report(fault))
            case ("",):
                answer = redirect(307, "/console/playground", request.method)
            case _:
                answer = unknown_path()
        await answer(scope, receive, send)
