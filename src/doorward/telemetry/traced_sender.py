"""The sender of `http.send` while requests are traced: it makes a span for each request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doorward.rego.shared import HTTPRequest, HTTPResponse, HTTPSender
    from doorward.telemetry.tracing import Tracer

__all__ = ["TracedSender"]


class TracedSender:
    """Sends requests with `inner`, and adds a span while `tracer` is set; it is set after the
    policies are loaded.
    """

    def __init__(self, inner: HTTPSender | None = None) -> None:
        self._inner = inner
        self.tracer: Tracer | None = None

    def send(self, request: HTTPRequest, deadline: float | None) -> HTTPResponse:
        """Send a request in a span, and return the response; SendError if there is none by
        `deadline` (monotonic seconds). Trace headers that the policy sets are replaced, as in OPA.
        A status from 400 marks the span as failed.
        """
        from doorward.rego.shared import (
            default_sender,  # it brings an HTTP client, which few starts need
        )

        inner = self._inner or default_sender()
        if self.tracer is None:
            return inner.send(request, deadline)
        with self.tracer.send(request.method, request.url) as (sent, headers):
            remaining = [pair for pair in request.headers if pair[0] not in headers]
            added = tuple([*remaining, *headers.items()])
            response = inner.send(replace(request, headers=added), deadline)
            sent.note({"http.response.status_code": response.status_code})
            if response.status_code >= 400:
                sent.failed(str(response.status_code))
            return response
