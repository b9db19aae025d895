"""`doorward run`: the decision point as a server, with the flags of `opa run`."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from doorward.base.collector import gc_frozen, gc_paused
from doorward.base.os_errors import describe_os_error
from doorward.bundles.loader import LoadError
from doorward.bundles.signatures import ALGORITHMS, Verification
from doorward.bundles.sources import Sources
from doorward.cli import capabilities, extensions, overrides
from doorward.cli.arguments import argument, style_option
from doorward.cli.durations import seconds
from doorward.cli.errors import for_people, warn
from doorward.cli.log_options import log_options
from doorward.config.configuration import Config, ConfigError, read_config
from doorward.rego import RegoError

if TYPE_CHECKING:
    from doorward.server.sidecar_options import SidecarOptions
    from doorward.transport.tls import TlsOptions

__all__ = ["REFUSED_FLAGS", "command"]

MOST_BY_DEFAULT: Final = 4
"""The largest number of workers with --workers 0, which means one per CPU."""
_MAX_KEY: Final = 1 << 20
_WATCHED: Final = 5.0
"""Seconds between two checks for changed certificates with --watch."""
LAST: Final = 30.0
"""Seconds after the wait and grace periods at which the process is killed."""
REFUSED_FLAGS: Final = {
    "h2c": "the HTTP API speaks HTTP/1.1; for HTTP/2 put a proxy in front of it",
    "pprof": "it profiles Go programs; `py-spy` profiles a running server, and names the rules",
}
"""Flags of OPA that are refused, each with the reason."""


@click.command(
    "run",
    epilog="""\b
Examples:
  doorward run --server policy.rego
  doorward run --server --addr 127.0.0.1:8181 --diagnostic-addr 127.0.0.1:8282 \\
      --config-file doorward.yaml --ignore '.*' policy.rego data/
  doorward run policy.rego data.json                  # an interactive shell
  doorward run --server --set decision_logs.console=true policy.rego
