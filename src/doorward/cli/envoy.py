"""`doorward envoy`: what is around the proxy."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, Final

import click

from doorward.edge import SignalSafeEvent
from doorward.envoy.addresses import worker_addresses
from doorward.envoy.kit.bootstrap import Bootstrap, render
from doorward.envoy.redirect.programs import RedirectError
from doorward.envoy.redirect.rules import Redirect, read_networks, read_ports
from doorward.envoy.redirect.steps import BACK_ENDS, dry_run, install, remove, stay, verify

__all__ = ["command"]

REPAIR: Final = 10.0
"""Seconds between two checks of the rules with --stay."""


@click.group("envoy")
def command() -> None:
    """Configure Envoy, and redirect connections to it."""


@command.command(
    "bootstrap",
    epilog="""\b
Examples:
  doorward envoy bootstrap > envoy.yaml
  doorward envoy bootstrap --listen 0.0.0.0:8000 --upstream 127.0.0.1:8080 \\
      --pdp unix:///run/doorward/auth.sock > envoy.yaml
""",
)
@click.option("--listen", metavar="ADDR", help="Address on which Envoy accepts clients.")
@click.option(
    "--upstream", metavar="ADDR", help="Address of the application, to which Envoy passes requests."
)
@click.option(
    "--pdp",
    multiple=True,
    metavar="ADDR",
    help="gRPC address of the policy server that decides on requests; repeatable.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of workers of each policy server; Envoy calls them in turn.",
)
@click.option(
    "--responses",
    multiple=True,
    metavar="ADDR",
    help="gRPC address of the policy server that decides on responses; repeatable.",
)
@click.option(
    "--response-timeout",
    type=float,
    metavar="SECONDS",
    help="Time limit for a decision on a response.",
)
@click.option(
    "--max-response",
    type=int,
    metavar="BYTES",
    help="Maximum size of a response body that the policy decides on.",
)
@click.option(
    "--admin",
    metavar="ADDR",
    help="Address of Envoy's administration interface, on this host only; off by default.",
)
@click.option(
    "--timeout", type=float, metavar="SECONDS", help="Time limit for a decision on a request."
)
@click.option(
    "--upstream-timeout",
    type=float,
    metavar="SECONDS",
    help="Time limit for the application's response.",
)
@click.option(
    "--max-body",
    type=int,
    metavar="BYTES",
    help="Maximum size of a request body that the policy sees.",
)
@click.option(
    "--max-connections",
    type=int,
    metavar="N",
    help="Maximum number of client connections that Envoy keeps open.",
)
@click.option(
    "--max-heap", type=int, metavar="BYTES", help="Envoy's heap size at which it refuses requests."
)
@click.option(
    "--trusted-hops",
    type=int,
    metavar="N",
    help="Number of trusted proxies in front of Envoy, for the client's address in "
    "x-forwarded-for.",
)
@click.option(
    "--forward-authorization",
    is_flag=True,
    help="Pass the `authorization` header to the application.",
)
def bootstrap(
    pdp: tuple[str, ...],
    responses: tuple[str, ...],
    workers: int,
    forward_authorization: bool,
    **options: object,
) -> None:
    """Print a hardened Envoy configuration; comments explain the settings."""
    values = {name: value for name, value in options.items() if value is not None}
    try:
        if pdp or workers > 1:
            values["pdp"] = _worker_addresses(pdp or Bootstrap().pdp, workers)
        values["responses"] = _worker_addresses(responses, workers)
        settings = Bootstrap(**values, forward_authorization=forward_authorization)  # type: ignore[arg-type]  # click has checked them
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(render(settings), nl=False)


def _worker_addresses(addresses: tuple[str, ...], workers: int) -> tuple[str, ...]:
    """Return the addresses of all workers of each decision point, in order; unchanged for one
    worker.

    `unix:a.sock` with two workers -> `unix://a.sock.0`, `unix://a.sock.1`.
    """
    if workers == 1:
        return addresses
    schemes = [each.replace("unix:", "unix://") if _is_short(each) else each for each in addresses]
    return tuple([names[-1] for each in schemes for names in worker_addresses(each, workers)])


def _is_short(address: str) -> bool:
    """Return True for `unix:PATH`, without the slashes that `worker_addresses` needs."""
    return address.startswith("unix:") and not address.startswith("unix://")


@command.command(
    "redirect",
    epilog="""\b
