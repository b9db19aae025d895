"""Usual requests are put to a decision point, to know whether it decides anything at all.

A wrong path in its URL, or a folder of policies with another package, gives no error: every
decision is undefined, and everyone is locked out. Policies need not decide all of these requests,
but one.
"""

from __future__ import annotations

from typing import Final

from doorward.docker.decider.answer import Decider, PdpError
from doorward.docker.reply import to_verdict
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import InputOptions, to_input

__all__ = ["why_undecided"]

USER: Final = "doorward-trial"
"""The common name in the requests of a user with a certificate."""
_BODY: Final = b'{"Image":"busybox","Cmd":["true"],"HostConfig":{}}'
_JSON: Final = {"Content-Type": "application/json"}
_UNDECIDED: Final = frozenset({"doorward:undefined", "doorward:result"})
_REQUESTS: Final = (
    AuthzRequest("GET", "/v1.41/containers/json"),
    AuthzRequest("POST", "/v1.41/containers/create", headers=_JSON, body=_BODY),
    AuthzRequest("GET", "/v1.41/containers/json", USER, "TLS"),
    AuthzRequest("POST", "/v1.41/containers/create", USER, "TLS", _JSON, _BODY),
)


def why_undecided(decider: Decider, options: InputOptions | None = None) -> str:
    """Return `""` if a policy allows or denies one of the trial requests: to list containers and to
    create one, with and without a user. Otherwise the reason why it decides none. If the decider
    fails, its error is the reason, and no further request is tried. `options` are those by
    which the inputs are made, None for the defaults.
    """
    reason = ""
    for request in _REQUESTS:
        try:
            verdict = to_verdict(decider.decide(to_input(request, options)).result)
        except PdpError as error:
            return str(error)
        # A denial by a rule is a decision as well: policies need not allow any of these.
        if verdict.rule not in _UNDECIDED:
            return ""
        reason = verdict.reason
    return reason
