"""`doorward envoy`: what stands around the proxy."""

from __future__ import annotations

import click

from doorward.envoy.bootstrap import Bootstrap, render

__all__ = ["command"]


@click.group("envoy")
def command() -> None:
    """Everything for the Envoy proxy."""


@command.command(
    "bootstrap",
    epilog="""\b
Examples:
  doorward envoy bootstrap > envoy.yaml
  doorward envoy bootstrap --listen 0.0.0.0:8000 --upstream 127.0.0.1:8080 \\
      --pdp unix:///run/doorward/auth.sock > envoy.yaml
""",
)
@click.option("--listen", metavar="ADDR", help="Where clients connect.")
@click.option("--upstream", metavar="ADDR", help="The application.")
@click.option("--pdp", multiple=True, metavar="ADDR", help="A decision point; repeatable.")
@click.option("--admin", metavar="ADDR", help="Administration interface, on this host; else off.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time for a decision.")
@click.option("--upstream-timeout", type=float, metavar="SECONDS", help="Time for an answer.")
@click.option("--max-body", type=int, metavar="BYTES", help="How much of a body the policy sees.")
@click.option("--max-connections", type=int, metavar="N", help="Connections at the same time.")
@click.option("--max-heap", type=int, metavar="BYTES", help="Memory, before requests are refused.")
@click.option("--trusted-hops", type=int, metavar="N", help="Proxies in front that are believed.")
@click.option(
    "--forward-authorization", is_flag=True, help="Let the application see `authorization`."
)
def bootstrap(pdp: tuple[str, ...], forward_authorization: bool, **options: object) -> None:
    """Print a hardened Envoy configuration with comments that say why."""
    given = {name: value for name, value in options.items() if value is not None}
    if pdp:
        given["pdp"] = pdp
    try:
        settings = Bootstrap(**given, forward_authorization=forward_authorization)  # type: ignore[arg-type]  # click has checked them
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(render(settings), nl=False)