Examples:
  doorward envoy redirect -p 8000 -u 1111 -w 8282
  doorward envoy redirect -p 8000 -u 1111 -w 8282 --capture-loopback --verify
  doorward envoy redirect --remove
""",
)
@click.option("-p", "port", metavar="PORT", help="Port on which Envoy accepts inbound connections.")
@click.option(
    "-u", "user", metavar="UID", help="User id of Envoy, whose own connections are not redirected."
)
@click.option(
    "-w",
    "open_ports",
    multiple=True,
    metavar="PORT,…",
    help="Do not redirect inbound connections to these ports.",
)
@click.option(
    "--only",
    "only_ports",
    multiple=True,
    metavar="PORT,…",
    help="Redirect inbound connections to these ports only.",
)
@click.option(
    "-o",
    "outbound",
    metavar="PORT",
    help="Redirect outbound connections too, to this port of Envoy.",
)
@click.option(
    "-i",
    "networks",
    multiple=True,
    metavar="CIDR,…",
    help="With -o: redirect only outbound connections to these networks.",
)
@click.option(
    "--capture-loopback", is_flag=True, help="Redirect connections within the pod or host too."
)
@click.option(
    "--backend",
    type=click.Choice(BACK_ENDS),
    help="Program that sets the rules; by default the first one that works.",
)
@click.option(
    "--dry-run", "step", flag_value="dry-run", help="Print the rules without changing anything."
)
@click.option(
    "--stay", "step", flag_value="stay", help="Keep running, and repair the rules every 10 s."
)
@click.option(
    "--verify",
    "step",
    flag_value="verify",
    help="Check the rules; exit with 0 only if all are in place.",
)
@click.option(
    "--remove", "step", flag_value="remove", help="Remove all rules that this command added."
)
def redirect(step: str | None, backend: str | None, **given: Any) -> int:
    """Redirect inbound TCP connections of this network namespace to Envoy, over IPv4 and IPv6.

    The command is idempotent: it adds missing rules and replaces wrong ones. It needs the
    capability NET_ADMIN, and nft or iptables.
    """
    if step == "remove":
        for name in _attempt(lambda: remove(backend)):
            click.echo(f"removed ({name})")
        return 0
    options = _to_redirect(given)
    match step:
        case "dry-run":
            click.echo(dry_run(options, backend), nl=False)
        case "stay":
            _keep_rules(options, backend)
        case "verify":
            problems = _attempt(lambda: verify(options, backend))
            for problem in problems:
                click.echo(problem, err=True)
            return 1 if problems else 0
        case _:
            click.echo(_attempt(lambda: install(options, backend)))
    return 0


def _to_redirect(options: dict[str, Any]) -> Redirect:
    """Return the options of the command, by parameter name, as a `Redirect`; raise UsageError if -p
    or -u is missing, or a value is malformed.
    """
    if options["port"] is None or options["user"] is None:
        raise click.UsageError("-p and -u are needed: Envoy's port and the id of its user")
    user, outbound = options["user"], options["outbound"]
    if not (user.isascii() and user.isdecimal() and len(user) <= 10):
        raise click.UsageError(
            f"-u: `{user}` is not a numeric user id: run `id -u NAME` to find it"
        )
    try:
        return Redirect(
            port=_one_port(options["port"]),
            user=int(user),
            open_ports=read_ports(options["open_ports"]),
            only_ports=read_ports(options["only_ports"]),
            outbound=None if outbound is None else _one_port(outbound),
            networks=read_networks(options["networks"]),
            capture_loopback=options["capture_loopback"],
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _keep_rules(options: Redirect, backend: str | None) -> None:
    """Install the rules and repair them every `REPAIR` seconds; blocks until SIGTERM or SIGINT.

    The rules stay in force afterwards. Raise ClickException if they cannot be installed.
    """
    stop = SignalSafeEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _attempt(lambda: stay(options, backend, until=stop, every=REPAIR, say=click.echo))


def _one_port(text: str) -> int:
    """Return the port in a text; raise ValueError for a list or anything else."""
    ports = read_ports([text])
    if len(ports) != 1:
        raise ValueError(f"`{text}` is not a port: use a number from 1 to 65535")
    return ports[0]


def _attempt(step: Callable[[], Any]) -> Any:
    """Return the result of `step`; raise ClickException in place of a RedirectError."""
    try:
        return step()
    except RedirectError as error:
        raise click.ClickException(str(error)) from None
