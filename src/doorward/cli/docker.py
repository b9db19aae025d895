"""`doorward docker`: the Docker daemon's authorization plugin, from installing to replaying.

What only one command needs (certificates, the daemon's HTTP) is imported by that command.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from doorward.base.counting import counted
from doorward.bundles.loader import LoadError
from doorward.cli.arguments import argument
from doorward.cli.docker_options import (
    add_shared_options,
    block_signals,
    read_input_options,
    read_shared_options,
)
from doorward.cli.docker_proxy import proxy
from doorward.docker.audit import AuditLogError
from doorward.docker.decider.embedded import PACK, EmbeddedPdp, with_shipped
from doorward.docker.decider.remote import RemotePdp, UrlError
from doorward.docker.plugin import PluginOptions
from doorward.docker.replay import ReplayError, replay
from doorward.docker.server import LISTEN_FD, BindError
from doorward.docker.service import SIGNALS, OwnersError, Service, ServiceOptions, bind
from doorward.docker.watch.notify import NOTIFY_FD
from doorward.docker.watch.watchdog import Watchdog
from doorward.rego import RegoError
from doorward.telemetry.log import configure

if TYPE_CHECKING:
    from doorward.docker.install.installer import Installation

__all__ = ["command"]

SOCKET: Final = "/run/docker/plugins/doorward.sock"


@click.group("docker")
def command() -> None:
    """Authorize requests to the Docker daemon."""


command.add_command(proxy)


@command.command("serve")
@click.option(
    "--socket",
    default=SOCKET,
    metavar="PATH",
    help="Unix socket of the plugin, on which the Docker daemon calls it.",
)
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help="Listen on this TCP address, with mutual TLS, instead of on --socket.",
)
@click.option(
    "--tls-ca-cert-file",
    default="",
    metavar="FILE",
    help="With --listen: the CA that signed the Docker daemon's client certificate, in PEM.",
)
@click.option(
    "-p",
    "--pdp",
    default="",
    metavar="URL",
    envvar="DOORWARD_PDP",
    help="Let the policy server at this URL decide.",
)
@click.option(
    "--policy",
    multiple=True,
    metavar="PATH",
    envvar="DOORWARD_POLICY",
    help="Decide in this process with the policies in this file or folder; repeatable.",
)
@add_shared_options
@click.option(
    "--authorize-responses",
    is_flag=True,
    help="Ask the policy about the Docker daemon's responses too.",
)
@click.option(
    "--allow-on-failure",
    is_flag=True,
    help="DANGEROUS: allow requests when the policy or its server cannot decide.",
)
@click.option(
    "--inspect",
    default="",
    metavar="PATH",
    help="Ask the Docker daemon at this socket about containers, and show the answers to "
    "the policy.",
)
@click.option(
    "--host-root",
    default="",
    metavar="PATH",
    help="For a plugin in a container: folder at which the host's root is mounted, in which links "
    "in host paths are followed.",
)
@click.option(
    "--threads",
    default=256,
    metavar="N",
    help="Maximum number of the Docker daemon's calls that are answered at the same time.",
)
@click.option(
    "--watchdog", is_flag=True, help="Run under a watchdog that restarts the plugin when it hangs."
)
def serve(**arguments: Any) -> int:
    """Run the plugin: answer the daemon's calls until a signal ends it."""
    configure(arguments["log_level"], "json")
    # INVARIANT: before the first thread, which inherits the mask: only the `sigwait` of
    # `Service.run` or the watchdog may take these signals.
    with block_signals(SIGNALS):
        options = _service_options(arguments)
        try:
            if arguments["watchdog"] and NOTIFY_FD not in os.environ:
                listener, ours = bind(options)
                has_served = LISTEN_FD in os.environ  # then a plugin became the watchdog
                code = Watchdog(listener, unlink=ours, has_served=has_served).run()
                # None: this is the child that the watchdog forked, and goes on as the plugin.
                if code is not None:
                    return code
            service = Service(options)
        except (BindError, AuditLogError, LoadError, OwnersError, RegoError) as error:
            raise click.ClickException(str(error)) from None
        except UrlError as error:
            raise click.UsageError(f"--pdp: {error}") from None
        service.run()
        return 0


