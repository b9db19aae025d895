"""`doorward docker`: the Docker daemon's authorization plugin, from installing to replaying."""

from __future__ import annotations

import signal
from typing import Any, Final

import click

from doorward.docker.audit import AuditLogError
from doorward.docker.embedded import DECISION, PACK
from doorward.docker.inputs import InputOptions
from doorward.docker.plugin import PluginOptions
from doorward.docker.remote import UrlError
from doorward.docker.server import BindError
from doorward.docker.service import Service, ServiceOptions
from doorward.pdp.loader import LoadError
from doorward.pdp.log import configure
from doorward.rego.errors import RegoError

__all__ = ["command"]

SOCKET: Final = "/run/docker/plugins/doorward.sock"


@click.group("docker")
def command() -> None:
    """Everything for the Docker daemon."""


@command.command("serve")
@click.option("--socket", default=SOCKET, metavar="PATH", help="Where the daemon finds the plugin.")
@click.option("--listen", default="", metavar="HOST:PORT", help="TCP with mutual TLS instead.")
@click.option("--tls-cert-file", default="", metavar="FILE")
@click.option("--tls-private-key-file", default="", metavar="FILE")
@click.option("--tls-ca-cert-file", default="", metavar="FILE", help="Who certifies the daemon.")
@click.option("-p", "--pdp", default="", metavar="URL", help="Ask this decision point.")
@click.option("--policy", multiple=True, metavar="PATH", help="Decide here, by these policies.")
@click.option("--decision", default=DECISION, metavar="PATH", help="The document that decides.")
@click.option("--timeout", default=3.0, metavar="SECONDS", help="Time for a decision.")
@click.option("--audit-log", default="-", metavar="FILE", help="One line for each decision.")
@click.option("--audit-input", is_flag=True, help="With the masked input, to replay it.")
@click.option("--mask-env", is_flag=True, help="Keep values of Env from the policy.")
@click.option("--minimum-api-version", default="1.24", metavar="VERSION")
@click.option("--authorize-responses", is_flag=True, help="Ask about answers too.")
@click.option("--allow-on-failure", is_flag=True, help="DANGEROUS: allow without a decision.")
@click.option("--threads", default=256, metavar="N", help="Calls worked on at the same time.")
@click.option("--log-level", type=click.Choice(["debug", "info", "error"]), default="info")
def serve(**given: Any) -> int:
    """Answer the daemon's calls until told to stop."""
    configure(given["log_level"], "json")
    try:
        service = Service(_service_options(given))
    except (BindError, AuditLogError, LoadError, RegoError) as error:
        raise click.ClickException(str(error)) from None
    except UrlError as error:
        raise click.UsageError(f"--pdp: {error}") from None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    service.start()
    service.run()
    return 0


def _service_options(given: dict[str, Any]) -> ServiceOptions:
    if given["pdp"] and given["policy"]:
        raise click.UsageError("either --pdp or --policy decides")
    files = ("tls_cert_file", "tls_private_key_file", "tls_ca_cert_file")
    if given["listen"] and not all(given[name] for name in files):
        raise click.UsageError(
            "--listen needs the three --tls-…-file options"
        )
    if not 0 < given["timeout"] <= 60:
        raise click.UsageError("--timeout must be up to 60 seconds")
    if not 1 <= given["threads"] <= 1024:
        raise click.UsageError("--threads must be from 1 to 1024")
    return ServiceOptions(
        socket=given["socket"],
        listen=given["listen"],
        certificate=given["tls_cert_file"],
        key=given["tls_private_key_file"],
        authority=given["tls_ca_cert_file"],
        url=given["pdp"],
        policies=given["policy"] or (str(PACK),),
        decision=given["decision"],
        deadline=given["timeout"],
        audit_log=given["audit_log"],
        audit_input=given["audit_input"],
        threads=given["threads"],
        plugin=PluginOptions(
            InputOptions(_version(given["minimum_api_version"]), given["mask_env"]),
            given["authorize_responses"],
            given["allow_on_failure"],
        ),
    )


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        raise click.UsageError("--minimum-api-version must be of the form 1.24")
    return tuple(map(int, parts))