""",
)
@argument("files", nargs=-1, help="Files and folders with policies and data.")
@click.option("-s", "--server", is_flag=True, help="Run as a server.")
@click.option(
    "-a",
    "--addr",
    multiple=True,
    default=("localhost:8181",),
    show_default=True,
    help="Address on which the HTTP API is served, HOST:PORT or unix:///PATH; repeatable.",
)
@click.option(
    "--diagnostic-addr",
    multiple=True,
    help="Address on which only health and metrics are served; repeatable.",
)
@click.option(
    "--console",
    is_flag=True,
    help="Serve the console, with masked inputs, at /console of the diagnostic addresses.",
)
@click.option(
    "--console-docker-log",
    metavar="FILE",
    default="",
    help="With --console: show the decisions in this audit log of a Docker plugin too.",
)
@click.option("-c", "--config-file", help="Configuration file.")
@overrides.option
@overrides.file_option
@click.option("-b", "--bundle", is_flag=True, help="Read FILES as bundles: folders or .tar.gz.")
@click.option(
    "--ignore",
    multiple=True,
    help="Skip files and folders with this name or pattern, such as '.*', in folders; repeatable.",
)
@log_options(level="info")
@click.option(
    "-m",
    "--max-errors",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Maximum number of policy errors to report; 0 reports all.",
)
@style_option("pretty", "json", default="pretty", help="Output format of the shell.")
@click.option(
    "-H",
    "--history",
    default="~/.doorward_history",
    show_default=True,
    metavar="FILE",
    help="File in which the shell keeps the lines you entered.",
)
@click.option(
    "-w/-W",
    "--watch/--no-watch",
    default=True,
    show_default=True,
    help="Reload files when they change; versions with errors are not activated.",
)
@click.option(
    "--verification-key",
    metavar="KEY",
    help="Verify bundles with this key: a file with a public key in PEM, or a secret.",
)
@click.option("--verification-key-id", hidden=True)  # there is one key: OPA names it for nothing
@click.option(
    "--signing-alg",
    type=click.Choice(ALGORITHMS),
    default="RS256",
    show_default=True,
    metavar="NAME",
    help="Algorithm of the signatures of bundles.",
)
@click.option(
    "--scope", default="", help="Value that the claim `scope` of bundle signatures must have."
)
@click.option(
    "--exclude-files-verify",
    multiple=True,
    help="Do not verify files of bundles with this name or pattern; repeatable.",
)
@click.option(
    "--skip-verify", is_flag=True, help="Load bundles without verifying their signatures."
)
@capabilities.option
@extensions.option
@click.option("--v0-compatible", is_flag=True, help="Read policies as Rego v0.")
@click.option("--v1-compatible", is_flag=True, hidden=True)
@click.option(
    "--shutdown-grace-period",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds that open requests have to finish when the server stops.",
)
@click.option(
    "--shutdown-wait-period",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds to keep serving after a signal to stop.",
)
@click.option(
    "--unix-socket-perm",
    default="755",
    show_default=True,
    help="Permission bits of the Unix sockets that the server creates, in octal.",
)
@click.option(
    "--authentication",
    type=click.Choice(["off", "token", "tls"]),
    default="off",
    show_default=True,
    help="How clients of the HTTP API authenticate: a bearer token, or a certificate.",
)
@click.option(
    "--authorization",
    type=click.Choice(["off", "basic"]),
    default="off",
    show_default=True,
    help="`basic`: data.system.authz.allow authorizes requests to the HTTP API.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0, max=64),
    default=1,
    show_default=True,
    help="Number of processes; 0 uses one per CPU, at most 4. With several, the API is read-only.",
)
@click.option("--h2c", is_flag=True, hidden=True)
@click.option("--pprof", is_flag=True, hidden=True)
@click.option("--tls-cert-file", metavar="FILE", help="Certificate of the HTTP API, in PEM.")
@click.option("--tls-private-key-file", metavar="FILE", help="Private key of the HTTP API, in PEM.")
@click.option(
    "--tls-ca-cert-file", metavar="FILE", help="CA that signs the certificates of clients, in PEM."
)
@click.option(
    "--tls-cert-refresh-period",
    default="0s",
    metavar="DURATION",
    help="Interval at which changed certificate files are loaded again, such as 60s; 0s, the "
    "default, means 5s, or never with --no-watch.",
)
@click.option(
    "--min-tls-version",
    type=click.Choice(["1.0", "1.1", "1.2", "1.3"]),
    default="1.2",
    show_default=True,
    help="Oldest TLS version that the HTTP API accepts.",
)
@click.option(
    "--tls-cipher-suites",
    default="",
    metavar="NAMES",
    help="TLS 1.2 cipher suites to offer, by their Go names, separated by commas.",
)
@click.option(
    "--skip-known-schema-check",
    is_flag=True,
    expose_value=False,
    help="Accepted for compatibility with OPA: Doorward never checks the types of the input of "
    "system policies.",
)
@click.option(
    "--disable-telemetry",
    "--skip-version-check",
    is_flag=True,
    expose_value=False,
    help="Accepted for compatibility with OPA: Doorward sends no telemetry.",
)
@click.option(
    "--optimize-store-for-read-speed",
    is_flag=True,
    expose_value=False,
    help="Accepted for compatibility with OPA: Doorward always stores data in the form that is "
    "fast to read.",
)
@click.option(
    "--ready-timeout",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds to wait for bundles and discovery before serving; 0 does not wait.",
)
@click.option(
    "--cache-dir",
    metavar="DIR",
    help="With --server: private folder in which to cache compiled policies for the next start.",
)
def command(
    files: tuple[str, ...],
    server: bool,
    log_level: str,
    log_format: str,
    **options: Any,
) -> int:
    """Start a server or an interactive shell with the policies and data in FILES and folders.

    With --server, it serves OPA's HTTP API on --addr and, with `plugins.envoy_ext_authz_grpc` in
    the configuration, Envoy's external authorization API. It writes logs to standard error and
    shuts down gracefully on SIGTERM and SIGINT. Without --server, it is a shell in which you can
    evaluate queries and define rules.
    """
    if not server:
        return _interact(files, options)
    for name, reason in REFUSED_FLAGS.items():
        if options[name]:
            raise click.UsageError(f"--{name} is not supported: {reason}")
    # The extra `server` brings what writes logs.
    from doorward.telemetry.log import configure

    configure(log_level, log_format, timestamp_format=options["log_timestamp_format"])
    return _serve(files, log_format, options)


def _serve(files: Sequence[str], log_format: str, options: dict[str, Any]) -> int:
    """Start the server, run it until a signal ends it, and return the exit code.

    1 if it cannot start. SIGTERM and SIGINT stop it, SIGHUP reloads.
    """
    early: list[int] = []
    # Until there is something to reload: the signal would end the process.
    signal.signal(signal.SIGHUP, lambda number, _frame: early.append(number))
    with gc_frozen():  # what an import makes stays
        # They bring in the servers, which --help and the shell have no need of.
        from doorward.server.sidecar import Sidecar
        from doorward.server.sidecar_options import StartupError

    try:
        # The collector is on again before `start`, which may fork workers.
        with gc_paused():
            chosen = _options(files, log_format, options)
            if chosen.workers > 1:
                from doorward.server.workers import WorkerGroup

                sidecar: Sidecar | WorkerGroup = WorkerGroup(chosen)
            else:
                sidecar = Sidecar(chosen)

        def end(_number: int, _frame: object) -> None:
            """Handle SIGTERM or SIGINT: stop the sidecar, and end the process by force if that
            takes too long.
            """
            # The last resort against a hang: a process that ignores SIGTERM would be killed by its
            # supervisor without a trace of where it waits.
            _end_within(chosen.wait + 2 * chosen.grace + LAST)
            sidecar.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        signal.signal(signal.SIGHUP, lambda _number, _frame: sidecar.ask_for_reload())
        if early:
            sidecar.ask_for_reload()
        sidecar.start()
    except LoadError as error:
        return _fail(f"load error: {error}")
    except RegoError as error:
        return _fail(for_people(error))
    except (ConfigError, StartupError) as error:
        return _fail(str(error))
    return sidecar.run()


@cache
def _end_within(seconds: float) -> None:
    """Kill the process after `seconds` if it still runs, and print on standard error where it
    waits. Does nothing if standard error is closed.

    Only the first call counts: a second signal gives no more time.
    """
    with suppress(OSError, ValueError):  # standard error is closed
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or 2)


def _interact(files: Sequence[str], options: dict[str, Any]) -> int:
    """Run the interactive shell and return the exit code; 1 if the policies cannot be used."""
    # A server has no need of it.
    from doorward.cli.repl import interact

    sources = _sources(files, options)
    try:
        loaded = sources.load()
        warn(loaded.notes)
        registry = extensions.registry_for(options["builtins"], files)
        return interact(
            loaded,
            v0=sources.v0,
            registry=registry,
            style=options["style"],
            history=os.path.expanduser(options["history"]),
        )
    except LoadError as error:
        return _fail(f"load error: {error}")
    except RegoError as error:
        return _fail(for_people(error))


def _options(files: Sequence[str], log_format: str, options: dict[str, Any]) -> SidecarOptions:
    """Return the options of `run` as `SidecarOptions`. Without --workers there is a worker for each
    CPU, at most `MOST_BY_DEFAULT`; with `identity` in the configuration there is always one.

    Raise UsageError for options that do not fit together, ConfigError if the configuration cannot
    be used.
    """
    from doorward.rest.authorization import Access
    from doorward.server.sidecar_options import SidecarOptions

    config = _read_config(options)
    # The CPUs that this process may use, which in a container are fewer than the machine's.
    workers = options["workers"] or min(MOST_BY_DEFAULT, len(os.sched_getaffinity(0)))
    if options["console"] and not options["diagnostic_addr"]:
        raise click.UsageError("--console needs --diagnostic-addr")
    if config.identity:
        if options["workers"] > 1:
            raise ConfigError(
                "configuration: `identity` works in a single process only: use --workers 1"
            )
        workers = 1
    return SidecarOptions(
        sources=_sources(files, options),
        config=config,
        addresses=options["addr"],
        diagnostic_addresses=options["diagnostic_addr"],
        console=options["console"],
        docker_log=options["console_docker_log"],
        log_format=log_format,
        log_timestamp_format=options["log_timestamp_format"],
        max_errors=options["max_errors"],
        watch=options["watch"],
        capabilities=options["capabilities"],
        # A server imports what its command line names, never what lies around its policies.
        registry=extensions.registry_for(options["builtins"] or ("",), ()),
        grace=options["shutdown_grace_period"],
        wait=options["shutdown_wait_period"],
        unix_permissions=_permissions(options["unix_socket_perm"]),
        access=Access(options["authentication"], options["authorization"] == "basic"),
        tls=_tls_options(options),
        workers=workers,
        ready_timeout=options["ready_timeout"],
        cache_folder=Path(options["cache_dir"]) if options["cache_dir"] else None,
        read_config=lambda: _read_config(options),
    )


def _read_config(options: dict[str, Any]) -> Config:
    """Read the configuration from its file, `--set` and `--set-file`. ConfigError if it is
    invalid.
    """
    return read_config(
        options["config_file"], overrides=options["settings"], files=options["setting_files"]
    )


def _tls_options(options: dict[str, Any]) -> TlsOptions | None:
    """Return the options of TLS; None if TLS is not used, UsageError if they do not fit together or
    name an unknown cipher suite. Without a refresh period, --watch refreshes certificates every
    `_WATCHED` seconds.
    """
    from doorward.transport.tls import CIPHER_SUITES, TlsOptions

    certificate, key = options["tls_cert_file"], options["tls_private_key_file"]
    verifies = options["authentication"] == "tls"
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file must be set together")
    if certificate is None:
        addresses = [*options["addr"], *options["diagnostic_addr"]]
        is_required = verifies or any(each.startswith("https://") for each in addresses)
        if is_required or options["tls_ca_cert_file"] is not None:
            raise click.UsageError(
                "an https:// address, --authentication=tls and --tls-ca-cert-file need "
                "--tls-cert-file and --tls-private-key-file"
            )
        return None
    if verifies and options["tls_ca_cert_file"] is None:
        raise click.UsageError("--authentication=tls needs --tls-ca-cert-file")
    suites = [name.strip() for name in options["tls_cipher_suites"].split(",") if name.strip()]
    if unknown := [name for name in suites if name not in CIPHER_SUITES]:
        raise click.UsageError(f"--tls-cipher-suites: invalid cipher suite found: {unknown[0]}")
    refresh = seconds(options["tls_cert_refresh_period"], "--tls-cert-refresh-period")
    return TlsOptions(
        certificate=certificate,
        private_key=key,
        client_ca=options["tls_ca_cert_file"],
        verifies_clients=verifies,
        minimum=options["min_tls_version"],
        cipher_suites=suites,
        refresh=refresh or (_WATCHED if options["watch"] else 0.0),
    )


def _sources(files: Sequence[str], options: dict[str, Any]) -> Sources:
    """Return the policies to serve: bundles if --bundle is set, else files and folders.

    Raise UsageError for --verification-key without --bundle, or with a file that cannot be read.
    """
    bundles = options["bundle"]
    if options["verification_key"] is not None and not bundles:
        raise click.UsageError("--verification-key needs --bundle")
    return Sources(
        paths=() if bundles else files,
        bundles=files if bundles else (),
        ignore=options["ignore"],
        v0=options["v0_compatible"],
        signed=not options["skip_verify"],
        verification=_verification(options),
    )


def _verification(options: dict[str, Any]) -> Verification | None:
    """Return how bundles are verified; None without a key. `verification_key` is the name of a file
    with the key, or the key itself.

    Raise UsageError if the file cannot be read as text or has more than `_MAX_KEY` characters.
    """
    key = options["verification_key"]
    if key is None:
        return None
    if os.path.isfile(key):
        try:
            with open(key, encoding="utf-8") as file:
                text = file.read(_MAX_KEY + 1)
        except OSError as error:
            reason = describe_os_error(error)
            raise click.UsageError(f"--verification-key: {key}: {reason}") from None
        except UnicodeDecodeError:
            raise click.UsageError(
                f"--verification-key: {key}: the file is neither a public key in PEM nor a "
                "secret in UTF-8"
            ) from None
        if len(text) > _MAX_KEY:
            raise click.UsageError(
                f"--verification-key: {key}: the file is longer than {_MAX_KEY} characters"
            )
        key = text
    return Verification(
        key, options["signing_alg"], options["scope"], options["exclude_files_verify"]
    )


def _permissions(text: str) -> int:
    """Return permission bits written in octal, from 0 to 777, as a number: `755` -> 0o755. Raise
    UsageError for any other text.
    """
    try:
        bits = int(text, 8)
    except ValueError:
        bits = -1
    if not 0 <= bits <= 0o777:
        raise click.UsageError(
            f"--unix-socket-perm: `{text}` is not octal permissions, such as 755"
        )
    return bits


def _fail(message: str) -> int:
    """Log that the server cannot start, print the reason and return exit code 1."""
    logging.getLogger(__name__).error("Cannot start.", extra={"error": message})
    click.echo(f"error: {message}", err=True)
    return 1