def _service_options(options: dict[str, Any]) -> ServiceOptions:
    """Return the options of `docker serve` as `ServiceOptions`; raise UsageError if they do not
    fit.

    With --pdp, a policy from the environment is removed from `options`.
    """
    source = click.get_current_context().get_parameter_source("policy")
    if options["pdp"] and source is ParameterSource.ENVIRONMENT:
        options["policy"] = ()  # what the managed plugin mounts by default
    shared = read_shared_options(options)
    if not 1 <= options["threads"] <= 1024:
        raise click.UsageError("--threads must be from 1 to 1024")
    return ServiceOptions(
        socket=options["socket"],
        threads=options["threads"],
        inspect=options["inspect"],
        host_root=options["host_root"],
        plugin=PluginOptions(
            read_input_options(options),
            options["authorize_responses"],
            options["allow_on_failure"],
            deny_unlogged=options["deny_unlogged"],
        ),
        **shared,
    )


def _add_installation_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: add the options for the daemon's files and socket, the plugin's name and socket,
    its policy server, and whether systemd runs it.
    """
    for option in (
        click.option(
            "-n",
            "--name",
            default="doorward",
            metavar="NAME",
            help="Name of the plugin in daemon.json.",
        ),
        click.option(
            "--daemon-json",
            default="/etc/docker/daemon.json",
            metavar="FILE",
            type=Path,
            help="The Docker daemon's configuration file.",
        ),
        click.option(
            "--pidfile",
            default="/var/run/docker.pid",
            metavar="FILE",
            type=Path,
            help="The Docker daemon's PID file, to find its process.",
        ),
        click.option(
            "--docker-socket",
            default="/var/run/docker.sock",
            metavar="PATH",
            help="The Docker daemon's Unix socket.",
        ),
        click.option(
            "--socket",
            "plugin_socket",
            default="",
            metavar="PATH",
            help="The plugin's Unix socket; by default, the one that Docker looks up for --name.",
        ),
        click.option(
            "--no-systemd",
            is_flag=True,
            help="Run the plugin as a plain process instead of systemd units.",
        ),
        click.option("--state", default="/run/doorward", type=Path, hidden=True),
        click.option(
            "-p",
            "--pdp",
            default="",
            metavar="URL",
            help="Let the policy server at this URL decide.",
        ),
    ):
        function = option(function)
    return function


def _installation(options: dict[str, Any]) -> Installation:
    """Return the options of `docker install` and its siblings as an `Installation`."""
    from doorward.docker.install.installer import Installation

    return Installation(
        name=options["name"],
        url=options["pdp"],
        policies=options.get("policy", ()),
        daemon_json=options["daemon_json"],
        pidfile=options["pidfile"],
        socket=options["docker_socket"],
        plugin_socket=options["plugin_socket"],
        systemd=not options["no_systemd"],
        audit_log=options.get("audit_log", ""),
        state=options["state"],
        may_be_undecided=options.get("undecided", False),
        pack_folder=options.get("pack_folder", Path("/etc/doorward/docker")),
        extra=[*_inspect(options), *options.get("serve", ())],
    )


def _inspect(options: dict[str, Any]) -> list[str]:
    return ["--inspect", options["docker_socket"]] if options.get("inspect") else []


@command.command(
    "install",
    epilog="""\b
Examples:
  doorward docker install -p http://127.0.0.1:8181/v1/data/policy/docker/authz
  doorward docker install --policy /etc/doorward/docker
  doorward docker install --dry-run
