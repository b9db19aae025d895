"""Puts the plugin into a daemon's chain and takes it out again, in the one order that is safe.

A daemon that is told to load a plugin which does not answer ends itself, with everyone locked out.
So: the service runs and answers first, then the configuration names it, then the daemon reloads,
and then a real request has to arrive. Whatever fails undoes what was done before, in reverse.
Taking out goes the other way round: nothing is stopped while the daemon still asks it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from doorward.base.os_errors import describe_os_error
from doorward.base.records import record, replace
from doorward.bundles.loader import LoadError
from doorward.docker.decider.embedded import DECISION, PACK, EmbeddedPdp, with_shipped
from doorward.docker.decider.remote import DEADLINE, RemotePdp, UrlError
from doorward.docker.decider.trial import why_undecided
from doorward.docker.install.daemon import KEY, ConfigFile, Daemon, DaemonError
from doorward.docker.install.units import Process, Supervisor, Systemd, has_systemd
from doorward.docker.install.upgrade import copies
from doorward.docker.request.daemon_settings import DAEMON_CONFIG, PIDFILE
from doorward.docker.unix_http import call_plugin
from doorward.docker.watch.status import TRIAL
from doorward.rego import RegoError

__all__ = ["Installation", "check_name", "copy_pack", "install", "uninstall"]

Say = Callable[[str], None]
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_PLUGINS: Final = Path("/run/docker/plugins")
_TRIAL: Final = 300.0
"""Seconds for the plugin to put a few requests to the decision point."""
_MOST_TIMEOUT: Final = 60.0
"""Seconds for a decision that `doorward docker serve` accepts at most."""
_TRIALS: Final = 5
"""How often that is tried: a decision point on a busy machine may miss its deadline once."""


@record
class Installation:
    """The options of an installation of the Docker plugin, and the parts that they describe: its
    daemon, the configuration file and the service.
    """

    name: str = "doorward"
    url: str = ""
    policies: Sequence[str] = ()
    daemon_json: Path = Path(DAEMON_CONFIG)
    pidfile: Path = Path(PIDFILE)
    socket: str = "/var/run/docker.sock"
    """The daemon's own socket."""
    plugin_socket: str = ""
    systemd: bool = True
    audit_log: str = ""
    state: Path = Path("/run/doorward")
    pack_folder: Path = Path("/etc/doorward/docker")
    """The folder for an editable copy of the shipped data, used if neither a URL nor policies are
    given."""
    may_be_undecided: bool = False
    """True to install even if usual requests are not decided yet, and so denied."""
    extra: Sequence[str] = ()
    """Further options of `doorward docker serve`."""

    @property
    def listens(self) -> str:
        """The path of the plugin's socket: `plugin_socket`, or where the daemon looks for a plugin
        of this name.
        """
        return self.plugin_socket or str(_PLUGINS / f"{self.name}.sock")

    @property
    def daemon(self) -> Daemon:
        return Daemon(self.pidfile, self.socket)

    @property
    def config(self) -> ConfigFile:
        return ConfigFile(self.daemon_json)

    @property
    def supervisor(self) -> Supervisor:
        """The object that starts and ends the plugin's service: by systemd's units or, without
        systemd, as a process with a watchdog.
        """
        if self.systemd:
            return Systemd(self.name, self.listens)
        return Process(self.name, self.listens, self.state)

    @property
    def arguments(self) -> list[str]:
        """The arguments that follow `doorward docker serve` when the service of this installation
        runs the plugin. Files at their default paths are left out; without a URL and policies,
        `--data` names `pack_folder`. `extra` is at the end.
        """
        words = ["--socket", self.listens]
        if self.url:
            words += ["--pdp", self.url]
        for path in self.policies:
            words += ["--policy", os.path.abspath(path)]
        if not self.url and not self.policies:
            words += ["--data", os.path.abspath(self.pack_folder)]
        if self.audit_log:
            words += ["--audit-log", self.audit_log]
        if self.daemon_json != Path(DAEMON_CONFIG):
            words += ["--daemon-json", os.path.abspath(self.daemon_json)]
        if self.pidfile != Path(PIDFILE):
            words += ["--pidfile", os.path.abspath(self.pidfile)]
        return [*words, *self.extra]


def check_name(name: str) -> None:
    """Raise DaemonError if `name` cannot be the name of a plugin."""
    if not _NAME.fullmatch(name):
        raise DaemonError(
            "a plugin's name must be 1 to 63 small letters, digits and ._-, "
            "and begin with a letter or digit"
        )


