"""States that need a person; each alert has a page in docs/runbooks and a test in which it fires and one in which it does not.

There is no alert for a budget: a job that reached its own is Suspended and holds nothing.
"""

from __future__ import annotations

from typing import Final

from monitoring.rules.devices import XIDS_OF_PROGRAMS
from monitoring.rules.rule import Alert, Group

_A_JOB: Final = "GPUJob {{ $labels.namespace }}/{{ $labels.job }}"
_A_DEVICE: Final = "Device {{ $labels.device }} of node {{ $labels.node }}"
_OWN_XIDS: Final = " unless ".join(
    ["gpujob:device_xid:code > 0", *(f"gpujob:device_xid:code == {x}" for x in XIDS_OF_PROGRAMS)]
)

_OF_JOBS: Final = [
    Alert(
        alert="GPUJobStalled",
        expr="max by (namespace, job, pool) (gpujob_job_stalled) == 1",
        lasts="1m",
        severity="warning",
        summary=f"{_A_JOB} makes no step",
        description="It runs on pool {{ $labels.pool }}, holds its GPUs, and its condition Stalled names the rank that is behind.",
        page="job-stalled",
    ),
    Alert(
        alert="GPUJobOnCPU",
        expr="max by (namespace, job) (gpujob_job_on_device) == 0",
        lasts="5m",
        severity="warning",
        summary=f"{_A_JOB} trains on the CPU",
        description="It holds GPUs, but one of its processes makes steps without memory on any GPU.",
        page="job-on-cpu",
    ),
    Alert(
        alert="GPUJobDevicesIdle",
        expr="max by (namespace, job) (gpujob:device_utilization:ratio) < 0.05",
        lasts="30m",
        severity="info",
        summary=f"{_A_JOB} leaves its GPUs idle",
        description="None of its devices was busy for more than {{ $value | humanizePercentage }} of the time.",
        page="job-devices-idle",
    ),
    Alert(
        alert="GPUJobDeviceFault",
        expr=(
            'gpujob:device_healthy:bool{vendor="AMD"} == 0\n'
            'or increase(gpujob:device_ecc_errors_total{kind="uncorrectable"}[30m]) > 0\n'
            f"or ({_OWN_XIDS}) and changes(gpujob:device_xid:code[30m]) > 0\n"
        ),
        lasts="0m",
        severity="warning",
        summary=f"{_A_DEVICE} reports a fault under {_A_JOB}",
        description="It has an uncorrectable memory error or an XID error of the hardware, or its exporter reports it as unhealthy.",
        page="device-fault",
    ),
    Alert(
        alert="GPUJobTelemetryBlocked",
        expr='sum(rate(gpujob_reporter_reads_total{result="TelemetryBlocked"}[15m])) > 0',
        lasts="15m",
        severity="warning",
        summary="The operator cannot reach pods of GPUJobs",
        description=(
            "Progress and throughput of those jobs are unknown; their condition TelemetryReachable names the "
            "NetworkPolicy to add."
        ),
        page="telemetry-blocked",
    ),
    Alert(
        alert="GPUJobPreflightFails",
        expr=(
            "sum by (pool, reason) (gpujob_jobs_preflight_failed) >= 3\nunless\n"
            "sum by (pool, reason) (gpujob_jobs_preflight_failed)\n"
            "  <= sum by (pool, reason) (gpujob_jobs_preflight_failed offset 1h)\n"
        ),
        lasts="0m",
        severity="warning",
        summary="Preflights fail in pool {{ $labels.pool }}: {{ $labels.reason }}",
        description="{{ $value }} GPUJobs have this finding there, and their number grew in the last hour.",
        page="preflight-fails",
    ),
]

