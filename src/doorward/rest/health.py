"""Health and metrics: the endpoints that probes and scrapers ask."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from doorward.pdp.pdp import PDP
from doorward.rego import EvalError, Undefined, Value
from doorward.rego.golang import marshal, object_text
from doorward.rego.shared import Key
from doorward.rest.answers import json_answer
from doorward.rest.requests import Parameters
from doorward.telemetry.health import Health, State
from doorward.telemetry.metric_documents import CONTENT_TYPE
from doorward.telemetry.metrics import Metrics

__all__ = ["get_health", "get_health_policy", "get_metrics"]

_NOT_NEWEST: Final = "the last reload of policies and data failed: the previous ones are active"


def get_health(health: Health, parameters: Parameters) -> Response:
    """Return the health of the server: 200, or 500 with the error.

    Always checked: every thread is at work. `?bundles` or `?bundle`: each bundle and discovery has
    been active once. `?plugins`: every part is up, except those in `exclude-plugin`; if there are
    several workers, a 200 lists them. `?policies` (not OPA's): the newest
    policies are active; without it a failed reload is only a warning, unless reloads fail for long
    and `?plugins` is given.
    """
    fields: dict[str, str] = {}
    if health.workers is not None and parameters.flag("plugins"):
        fields["workers"] = marshal(
            [{name: each[name] for name in ("worker", "revision")} for each in health.workers]
        )
    # Whatever the query asks: a server whose threads do not work must be restarted.
    if stopped := health.stopped:
        problems = ", ".join([f"{name} is {problem}" for name, problem in stopped])
        return _unhealthy(f"threads do not work: {problems}")
    if (parameters.flag("bundles") or parameters.flag("bundle")) and not _are_activated(health):
        return _unhealthy("one or more bundles are not activated")
    if parameters.flag("plugins") and health.down(parameters.values("exclude-plugin")):
        return _unhealthy("one or more plugins are not up")
    if parameters.flag("policies") and health.failing_bundles:
        return _unhealthy("the last download of a bundle failed: the previous one is active")
    if health.reload_error is None:
        return json_answer(object_text(fields))
    # What is wrong is in the log: anybody may ask here.
    if parameters.flag("policies"):
        return _unhealthy(_NOT_NEWEST)
    return json_answer(object_text({**fields, "warning": marshal(_NOT_NEWEST)}))


def _are_activated(health: Health) -> bool:
    """Return True if bundles and discovery, as far as configured, have been active once."""
    states = health.states
    return all(states.get(name, State.OK) is State.OK for name in ("bundle", "discovery"))


def get_health_policy(pdp: PDP, health: Health, path: tuple[str, ...]) -> Response:
    """Return 200 if `data.system.health.PATH` is true, else 500 with the reason. The input of this
    policy has the states of all parts of the server.
    """
    states: dict[Key, Value] = {name: state.value for name, state in health.states.items()}
    input: dict[Key, Value] = {
        # As in OPA, discovery has a state even where nothing is to be discovered.
        "plugin_state": {"discovery": "OK", **states},
        "plugins_ready": not health.down(),
    }
    decision = pdp.decide(("system", "health", *path), input, is_parsed=True)
    name = ".".join(["data.system.health", *path])
    if decision.error is not None:
        error = decision.error
        return _unhealthy(str(error.diagnostics[0]) if isinstance(error, EvalError) else str(error))
    if isinstance(decision.result, Undefined):
        return _unhealthy(f"health check ({name}) was undefined")
    if decision.result is not True:
        return _unhealthy(f"health check ({name}) returned unexpected value")
    return json_answer("{}")


def get_metrics(metrics: Metrics, health: Health) -> Response:
    """Return all metrics in Prometheus' text format (GET /metrics)."""
    return Response(metrics.render(health), media_type=CONTENT_TYPE)


def _unhealthy(error: str) -> Response:
    return json_answer(object_text({"error": marshal(error)}), 500)
