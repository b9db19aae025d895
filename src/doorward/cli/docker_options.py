"""The options that `doorward docker serve` and `doorward docker proxy` share, and their checks."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from doorward.docker.decider.embedded import DECISION, PACK, with_shipped
from doorward.docker.request.daemon_settings import DAEMON_CONFIG, PIDFILE
from doorward.docker.request.input import InputOptions

__all__ = ["add_shared_options", "block_signals", "read_input_options", "read_shared_options"]

F = TypeVar("F", bound=Callable[..., Any])

_SHARED: Final = (
    click.option(
        "--tls-cert-file",
        default="",
        metavar="FILE",
        help="With --listen: the server's certificate, in PEM.",
    ),
    click.option(
        "--tls-private-key-file",
        default="",
        metavar="FILE",
        help="With --listen: the server's private key, in PEM.",
    ),
    click.option(
        "--data",
        multiple=True,
        metavar="PATH",
        help="Folder with your data.json and added policies for the shipped policies; repeatable.",
    ),
    click.option(
        "--decision",
        default=DECISION,
        metavar="PATH",
        help="Path of the document whose value is the decision.",
    ),
    click.option(
        "--timeout",
        default=3.0,
        metavar="SECONDS",
        help="Time limit for a decision, in seconds; a request without a decision in time is "
        "denied.",
    ),
    click.option(
        "--audit-log",
        default="-",
        metavar="FILE",
        help="Write the audit log, a JSON line for each decision, to this file; `-` is "
        "standard output, `off` none.",
    ),
    click.option(
        "--audit-input",
        is_flag=True,
        help="Write the input, with credentials masked, to the audit log too, so that "
        "decisions can be replayed.",
    ),
    click.option("--log-only-denied", is_flag=True, help="Write only denials to the audit log."),
    click.option(
        "--deny-unlogged",
        is_flag=True,
        help="Deny requests that cannot be written to the audit log.",
    ),
    click.option(
        "--mask-env",
        is_flag=True,
        help="Hide the values of containers' environment variables (`Env`) from the policy.",
    ),
    click.option(
        "--minimum-api-version",
        default="1.24",
        show_default=True,
        metavar="VERSION",
        help="Deny requests with an older version of the Docker API.",
    ),
    click.option(
        "--daemon-json",
        default=DAEMON_CONFIG,
        metavar="FILE",
        help="The Docker daemon's configuration file.",
    ),
    click.option(
        "--pidfile",
        default=PIDFILE,
        metavar="FILE",
        help="The Docker daemon's PID file, to find its process.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "error"]),
        default="info",
        show_default=True,
        help="Lowest level of log messages that are written.",
    ),
)


def add_shared_options(function: F) -> F:
    """Decorator: add the options that `docker serve` and `docker proxy` share."""
    for option in reversed(_SHARED):
        function = option(function)
    return function


def read_shared_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that `ServiceOptions` and `ProxyOptions` have in common, by name.

    They come from the shared options and from --listen, --tls-ca-cert-file, --pdp and --policy.
    Raise UsageError if they do not fit together, if --decision is the root, or if --timeout is not
    above 0 and at most 60 seconds.
    """
    if params["pdp"] and params["policy"]:
        raise click.UsageError("--pdp cannot be combined with --policy")
    if params["data"] and (params["pdp"] or params["policy"]):
        raise click.UsageError("--data cannot be combined with --pdp or --policy")
    files = ("tls_cert_file", "tls_private_key_file", "tls_ca_cert_file")
    if params["listen"] and not all(params[name] for name in files):
        raise click.UsageError(
            "--listen needs --tls-cert-file, --tls-private-key-file and --tls-ca-cert-file"
        )
    if not 0 < params["timeout"] <= 60:
        raise click.UsageError("--timeout must be above 0 and at most 60 seconds")
    if not params["pdp"] and not params["decision"].strip("/ "):
        raise click.UsageError(
            "--decision must be the path of a document below the root, such as policy/docker/authz"
        )
    shipped = with_shipped(params["data"]) if params["data"] else (str(PACK),)
    return {
        "listen": params["listen"],
        "certificate": params["tls_cert_file"],
        "key": params["tls_private_key_file"],
        "authority": params["tls_ca_cert_file"],
        "url": params["pdp"],
        "policies": params["policy"] or shipped,
        "decision": params["decision"],
        "deadline": params["timeout"],
        "audit_log": params["audit_log"],
        "audit_input": params["audit_input"],
        "log_only_denied": params["log_only_denied"],
        "daemon_json": params["daemon_json"],
        "pidfile": params["pidfile"],
    }


def read_input_options(params: Mapping[str, Any]) -> InputOptions:
    """Return the options that determine which parts of a request a policy sees.

    Raise UsageError for a malformed API version.
    """
    parts = params["minimum_api_version"].split(".")
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        raise click.UsageError("--minimum-api-version must be of the form 1.24")
    return InputOptions(tuple(map(int, parts)), params["mask_env"])


@contextmanager
def block_signals(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Context in which `signals` are blocked, for threads and processes that begin in it too. They
    stay blocked after it, for the end of the process; after an error they are as before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    has_failed = True
    try:
        yield
        has_failed = False
    finally:
        if has_failed:
            # The caller may go on, as tests do: what it starts must hear these signals.
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
