"""The credit of a client, which frames that cost work and ask for nothing spend."""

from __future__ import annotations

from doorward.transport.http2.codes import ErrorCode, Http2Error
from doorward.transport.http2.limits import Limits

__all__ = ["Credit"]


class Credit:
    """It grows with each request, and slowly with time, up to what a connection begins with."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._left = float(limits.credit)
        self._credited = now

    def earn(self) -> None:
        """The client has ended a request."""
        if self._left < self._limits.credit:
            self._left += self._limits.credit_per_request

    def charge(self, cost: int, now: float) -> None:
        """Pay for a frame; Http2Error where nothing is left."""
        self._left -= cost
        if self._left >= 0:
            return
        limits = self._limits
        earned = (now - self._credited) * limits.credit_per_second
        self._credited = now
        self._left = min(float(limits.credit), self._left + earned)
        if self._left < 0:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without a request")
