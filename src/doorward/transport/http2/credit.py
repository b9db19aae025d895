"""The credit of a client, which frames that cost work and ask for nothing spend."""

from __future__ import annotations

from doorward.transport.http2.codes import ErrorCode, Http2Error
from doorward.transport.http2.limits import Limits

__all__ = ["Credit"]


class Credit:
    """The credit of a client, spent by frames that cost work and request nothing.

    Requests and time restore it, up to what a connection begins with.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._left = float(limits.credit)
        self._credited = now

    def earn(self) -> None:
        """Restore credit after the client has completed a request."""
        if self._left < self._limits.credit:
            self._left += self._limits.credit_per_request

    def charge(self, cost: int, now: float) -> None:
        """Spend `cost`; raise Http2Error ENHANCE_YOUR_CALM if the credit is used up.

        Time since the last refill is credited only then. `now` is in monotonic seconds.
        """
        # Time is credited only where credit runs out: the usual charge costs one subtraction.
        self._left -= cost
        if self._left >= 0:
            return
        limits = self._limits
        earned = (now - self._credited) * limits.credit_per_second
        self._credited = now
        self._left = min(float(limits.credit), self._left + earned)
        if self._left < 0:
            raise Http2Error(
                ErrorCode.ENHANCE_YOUR_CALM, "too many frames that belong to no request"
            )
