"""A real Prometheus scrapes a run on both vendors as the chart's monitors say, and every panel of every dashboard has data.

With GPUJOB_PANELS=FILE what the panels show is written there, for docs/images (`python -m bench.screens`).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.api_server import PODS
from tests.e2e.chart import CHART, RELEASE
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import NAMESPACE, OperatorProcess
from tests.e2e.reporter import own_address
from tests.e2e.team import Team
from tests.ports import free_port
from tests.prometheus.boards import BOARDS, Target, sent, targets
from tests.prometheus.programs import program
from tests.prometheus.promtool import SAMPLES
from tests.prometheus.server import Json, Page, Prometheus, scrape

pytestmark = pytest.mark.e2e

TOO_LITTLE = json.dumps({"gpujob": 1, "findings": [{"reason": "DeviceUnusable", "device": 0, "name": "NVIDIA L4"}]})
RUNS = float(os.environ.get("GPUJOB_PANELS_SECONDS", "0"))
"""How long the run is looked at beyond the first data; longer for pictures."""


class Training(Page):
    """A reporter, as docs/telemetry.md has it, of a program on two GPUs that trains so many tokens a second."""

    def __init__(self, tokens_per_second: float) -> None:
        super().__init__(address="")
        self.tokens_per_second, self.began = tokens_per_second, time.time()

    def body(self) -> str:
        passed = time.time() - self.began
        # A little uneven, as programs are.
        trained = self.tokens_per_second * (passed + 0.5 * math.sin(passed / 7))
        steps = int(trained / 8192)
        figures = {
            "gpujob_steps_total": steps,
            "gpujob_skipped_steps_total": 0,
            "gpujob_samples_total": steps * 4,
            "gpujob_tokens_total": steps * 8192 / 2,
            "gpujob_step_duration_seconds_sum": passed,
            "gpujob_step_duration_seconds_count": steps,
            "gpujob_data_wait_seconds_total": passed * 0.03,
            "gpujob_data_wait_ratio": 0.03 + 0.02 * math.sin(passed / 11),
            "gpujob_last_step_timestamp_seconds": time.time(),
            "gpujob_progress_ratio": min(1.0, passed / 600),
            "gpujob_remaining_seconds": max(0.0, 600 - passed),
            "gpujob_checkpoint_step": steps // 100 * 100,
            "gpujob_device_memory_allocated_bytes": 50e9,
            "gpujob_device_memory_reserved_bytes": 58e9 + 1e9 * math.sin(passed / 5),
            "gpujob_device_memory_reserved_peak_bytes": 60e9,
            "gpujob_on_device": 1,
        }
        lines = ["gpujob_up 1", "gpujob_world_size 2", "gpujob_ranks_reporting 2", "python_info 1"]
        for rank in ("0", "1"):
            lines += [f'{name}{{rank="{rank}"}} {value:.6f}' for name, value in figures.items()]
            for quantile, factor in (("0.5", 1), ("0.9", 1.1), ("0.99", 1.4)):
                seconds = factor * 8192 / self.tokens_per_second
                lines.append(f'gpujob_step_duration_seconds{{rank="{rank}",quantile="{quantile}"}} {seconds:.6f}')
        lines.append(f'gpujob_training_metric{{rank="0",name="loss"}} {1.6 + 2 / (1 + passed / 40):.4f}')
        return "\n".join(lines) + "\n"


class Exporter(Page):
    """A vendor's exporter with its recorded page, for the pod of a job; utilization and power move a little."""

    def __init__(self, sample: str, recorded: str, namespace: str, pod: str) -> None:
        page = (SAMPLES / sample).read_text().replace('"team-a"', f'"{namespace}"')
        super().__init__(page.replace(f'"{recorded}"', f'"{pod}"'))

    def body(self) -> str:
        moved = ("DCGM_FI_DEV_GPU_UTIL{", "gpu_gfx_activity{", "DCGM_FI_DEV_POWER_USAGE{", "gpu_package_power{")
        lines = []
        for line in self.text.splitlines():
            if line.startswith(moved):
                series, _, value = line.rpartition(" ")
                line = f"{series} {float(value) * (0.97 + 0.03 * math.sin(time.time() / 9)):.3f}"
            lines.append(line)
        return "\n".join(lines) + "\n"


