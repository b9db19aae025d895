"""`doorward docker proxy`: a socket in front of the daemon's, which knows its callers."""

from __future__ import annotations

import re
import signal
from typing import Any, Final

import click

from doorward.docker.audit import AuditLogError
from doorward.docker.decider.embedded import DECISION, PACK, with_shipped
from doorward.docker.decider.remote import UrlError
from doorward.docker.plugin import PluginOptions
from doorward.docker.proxy.pins import PinError
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
from doorward.pdp.loader import LoadError
from doorward.pdp.log import configure
from doorward.rego import RegoError

__all__ = ["proxy"]

_CONSUMER: Final = re.compile(r"([a-z0-9][a-z0-9_.-]{0,63})=(/[^,]+)(?:,group=([^,]+))?")


@click.command("proxy")
@click.option(
    "--daemon",
    required=True,
    metavar="PATH",
    help="The daemon's own socket, which only root can reach.",
)
@click.option("--socket", default="", metavar="PATH", help="Where users of this host come.")
@click.option("--group", default="", metavar="NAME", help="Who may open it beside its owner.")
@click.option(
    "--consumer",
    "consumers",
    multiple=True,
    metavar="NAME=PATH[,group=GROUP]",
    help="A socket for one program, which is known by it as user socket:NAME.",
)
@click.option(
    "--listen", default="", metavar="HOST:PORT", help="TCP for clients with certificates."
)
@click.option("--tls-cert-file", default="", metavar="FILE")
@click.option("--tls-private-key-file", default="", metavar="FILE")
@click.option("--tls-ca-cert-file", default="", metavar="FILE", help="Who certifies the clients.")
@click.option("-p", "--pdp", default="", metavar="URL", help="Ask this decision point.")
@click.option("--policy", multiple=True, metavar="PATH", help="Decide here, by these policies.")
@click.option(
    "--data", multiple=True, metavar="PATH", help="Data and additions for the shipped policies."
)
@click.option("--decision", default=DECISION, metavar="PATH", help="The document that decides.")
@click.option("--timeout", default=3.0, metavar="SECONDS", help="Time for a decision.")
@click.option(
    "--audit-log", default="-", metavar="FILE", help="One line for each decision; `off` for none."
)
@click.option("--audit-input", is_flag=True, help="With the masked input, to replay it.")
@click.option("--log-only-denied", is_flag=True, help="No line for what is allowed.")
@click.option(
    "--deny-unlogged", is_flag=True, help="Deny what the audit log has no line of: a full disk."
)
@click.option("--mask-env", is_flag=True, help="Keep values of Env from the policy.")
@click.option("--minimum-api-version", default="1.24", metavar="VERSION")
@click.option(
    "--pins",
    default="",
    metavar="FOLDER",
    help="Hold the folders that users mount by mounts in here (root).",
)
@click.option(
    "--pins-state",
    default="/var/lib/doorward/pins.json",
    metavar="FILE",
    help="What is held, for the next start.",
)
@click.option("--daemon-json", default=DAEMON_CONFIG, metavar="FILE", help="The daemon's.")
@click.option("--pidfile", default=PIDFILE, metavar="FILE", help="The daemon's.")
@click.option(
    "--grace", default=10.0, metavar="SECONDS", help="Time at the end for streams that are open."
)
@click.option("--log-level", type=click.Choice(["debug", "info", "error"]), default="info")
def proxy(**params: Any) -> int:
    """Serve the daemon's API on sockets whose callers are known, until told to stop."""
    configure(params["log_level"], "json")
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        service = ProxyService(_options(params))
    except (BindError, PinError, ProxyError, AuditLogError, LoadError, RegoError) as error:
        raise click.ClickException(str(error)) from None
    except UrlError as error:
        raise click.UsageError(f"--pdp: {error}") from None
    service.run()
    return 0


def _options(params: dict[str, Any]) -> ProxyOptions:
    if params["pdp"] and params["policy"]:
        raise click.UsageError("either --pdp or --policy decides")
    if params["data"] and (params["pdp"] or params["policy"]):
        raise click.UsageError("--data is for the shipped policies, without --pdp and --policy")
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
        pins_state=params["pins_state"],
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