def install(installation: Installation, say: Say, *, dry_run: bool = False) -> None:
    """Install the plugin, or bring it up to date. With `dry_run` only print the steps and
    obstacles.

    Raise DaemonError if that fails; the daemon's configuration is then as before, unless the error
    says that it could not be restored. If daemon.json already named a plugin of this name, that
    keeps running: as the new service if it had answered, otherwise as the old one.
    """
    if dry_run:
        _show_plan(installation, say)
        return
    document = _check(installation)
    with _alone(installation):
        _install(installation, document, say)


def _install(installation: Installation, document: dict[str, Any], say: Say) -> None:
    """Start the plugin's service, name it in `document` and daemon.json, reload dockerd and wait
    until a request reaches it; if dockerd does not run, return without waiting.

    Raise DaemonError if a step fails. If the service had started by then, daemon.json is restored
    and the service ended, unless the plugin was named there before. `say` prints each step.
    """
    config = installation.config
    named = installation.name in document.get(KEY, [])
    running = installation.daemon.check_process()
    if not installation.url and not installation.policies:
        # Before the service, which is started with this folder as `--data`.
        copy_pack(installation.pack_folder, say)
    # INVARIANT: the service answers before the daemon learns its name, or the daemon ends itself.
    _start_service(installation, say)
    before = config.content()
    try:
        if not named:
            document[KEY] = [*document.get(KEY, []), installation.name]
            config.write(document, keep_old=True)
            say(f"{config.path} names {installation.name}; the old file is {config.backup}")
        if not running:
            say("dockerd does not run: the plugin is in force when it starts")
            return
        installation.daemon.reload()
        if not installation.daemon.wait_until(installation.listens, in_force=True):
            raise DaemonError(
                "the plugin cannot be installed: dockerd was told to reload its configuration, but "
                "no request has reached the plugin since: dockerd's log (`journalctl -u docker`) "
                "says why"
            )
    except DaemonError as error:
        try:
            _undo(installation, before, named=named)
        except DaemonError as other:
            raise DaemonError(f"{error}; not every change could be undone: {other}") from None
        if running and installation.daemon.pid() is None:
            state = "has not been changed" if named else "has its earlier content again"
            raise DaemonError(
                f"{error}; dockerd has ended, so start it again; {config.path} {state}"
            ) from None
        state = "all changes are undone"
        if named:
            state = "the daemon's configuration is unchanged, and the new service runs"
        raise DaemonError(f"{error}; {state}") from None
    say("a request to the daemon reached the plugin: it is in force")


@contextmanager
def _alone(installation: Installation) -> Iterator[None]:
    """Hold the installer's lock, which the kernel releases if the process dies.

    Raise DaemonError if another installer has it.
    """
    path = installation.state / "installer.lock"
    try:
        installation.state.mkdir(mode=0o755, parents=True, exist_ok=True)
        # A lock of the kernel, not a file's existence, which would outlive a killed installer.
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise DaemonError(f"{path}: {describe_os_error(error)}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise DaemonError(
            "another run of `doorward docker install` or `uninstall` has not ended yet: try again "
            "later"
        ) from None
    finally:
        os.close(lock)


def _check(installation: Installation) -> dict[str, Any]:
    """Return the daemon's configuration after all checks that are possible before a change.

    Raise DaemonError with the first obstacle.
    """
    _check_options(installation)
    for reason in _obstacles(installation):
        raise DaemonError(reason)
    return installation.config.read()


def _check_options(installation: Installation) -> None:
    """Check the options that do not depend on this machine: the name, and that one of the trial
    requests (`why_undecided`) is decided.

    Raise DaemonError if the name or `--timeout` is invalid, if the URL or the policies cannot be
    used, or, unless `may_be_undecided`, if they decide nothing.
    """
    check_name(installation.name)
    decider: RemotePdp | EmbeddedPdp
    try:
        if installation.url:
            deadline = _read_timeout(installation.extra)
            decider = RemotePdp(installation.url, deadline=deadline)
        else:
            policies = installation.policies or _find_shipped(installation.pack_folder)
            decider = EmbeddedPdp(
                policies, path=_option(installation.extra, "--decision", DECISION), watch=False
            )
    except UrlError as error:
        raise DaemonError(f"{installation.url}: {error}") from None
    except (LoadError, RegoError) as error:
        raise DaemonError(f"the policies cannot be used: {error}") from None
    try:
        if not installation.may_be_undecided:
            _check_decides(installation, lambda: why_undecided(decider))
    finally:
        decider.close()