_OF_ENDS_AND_BEGINNINGS: Final = [
    Alert(
        alert="GPUJobFailed",
        expr="max by (namespace, job, reason) (gpujob_job_failed) > 0",
        lasts="0m",
        severity="warning",
        summary=f"{_A_JOB} failed: {{{{ $labels.reason }}}}",
        description="It is not tried again. `kubectl gpujob explain` lists its attempts and why each ended.",
        page="job-failed",
    ),
    Alert(
        alert="GPUJobNotStarted",
        expr=(
            "time() - max by (namespace, job, pool) "
            '(gpujob_job_waiting_since_timestamp_seconds{state=~"Placed|Starting"}) > 1200'
        ),
        lasts="1m",
        severity="warning",
        summary=f"{_A_JOB} does not start on pool {{{{ $labels.pool }}}}",
        description="It has held its GPUs for {{ $value | humanizeDuration }}, and not all of its pods run.",
        page="job-not-started",
    ),
    Alert(
        alert="GPUJobNoFirstStep",
        expr=("time() - max by (namespace, job, pool) (gpujob_job_first_step_awaited_since_timestamp_seconds) > 1800"),
        lasts="1m",
        severity="warning",
        summary=f"{_A_JOB} runs on pool {{{{ $labels.pool }}}} and has made no step",
        description="Its pods have run for {{ $value | humanizeDuration }}; it loads, compiles, or hangs.",
        page="job-no-first-step",
    ),
    Alert(
        alert="GPUJobQueuedTooLong",
        expr=(
            "time() - max by (namespace, job, pool, reason) "
            '(gpujob_job_waiting_since_timestamp_seconds{state="Queued"}) > 21600'
        ),
        lasts="1m",
        severity="info",
        summary=f"{_A_JOB} is queued, pool {{{{ $labels.pool }}}} is the nearest: {{{{ $labels.reason }}}}",
        description="It has waited for {{ $value | humanizeDuration }}.",
        page="job-queued-too-long",
    ),
]

_OF_THE_FLEET: Final = [
    Alert(
        alert="GPUJobQueueStuck",
        expr=(
            'sum(gpujob_jobs{state="Queued"}) > 0\n'
            "unless sum(increase(gpujob_queue_wait_seconds_count[30m])) > 0\n"
            "unless sum(gpujob_pool_gpus_free) == 0\n"
        ),
        lasts="30m",
        severity="warning",
        summary="{{ $value }} GPUJobs are queued and none was placed for half an hour",
        description="Devices are free: `kubectl gpujob explain` says what a queued job waits for.",
        page="queue-stuck",
    ),
    Alert(
        alert="GPUJobPoolWithoutPrice",
        expr=(
            "max by (pool, vendor, accelerator) (gpujob_pool_gpus) > 0\n"
            "unless on (pool) max by (pool) (gpujob_pool_price_dollars_per_gpu_hour)\n"
        ),
        lasts="1h",
        severity="info",
        summary="Pool {{ $labels.pool }} has no price",
        description="Its {{ $value }} devices cannot be compared by cost, and jobs with a price cap never run there.",
        page="pool-without-price",
    ),
]

_OF_THE_OPERATOR: Final = [
    Alert(
        alert="GPUJobOperatorNotLeading",
        expr="max(gpujob_operator_leader) == 0 or absent(gpujob_operator_leader)",
        lasts="5m",
        severity="critical",
        summary="No gpujob-operator leads",
        description="None holds the Lease, or Prometheus scrapes none: no GPUJob is placed or observed. Running GPUJobs continue.",
        page="operator-not-leading",
    ),
    Alert(
        alert="GPUJobOperatorWatchSilent",
        expr="max by (namespace, pod, kind) (gpujob_watch_age_seconds) > 90",
        lasts="30s",
        severity="warning",
        summary="gpujob-operator gets no events of {{ $labels.kind }}",
        description="The last byte of this watch came {{ $value | humanizeDuration }} ago; its decisions may use stale objects.",
        page="operator-watch-silent",
    ),
    Alert(
        alert="GPUJobOperatorRetries",
        expr="sum(rate(gpujob_retries_total[10m])) > 0.1",
        lasts="15m",
        severity="warning",
        summary="gpujob-operator retries its steps",
        description="{{ $value | humanize }} steps a second fail and are retried; the log names the jobs.",
        page="operator-retries",
    ),
    Alert(
        alert="GPUJobOperatorAPIErrors",
        expr=(
            'sum by (code) (rate(gpujob_api_requests_total{code=~"0|401|403|429|5.."}[10m]))\n'
            "/ on () group_left () sum(rate(gpujob_api_requests_total[10m])) > 0.05\n"
        ),
        lasts="15m",
        severity="warning",
        summary="The API server answers gpujob-operator with {{ $labels.code }}",
        description="{{ $value | humanizePercentage }} of its requests get this code; code 0 is a broken connection.",
        page="operator-api-errors",
    ),
    Alert(
        alert="GPUJobObjectsUnread",
        expr="sum by (kind) (increase(gpujob_objects_unread_total[15m])) > 0",
        lasts="15m",
        severity="info",
        summary="gpujob-operator ignores objects of kind {{ $labels.kind }}",
        description="It cannot read them and decides without them; its log names each.",
        page="objects-unread",
    ),
]

ALERTS: Final = Group("gpujob-alerts", [*_OF_JOBS, *_OF_ENDS_AND_BEGINNINGS, *_OF_THE_FLEET, *_OF_THE_OPERATOR])
