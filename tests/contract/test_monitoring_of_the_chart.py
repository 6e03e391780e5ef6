"""The chart's objects for Prometheus and Grafana: made where the API is, and holding what was generated."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from gpujob.catalog.files.site import CONFIG_MAP
from monitoring.__main__ import files
from tests.contract.test_chart_rendering import CHART, of_kind, one, rendered
from tests.e2e.cluster.state import REPOSITORY

KINDS = {"serviceMonitor": "ServiceMonitor", "podMonitor": "PodMonitor", "prometheusRule": "PrometheusRule"}
WITH_THE_API = "--api-versions=monitoring.coreos.com/v1"


@pytest.mark.parametrize(("value", "kind"), KINDS.items())
@pytest.mark.parametrize(
    ("enabled", "has_api", "made"),
    [("auto", True, 1), ("auto", False, 0), (True, False, 1), (True, True, 1), (False, True, 0)],
)
def test_monitors_are_made_where_the_cluster_has_their_api(
    value: str, kind: str, enabled: Any, has_api: bool, made: int
) -> None:
    objects = rendered({"monitoring": {value: {"enabled": enabled}}}, *([WITH_THE_API] if has_api else []))
    assert len(of_kind(objects, kind)) == made


def test_labels_by_which_a_prometheus_selects_are_added() -> None:
    labels = {"release": "kube-prometheus-stack"}
    objects = rendered({"monitoring": {value: {"labels": labels} for value in KINDS}}, WITH_THE_API)
    for kind in KINDS.values():
        metadata = one(objects, kind)["metadata"]
        assert metadata["labels"]["release"] == "kube-prometheus-stack"
        assert metadata["labels"]["app.kubernetes.io/name"] == "gpujob-operator"


def test_the_rules_are_those_that_were_generated() -> None:
    spec = one(rendered({}, WITH_THE_API), "PrometheusRule")["spec"]
    assert spec == yaml.safe_load((CHART / "files" / "monitoring" / "rules.yaml").read_text())


def test_pages_of_alerts_may_be_served_elsewhere() -> None:
    values = {"monitoring": {"prometheusRule": {"runbooks": "https://wiki.example/gpus"}}}
    groups = one(rendered(values, WITH_THE_API), "PrometheusRule")["spec"]["groups"]
    pages = [rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"] if "alert" in rule]
    assert pages
    assert all(page.startswith("https://wiki.example/gpus/") for page in pages)


def test_pages_of_alerts_are_those_of_the_site_that_is_served() -> None:
    def pages(values: dict[str, Any]) -> list[str]:
        groups = one(rendered(values, WITH_THE_API), "PrometheusRule")["spec"]["groups"]
        return [rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"] if "alert" in rule]

    found = pages({"docsURL": "https://docs.example/gpujob/"})
    assert found
    for page in found:
        assert page.startswith("https://docs.example/gpujob/docs/runbooks/")
        name = page.removeprefix("https://docs.example/gpujob/docs/runbooks/").removesuffix("/")
        assert (REPOSITORY / "docs" / "runbooks" / f"{name}.md").is_file()
    own = {"prometheusRule": {"runbooks": "https://wiki.example/gpus"}}
    assert pages({"docsURL": "https://docs.example", "monitoring": own})[0].startswith("https://wiki.example/gpus/")


def test_the_service_monitor_finds_the_service_and_keeps_the_jobs_own_labels() -> None:
    objects = rendered({}, WITH_THE_API)
    monitor, service = one(objects, "ServiceMonitor")["spec"], one(objects, "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["honorLabels"] is True
    # The series of the scrape itself have the Service's name as their job, whatever GPUJobs are called.
    assert not {"relabelings", "metricRelabelings"} & endpoint.keys()
    assert "jobLabel" not in monitor
    assert not any("prometheus.io/" in key for each in objects for key in each["metadata"].get("annotations", {}))


def test_the_pod_monitor_keeps_what_reporters_serve_and_nothing_else() -> None:
    (endpoint,) = one(rendered({}, WITH_THE_API), "PodMonitor")["spec"]["podMetricsEndpoints"]
    keep, name, drop = endpoint["metricRelabelings"]
    assert (name, drop) == (
        {"sourceLabels": ["gpujob"], "targetLabel": "job"},
        {"regex": "gpujob", "action": "labeldrop"},
    )
    page = (REPOSITORY / "docs" / "telemetry.md").read_text()
    names = set(re.findall(r"^\| `(gpujob_[a-z_]+)`", page, flags=re.MULTILINE))
    assert len(names) > 20
    names |= {f"gpujob_step_duration_seconds{part}" for part in ("_sum", "_count")}
    assert {name for name in names if not re.fullmatch(keep["regex"], name)} == set()
    for other in ("gpujob_job_cost_dollars_total", "gpujob_operator_leader", "gpujob_up_x", "python_info", "up"):
        assert not re.fullmatch(keep["regex"], other), f"a program could serve {other}"
    assert endpoint["honorLabels"] is False


def test_the_job_of_a_scrape_is_the_same_for_all_pods_whatever_their_gpujob_is_called() -> None:
    """Else `up{job="apiserver"}` of a GPUJob with that name answers for the API server."""
    (endpoint,) = one(rendered({}, WITH_THE_API), "PodMonitor")["spec"]["podMetricsEndpoints"]
    named = [rule for rule in endpoint["relabelings"] if rule["targetLabel"] == "job"]
    assert named == [{"targetLabel": "job", "replacement": "gpujob-pods"}]
    assert {rule["targetLabel"] for rule in endpoint["relabelings"]} == {"job", "gpujob", "gpujob_attempt"}


def test_dashboards_are_config_maps_that_the_sidecar_finds() -> None:
    def config_maps(values: dict[str, Any]) -> list[dict[str, Any]]:
        return [each for each in of_kind(rendered(values), "ConfigMap") if each["metadata"]["name"] != CONFIG_MAP]

    assert not config_maps({})
    maps = config_maps({"monitoring": {"dashboards": {"enabled": True, "namespace": "grafana"}}})
    wanted = {path.rpartition("/")[2]: text for path, text in files().items() if path.startswith("dashboards/")}
    assert {name: text for each in maps for name, text in each["data"].items()} == {
        name: text.strip() for name, text in wanted.items()
    }
    for each in maps:
        assert each["metadata"]["namespace"] == "grafana"
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"] == {"grafana_folder": "GPUJob"}