def _find_shipped(folder: Path) -> Sequence[str]:
    """Return the paths of the shipped policies and of the data in `folder`, or of the shipped data
    if it does not exist.

    Raise DaemonError if `folder` has copies of shipped policies.
    """
    if not folder.exists():
        return [str(PACK)]
    if copies(folder):
        raise DaemonError(
            f"{folder} has copies of the shipped policies of an earlier version: run `doorward "
            f"docker upgrade {folder}`"
        )
    return with_shipped([str(folder)])


def _check_decides(installation: Installation, ask: Callable[[], str]) -> None:
    """Call `ask`, which returns why no trial request is decided or "" if one is, up to `_TRIALS`
    times. Raise DaemonError with the last reason unless one call returns "".
    """
    for _ in range(_TRIALS):
        reason = ask()
        if not reason:
            return
    where = installation.url or ", ".join(installation.policies) or str(installation.pack_folder)
    raise DaemonError(
        f"{where}: no decision on a typical request ({reason}), so everyone would be locked out: "
        "fix that, or install the plugin anyway with --undecided"
    )


def _obstacles(installation: Installation) -> Iterator[str]:
    """Yield each reason why the plugin cannot be installed at present, as the text of an error,
    such as missing rights, another plugin that does not answer, or conflicting options of dockerd.
    None if it can; the decision point and the policies are not checked here.
    """
    if os.geteuid() != 0:
        yield "only root may install a plugin"
    if installation.systemd and not has_systemd():
        yield "systemd does not run here: use --no-systemd"
    daemon = installation.daemon
    try:
        _check_others(installation, installation.config.plugins())
    except DaemonError as error:
        yield str(error)
    if daemon.has_plugin_flag():
        yield (
            "dockerd was started with --authorization-plugin: move that into "
            f"{installation.daemon_json}, since a reload drops it, and start dockerd without it"
        )
    started_with = daemon.config_file()
    if started_with and Path(started_with).resolve() != installation.daemon_json.resolve():
        yield f"dockerd reads {started_with}: use --daemon-json {started_with}"


def _check_others(installation: Installation, plugins: Sequence[str]) -> None:
    """Raise DaemonError if a plugin besides this one is missing: a reload would end dockerd."""
    others = [name for name in plugins if name != installation.name]
    missing = installation.daemon.find_missing(others)
    if missing:
        raise DaemonError(
            f"{installation.config.path} names the plugin {missing[0]}, which does not answer and "
            "is not enabled: dockerd would end at a reload, so start that plugin or remove its name"
        )


def _option(options: Sequence[str], name: str, default: str) -> str:
    """Return the value of an option among those of `doorward docker serve`, the last one if it is
    repeated; `default` without the option, `""` if it has no value.
    """
    for number, each in enumerate(options):
        key, equals, value = each.partition("=")
        if key == name:
            default = value if equals else (*options, "")[number + 1]
    return default


def _read_timeout(options: Sequence[str]) -> float:
    """Return the seconds of `--timeout` among the options of `doorward docker serve`; `DEADLINE` if
    it is not among them. Raise DaemonError for a value that `serve` refuses.
    """
    try:
        seconds = float(_option(options, "--timeout", str(DEADLINE)))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MOST_TIMEOUT:
        raise DaemonError(f"--timeout must be above 0 and at most {_MOST_TIMEOUT:g} seconds")
    return seconds


def copy_pack(folder: Path, say: Say, *, whole: bool = False) -> None:
    """Copy the shipped `data.json` to a new `folder`, and with `whole` the shipped policies too. Do
    nothing if `folder` exists. `say` prints where the data are.

    Raise DaemonError if copying fails.
    """
    if folder.exists():
        return
    try:
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if whole:
            shutil.copytree(PACK, folder)
        else:
            folder.mkdir(mode=0o755)
            shutil.copy2(PACK / "data.json", folder)
    except OSError as error:
        raise DaemonError(f"{folder}: {describe_os_error(error)}") from None
    say(f"{folder}/data.json defines who may do what: edit it")


def _show_plan(installation: Installation, say: Say) -> None:
    """Print each step of the installation, and each obstacle on this machine; change nothing. Raise
    DaemonError for an invalid name.
    """
    check_name(installation.name)
    try:
        named = installation.name in installation.config.plugins()
    except DaemonError:
        named = False  # it is among the obstacles
    for step in _plan(installation, named=named):
        say(step if step.startswith(" ") else f"would {step}")
    try:
        _check_options(installation)
    except DaemonError as error:
        say(f"but: {error}")
    for reason in _obstacles(installation):
        say(f"but: {reason}")


