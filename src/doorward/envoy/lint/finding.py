"""The rules with their reasons, and what one of them found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from doorward.base.records import record

__all__ = ["RULES", "Finding", "Rule"]

Level = Literal["error", "warning"]


@record
class Rule:
    """A rule: an error opens a way past the policy, a warning leaves out a protection."""

    level: Level
    reason: str


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A violation of `rule` (a key of `RULES`) in a file at a line (from 1)."""

    file: str
    line: int
    rule: str
    message: str

    @property
    def level(self) -> Level:
        """The level of its rule: `error` or `warning`."""
        return RULES[self.rule].level

    @property
    def reason(self) -> str:
        """The reason of its rule: the consequence of the fault."""
        return RULES[self.rule].reason


def _error(reason: str) -> Rule:
    return Rule("error", reason)


def _warning(reason: str) -> Rule:
    return Rule("warning", reason)


RULES: Final[Mapping[str, Rule]] = {
    "unreadable": _error("a file that cannot be parsed cannot be checked"),
    # Envoy
    "envoy-no-check": _error("without the filter ext_authz every request is forwarded"),
    "envoy-failure-mode-allow": _error("if the decision point fails, every request is allowed"),
    "envoy-check-disabled": _error("requests on a route without the check are forwarded undecided"),
    "envoy-check-not-last": _error(
        "filters after the check can change the request that was decided on"
    ),
    "envoy-clear-route-cache": _error("the request could take another route than was decided on"),
    "envoy-admin-exposed": _error("the administration interface shows and changes everything"),
    "envoy-pdp-in-the-clear": _error(
        "an attacker on the network could answer for the decision point"
    ),
    "envoy-normalize-path": _error("policy and application would read `..` in two ways"),
    "envoy-merge-slashes": _error("policy and application would read `//` in two ways"),
    "envoy-escaped-slashes": _error("policy and application would read `%2F` in two ways"),
    "envoy-underscores": _error("many applications take `a_b` and `a-b` for one header"),
    "envoy-upgrade": _error("after an upgrade neither the stream nor its body is decided on"),
    "envoy-connect": _error("traffic in a tunnel that CONNECT opens is not decided on"),
    "envoy-chunked-length": _error("a request with a length and chunks can smuggle another one"),
    "envoy-remote-address": _error("clients would choose their own address"),
    "envoy-internal-address": _warning("private addresses may send `x-envoy-*` headers"),
    "envoy-client-headers": _warning("clients could name another path, method or user in headers"),
    "envoy-deny-at-disable": _warning("a filter that is switched off at runtime allows everything"),
    "envoy-validate-mutations": _warning("a decision could inject headers that are not valid"),
    "envoy-google-grpc": _warning("google_grpc costs twice as much, and has no circuit breakers"),
    "envoy-check-timeout": _warning("the default of 200 ms denies when the machine is busy"),
    "envoy-pack-as-bytes": _warning("a body that is not UTF-8 fails the check"),
    "envoy-api-version": _error("the decision point only speaks V3 of the API"),
    "envoy-timeouts": _warning("slow clients hold connections for as long as they like"),
    "envoy-header-limits": _warning("large or many headers cost memory in every part"),
    "envoy-http2-limits": _warning(
        "one connection could send any number of requests at the same time"
    ),
    "envoy-buffer-limit": _warning(
        "with the default of 1 MiB for each, connections can fill the memory"
    ),
    "envoy-overload": _warning("Envoy would run out of memory before it refuses requests"),
    "envoy-connection-limit": _warning("clients could use up every connection"),
    "envoy-responses-mode": _error("a response that is not sent whole is not filtered"),
    "envoy-responses-override": _error(
        "an override could exempt more than the body of one response"
    ),
    "envoy-responses-observed": _error("the filter ignores the decision"),
    "envoy-responses-status": _warning("a failure is a 500, as if the application had failed"),
    "envoy-responses-timeout": _warning("the default of 200 ms fails when the machine is busy"),
    "envoy-responses-trailers": _warning("trailers may reveal the unfiltered body"),
    "envoy-access-log": _warning("without a log, no request can be traced later"),
    # Proxies that ask over HTTP
    "forward-open": _error("requests pass without a decision"),
    "forward-question": _error("the decision is about another request than the application gets"),
    "forward-forged-header": _error("a client could name another user, method or path"),
    "forward-client-identity": _error("the client, not the policy, names the user"),
    "forward-connection": _error("a client could take away what the policy sets"),
    "forward-underscores": _error("many applications take `a_b` and `a-b` for one header"),
    "forward-body": _warning(
        "the proxy keeps all of a body for its question: without a limit one request could take "
        "all of its memory"
    ),
    # The decision point
    "pdp-exposed": _error("others can request decisions, or change the data behind them"),
    "pdp-data-served": _error(
        "an application that is tricked into a request could read keys in the data"
    ),
    "pdp-dry-run": _error("a dry run allows everything"),
    "pdp-logs-bodies": _warning("the decision log has the data that policies hide from users"),
    "pdp-fail-call": _warning(
        "an error fails the call, which failure_mode_allow would let pass: use deny"
    ),
    "pdp-not-strict": _warning("requests that can be read in two ways reach the policy"),
    "pdp-no-decision-log": _warning("without a log, no decision can be traced later"),
    # Policies
    "policy-default": _error("a default other than false allows what no rule decides"),
    "policy-no-default": _warning("the decision is undefined if no rule for `allow` holds"),
    "policy-open-without-body": _error("a missing or unparsed body makes the condition true"),
    "policy-open-without-header": _error(
        "a missing header makes the condition true, and clients can leave any header out"
    ),
    "policy-header-list": _error("repeated headers arrive joined by commas: split, then compare"),
    "policy-path-query": _error("`path` includes the query, in which a client can write anything"),
    "policy-truncated-body": _warning("the policy sees the beginning of a long body only"),
    "policy-unverified-token": _error("anybody can forge a token that is not verified"),
    "policy-secret": _warning("everybody who reads the policy can sign tokens"),
    "policy-slow-http-send": _error("Envoy stops waiting first, and denies"),
    # Deployments
    "kit-no-redirect": _error("without the redirect the application's port is open to everyone"),
    "kit-ipv4-only": _error("over IPv6 nothing is redirected"),
    "kit-loopback": _warning("containers of the pod reach the application without Envoy"),
    "kit-open-port": _error("the port is not redirected, and the application listens on it"),
    "kit-shared-user": _error("connections of Envoy's user are not redirected: use another"),
    "kit-host-network": _error("the redirect would apply to the whole node"),
    "kit-exposed-port": _error("clients reach the application without Envoy"),
    "kit-root": _warning("root in a container is nearly root outside"),
    "kit-privileges": _warning("a program could gain what the container was not given"),
    "kit-capabilities": _warning("no part but the redirect needs any capability"),
    "kit-writable": _warning("an intruder can leave files behind"),
    "kit-resources": _warning("a neighbour could starve the sidecar, and every request be denied"),
    "kit-probe": _warning("requests would be sent to a sidecar that does not decide yet"),
    "kit-token": _warning("no container of the pod needs the API of the cluster"),
    "kit-seccomp": _warning("system calls that the container does not need are allowed"),
    "kit-network-policy": _warning("a pod that lost its redirect would be open to the cluster"),
}
