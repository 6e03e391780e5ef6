"""Each alert fires on what it is for, in words that help, and stays silent on what looks like it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from monitoring.rules.alerts import ALERTS
from monitoring.rules.rule import RUNBOOKS, Alert
from tests.prometheus.promtool import ROOT, Series, Trial, run, selector

PAGES = ROOT / "docs" / "runbooks"
ALL = {rule.alert: rule for rule in ALERTS.rules if isinstance(rule, Alert)}

JOB = {"namespace": "team-a", "job": "llama"}
NAMED = "GPUJob team-a/llama"


def of(metric: str, values: str, **labels: str) -> Series:
    """One series; its values in promtool's notation, one a minute from minute 0."""
    return {selector(metric, labels): values}


POD = of("up", "1x120", namespace="team-a", pod="llama-0", job="gpujob-pods", gpujob="llama", gpujob_attempt="1")
"""The target whose labels say whose the pod is."""
HELD = {"namespace": "team-a", "pod": "llama-0"}


def nvidia(metric: str, values: str) -> Series:
    return POD | of(metric, values, **HELD, gpu="0", hostname="n1")


def amd(metric: str, values: str) -> Series:
    return POD | of(metric, values, **HELD, gpu_id="0", gpu_partition_id="0", hostname="n1")


@dataclass(frozen=True)
class Fires:
    """Series on which an alert fires at a minute, with its labels (severity aside) and words."""

    series: Series
    at: int
    labels: dict[str, str]
    summary: str
    description: str


def faulty(series: Series, vendor: str, kind: str = "") -> Fires:
    labels = {
        **JOB,
        "pod": "llama-0",
        "node": "n1",
        "device": "0",
        "vendor": vendor,
        **({"kind": kind} if kind else {}),
    }
    return Fires(
        series,
        20,
        labels,
        f"Device 0 of node n1 reports a fault under {NAMED}",
        "It has an uncorrectable memory error or an XID error of the hardware, or its exporter reports it as unhealthy.",
    )


def requests(**rates: int) -> Series:
    """Requests to the API server by code, each growing by so many a minute."""
    found: Series = {}
    for code, rate in rates.items():
        found |= of("gpujob_api_requests_total", f"0+{rate}x120", verb="patch", resource="pods", code=code.strip("_"))
    return found


QUEUED = of("gpujob_jobs", "3x120", state="Queued")
FREE = of("gpujob_pool_gpus_free", "8x120", pool="h100")
STALLED = "gpujob_job_stalled"
SINCE, AWAITED = "gpujob_job_waiting_since_timestamp_seconds", "gpujob_job_first_step_awaited_since_timestamp_seconds"
PRICE = of("gpujob_pool_price_dollars_per_gpu_hour", "2.5x120", pool="h100", vendor="NVIDIA", accelerator="H100-SXM")
DEVICES = of("gpujob_pool_gpus", "16x120", pool="h100", vendor="NVIDIA", accelerator="H100-SXM")
FAILED = "gpujob_jobs_preflight_failed"
FINDING = {"pool": "mi300x", "reason": "DevicePermission"}
READS = "gpujob_reporter_reads_total"
NOT_LEADING = (
    "None holds the Lease, or Prometheus scrapes none: no GPUJob is placed or observed. Running GPUJobs continue."
)