""",
)
@_add_installation_options
@click.option(
    "--policy",
    multiple=True,
    metavar="PATH",
    help="Decide in the plugin with the policies in this file or folder; repeatable.",
)
@click.option(
    "--audit-log",
    default="",
    metavar="FILE",
    help="Write the audit log, a JSON line for each decision, to this file.",
)
@click.option(
    "--pack-folder",
    default="/etc/doorward/docker",
    show_default=True,
    type=Path,
    metavar="FOLDER",
    help="Folder with your data.json and added policies for the shipped policies.",
)
@click.option(
    "--inspect/--no-inspect",
    default=True,
    help="Ask the Docker daemon about containers, so that policies see the container of an exec.",
)
@click.option(
    "--serve",
    multiple=True,
    metavar="OPTION",
    help="Argument to pass on to `doorward docker serve`; repeatable.",
)
@click.option(
    "--undecided",
    is_flag=True,
    help="Install even if the policy server does not decide yet: all requests are denied "
    "until it does.",
)
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
def install_(**options: Any) -> int:
    """Install and enable the plugin without restarting the daemon."""
    from doorward.docker.install.daemon import DaemonError
    from doorward.docker.install.installer import install

    if options["pdp"] and options["policy"]:
        raise click.UsageError("--pdp cannot be combined with --policy")
    try:
        install(_installation(options), click.echo, dry_run=options["dry_run"])
    except DaemonError as error:
        raise click.ClickException(str(error)) from None
    return 0


@command.command("uninstall")
@_add_installation_options
@click.option("--dry-run", is_flag=True, help="Print the changes without making them.")
def uninstall_(**options: Any) -> int:
    """Disable the plugin in the daemon, then stop it."""
    from doorward.docker.install.daemon import DaemonError
    from doorward.docker.install.installer import uninstall

    try:
        uninstall(_installation(options), click.echo, dry_run=options["dry_run"])
    except DaemonError as error:
        raise click.ClickException(str(error)) from None
    return 0


@command.command("policies")
@argument("folder", type=click.Path(path_type=Path), help="New folder to copy to.")
def policies(folder: Path) -> int:
    """Copy the shipped policies to FOLDER, for a decision point that loads them from there.

    The data.json in it defines who may do what. The plugin itself loads the policies from the
    package, because a copy does not change when Doorward is upgraded.
    """
    from doorward.docker.install.daemon import DaemonError
    from doorward.docker.install.installer import copy_pack

    if folder.exists():
        raise click.ClickException(f"{folder} exists already: name a new folder")
    try:
        copy_pack(folder, click.echo, whole=True)
    except DaemonError as error:
        raise click.ClickException(str(error)) from None
    return 0


@command.command("upgrade")
@argument(
    "folder",
    default="/etc/doorward/docker",
    type=click.Path(path_type=Path),
    help="Folder that has copies of the shipped policies.",
)
@click.option(
    "--audit-log",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="List the requests in this audit log that were allowed and that the shipped policies "
    "deny; `doorward docker serve` must have written the log with --audit-input. Repeatable.",
)
@click.option(
    "--write",
    is_flag=True,
    help="Remove the copies from FOLDER, and add missing settings to its data.json.",
)
def upgrade(folder: Path, audit_log: tuple[Path, ...], write: bool) -> int:
    """Remove copies of the shipped policies from FOLDER, which then contains only data.

    The plugin loads the policies from the package. Without --write, this only shows the
    differences, the settings that are missing in the data, and what is refused.
    """
    from doorward.docker.install import upgrade as steps
    from doorward.docker.install.daemon import DaemonError

    try:
        for line in steps.show_differences(folder):
            click.echo(line)
        for section, values in steps.lacking(folder).items():
            click.echo(
                f"docker.{section} in your data.json lacks settings of the new version: "
                f"{', '.join(sorted(values))} (--write adds them)"
            )
        refused = list(steps.newly_refused(folder, audit_log)) if audit_log else []
        for line in refused:
            click.echo(f"newly refused: {line}")
        if write:
            for line in steps.apply_upgrade(folder):
                click.echo(line)
            click.echo(
                "run `doorward docker install` again, so that the plugin loads the shipped policies"
            )
    except DaemonError as error:
        raise click.ClickException(str(error)) from None
    return 0


@command.command("status")
@_add_installation_options
def status(**options: Any) -> int:
    """Show whether the plugin is active, and what decides.

    The exit code is 0 if requests to the daemon reach the plugin; 1 if the daemon answers them
    without the plugin, or does not run; 2 if everyone is locked out or another plugin refuses them.
    """
    from doorward.docker.install.daemon import Reach
    from doorward.docker.install.doctor import REACHED, past_plugins, state_findings
    from doorward.docker.watch.status import read_status

    installed = _installation(options)
    reach = installed.daemon.reach(installed.listens)
    passed = list(past_plugins(installed))
    if reach is Reach.IN_FORCE and any(finding.level == "fail" for finding in passed):
        reach = Reach.OPEN  # of a part of the daemon
    else:
        click.echo(REACHED[reach].what)
    for finding in passed:
        click.echo(finding.what)
    plugin = read_status(installed.listens)
    if plugin is None:
        click.echo(
            f"the plugin at {installed.listens} does not answer: `doorward docker doctor` says why"
        )
    else:
        click.echo(f"process {plugin.pid}, version {plugin.version}, at {installed.listens}")
        for finding in state_findings(plugin):
            click.echo(finding.what)
    return {Reach.IN_FORCE: 0, Reach.LOCKED_OUT: 2, Reach.REFUSED: 2}.get(reach, 1)


@command.command("doctor")
@_add_installation_options
@click.option(
    "--proxy",
    default="",
    metavar="PATH",
    help="Also check that no client bypasses the Docker proxy that listens on this socket.",
)
def doctor(**options: Any) -> int:
    """Check preconditions and dangers, and suggest fixes; the exit code is 1 if something is wrong.

    With --proxy, check the proxy instead of the plugin; --docker-socket is the daemon's own.
    """
    from doorward.docker.install.doctor import diagnose
    from doorward.docker.install.proxy_doctor import diagnose_proxy

    installed = _installation(options)
    if options["proxy"]:
        findings = list(
            diagnose_proxy(
                options["proxy"],
                installed.socket,
                daemon_json=installed.daemon_json,
                arguments=list(installed.daemon.arguments()[1:]),
            )
        )
    else:
        findings = list(diagnose(installed))
    for level, message, advice in findings:
        click.echo(f"{level:4}  {message}")
        if advice:
            click.echo(f"      -> {advice}")
    return 1 if any(finding.level == "fail" for finding in findings) else 0


@command.command("replay")
@argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True),
    help="Files with requests: audit logs written with --audit-input, AuthZReqs as JSON, "
    "or recorded calls.",
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
@click.option(
    "--data",
    multiple=True,
    metavar="PATH",
    help="Decide with the shipped policies and the data in this file or folder; repeatable.",
)
@click.option("--all", "everything", is_flag=True, help="Show decisions that did not change too.")
def replay_(
    files: tuple[Path, ...],
    pdp: str,
    policy: tuple[str, ...],
    data: tuple[str, ...],
    everything: bool,
) -> int:
    """Decide captured or logged requests again; the exit code is 1 if a decision changed."""
    if sum(map(bool, (pdp, policy, data))) > 1:
        raise click.UsageError("--pdp, --policy and --data cannot be combined: give one of them")
    changed = count = 0
    paths = with_shipped(data) if data else policy or (str(PACK),)
    try:
        decider = RemotePdp(pdp) if pdp else EmbeddedPdp(paths, watch=False)
        for each in replay(files, decider):
            count += 1
            changed += each.changed
            if everything or each.changed:
                input_doc = each.input or {}
                click.echo(
                    f"{each.past.decision or '?'} -> {each.decision}  "
                    f"{input_doc.get('action', '-')} {input_doc.get('target', '')}  "
                    f"{each.verdict.reason}  ({each.past.location})"
                )
    except UrlError as error:
        raise click.UsageError(f"--pdp: {error}") from None
    except (ReplayError, LoadError, RegoError) as error:
        raise click.ClickException(str(error)) from None
    if not count:
        raise click.ClickException(
            "the files contain no requests: name an audit log that was written with --audit-input"
        )
    click.echo(f"{counted(count, 'request')}, {changed:,} changed")
    return 1 if changed else 0


@command.group("cert")
def cert() -> None:
    """Create certificates for the daemon and its users."""


def _add_folder_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: add the option --folder, where certificates are written."""
    return click.option(
        "--folder",
        default="docker-certs",
        show_default=True,
        type=Path,
        metavar="FOLDER",
        help="Folder with the CA and its certificates.",
    )(function)


