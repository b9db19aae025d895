"""Metrics have OPA's names and a registry of their own."""

from __future__ import annotations

from doorward.telemetry.health import Health, State
from doorward.telemetry.metrics import Metrics


def test_two_servers_in_one_process_do_not_share_metrics() -> None:
    first, second = Metrics("1"), Metrics("1")
    first.lost("queue_full")
    assert 'decision_logs_lost_total{reason="queue_full"} 1.0' in first.render().decode()
    assert "queue_full" not in second.render().decode()


def test_a_failed_reload_shows_until_one_succeeds() -> None:
    metrics = Metrics("1")
    metrics.reloaded(failed=True)
    text = metrics.render().decode()
    assert "policy_current 0.0" in text
    assert 'policy_reloads_total{result="failure"} 1.0' in text
    metrics.reloaded(failed=False)
    assert "policy_current 1.0" in metrics.render().decode()


def test_the_state_of_each_part_is_a_gauge() -> None:
    health = Health()
    health.set("envoy_ext_authz_grpc", State.OK)
    text = Metrics("1").render(health).decode()
    assert 'plugin_status_gauge{name="envoy_ext_authz_grpc",status="OK"} 1.0' in text
    assert 'plugin_status_gauge{name="envoy_ext_authz_grpc",status="ERROR"} 0.0' in text
    assert 'doorward_info{version="1"} 1.0' in text