FIRES: dict[str, list[Fires]] = {
    "GPUJobStalled": [
        Fires(
            of(STALLED, "1x120", **JOB, pool="h100"),
            3,
            JOB | {"pool": "h100"},
            f"{NAMED} makes no step",
            "It runs on pool h100, holds its GPUs, and its condition Stalled names the rank that is behind.",
        )
    ],
    "GPUJobOnCPU": [
        Fires(
            of("gpujob_job_on_device", "0x120", **JOB),
            6,
            JOB,
            f"{NAMED} trains on the CPU",
            "It holds GPUs, but one of its processes makes steps without memory on any GPU.",
        )
    ],
    "GPUJobDevicesIdle": [
        Fires(
            series,
            40,
            JOB,
            f"{NAMED} leaves its GPUs idle",
            "None of its devices was busy for more than 1% of the time.",
        )
        for series in (nvidia("DCGM_FI_DEV_GPU_UTIL", "1x120"), amd("gpu_gfx_activity", "1x120"))
    ],
    "GPUJobDeviceFault": [
        faulty(amd("gpu_health", "1x10 0x110"), "AMD"),
        faulty(amd("gpu_ecc_uncorrect_total", "0x10 1x110"), "AMD", "uncorrectable"),
        faulty(nvidia("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "0x10 1x110"), "NVIDIA", "uncorrectable"),
        faulty(nvidia("DCGM_FI_DEV_XID_ERRORS", "0x10 79x110"), "NVIDIA"),
    ],
    "GPUJobTelemetryBlocked": [
        Fires(
            of(READS, "0+1x120", result="TelemetryBlocked"),
            31,
            {},
            "The operator cannot reach pods of GPUJobs",
            "Progress and throughput of those jobs are unknown; their condition TelemetryReachable names the "
            "NetworkPolicy to add.",
        )
    ],
    "GPUJobPreflightFails": [
        Fires(
            series,
            80,
            FINDING,
            "Preflights fail in pool mi300x: DevicePermission",
            "3 GPUJobs have this finding there, and their number grew in the last hour.",
        )
        for series in (of(FAILED, "1x60 3x60", **FINDING), of(FAILED, "_x60 3x60", **FINDING))
    ],
    "GPUJobFailed": [
        Fires(
            of("gpujob_job_failed", "_x10 1x10 stale", **JOB, pool="h100", reason="NodeLost"),
            12,
            {**JOB, "reason": "NodeLost"},
            f"{NAMED} failed: NodeLost",
            "It is not tried again. `kubectl gpujob explain` lists its attempts and why each ended.",
        )
    ],
    "GPUJobNotStarted": [
        Fires(
            of(SINCE, "60x120", **JOB, pool="h100", state=state, reason=reason),
            25,
            {**JOB, "pool": "h100"},
            f"{NAMED} does not start on pool h100",
            "It has held its GPUs for 24m 0s, and not all of its pods run.",
        )
        for state, reason in (("Placed", "Placed"), ("Starting", "ImagePullBackOff"))
    ],
    "GPUJobNoFirstStep": [
        Fires(
            of(AWAITED, "60x120", **JOB, pool="h100"),
            35,
            {**JOB, "pool": "h100"},
            f"{NAMED} runs on pool h100 and has made no step",
            "Its pods have run for 34m 0s; it loads, compiles, or hangs.",
        )
    ],
    "GPUJobQueuedTooLong": [
        Fires(
            of(SINCE, "0x400", **JOB, pool="h100", state="Queued", reason="NotEnoughFree"),
            365,
            {**JOB, "pool": "h100", "reason": "NotEnoughFree"},
            f"{NAMED} is queued, pool h100 is the nearest: NotEnoughFree",
            "It has waited for 6h 5m 0s.",
        )
    ],
    "GPUJobQueueStuck": [
        Fires(
            QUEUED | FREE,
            31,
            {},
            "3 GPUJobs are queued and none was placed for half an hour",
            "Devices are free: `kubectl gpujob explain` says what a queued job waits for.",
        )
    ],
    "GPUJobPoolWithoutPrice": [
        Fires(
            DEVICES,
            61,
            {"pool": "h100", "vendor": "NVIDIA", "accelerator": "H100-SXM"},
            "Pool h100 has no price",
            "Its 16 devices cannot be compared by cost, and jobs with a price cap never run there.",
        )
    ],
    "GPUJobOperatorNotLeading": [
        Fires(series, 6, {}, "No gpujob-operator leads", NOT_LEADING)
        for series in (
            of("gpujob_operator_leader", "0x120", pod="a") | of("gpujob_operator_leader", "0x120", pod="b"),
            of("up", "1x120", job="something-else"),
        )
    ],
    "GPUJobOperatorWatchSilent": [
        Fires(
            of("gpujob_watch_age_seconds", "0+60x120", kind="pods", pod="a"),
            3,
            {"kind": "pods", "pod": "a"},
            "gpujob-operator gets no events of pods",
            "The last byte of this watch came 3m 0s ago; its decisions may use stale objects.",
        )
    ],
    "GPUJobOperatorRetries": [
        Fires(
            of("gpujob_retries_total", "0+60x120"),
            31,
            {},
            "gpujob-operator retries its steps",
            "1 steps a second fail and are retried; the log names the jobs.",
        )
    ],
    "GPUJobOperatorAPIErrors": [
        Fires(
            requests(_200=90, **{code: 10}),
            31,
            {"code": code},
            f"The API server answers gpujob-operator with {code}",
            "10% of its requests get this code; code 0 is a broken connection.",
        )
        for code in ("403", "429", "500", "0")
    ],
    "GPUJobObjectsUnread": [
        Fires(
            of("gpujob_objects_unread_total", "0+1x120", kind="nodes"),
            31,
            {"kind": "nodes"},
            "gpujob-operator ignores objects of kind nodes",
            "It cannot read them and decides without them; its log names each.",
        )
    ],
}

SILENT: list[tuple[str, str, Series, int]] = [
    ("GPUJobStalled", "it steps", of("gpujob_job_last_step_timestamp_seconds", "0+60x120", **JOB), 60),
    ("GPUJobStalled", "an evaluation makes no step", of("gpujob_job_last_step_timestamp_seconds", "60x120", **JOB), 60),
    ("GPUJobStalled", "it works again", of(STALLED, "1x9 stale", **JOB, pool="h100"), 30),
    ("GPUJobOnCPU", "it is on its GPUs", of("gpujob_job_on_device", "1x120", **JOB), 30),
    ("GPUJobOnCPU", "it began on the CPU and moved", of("gpujob_job_on_device", "0x3 1x120", **JOB), 10),
    ("GPUJobDevicesIdle", "one of its devices is busy",
     nvidia("DCGM_FI_DEV_GPU_UTIL", "0x120") | of("DCGM_FI_DEV_GPU_UTIL", "90x120", **HELD, gpu="1", hostname="n1"), 60),
    ("GPUJobDevicesIdle", "it loads its data for twenty minutes", amd("gpu_gfx_activity", "0x20 95x100"), 30),
    ("GPUJobDevicesIdle", "an idle device that no job holds", of("DCGM_FI_DEV_GPU_UTIL", "0x120", gpu="0", pod="x"), 60),
    ("GPUJobDeviceFault", "correctable errors", amd("gpu_ecc_correct_total", "0+5x120"), 30),
    ("GPUJobDeviceFault", "errors from before the job", amd("gpu_ecc_uncorrect_total", "7x120"), 30),
    ("GPUJobDeviceFault", "an XID error of the program's own", nvidia("DCGM_FI_DEV_XID_ERRORS", "0x10 31x110"), 20),
    ("GPUJobDeviceFault", "an XID error from before the job", nvidia("DCGM_FI_DEV_XID_ERRORS", "79x120"), 30),
    ("GPUJobDeviceFault", "it is well", amd("gpu_health", "1x120"), 30),
    ("GPUJobTelemetryBlocked", "programs without a reporter", of(READS, "0+1x120", result="NoReporter"), 60),
    ("GPUJobTelemetryBlocked", "blocked long ago", of(READS, "9x120", result="TelemetryBlocked"), 60),
    ("GPUJobPreflightFails", "one job", of(FAILED, "0x20 1x100", **FINDING), 30),
    ("GPUJobPreflightFails", "the same three since yesterday", of(FAILED, "3x120", **FINDING), 90),
    ("GPUJobFailed", "its series went ten minutes after its end",
     of("gpujob_job_failed", "_x10 1x10 stale", **JOB, pool="h100", reason="NodeLost"), 40),
    ("GPUJobNotStarted", "it pulls its image for ten minutes and then runs",
     of(SINCE, "0x12 stale", **JOB, pool="h100", state="Starting", reason="Starting"), 30),
    ("GPUJobNotStarted", "a new attempt is placed",
     of(SINCE, "0x15 900x105", **JOB, pool="h100", state="Placed", reason="Placed"), 30),
    ("GPUJobNotStarted", "it is queued", of(SINCE, "0x120", **JOB, pool="h100", state="Queued", reason="Fragmented"), 60),
    ("GPUJobNoFirstStep", "it steps after twenty minutes", of(AWAITED, "0x20 stale", **JOB, pool="h100"), 60),
    ("GPUJobQueuedTooLong", "an hour", of(SINCE, "0x120", **JOB, pool="h100", state="Queued", reason="Fragmented"), 60),
    ("GPUJobQueuedTooLong", "it was placed in between",
     of(SINCE, "0x300 18000x100", **JOB, pool="h100", state="Queued", reason="Fragmented"), 390),
    ("GPUJobQueueStuck", "jobs are placed", QUEUED | FREE | of("gpujob_queue_wait_seconds_count", "0+1x120"), 60),
    ("GPUJobQueueStuck", "every device is taken", QUEUED | of("gpujob_pool_gpus_free", "0x120", pool="h100"), 60),
    ("GPUJobQueueStuck", "no job is queued", of("gpujob_jobs", "3x120", state="Running") | FREE, 60),
    ("GPUJobPoolWithoutPrice", "it has one", DEVICES | PRICE, 90),
    ("GPUJobPoolWithoutPrice", "it has no device", of("gpujob_pool_gpus", "0x120", pool="h100"), 90),
    ("GPUJobOperatorNotLeading", "one of two leads",
     of("gpujob_operator_leader", "0x120", pod="a") | of("gpujob_operator_leader", "1x120", pod="b"), 60),
    ("GPUJobOperatorWatchSilent", "bookmarks come each minute", of("gpujob_watch_age_seconds", "60x120", kind="pods"), 60),
    ("GPUJobOperatorRetries", "one in a while", of("gpujob_retries_total", "0+1x120"), 60),
    ("GPUJobOperatorAPIErrors", "conflicts and what is not there", requests(_200=50, _409=25, _404=25), 60),
    ("GPUJobOperatorAPIErrors", "one in a hundred", requests(_200=99, _500=1), 60),
    ("GPUJobObjectsUnread", "one object long ago", of("gpujob_objects_unread_total", "1x120", kind="nodes"), 60),
]  # fmt: skip


def test_every_alert_is_seen_to_fire_and_not_to() -> None:
    assert set(FIRES) == set(ALL)
    assert {alert for alert, *_ in SILENT} == set(ALL)


@pytest.mark.parametrize("alert", ALL)
def test_it_fires_on_what_it_is_for_and_on_nothing_alike(alert: str, tmp_path: Path) -> None:
    trials = [firing(alert, case) for case in FIRES[alert]]
    trials += [Trial(series, because).is_silent(alert, at=at) for name, because, series, at in SILENT if name == alert]
    run(tmp_path, trials)


def firing(alert: str, case: Fires) -> Trial:
    annotations = {
        "summary": case.summary,
        "description": case.description,
        "runbook_url": f"{RUNBOOKS}/{ALL[alert].page}.md",
    }
    labels = {**case.labels, "severity": ALL[alert].severity}
    return Trial(case.series).fires(alert, at=case.at, labels=labels, annotations=annotations)


@pytest.mark.parametrize("alert", ALL)
def test_it_has_a_page_that_says_what_to_do(alert: str) -> None:
    page = (PAGES / f"{ALL[alert].page}.md").read_text()
    assert page.startswith(f"# {alert}\n")
    assert re.findall(r"^## (.+)$", page, flags=re.MULTILINE) == ["What it means", "What to look at", "What to do"]


def test_every_page_has_an_alert() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")}
    assert pages == {rule.page for rule in ALL.values()}