_DAYS: Final = click.option(
    "--days",
    default=365,
    show_default=True,
    type=click.IntRange(1, 3650),
    metavar="N",
    help="Number of days for which the new certificate is valid.",
)


@cert.command("ca")
@_add_folder_option
def ca(folder: Path) -> int:
    """Create a CA. Its key can certify any user, so keep it off the daemon's machine."""
    from doorward.docker.install.certificates import make_authority

    return _certify(lambda: make_authority(folder), folder / "ca.pem")


@cert.command("server")
@argument(
    "hosts",
    nargs=-1,
    required=True,
    help="Host names and IP addresses by which clients reach the Docker daemon.",
)
@_add_folder_option
@_DAYS
def server(hosts: tuple[str, ...], folder: Path, days: int) -> int:
    """Create a certificate for a daemon; HOSTS are the names and addresses that clients use."""
    from doorward.docker.install.certificates import issue_server

    return _certify(lambda: issue_server(folder, hosts, days=days), folder / "server-cert.pem")


@cert.command("user")
@argument("name", help="Name of the user, which the certificate contains and policies see.")
@_add_folder_option
@_DAYS
def user(name: str, folder: Path, days: int) -> int:
    """Create a key and a certificate for a user, signed by the CA in the folder.

    The daemon and the policy know the owner of the certificate as NAME.
    """
    from doorward.docker.install.certificates import issue_client

    return _certify(lambda: issue_client(folder, name, days=days), folder / f"{name}-cert.pem")


def _certify(make: Callable[[], None], folder: Path) -> int:
    """Create certificates with `make`, print `folder` and return exit code 0; ClickException if it
    fails.
    """
    from doorward.docker.install.certificates import CertificateError

    try:
        make()
    except CertificateError as error:
        raise click.ClickException(str(error)) from None
    click.echo(str(folder))
    return 0
