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
    "envoy-check-disabled": _error("requests or responses pass without a decision"),
    "envoy-check-not-last": _error(
        "filters after the check can change the request that was decided on"
    ),
    "envoy-clear-route-cache": _error(
        "after the decision the request could take another route than the one that was decided"
    ),
    "envoy-admin-exposed": _error(
        "the administration interface shows and changes Envoy's whole configuration"
    ),
    "envoy-pdp-in-the-clear": _error(
        "an attacker on the network could answer for the decision point"
    ),
    "envoy-normalize-path": _error("policy and application could read `..` differently"),
    "envoy-merge-slashes": _error("policy and application could read `//` differently"),
    "envoy-escaped-slashes": _error("policy and application could read `%2F` differently"),
    "envoy-underscores": _error("many applications take `a_b` and `a-b` for one header"),
    "envoy-upgrade": _error("after an upgrade neither the stream nor its body is decided on"),
    "envoy-connect": _error("traffic in a tunnel that CONNECT opens is not decided on"),
    "envoy-chunked-length": _error("a request with a length and chunks can smuggle another one"),
    "envoy-remote-address": _error("clients could forge their address in x-forwarded-for"),
    "envoy-internal-address": _warning(
        "clients with private addresses could give Envoy orders in `x-envoy-*` headers"
    ),
    "envoy-client-headers": _warning("clients could name another path, method or user in headers"),
    "envoy-deny-at-disable": _warning(
        "if ext_authz is switched off at runtime, every request is allowed"
    ),
    "envoy-validate-mutations": _warning("a decision could add invalid headers to a request"),
    "envoy-google-grpc": _warning("google_grpc costs twice as much, and has no circuit breakers"),
    "envoy-check-timeout": _warning(
        "after the default of 200 ms requests are denied, also on a machine that is only busy"
    ),
    "envoy-pack-as-bytes": _warning("a body that is not UTF-8 fails the check"),
    "envoy-api-version": _error("the decision point only speaks V3 of the API"),
    "envoy-timeouts": _warning("slow clients hold connections for as long as they like"),
    "envoy-header-limits": _warning(
        "large or many headers take memory in Envoy, decision point and application"
    ),
    "envoy-http2-limits": _warning(
        "one connection could send any number of requests at the same time"
    ),
    "envoy-buffer-limit": _warning(
        "with the default of 1 MiB per connection, clients could fill Envoy's memory"
    ),
    "envoy-overload": _warning("Envoy would run out of memory before it refuses requests"),
    "envoy-connection-limit": _warning("a client could open connections until nobody else can"),
    "envoy-responses-mode": _error(
        "a response whose headers or whole body Envoy does not send is not filtered"
    ),
    "envoy-responses-override": _error(
        "an override could switch off more than the body of one response"
    ),
    "envoy-responses-observed": _error("Envoy does not apply the decision on a response"),
    "envoy-responses-status": _warning(
        "a failed decision gives clients a 500, as if the application had failed"
    ),
    "envoy-responses-timeout": _warning(
        "after the default of 200 ms responses fail, also on a machine that is only busy"
    ),
    "envoy-responses-trailers": _warning("trailers may reveal the unfiltered body"),
    "envoy-access-log": _warning("without a log, no request can be traced later"),
    # Proxies that ask over HTTP
    "forward-open": _error("requests pass without a decision"),
    "forward-question": _error("the decision is about another request than the application gets"),
    "forward-forged-header": _error("a client could name another user, method or path"),
    "forward-client-identity": _error("the client, not the policy, names the user"),
    "forward-connection": _error("a client could remove headers that the policy sets"),
    "forward-underscores": _error("many applications take `a_b` and `a-b` for one header"),
    "forward-body": _warning(
        "the proxy holds the whole body during the check: without a limit one request could take "
        "all of the proxy's memory"
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
    "policy-truncated-body": _warning("of a long body, the policy sees only the beginning"),
    "policy-unverified-token": _error("anybody can forge a token that is not verified"),
    "policy-secret": _warning("everybody who reads the policy can sign tokens"),
    "policy-slow-http-send": _error("Envoy stops waiting before the answer arrives, and denies"),
    # Deployments
    "kit-no-redirect": _error("without the redirect the application's port is open to everyone"),
    "kit-ipv4-only": _error("over IPv6 nothing is redirected"),
    "kit-loopback": _warning("containers of the pod reach the application without Envoy"),
    "kit-open-port": _error("the port is not redirected, and the application listens on it"),
    "kit-shared-user": _error(
        "connections of Envoy's user are not redirected: use another user id"
    ),
    "kit-host-network": _error("the redirect would apply to the whole node"),
    "kit-exposed-port": _error("clients reach the application without Envoy"),
    "kit-root": _warning("root in a container is nearly root outside"),
    "kit-privileges": _warning("a program could gain privileges that the container does not have"),
    "kit-capabilities": _warning("only the container that sets the redirect needs a capability"),
    "kit-writable": _warning("an intruder can leave files behind"),
    "kit-resources": _warning(
        "other pods could take the sidecar's share of CPU and memory, so that requests are denied"
    ),
    "kit-probe": _warning("requests would be sent to a sidecar that does not decide yet"),
    "kit-token": _warning("no container of the pod needs the API of the cluster"),
    "kit-seccomp": _warning("system calls that the container does not need are allowed"),
    "kit-network-policy": _warning("a pod that lost its redirect would be open to the cluster"),
}
