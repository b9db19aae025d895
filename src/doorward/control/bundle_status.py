"""The status of one bundle: its active revision, the times of its downloads, and its last error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final

from doorward.base.records import record
from doorward.pdp.error_documents import diagnostic_document
from doorward.rego import Diagnostic

__all__ = ["BundleStatus", "time_text"]

NEVER: Final = "0001-01-01T00:00:00Z"
"""The time of something that has not happened, as Go writes its zero time."""


def time_text(time_ns: int) -> str:
    """Return nanoseconds since the epoch as RFC 3339; 0, which means never, is year 1 as in Go."""
    if not time_ns:
        return NEVER
    seconds, rest = divmod(time_ns, 1_000_000_000)
    date = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{date}{fraction}Z"


@record
class BundleStatus:
    """The status of one bundle. Times are in nanoseconds since the epoch, 0 if never; `size` is in
    bytes; `message` and `diagnostics` are those of the last failure, empty after a success.
    """

    name: str
    active_revision: str = ""
    type: str = ""
    """`snapshot` or `delta`, the kind of the last bundle."""
    size: int = 0
    last_successful_activation: int = 0
    last_successful_download: int = 0
    last_successful_request: int = 0
    last_request: int = 0
    message: str = ""
    http_code: int | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_failing(self) -> bool:
        """True if the last attempt brought no bundle that could be activated."""
        return bool(self.message)

    def document(self) -> dict[str, Any]:
        """Return the status as a JSON object in the form of OPA's status reports. Times are RFC
        3339, and year 1 if never; other fields without a value are left out. `code` is there only
        after a failure.
        """
        result: dict[str, Any] = {"name": self.name}
        if self.active_revision:
            result["active_revision"] = self.active_revision
        for name in ("activation", "download", "request"):
            key = f"last_successful_{name}"
            result[key] = time_text(getattr(self, key))
        result["last_request"] = time_text(self.last_request)
        if self.type:
            result["type"] = self.type
        if self.size:
            result["size"] = self.size
        if self.message:
            result |= {"code": "bundle_error", "message": self.message}
        if self.http_code is not None:
            result["http_code"] = self.http_code
        if self.diagnostics:
            result["errors"] = [diagnostic_document(each) for each in self.diagnostics]
        if self.metrics:
            result["metrics"] = dict(self.metrics)
        return result
