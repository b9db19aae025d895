"""`doorward docker proxy`: a socket in front of the daemon's, which knows its callers."""

from __future__ import annotations

import re
import signal
from typing import Any, Final

import click

from doorward.bundles.loader import LoadError
from doorward.docker.audit import AuditLogError
from doorward.docker.decider.embedded import DECISION, PACK, with_shipped
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
from doorward.docker.request.host import PIDFILE
from doorward.docker.request.input import InputOptions
from doorward.docker.request.protected import DAEMON_CONFIG
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
    help="The daemon's own socket, which only root can reach.",
)
@click.option("--socket", default="", metavar="PATH", help="Socket for users of this host.")
@click.option("--group", default="", metavar="NAME", help="Group that may use it.")
@click.option(
    "--consumer",
    "consumers",
    multiple=True,
    metavar="NAME=PATH[,group=GROUP]",
    help="Socket for one program, which is user socket:NAME.",
)
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help="Listen on TCP, for clients with certificates.",
)
@click.option("--tls-cert-file", default="", metavar="FILE")
@click.option("--tls-private-key-file", default="", metavar="FILE")
@click.option(
    "--tls-ca-cert-file",
    default="",
    metavar="FILE",
    help="CA that signs the certificates of clients.",
)
@click.option("-p", "--pdp", default="", metavar="URL", help="Ask the decision point at this URL.")
@click.option(
    "--policy", multiple=True, metavar="PATH", help="Decide in this process, by these policies."
)
@click.option(
    "--data",
    multiple=True,
    metavar="PATH",
    help="Folder with data and additions for the shipped policies.",
)
@click.option("--decision", default=DECISION, metavar="PATH", help="Document that decides.")
@click.option("--timeout", default=3.0, metavar="SECONDS", help="Time limit for a decision.")
@click.option(
    "--audit-log",
    default="-",
    metavar="FILE",
    help="Audit log, a JSON line for each decision; `off` for none.",
)
@click.option(
    "--audit-input", is_flag=True, help="Log masked inputs too, so that decisions can be replayed."
)
@click.option("--log-only-denied", is_flag=True, help="Log denials only.")
@click.option(
    "--deny-unlogged", is_flag=True, help="Deny requests that cannot be written to the audit log."
)
@click.option("--mask-env", is_flag=True, help="Hide the values of Env from the policy.")
@click.option("--minimum-api-version", default="1.24", metavar="VERSION")
@click.option(
    "--pins",
    default="",
    metavar="FOLDER",
    help="Folder in which mounted folders are pinned (root).",
)
@click.option(
    "--pins-state",
    default="/var/lib/doorward/pins.json",
    metavar="FILE",
    help="File that lists the pins for the next start.",
)
@click.option(
    "--host-root",
    default="",
    metavar="PATH",
    help="Folder in which the host's root is mounted, for a proxy in a container.",
)
@click.option(
    "--record",
    default="",
    metavar="FOLDER",
    help="Folder in which the streams of exec and attach are recorded.",
)
@click.option(
    "--record-limit",
    type=click.IntRange(1),
    default=LARGEST,
    metavar="BYTES",
    help="Size of a recording at which its stream ends.",
)
@click.option(
    "--daemon-json", default=DAEMON_CONFIG, metavar="FILE", help="The daemon's configuration file."
)
@click.option("--pidfile", default=PIDFILE, metavar="FILE", help="The daemon's PID file.")
@click.option(
    "--grace", default=10.0, metavar="SECONDS", help="Time in which open streams may end."
)
@click.option("--log-level", type=click.Choice(["debug", "info", "error"]), default="info")
def proxy(**params: Any) -> int:
    """Serve the daemon's API on sockets whose callers are known, until told to stop."""
    configure(params["log_level"], "json")
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        service = ProxyService(_options(params))
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    except UrlError as error:
        raise click.UsageError(f"--pdp: {error}") from None
    service.run()
    return 0


def _options(params: dict[str, Any]) -> ProxyOptions:
    if params["pdp"] and params["policy"]:
        raise click.UsageError("--pdp cannot be combined with --policy")
    if params["data"] and (params["pdp"] or params["policy"]):
        raise click.UsageError("--data cannot be combined with --pdp or --policy")
    if params["host_root"] and (params["socket"] or params["pins"]):
        raise click.UsageError(
            "--host-root cannot be combined with --socket or --pins: a container sees neither the "
            "users of the host nor mounts that the daemon sees"
        )
    files = ("tls_cert_file", "tls_private_key_file", "tls_ca_cert_file")
    if params["listen"] and not all(params[name] for name in files):
        raise click.UsageError("--listen needs the three --tls-…-file options")
    if not 0 < params["timeout"] <= 60:
        raise click.UsageError("--timeout must be up to 60 seconds")
    parts = params["minimum_api_version"].split(".")
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        raise click.UsageError("--minimum-api-version must be of the form 1.24")
    return ProxyOptions(
        daemon=params["daemon"],
        socket=params["socket"],
        group=params["group"],
        consumers=[_consumer(text) for text in params["consumers"]],
        listen=params["listen"],
        certificate=params["tls_cert_file"],
        key=params["tls_private_key_file"],
        authority=params["tls_ca_cert_file"],
        url=params["pdp"],
        policies=with_shipped(params["data"])
        if params["data"]
        else params["policy"] or (str(PACK),),
        decision=params["decision"],
        deadline=params["timeout"],
        audit_log=params["audit_log"],
        audit_input=params["audit_input"],
        log_only_denied=params["log_only_denied"],
        pins=params["pins"],
        host_root=params["host_root"],
        pins_state=params["pins_state"],
        record=params["record"],
        record_largest=params["record_limit"],
        daemon_json=params["daemon_json"],
        pidfile=params["pidfile"],
        grace=params["grace"],
        plugin=PluginOptions(
            InputOptions(tuple(map(int, parts)), params["mask_env"]),
            deny_unlogged=params["deny_unlogged"],
        ),
    )


def _consumer(text: str) -> Consumer:
    match = _CONSUMER.fullmatch(text)
    if match is None or match[1] == SHARED:
        raise click.UsageError("--consumer must be of the form NAME=/PATH[,group=GROUP]")
    return Consumer(match[1], match[2], match[3] or "")
