"""The status of a running plugin: how it was started, what decides, and what is wrong.

The plugin answers `CALL` on its own socket, which only its owner can open; `read_status` asks.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, Final

from doorward.base.records import record
from doorward.docker.unix_http import call_plugin

__all__ = ["CALL", "INSTANCE", "TRIAL", "PluginStatus", "read_status", "to_document"]

CALL: Final = "/Doorward.Status"
INSTANCE: Final = "DOORWARD_INSTANCE"
"""The variable by which the installer gives the process its name."""
TRIAL: Final = "/Doorward.Trial"
"""The call that puts usual requests to the decision point (`trial`)."""


@record
class PluginStatus:
    """The plugin's own configuration and state."""

    pid: int = 0
    version: str = ""
    watched_by: str = ""
    """`systemd` or `watchdog`, which restart the plugin; "" if nothing does."""
    url: str = ""
    policies: tuple[str, ...] = ()
    decision: str = ""
    audit_log: str = ""
    inspect: str = ""
    allow_on_failure: bool = False
    revision: str = ""
    """The policies and data in force."""
    broken: str = ""
    """The error of the current files, while older policies still decide; "" if there is none."""
    broken_for: float = 0.0
    """Seconds since they could not be read."""
    stopped: tuple[str, ...] = ()
    """The threads that do not work, each with its problem."""
    open_listeners: tuple[str, ...] = ()
    """Where the daemon listens and verifies nobody."""
    lost: int = 0
    """Lines that the audit log could not take."""
    faults: int = 0
    """Errors of the plugin's own, each of which denied a request."""

    @property
    def decides_by(self) -> str:
        """A line for people: by which URL, or by which policies and revision, the plugin
        decides.
        """
        if self.url:
            return f"decided by {self.url}"
        return f"decided by {', '.join(self.policies)} ({self.decision}), revision {self.revision}"


def to_document(status: PluginStatus) -> dict[str, Any]:
    return asdict(status)


def read_status(socket: str) -> PluginStatus | None:
    """Return the status of the plugin at `socket`; None if nothing answers, or not with a
    status.
    """
    document = call_plugin(socket, CALL)
    if type(document) is not dict:
        return None
    # A plugin of another version may say more, or less.
    known = {each.name: each for each in fields(PluginStatus)}
    status_fields = {name: value for name, value in document.items() if name in known}
    for name in ("open_listeners", "policies", "stopped"):
        status_fields[name] = tuple(status_fields.get(name) or ())
    return PluginStatus(**status_fields)