Open = Callable[[Page], Page]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Pages that are closed with the test."""
    pages: list[Page] = []

    def keep(page: Page) -> Page:
        pages.append(page)
        return page

    yield keep
    for page in pages:
        page.close()


@pytest.fixture
def scraped(no_operator: None, operators: Operators) -> Iterator[OperatorProcess]:
    """An operator that serves its metrics and reads reporters often."""
    made = operators("scraped")
    made.settings |= {
        "GPUJOB_METRICS_PORT": str(free_port()),
        "GPUJOB_LISTEN": "127.0.0.1",
        "GPUJOB_SCRAPE_SECONDS": "1",
    }
    made.start_without_waiting_for_the_lease()
    yield made
    made.stop()
    assert made.errors() == []


def monitors(cluster: Cluster) -> tuple[Json, Json]:
    """The endpoints of the chart's ServiceMonitor and PodMonitor."""
    command = [cluster.tool("helm"), "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}"]
    done = subprocess.run(
        [*command, "--set=replicaCount=0", "--api-versions=monitoring.coreos.com/v1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    made = {each["kind"]: each.get("spec", {}) for each in yaml.safe_load_all(done.stdout) if each}
    return made["ServiceMonitor"]["endpoints"][0], made["PodMonitor"]["podMetricsEndpoints"][0]


def pod_of(team: Team, name: str, uid: str) -> Json:
    """The running pod of a job, which is made to have an address of this machine."""
    team.until(name, "Running")
    (pod,) = eventually(lambda: [p for p in team.pods(uid) if p["status"].get("podIP")], what="a pod with an address")
    address = {"podIP": own_address(), "podIPs": [{"ip": own_address()}]}
    team.api.patch(PODS.format(team.namespace), f"{pod['metadata']['name']}/status", {"status": address})
    return pod


def target_of(pod: Json, endpoint: Json) -> Json:
    """The scrape of a pod, with the labels that Prometheus Operator gives it beforehand."""
    container = pod["spec"]["containers"][0]
    port = next(port["containerPort"] for port in container["ports"] if port["name"] == endpoint["port"])
    metadata = pod["metadata"]
    labels = {"namespace": metadata["namespace"], "pod": metadata["name"], "container": container["name"]}
    for key, value in metadata["labels"].items():
        labels[f"__meta_kubernetes_pod_label_{''.join(c if c.isalnum() else '_' for c in key)}"] = value
    return scrape(metadata["name"], port, labels, endpoint)


def test_every_panel_of_every_dashboard_has_data(
    scraped: OperatorProcess, cluster: Cluster, fleet: Fleet, team: Team, opened: Open, tmp_path: Path
) -> None:
    program("prometheus")
    fleet(h100=1, mi300x=1, l4=1)
    training: dict[str, Any] = {"nvidia-run": opened(Training(9100)), "amd-run": opened(Training(10800))}
    uids = {
        name: team.submit(
            name,
            profile="llama-8b",
            gpusPerNode=2,
            placement={"vendors": ["AMD" if name == "amd-run" else "NVIDIA"], "accelerators": {"allow": [device]}},
            telemetry={"port": training[name].port},
        )
        for name, device in (("nvidia-run", "H100-SXM"), ("amd-run", "MI300X"))
    }
    team.submit(
        "broken", placement={"accelerators": {"allow": ["L4"]}}, found=(4, TOO_LITTLE), retries={"infrastructure": 0}
    )
    pods = {name: pod_of(team, name, uid) for name, uid in uids.items()}
    # Last, since of jobs of one second any may be the first.
    team.submit("waits", gpusPerNode=8, placement={"accelerators": {"allow": ["H100-SXM"]}})
    nvidia, amd = (pods[name]["metadata"]["name"] for name in ("nvidia-run", "amd-run"))
    dcgm = opened(Exporter("dcgm.prom", "llama-0", team.namespace, nvidia))
    dme = opened(Exporter("amd.prom", "qwen-0", team.namespace, amd))
    service, pod_endpoint = monitors(cluster)
    scrapes = [
        scrape("gpujob-operator", int(scraped.settings["GPUJOB_METRICS_PORT"]), {"namespace": NAMESPACE}, service),
        *(target_of(pod, pod_endpoint) for pod in pods.values()),
        scrape("dcgm-exporter", dcgm.port, {"namespace": "gpu-operator", "pod": "dcgm-exporter-x7"}),
        scrape("amd-exporter", dme.port, {"namespace": "kube-amd-gpu", "pod": "exporter-q2"}, {"honorLabels": True}),
    ]
    team.until("broken", "Failed")
    began = time.time()
    prometheus = Prometheus(tmp_path, scrapes)
    try:
        # What happens while Prometheus looks on: a wait in the queue, and a placement.
        eventually(lambda: prometheus.query("gpujob_placement_seconds_count"), what="a first scrape")
        team.submit("later", runs_for="1s", placement={"accelerators": {"allow": ["L4"]}})
        empty: list[Target] = []

        def shown() -> bool:
            empty[:] = [one for one in targets() if not has_number(prometheus.query(asked(one, team)))]
            return not empty

        try:
            eventually(shown, 120, what="data in every panel", every=2)
        except TimeoutError:
            pytest.fail(f"no data in {[f'{one}: {asked(one, team)}' for one in empty]}; {prometheus.targets()}")
        if RUNS:
            time.sleep(RUNS)
        assert set(prometheus.targets().values()) == {""}, "a target cannot be scraped"
        check_figures(prometheus, team)
        if os.environ.get("GPUJOB_PANELS"):
            Path(os.environ["GPUJOB_PANELS"]).write_text(json.dumps(panel_data(prometheus, team, began)))
    finally:
        prometheus.stop()


def check_figures(prometheus: Prometheus, team: Team) -> None:
    """Some figures are those of the run: labels of the job, both vendors, one speed in two ways."""
    ours = f'namespace="{team.namespace}"'
    wanted = {"nvidia-run": pytest.approx(9100, rel=0.25), "amd-run": pytest.approx(10800, rel=0.25)}
    for expr in (f"gpujob_job_tokens_per_second{{{ours}}}", f"sum by (job) (rate(gpujob_tokens_total{{{ours}}}[20s]))"):
        eventually(partial(gives, prometheus, expr, wanted), 60, what=f"the speed in {expr}", every=1)
    busy = {
        each["metric"]["vendor"]: each["metric"]["job"]
        for each in prometheus.query(f"gpujob:device_utilization:ratio{{{ours}}}")
    }
    assert busy == {"NVIDIA": "nvidia-run", "AMD": "amd-run"}
    names = {each["metric"]["__name__"] for each in prometheus.query(f'{{{ours}, job="amd-run", pod!=""}}')}
    assert "gpujob_step_duration_seconds" in names
    assert "python_info" not in names, "what is no reporter's was kept"
    firing = {
        (each["metric"]["alertname"], each["metric"].get("job"))
        for each in prometheus.query('ALERTS{alertstate="firing"}')
    }
    assert firing == {("GPUJobFailed", "broken")}


def has_number(samples: list[Json]) -> bool:
    """Whether a panel has something to draw."""
    return any(math.isfinite(float(each["value"][1])) for each in samples)


def gives(prometheus: Prometheus, expr: str, wanted: dict[str, Any]) -> bool:
    """Whether the jobs have these values of an expression."""
    return by_job(prometheus.query(expr)) == wanted


def by_job(samples: list[Json]) -> dict[str, float]:
    return {each["metric"]["job"]: float(each["value"][1]) for each in samples}


def asked(target: Target, team: Team) -> str:
    """An expression as Grafana sends it with a short interval: a run of a minute is all there is."""
    return sent(target.expr, BOARDS[target.board], interval="30s", span="15m", namespace=team.namespace)


def panel_data(prometheus: Prometheus, team: Team, began: float) -> list[Json]:
    """What each panel shows: its series over the run, or the samples of its end."""
    found = []
    for one in targets():
        expr, end = asked(one, team), time.time()
        result = (
            prometheus.query(expr) if one.kind == "table" else prometheus.over_time(expr, began + 20 + RUNS * 0.7, end)
        )
        found.append({"board": one.board, "panel": one.panel, "kind": one.kind, "ref": one.ref, "result": result})
    return found
