"""What both exporters say comes under one set of names for each GPUJob, whichever way their labels came into Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prometheus.promtool import SAMPLES, Series, Trial, scraped, selector

NVIDIA_TARGET = {
    "job": "dcgm-exporter",
    "namespace": "gpu-operator",
    "pod": "dcgm-exporter-x7",
    "container": "exporter",
}
AMD_TARGET = {"job": "amd-exporter", "namespace": "kube-amd-gpu", "pod": "exporter-q2", "container": "exporter"}
MIB = 1048576


def known(*pods: str, namespace: str = "team-a") -> Series:
    """Targets of the PodMonitor; the reporter of one answers, those of the others do not yet."""
    found = {}
    for pod in pods:
        owner = {"job": "gpujob-pods", "gpujob": pod.rsplit("-", 1)[0], "gpujob_attempt": "1"}
        labels = {"namespace": namespace, "pod": pod, **owner}
        found[selector("up", labels | {"instance": pod})] = f"{int(pod.endswith('-0'))}x60"
    return found


def device(
    job: str, number: int, name: str, node: str, vendor: str, metric: str, index: str = "0", kind: str = ""
) -> str:
    labels = {
        "namespace": "team-a",
        "pod": f"{job}-{index}",
        "job": job,
        "device": name,
        "node": node,
        "vendor": vendor,
    }
    return selector(metric, labels | {"kind": kind})


def llama(metric: str, kind: str = "") -> str:
    return device("llama", 0, "0", "h100-0", "NVIDIA", metric, kind=kind)


def qwen(metric: str, kind: str = "") -> str:
    return device("qwen", 0, "0", "mi300x-0", "AMD", metric, kind=kind)


def old(metric: str, kind: str = "") -> str:
    return device("old", 0, "2", "mi210-0", "AMD", metric, kind=kind)


WHOLE = [
    ("gpujob:device_utilization:ratio", {llama: 0.97, qwen: 0.88, old: 0.4}),
    ("gpujob:device_memory_used:bytes", {llama: 60000 * MIB, qwen: 150000 * MIB, old: 1000 * MIB}),
    ("gpujob:device_memory_total:bytes", {llama: 81559 * MIB, qwen: 196592 * MIB, old: 65520 * MIB}),
    ("gpujob:device_power:watts", {llama: 612.5, qwen: 700, old: 190}),
    ("gpujob:device_temperature:celsius", {llama: 61, qwen: 72, old: 55}),
    ("gpujob:device_energy_joules_total", {llama: 5_200_000, qwen: 9_000_000, old: 2_000_000}),
    ("gpujob:device_healthy:bool", {llama: 1, qwen: 1, old: 1}),
    ("gpujob:device_xid:code", {llama: 0}),
]
PREFIXED = "amd_"


def text(name: str) -> str:
    return (SAMPLES / name).read_text()


def prefixed(page: str) -> str:
    """As with MetricsFieldPrefix in the exporter's configuration."""
    lines = (line if line.startswith("#") else f"{PREFIXED}{line}" for line in page.splitlines())
    return "\n".join(lines).replace("# HELP gpu", "# HELP amd_gpu").replace("# TYPE gpu", "# TYPE amd_gpu") + "\n"


@pytest.mark.parametrize("nvidia_honors", [False, True], ids=["dcgm-default", "dcgm-honors"])
@pytest.mark.parametrize("amd_honors", [True, False], ids=["amd-default", "amd-honors-not"])
@pytest.mark.parametrize("prefix", [False, True], ids=["plain", "prefix"])
def test_whole_devices(nvidia_honors: bool, amd_honors: bool, prefix: bool, tmp_path: Path) -> None:
    amd = prefixed(text("amd.prom")) if prefix else text("amd.prom")
    series = {
        **known("llama-0", "qwen-0", "old-0"),
        **scraped(text("dcgm.prom"), NVIDIA_TARGET, nvidia_honors),
        **scraped(amd, AMD_TARGET, amd_honors),
    }
    trial = Trial(series)
    for metric, values in WHOLE:
        trial.gives(metric, [(who(metric), value) for who, value in values.items()])
    trial.gives(
        "gpujob:device_ecc_errors_total",
        [
            (who("gpujob:device_ecc_errors_total", kind), value)
            for who, kind, value in (
                (llama, "correctable", 2), (qwen, "correctable", 1), (old, "correctable", 0),
                (llama, "uncorrectable", 0), (qwen, "uncorrectable", 0), (old, "uncorrectable", 0),
            )
        ],
    )  # fmt: skip
    trial.run(tmp_path)