def _plan(installation: Installation, *, named: bool) -> Iterator[str]:
    """Yield the steps of an installation: each is text that completes "would", or an indented
    detail of the step before. `named`: daemon.json names the plugin already.
    """
    decider = installation.url or ", ".join(installation.policies) or str(installation.pack_folder)
    yield f"send typical requests to {decider}, and go on only if one is decided"
    if not installation.url and not installation.policies and not installation.pack_folder.exists():
        yield f"copy the shipped data to {installation.pack_folder}"
    yield from installation.supervisor.describe(installation.arguments)
    socket = installation.listens
    yield f"ask {socket} whether it is the plugin that was started, and whether it decides"
    if not named:
        yield f'append "{installation.name}" to {KEY} in {installation.daemon_json}'
    yield "send SIGHUP to dockerd, and check that a request reaches the plugin"


def _start_service(installation: Installation, say: Say) -> None:
    """Start the service and check that it decides one of the trial requests (`why_undecided`).

    Raise DaemonError if it does not start, or decides none of them; with `may_be_undecided` only
    print a warning for the latter.
    """

    def ask() -> str:
        answer = call_plugin(installation.listens, TRIAL, timeout=_TRIAL)
        return str(answer["Undecided"]) if answer else "the plugin does not answer"

    def check() -> None:
        """Raise DaemonError if the service decides no trial request; only warn if the
        installation may be undecided.
        """
        try:
            _check_decides(installation, ask)
        except DaemonError:
            if not installation.may_be_undecided:
                raise
            say(
                f"WARNING: no decision on a typical request ({ask()}): until that changes, every "
                "request is denied"
            )

    installation.supervisor.start(installation.arguments, check)
    say(f"the plugin answers at {installation.listens}")


def _undo(installation: Installation, before: bytes | None, *, named: bool) -> None:
    """Restore daemon.json, reload dockerd, and then end the service; do nothing if `named` is True:
    daemon.json named the plugin before. Raise DaemonError if a step fails: the service then stays.
    """
    if named:
        return
    # Where this fails the daemon still names the plugin, and the service has to stay.
    installation.config.restore(before)
    if installation.daemon.pid() is not None:
        installation.daemon.reload()
        installation.daemon.wait_until(installation.listens, in_force=False, seconds=5.0)
    installation.supervisor.stop()


def uninstall(installation: Installation, say: Say, *, dry_run: bool = False) -> None:
    """Remove the plugin from daemon.json, wait until no request reaches it, and then end its
    service. With `dry_run` any user may run it, and it only prints that.

    Raise DaemonError for an invalid name, and without `dry_run` unless root runs it, if another
    installer is at work, if requests still reach the plugin, and if a step fails.
    """
    check_name(installation.name)
    if installation.systemd and not has_systemd():
        # Only a process can have been started here.
        installation = replace(installation, systemd=False)
    if dry_run:
        if installation.name in installation.config.plugins():
            say(
                f'would take "{installation.name}" out of {installation.daemon_json} '
                "and send SIGHUP to dockerd"
            )
        say("would end the plugin's service when no request reaches it any more")
        return
    if os.geteuid() != 0:
        raise DaemonError("only root can uninstall the plugin")
    with _alone(installation):
        _uninstall(installation, say)


def _uninstall(installation: Installation, say: Say) -> None:
    """Remove the plugin's name from daemon.json, reload dockerd, wait until no request reaches the
    plugin, and end the service.

    If requests still reach it, or dockerd does not answer, restore daemon.json and raise
    DaemonError; the service stays. Raise DaemonError also if a step fails.
    """
    config = installation.config
    document = config.read()
    chain = [name for name in document.get(KEY, []) if name != installation.name]
    named = installation.name in document.get(KEY, [])
    if named:
        _check_others(installation, chain)
        document[KEY] = chain
        if not chain:
            del document[KEY]
        before = config.content()
        config.write(document, keep_old=False)
        say(f"{config.path} does not name {installation.name} any more")
    if installation.daemon.pid() is not None:
        if named:
            installation.daemon.reload()
        if not installation.daemon.wait_until(installation.listens, in_force=False):
            if named:
                config.restore(before)
                installation.daemon.reload()
            raise DaemonError(
                "the plugin cannot be uninstalled, and stays configured: requests still reach it, "
                "or dockerd does not answer; dockerd's log (`journalctl -u docker`) says why"
            )
        say("no request reaches the plugin any more")
    # Only now: a daemon that still names a plugin which does not answer refuses everything.
    installation.supervisor.stop()
    say("the plugin's service has ended")
