"""Rules of access to routes: the rules of the table, each by what the configuration keeps back.

`server.decision_paths` names the documents that are served, `secrets` the data that clients are
never shown; one of several processes takes no changes. What the system policy says comes first.
"""

from __future__ import annotations

from typing import Final

from doorward.rest.exchange import Exchange
from doorward.rest.route import Rule

__all__ = [
    "AUTHZEN",
    "CHANGES",
    "CONSOLE",
    "DEFAULT",
    "DOCUMENTS",
    "EVERYBODY",
    "EVERYTHING",
    "EXPLAINED",
    "FILTERS",
    "POLICIES",
    "PROBES",
    "QUERIES",
]


def _serves_document(exchange: Exchange) -> bool:
    """Return True if the document at the request's path is served, and not secret."""
    return exchange.service.serves(exchange.path)


def _serves_explained(exchange: Exchange) -> bool:
    """Return True if the document is served, and the request asks for no explanation or may have
    one.
    """
    return _serves_document(exchange) and exchange.may_explain


def _serves_everything(exchange: Exchange) -> bool:
    """Return True if `server.decision_paths` keeps no documents back; `secrets` do not count."""
    return exchange.service.served is None


def _takes_rules(exchange: Exchange) -> bool:
    """Return True if clients may bring rules of their own: everything is served, and nothing is
    secret.
    """
    # A client that brings its own rules could read what it is not shown.
    return exchange.service.served is None and not exchange.service.pdp.secrets


def _takes_policies(exchange: Exchange) -> bool:
    """Return True if clients may change policies: they may bring rules of their own, and this
    process is the only one.
    """
    return _takes_rules(exchange) and not exchange.service.read_only


def _takes_changes(exchange: Exchange) -> bool:
    """Return True if the data at the request's path may be changed: everything is served, this is
    no secret, and this process is the only one.
    """
    is_fixed = exchange.service.read_only or exchange.service.served is not None
    return _serves_document(exchange) and not is_fixed


def _makes_filters(exchange: Exchange) -> bool:
    """Return True if the document is served and nothing is secret."""
    # What is unknown is said by the client: it could compare secrets with it.
    return _serves_document(exchange) and not exchange.service.pdp.secrets


def _serves_default(exchange: Exchange) -> bool:
    """Return True if the document of `default_decision` is served."""
    return exchange.service.serves(exchange.service.config.default_path)


def _serves_authzen(exchange: Exchange) -> bool:
    """Return True if the document that decides AuthZEN evaluations is served."""
    path = exchange.service.config.authzen.decision
    return exchange.service.serves(tuple(path.split("/")))


PROBES: Final = Rule("to everybody, on `--diagnostic-addr` too", lambda _: True, is_probe=True)
EVERYBODY: Final = Rule("to everybody", lambda _: True)
CONSOLE: Final = Rule("to clients that may use the console", lambda _: True, is_probe=True)
DOCUMENTS: Final = Rule("for served documents", _serves_document)
EXPLAINED: Final = Rule(
    "for served documents; explanations only without `server.decision_paths`", _serves_explained
)
DEFAULT: Final = Rule("if `default_decision` is served", _serves_default)
AUTHZEN: Final = Rule("if `authzen.decision` is served", _serves_authzen)
FILTERS: Final = Rule("for served documents, only without `secrets`", _makes_filters)
CHANGES: Final = Rule("only without `server.decision_paths`, in a single process", _takes_changes)
POLICIES: Final = Rule(
    "only without `server.decision_paths` and `secrets`, in a single process", _takes_policies
)
QUERIES: Final = Rule("only without `server.decision_paths` and `secrets`", _takes_rules)
EVERYTHING: Final = Rule("only without `server.decision_paths`", _serves_everything)
