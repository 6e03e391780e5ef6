"""Fleet and cost: devices, their holders, their cost, and waiting jobs."""

from __future__ import annotations

from typing import Final

from monitoring.dashboards.panels import Column, Query, Row, dashboard, graph, stat, table, variable

POOLS: Final = 'pool=~"$pool", vendor=~"$vendor"'
TEAMS: Final = 'namespace=~"$namespace"'
PRICE: Final = f"max by (pool) (gpujob_pool_price_dollars_per_gpu_hour{{{POOLS}}})"
ON_POOLS: Final = f"* on (namespace, job) group_left (pool, vendor) max by (namespace, job, pool, vendor) (gpujob_job_info{{{POOLS}}})"
"""Joins a series of jobs with their pool and vendor."""

NOW: Final = Row(
    "Now",
    [
        stat(
            "Jobs running",
            "GPUJobs with all pods running, in the chosen pools.",
            f'sum(gpujob_jobs{{state="Running", {POOLS}}}) or vector(0)',
            "short",
        ),
        stat("Jobs queued", "GPUJobs that wait for devices.", 'sum(gpujob_jobs{state="Queued"}) or vector(0)', "short"),
        stat(
            "GPUs held",
            "Share of the pools' devices that pods hold.",
            f"sum(gpujob_pool_gpus_held{{{POOLS}}}) / sum(gpujob_pool_gpus{{{POOLS}}})",
            "percentunit",
            max=1,
        ),
        stat(
            "Dollars an hour",
            "Cost of the running jobs of the chosen namespaces, measured over five minutes.",
            f"sum(gpujob:job_cost:dollars_per_hour{{{TEAMS}}}) or vector(0)",
            "currencyUSD",
        ),
        stat(
            "Dollars an hour for free GPUs",
            "Price of the free devices that a job could use now.",
            f"sum(gpujob_pool_gpus_free{{{POOLS}}} * on (pool) group_left () {PRICE})",
            "currencyUSD",
        ),
        stat(
            "Spent in this range",
            "Cost of the jobs of the chosen namespaces in the chosen time.",
            f"sum(increase(gpujob_job_cost_dollars_total{{{TEAMS}}}[$__range]))",
            "currencyUSD",
        ),
    ],
)

POOLS_ROW: Final = Row(
    "Pools",
    [
        table(
            "Pools",
            "Devices and price of each pool; a missing price is unknown, not 0.",
            ["pool", "vendor", "accelerator"],
            [
                Column("GPUs", f"sum by (pool, vendor, accelerator) (gpujob_pool_gpus{{{POOLS}}})", "short"),
                Column("held", f"sum by (pool, vendor, accelerator) (gpujob_pool_gpus_held{{{POOLS}}})", "short"),
                Column("free", f"sum by (pool, vendor, accelerator) (gpujob_pool_gpus_free{{{POOLS}}})", "short"),
                Column(
                    "$ per GPU-hour",
                    f"max by (pool, vendor, accelerator) (gpujob_pool_price_dollars_per_gpu_hour{{{POOLS}}})",
                    "currencyUSD",
                ),
            ],
            width=12,
        ),
        graph(
            "GPUs held by pool",
            "Devices that pods hold, of GPUJobs and others.",
            [Query(f"sum by (pool) (gpujob_pool_gpus_held{{{POOLS}}})", "{{pool}}")],
            "short",
            width=12,
            stacked=True,
        ),
    ],
)

COST: Final = Row(
    "Cost",
    [
        graph(
            "Dollars an hour by namespace",
            "Cost of running jobs.",
            [Query(f"sum by (namespace) (gpujob:job_cost:dollars_per_hour{{{TEAMS}}})", "{{namespace}}")],
            "currencyUSD",
            stacked=True,
        ),
        graph(
            "Dollars an hour by pool",
            "Cost of running jobs, by their pool.",
            [Query(f"sum by (pool) (gpujob:job_cost:dollars_per_hour{{{TEAMS}}} {ON_POOLS})", "{{pool}}")],
            "currencyUSD",
            stacked=True,
        ),
        table(
            "Most expensive jobs",
            "The ten jobs with the highest cost an hour, and their tokens per dollar.",
            ["namespace", "job"],
            [
                Column("$ per hour", f"topk(10, gpujob:job_cost:dollars_per_hour{{{TEAMS}}} > 0)", "currencyUSD"),
                Column("tokens per $", f"gpujob:job_tokens_per_dollar:ratio{{{TEAMS}}}", "short"),
            ],
            width=8,
        ),
    ],
)

QUEUE: Final = Row(
    "Queue",
    [
        graph(
            "Jobs by state",
            "All GPUJobs that exist.",
            [Query("sum by (state) (gpujob_jobs)", "{{state}}")],
            "short",
            width=6,
            stacked=True,
        ),
        graph(
            "Time in the queue",
            "From creation until the child Job exists: median and slowest twentieth, over a time as long as the chosen range.",
            [
                Query(
                    f"histogram_quantile({q}, sum by (le) (increase(gpujob_queue_wait_seconds_bucket[$__range])))",
                    f"quantile {q}",
                )
                for q in (0.5, 0.95)
            ],
            "s",
            width=6,
        ),
        graph(
            "Decisions",
            "Decisions about jobs, by reason; a repeated decision with the same result does not count.",
            [
                Query(
                    "sum by (verdict, reason) (increase(gpujob_decisions_total[$__rate_interval]))",
                    "{{verdict}} {{reason}}",
                )
            ],
            "short",
            width=6,
        ),
        graph(
            "Failed preflights",
            "GPUJobs with a failed preflight, by pool and reason; several in one pool point to the pool.",
            [
                Query("sum by (pool, reason) (gpujob_jobs_preflight_failed)", "{{pool}} {{reason}}"),
                Query("sum(gpujob_jobs_preflight_failed) or vector(0)", "all"),
            ],
            "short",
            width=6,
        ),
    ],
)

DEVICES: Final = Row(
    "Devices that jobs hold",
    [
        graph(
            "Utilization by vendor",
            "Mean over the devices that jobs hold: whole devices and MIG slices.",
            [Query(f"avg by (vendor) (gpujob:device_utilization:ratio{{{TEAMS}}})", "{{vendor}}")],
            "percentunit",
        ),
        graph(
            "Memory in use by vendor",
            "Share of the memory of the devices that jobs hold.",
            [
                Query(
                    f"sum by (vendor) (gpujob:device_memory_used:bytes{{{TEAMS}}})"
                    f" / sum by (vendor) (gpujob:device_memory_total:bytes{{{TEAMS}}})",
                    "{{vendor}}",
                )
            ],
            "percentunit",
        ),
        graph(
            "Power by vendor",
            "Power of whole devices; that of parts of a device is unknown.",
            [Query(f"sum by (vendor) (gpujob:device_power:watts{{{TEAMS}}})", "{{vendor}}")],
            "watt",
        ),
    ],
)

FLEET: Final = dashboard(
    "gpujob-fleet",
    "GPUJob / Fleet and cost",
    "Devices, their holders, their cost, and waiting jobs.",
    [
        variable("vendor", "Vendor", "label_values(gpujob_pool_gpus, vendor)"),
        variable("pool", "Pool", 'label_values(gpujob_pool_gpus{vendor=~"$vendor"}, pool)'),
        variable("namespace", "Namespace", "label_values(gpujob_job_info, namespace)"),
    ],
    [NOW, POOLS_ROW, COST, QUEUE, DEVICES],
)
