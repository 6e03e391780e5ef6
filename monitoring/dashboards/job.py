"""One GPUJob: its progress, speed and cost, and the activity of its devices."""

from __future__ import annotations

from typing import Final

from monitoring.dashboards.panels import Column, Query, Row, dashboard, graph, stat, table, variable

THIS: Final = 'namespace=~"$namespace", job=~"$job"'
PLACES: Final = f"max by (namespace, job, state, pool, vendor, accelerator, profile) (gpujob_job_info{{{THIS}}})"
BY_DEVICE: Final = "{{node}} device {{device}}"

STANDING: Final = Row(
    "Progress",
    [
        stat(
            "Progress",
            "Finished share of the job, if the program reports it.",
            f"max(gpujob_job_progress_ratio{{{THIS}}})",
            "percentunit",
            max=1,
        ),
        stat("Steps a second", "Optimizer steps of the job.", f"sum(gpujob:job_steps:rate5m{{{THIS}}})", "short"),
        stat("Tokens a second", "Over all processes of the job.", f"sum(gpujob:job_tokens:rate5m{{{THIS}}})", "short"),
        stat(
            "Since the last step",
            "A job without a sign of work for its bound (spec.stall) gets the condition Stalled, which raises GPUJobStalled.",
            f"time() - max(gpujob_job_last_step_timestamp_seconds{{{THIS}}})",
            "s",
        ),
        stat(
            "Cost so far",
            "Over all attempts.",
            f"sum(max by (namespace, job) (gpujob_job_cost_dollars_total{{{THIS}}}))",
            "currencyUSD",
        ),
        stat(
            "Tokens per dollar",
            "Absent without a price.",
            f"avg(gpujob:job_tokens_per_dollar:ratio{{{THIS}}})",
            "short",
        ),
        table(
            "Placement",
            "Pool, device and state. A job that has ended holds no GPU; `on GPU` is No if it trains on the CPU.",
            ["namespace", "job", "state", "pool", "vendor", "accelerator", "profile"],
            [
                Column(
                    "GPUs",
                    f"{PLACES} * on (namespace, job) group_left () max by (namespace, job) (gpujob_job_gpus{{{THIS}}})"
                    f" or {PLACES} * 0",
                    "short",
                ),
                Column("on GPU", f"max by (namespace, job) (gpujob_job_on_device{{{THIS}}})", "bool_yes_no"),
                Column(
                    "$ per hour", f"sum by (namespace, job) (gpujob:job_cost:dollars_per_hour{{{THIS}}})", "currencyUSD"
                ),
            ],
            height=5,
        ),
    ],
)

SPEED: Final = Row(
    "Speed",
    [
        graph(
            "Tokens a second",
            "Tokens of the whole job, as the operator reads them.",
            [
                Query(
                    f"sum by (namespace, job) (rate(gpujob_job_tokens_total{{{THIS}}}[$__rate_interval]))",
                    "{{namespace}}/{{job}}",
                )
            ],
            "short",
        ),
        graph(
            "Step duration",
            "Median, slowest tenth and slowest hundredth of the last 512 steps of the slowest process.",
            [
                Query(
                    f"max by (namespace, job, quantile) (gpujob_step_duration_seconds{{{THIS}}})",
                    "{{job}} quantile {{quantile}}",
                )
            ],
            "s",
        ),
        graph(
            "Waiting for data",
            "Share of the time in which a process waits for its DataLoader. Near 1: storage or DataLoader workers limit the GPUs.",
            [Query(f"max by (namespace, job, rank) (gpujob_data_wait_ratio{{{THIS}}})", "{{job}} rank {{rank}}")],
            "percentunit",
        ),
        graph(
            "Samples a second",
            "Samples from the DataLoader, of the whole job.",
            [
                Query(
                    f"sum by (namespace, job) (rate(gpujob_job_samples_total{{{THIS}}}[$__rate_interval]))",
                    "{{namespace}}/{{job}}",
                )
            ],
            "short",
        ),
        graph(
            "Progress",
            "As the program reports it.",
            [Query(f"max by (namespace, job) (gpujob_job_progress_ratio{{{THIS}}})", "{{namespace}}/{{job}}")],
            "percentunit",
        ),
        graph(
            "Loss and other numbers",
            "Numbers that the program logs, by a Hugging Face Trainer or by gpujob_report.",
            [Query(f"max by (namespace, job, name) (gpujob_training_metric{{{THIS}}})", "{{job}} {{name}}")],
            "short",
        ),
    ],
)

DEVICES: Final = Row(
    "Devices",
    [
        graph(
            "Utilization",
            "From the vendor's exporter, for whole devices and MIG slices.",
            [Query(f"gpujob:device_utilization:ratio{{{THIS}}}", BY_DEVICE)],
            "percentunit",
        ),
        graph(
            "Memory in use",
            "From the vendor's exporter, over all processes on the device.",
            [
                Query(f"gpujob:device_memory_used:bytes{{{THIS}}}", BY_DEVICE),
                Query(f"min(gpujob:device_memory_total:bytes{{{THIS}}})", "smallest device"),
            ],
            "bytes",
        ),
        graph(
            "PyTorch's memory",
            "Reserved by the allocator of the fullest process: now, and the most so far.",
            [
                Query(f"max by (namespace, job) (gpujob_device_memory_reserved_bytes{{{THIS}}})", "{{job}} held"),
                Query(f"max by (namespace, job) (gpujob_device_memory_reserved_peak_bytes{{{THIS}}})", "{{job}} peak"),
            ],
            "bytes",
        ),
        graph("Power", "Of whole devices.", [Query(f"gpujob:device_power:watts{{{THIS}}}", BY_DEVICE)], "watt"),
        graph(
            "Temperature",
            "Hottest point that the device reports.",
            [Query(f"gpujob:device_temperature:celsius{{{THIS}}}", BY_DEVICE)],
            "celsius",
        ),
        graph(
            "Memory errors",
            "ECC errors in the time between two points; uncorrectable ones raise GPUJobDeviceFault.",
            [
                Query(
                    f"sum by (namespace, job, kind) (increase(gpujob:device_ecc_errors_total{{{THIS}}}[$__rate_interval]))",
                    "{{job}} {{kind}}",
                )
            ],
            "short",
        ),
    ],
)

JOB: Final = dashboard(
    "gpujob-job",
    "GPUJob / One job",
    "Progress, speed and cost of a job, and the activity of its devices.",
    [
        variable("namespace", "Namespace", "label_values(gpujob_job_info, namespace)"),
        variable("job", "Job", 'label_values(gpujob_job_info{namespace=~"$namespace"}, job)'),
    ],
    [STANDING, SPEED, DEVICES],
)