def test_a_mig_slice_has_its_own_activity_and_memory_but_no_share_of_the_power(tmp_path: Path) -> None:
    series = {**known("small-0", "small-1"), **scraped(text("dcgm_mig.prom"), NVIDIA_TARGET, False)}

    def slices(metric: str, first: float, second: float) -> list[tuple[str, float]]:
        names = (device("small", 0, f"2/{n + 1}", "h100-0", "NVIDIA", metric, index=str(n)) for n in (0, 1))
        return list(zip(names, (first, second), strict=True))

    trial = Trial(series)
    for metric, first, second in (
        ("gpujob:device_utilization:ratio", 0.5, 0.25),
        ("gpujob:device_memory_used:bytes", 10448 * MIB, 448 * MIB),
        ("gpujob:device_memory_total:bytes", 40448 * MIB, 40448 * MIB),
        ("gpujob:device_temperature:celsius", 48, 48),
    ):
        trial.gives(metric, slices(metric, first, second))
    trial.gives("gpujob:device_power:watts", []).gives("gpujob:device_energy_joules_total", []).run(tmp_path)


@pytest.mark.parametrize("honors", [False, True])
def test_pods_that_share_a_gpu_each_see_it_and_none_has_its_power(honors: bool, tmp_path: Path) -> None:
    """As the exporter writes it with --kubernetes-virtual-gpus: a series of the device for each pod."""
    lines = text("dcgm.prom").splitlines()
    shared = [line.replace('pod="llama-0"', 'pod="llama-1",vgpu="1"') for line in lines if 'pod="llama-0"' in line]
    page = "\n".join([*lines, *shared, ""])
    trial = Trial({**known("llama-0", "llama-1"), **scraped(page, NVIDIA_TARGET, honors)})
    metric = "gpujob:device_utilization:ratio"
    trial.gives(metric, [(device("llama", 0, "0", "h100-0", "NVIDIA", metric, index=str(n)), 0.97) for n in (0, 1)])
    trial.gives("gpujob:device_power:watts", []).gives("gpujob:device_energy_joules_total", []).run(tmp_path)


def test_a_device_that_is_scraped_twice_is_not_shared(tmp_path: Path) -> None:
    again = scraped(text("dcgm.prom"), NVIDIA_TARGET | {"job": "dcgm-again"}, False)
    series = {**known("llama-0"), **scraped(text("dcgm.prom"), NVIDIA_TARGET, False), **again}
    metric = "gpujob:device_power:watts"
    Trial(series).gives(metric, [(llama(metric), 612.5)]).run(tmp_path)


def test_of_an_amd_partition_only_its_memory_and_health_are_its_own(tmp_path: Path) -> None:
    series = {**known("part-0", "part-1"), **scraped(text("amd_cpx.prom"), AMD_TARGET, True)}

    def parts(metric: str, first: float, second: float) -> list[tuple[str, float]]:
        names = [device("part", 0, name, "mi300x-1", "AMD", metric, index=n) for n, name in (("0", "0"), ("1", "1/1"))]
        return list(zip(names, (first, second), strict=True))

    trial = Trial(series)
    for metric, first, second in (
        ("gpujob:device_memory_used:bytes", 10000 * MIB, 2000 * MIB),
        ("gpujob:device_memory_total:bytes", 24574 * MIB, 24574 * MIB),
        ("gpujob:device_healthy:bool", 1, 1),
    ):
        trial.gives(metric, parts(metric, first, second))
    for metric in ("gpujob:device_utilization:ratio", "gpujob:device_power:watts", "gpujob:device_energy_joules_total"):
        trial.gives(metric, [])
    trial.run(tmp_path)


def test_kube_state_metrics_names_the_jobs_where_no_pod_is_scraped(tmp_path: Path) -> None:
    labels = {"namespace": "team-a", "pod": "llama-0", "label_gpujob_dev_job": "llama", "job": "kube-state-metrics"}
    series = {selector("kube_pod_labels", labels): "1x60", **scraped(text("dcgm.prom"), NVIDIA_TARGET, False)}
    Trial(series).gives(
        "gpujob:device_utilization:ratio", [(llama("gpujob:device_utilization:ratio"), 0.97)]
    ).run(tmp_path)  # fmt: skip


def test_devices_of_other_pods_are_nobodys(tmp_path: Path) -> None:
    series = {**known("other-0"), **scraped(text("dcgm.prom"), NVIDIA_TARGET, False)}
    Trial(series).gives("gpujob:device_utilization:ratio", []).run(tmp_path)


def test_a_pod_of_the_same_name_in_another_namespace_is_another(tmp_path: Path) -> None:
    series = {**known("llama-0", namespace="team-b"), **scraped(text("dcgm.prom"), NVIDIA_TARGET, False)}
    Trial(series).gives("gpujob:device_memory_used:bytes", []).run(tmp_path)
