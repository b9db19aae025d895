"""`doorward kit`: makes the files of a sidecar's deployment, and checks such files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from doorward.base.counting import counted
from doorward.base.os_errors import describe_folder_error, describe_os_error
from doorward.cli.arguments import argument
from doorward.envoy.kit import TARGETS, Description, Policy, ResponseList, to_files
from doorward.envoy.lint import FORMATS, Checked, LintError, check_files, write_report
from doorward.forward.kit import OAUTH2_PROXY, PROXY_FILES, Site
from doorward.forward.kit import to_files as to_proxy_files

__all__ = ["command"]


@click.group(
    "kit",
    invoke_without_command=True,
    epilog="""\b
Examples:
  doorward kit --app-port 8080 --policy policy.rego --target kubernetes -o deploy
  doorward kit --app-port 8080 --policy policy.rego --secret people-jwt --target compose -o .
""",
)
@click.option("--app-port", type=int, help="Port on which the application listens.")
@click.option(
    "--policy",
    multiple=True,
    type=Path,
    metavar="FILE",
    help="File with a policy, or with data; repeatable.",
)
@click.option("--target", type=click.Choice(list(TARGETS)), help="Platform to write files for.")
@click.option(
    "-o",
    "--output",
    type=Path,
    metavar="FOLDER",
    help="Folder to write to; standard output by default.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files in the output folder.")
@click.option("--name", default="application", metavar="NAME", help="Name of the application.")
@click.option(
    "--secret",
    default="",
    metavar="NAME",
    help="Secret JSON data for the policy: the name of a Kubernetes Secret, or for Compose a file.",
)
@click.option(
    "--app-image",
    default="application:latest",
    show_default=True,
    metavar="IMAGE",
    help="Container image of the application.",
)
@click.option(
    "--image", default="doorward:latest", metavar="IMAGE", help="Container image of Doorward."
)
@click.option(
    "--envoy-image",
    default=None,
    metavar="IMAGE",
    help="Container image of Envoy; by default a tested version.",
)
@click.option(
    "--decision",
    default="envoy/authz/allow",
    metavar="PATH",
    help="Path of the document that decides on requests.",
)
@click.option(
    "--responses",
    default="",
    metavar="PATH",
    help="Path of the document that decides on responses.",
)
@click.option(
    "--list",
    "lists",
    multiple=True,
    metavar="NAME=a.b:RULE[:ITEM]",
    help="Filter the list at a.b in responses: RULE decides on each item; repeatable.",
)
@click.option("--port", default=8000, metavar="PORT", help="Port of Envoy.")
@click.option(
    "--diagnostic-port",
    default=8282,
    metavar="PORT",
    help="Port at which Doorward serves health and metrics.",
)
@click.option("--user", default=1111, metavar="UID", help="User id that Envoy and Doorward run as.")
@click.option("--ipv4-only", is_flag=True, help="Do not redirect IPv6, for kernels without it.")
@click.option(
    "--capture-loopback/--no-capture-loopback",
    default=True,
    show_default=True,
    help="Redirect connections within the pod or host too.",
)
@click.option(
    "--native",
    is_flag=True,
    help="Kubernetes 1.29 or later: run Envoy and Doorward as native sidecars.",
)
@click.option(
    "--scraped-from",
    default="",
    metavar="NAMESPACE",
    help="Kubernetes: namespace whose pods may read the metrics, that of Prometheus.",
)
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Write the files that deploy a sidecar in front of an application, or check a deployment."""
    if context.invoked_subcommand is not None:
        return 0
    if options["app_port"] is None or not (options["policy"] and options["target"]):
        raise click.UsageError("--app-port, --policy and --target are needed")
    try:
        files = to_files(_to_description(options), options["target"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _put_out(files, options["output"], force=options["force"])
    return 0


def _put_out(files: Mapping[str, str], folder: Path | None, *, force: bool) -> None:
    """Print the files, or write them into `folder`; raise ClickException if that fails."""
    if folder is not None:
        _write(folder, files, force=force)
        return
    for name, text in files.items():
        click.echo(f"# ---- {name}\n{text}")


_SAME: Final = ("diagnostic_port", "capture_loopback", "native", "scraped_from")


def _to_description(options: Mapping[str, Any]) -> Description:
    """Return the options as a `Description`, with the policy files read.

    Raise ValueError if a part does not fit, ClickException if a file cannot be read.
    """
    same = (
        "app_port",
        "name",
        "app_image",
        "image",
        "secret",
        "decision",
        "responses",
        "port",
        "user",
    )
    more = {name: options[name] for name in _SAME}
    if options["envoy_image"]:
        more["envoy_image"] = options["envoy_image"]
    return Description(
        policies=tuple(_read(path) for path in options["policy"]),
        dual_stack=not options["ipv4_only"],
        lists=tuple(map(ResponseList.parse, options["lists"])),
        **{name: options[name] for name in same},
        **more,
    )


def _read(path: Path) -> Policy:
    """Return a policy file; raise ClickException if it is unreadable or not UTF-8."""
    try:
        return Policy(path.name, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.ClickException(f"{path}: {describe_os_error(error)}") from None
    except UnicodeDecodeError as error:
        message = f"{path}: the file is not UTF-8 at byte {error.start}"
        raise click.ClickException(message) from None


def _write(folder: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write the files below `folder` and print their paths.

    Raise ClickException if one exists already, unless `force`, or cannot be written.
    """
    # All before the first is written: a refusal leaves no half of a deployment.
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        raise click.ClickException(f"{folder / there[0]} exists; use --force to overwrite it")
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{path}: {describe_folder_error(error)}") from None
        click.echo(os.fspath(path))


@command.command(
    "forward",
    epilog="""\b
Examples:
  doorward kit forward --proxy nginx --listen 127.0.0.1:8000 --upstream 127.0.0.1:8080 -o nginx
  doorward kit forward --proxy traefik --secret-file secret.txt --header x-user -o traefik
  doorward kit forward --proxy nginx --oauth2-proxy -o signed-in
""",
)
@click.option(
    "--proxy",
    required=True,
    type=click.Choice(sorted(PROXY_FILES)),
    help="Reverse proxy to write the configuration of.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8000",
    metavar="HOST:PORT",
    help="Address on which the reverse proxy accepts clients.",
)
@click.option(
    "--upstream",
    default="127.0.0.1:8080",
    metavar="HOST:PORT",
    help="Address of the application, to which the reverse proxy passes requests.",
)
@click.option(
    "--pdp",
    default="127.0.0.1:9292",
    metavar="HOST:PORT",
    help="Address of Doorward: `addr` in the options of forward_auth.",
)
@click.option(
    "--secret-file",
    type=Path,
    metavar="FILE",
    help="File with the secret that the reverse proxy sends: `secret` in the options of "
    "forward_auth.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME",
    help="Request header that the policy sets for the application; repeatable.",
)
@click.option(
    "--oauth2-proxy",
    is_flag=True,
    help="Pass on the headers that oauth2-proxy would set; the policy sets them.",
)
@click.option(
    "-o",
    "--output",
    type=Path,
    metavar="FOLDER",
    help="Folder to write to; standard output by default.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files in the output folder.")
def forward(
    proxy: str,
    listen: str,
    upstream: str,
    pdp: str,
    secret_file: Path | None,
    headers: tuple[str, ...],
    oauth2_proxy: bool,
    output: Path | None,
    force: bool,
) -> int:
    """Write the configuration of a proxy that asks the decision point about each request."""
    secret = "" if secret_file is None else _read(secret_file).text.strip()
    if oauth2_proxy:
        headers = (*headers, *[name for name in OAUTH2_PROXY if name not in headers])
    try:
        site = Site(
            listen=listen, upstream=upstream, pdp=pdp, secret=secret, response_headers=headers
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _put_out(to_proxy_files(proxy, site), output, force=force)
    return 0


@command.command(
    "check",
    epilog="""\b
Examples:
  doorward kit check deploy
  doorward kit check --format sarif envoy.yaml policy.rego > findings.sarif
""",
)
@argument("paths", nargs=-1, required=True, type=Path, help="Files and folders to check.")
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option("--errors-only", is_flag=True, help="Ignore warnings.")
def check(paths: tuple[Path, ...], form: str, errors_only: bool) -> int:
    """Find insecure settings in the files of a deployment; PATHS are files or folders.

    It reads Envoy bootstraps, policies, configurations of decision points, Kubernetes manifests,
    Compose projects, systemd units, and configurations of forward-auth proxies. The exit code is
    0 if nothing is found, 1 if something is, and 2 if a path cannot be checked or has nothing to
    check.
    """
    try:
        checked = check_files(paths)
    except LintError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    findings = checked.findings
    if errors_only:
        findings = [each for each in findings if each.level == "error"]
    if checked.files:
        click.echo(write_report(findings, form), nl=False)
    _note_files(checked)
    if checked.empty:
        return 2
    return 1 if findings else 0


def _note_files(checked: Checked) -> None:
    """Print, on standard error, which files were checked, how many were passed over, and an error
    for each named path that has nothing to check.
    """
    names = f": {', '.join(map(os.fspath, checked.files))}" if checked.files else ""
    others = counted(checked.passed_over, "file")
    over = f"; passed over {others} of other kinds" if checked.passed_over else ""
    click.echo(f"checked {counted(len(checked.files), 'file')}{names}{over}", err=True)
    for path in checked.empty:
        click.echo(
            f"Error: {path}: found nothing to check: name a file or folder with an Envoy "
            "bootstrap, a policy, a manifest, or another file of a deployment",
            err=True,
        )
