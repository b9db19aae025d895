"""`doorward docker proxy`: a socket in front of the daemon's, which knows its callers."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from doorward.bundles.loader import LoadError
from doorward.cli.docker_options import (
    add_shared_options,
    block_signals,
    read_input_options,
    read_shared_options,
)
from doorward.docker.audit import AuditLogError
from doorward.docker.decider.remote import UrlError
from doorward.docker.plugin import PluginOptions
from doorward.docker.proxy.pins import PinError
from doorward.docker.proxy.recordings import LARGEST, RecordingError
from doorward.docker.proxy.server import ProxyError
from doorward.docker.proxy.service import (
    SHARED,
    SIGNALS,
    Consumer,
    ProxyOptions,
    ProxyService,
)
from doorward.docker.server import BindError
from doorward.rego import RegoError
from doorward.telemetry.log import configure

__all__ = ["proxy"]

_FAILURES: Final = (
    AuditLogError,
    BindError,
    LoadError,
    PinError,
    ProxyError,
    RecordingError,
    RegoError,
)
_CONSUMER: Final = re.compile(r"([a-z0-9][a-z0-9_.-]{0,63})=(/[^,]+)(?:,group=([^,]+))?")


@click.command("proxy")
@click.option(
    "--daemon",
    required=True,
    metavar="PATH",
    help="The Docker daemon's own socket; only root must be able to open it.",
)
@click.option(
    "--socket",
    default="",
    metavar="PATH",
    help="Create this Unix socket for the users of this host.",
)
@click.option("--group", default="", metavar="NAME", help="Group that may open --socket.")
@click.option(
    "--consumer",
    "consumers",
    multiple=True,
    metavar="NAME=PATH[,group=GROUP]",
    help="Create a socket for one program, which policies see as the user socket:NAME; repeatable.",
)
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help="Listen on this TCP address, for clients with certificates.",
)
@click.option(
    "--tls-ca-cert-file",
    default="",
    metavar="FILE",
    help="With --listen: the CA that signs the certificates of clients, in PEM.",
)
@click.option(
    "-p", "--pdp", default="", metavar="URL", help="Let the policy server at this URL decide."
)
@click.option(
    "--policy",
    multiple=True,
    metavar="PATH",
    help="Decide in this process with the policies in this file or folder; repeatable.",
)
@add_shared_options
@click.option(
    "--pins",
    default="",
    metavar="FOLDER",
    help="Pin host folders that containers mount below this folder, so that a changed "
    "link cannot redirect them; needs root.",
)
@click.option(
    "--pins-state",
    default="/var/lib/doorward/pins.json",
    metavar="FILE",
    help="File that lists the pinned folders, for the next start of the proxy.",
)
@click.option(
    "--host-root",
    default="",
    metavar="PATH",
    help="For a proxy in a container: folder at which the host's root is mounted.",
)
@click.option(
    "--record",
    default="",
    metavar="FOLDER",
    help="Record the streams of exec and attach in this folder.",
)
@click.option(
    "--record-limit",
    type=click.IntRange(1),
    default=LARGEST,
    metavar="BYTES",
    help="Maximum size of a recording; a stream that exceeds it is ended.",
)
@click.option(
    "--grace",
    default=10.0,
    metavar="SECONDS",
    help="Time that open streams have to finish when the proxy stops.",
)
def proxy(**params: Any) -> int:
    """Run a proxy for the daemon's API, on sockets that identify their callers."""
    configure(params["log_level"], "json")
    # INVARIANT: before the first thread, which inherits the mask: only the `sigwait` of
    # `ProxyService.run` may take these signals.
    with block_signals(SIGNALS):
        try:
            service = ProxyService(_options(params))
        except _FAILURES as error:
            raise click.ClickException(str(error)) from None
        except UrlError as error:
            raise click.UsageError(f"--pdp: {error}") from None
        service.run()
        return 0


def _options(params: dict[str, Any]) -> ProxyOptions:
    """Return the options of `docker proxy` as `ProxyOptions`.

    Raise UsageError if they do not fit together, such as --host-root with --socket or --pins.
    """
    shared = read_shared_options(params)
    if params["host_root"] and (params["socket"] or params["pins"]):
        raise click.UsageError(
            "--host-root cannot be combined with --socket or --pins: a container sees neither the "
            "users of the host nor mounts that the daemon sees"
        )
    plugin = PluginOptions(read_input_options(params), deny_unlogged=params["deny_unlogged"])
    return ProxyOptions(
        daemon=params["daemon"],
        socket=params["socket"],
        group=params["group"],
        consumers=[_consumer(text) for text in params["consumers"]],
        pins=params["pins"],
        host_root=params["host_root"],
        pins_state=params["pins_state"],
        record=params["record"],
        record_largest=params["record_limit"],
        grace=params["grace"],
        plugin=plugin,
        **shared,
    )


def _consumer(text: str) -> Consumer:
    """Return the consumer that `NAME=/PATH[,group=GROUP]` describes; raise UsageError for other
    forms and for the name that is reserved, `SHARED`.
    """
    match = _CONSUMER.fullmatch(text)
    if match is not None and match[1] == SHARED:
        raise click.UsageError(f"--consumer: the name {SHARED} is reserved: use another one")
    if match is None:
        raise click.UsageError("--consumer must be of the form NAME=/PATH[,group=GROUP]")
    return Consumer(match[1], match[2], match[3] or "")
