"""The operator's health: its watches, its decisions, and the answers of the API server."""

from __future__ import annotations

from typing import Final

from monitoring.dashboards.panels import Query, Row, dashboard, graph, stat, variable

THIS: Final = 'job=~"$job", instance=~"$instance"'
BAD: Final = f'sum(rate(gpujob_api_requests_total{{{THIS}, code=~"0|401|403|429|5.."}}[$__rate_interval]))'
REQUESTS: Final = f"gpujob_api_requests_total{{{THIS}}}[$__rate_interval]"


def _rate(counter: str, by: str = "") -> str:
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({counter}{{{THIS}}}[$__rate_interval]))"


def _quantiles(histogram: str) -> list[Query]:
    """Over the chosen time: children are made too seldom for less."""
    buckets = f"sum by (le) (increase({histogram}_bucket{{{THIS}}}[$__range]))"
    return [Query(f"histogram_quantile({q}, {buckets})", f"quantile {q}") for q in (0.5, 0.95, 0.99)]


OPERATOR: Final = dashboard(
    "gpujob-operator",
    "GPUJob / Operator health",
    "Watches, decisions and requests of the operator.",
    [
        variable("job", "Job", "label_values(gpujob_operator_leader, job)"),
        variable("instance", "Instance", 'label_values(gpujob_operator_leader{job=~"$job"}, instance)'),
    ],
    [
        Row(
            "Now",
            [
                stat(
                    "Leaders",
                    "Exactly one process leads; the others wait for its Lease.",
                    f"sum(gpujob_operator_leader{{{THIS}}})",
                    "short",
                    width=6,
                ),
                stat(
                    "Oldest watch event",
                    "Seconds since the last byte of the quietest watch; more than 90 raises GPUJobOperatorWatchSilent.",
                    f"max(gpujob_watch_age_seconds{{{THIS}}})",
                    "s",
                    width=6,
                ),
                stat(
                    "Failed requests",
                    "Share of requests with 401, 403, 429, a 5xx or no answer.",
                    f"({BAD} or vector(0)) / sum(rate({REQUESTS}))",
                    "percentunit",
                    width=6,
                ),
                stat(
                    "Retries a second",
                    "Steps of jobs that failed and are retried.",
                    _rate("gpujob_retries_total"),
                    "short",
                    width=6,
                ),
            ],
        ),
        Row(
            "Watches",
            [
                graph(
                    "Age of the watches",
                    "Seconds since the last byte; the API server sends a bookmark each minute.",
                    [Query(f"max by (kind) (gpujob_watch_age_seconds{{{THIS}}})", "{{kind}}")],
                    "s",
                ),
                graph(
                    "Lists after the first",
                    "Lists after a watch that ended; a few are normal.",
                    [Query(_rate("gpujob_watch_relists_total", "kind"), "{{kind}}")],
                    "ops",
                ),
                graph(
                    "Ignored objects",
                    "Objects that the operator cannot read; its log names them.",
                    [Query(_rate("gpujob_objects_unread_total", "kind"), "{{kind}}")],
                    "ops",
                ),
            ],
        ),
        Row(
            "Decisions",
            [
                graph(
                    "Rounds a second",
                    "Each round reconciles the objects that changed.",
                    [Query(_rate("gpujob_rounds_total"), "rounds")],
                    "ops",
                ),
                graph(
                    "Time spent deciding",
                    "Share of a core.",
                    [Query(_rate("gpujob_decide_seconds_total"), "deciding")],
                    "percentunit",
                ),
                graph(
                    "From decision to child",
                    "The operator's own time until child Job and status are written, over a time as long as the chosen range.",
                    _quantiles("gpujob_placement_seconds"),
                    "s",
                ),
            ],
        ),
        Row(
            "Resources",
            [
                graph(
                    "CPU",
                    "Cores in use by each process.",
                    [
                        Query(
                            f"sum by (instance) (rate(process_cpu_seconds_total{{{THIS}}}[$__rate_interval]))",
                            "{{instance}}",
                        )
                    ],
                    "short",
                    width=12,
                ),
                graph(
                    "Memory",
                    "Resident memory of each process.",
                    [Query(f"max by (instance) (process_resident_memory_bytes{{{THIS}}})", "{{instance}}")],
                    "bytes",
                    width=12,
                ),
            ],
        ),
        Row(
            "Asking",
            [
                graph(
                    "Requests by code",
                    "Answers of the API server; 0 is none.",
                    [Query(f"sum by (code) (rate({REQUESTS}))", "{{code}}")],
                    "reqps",
                ),
                graph(
                    "Requests by resource",
                    "What is read and written.",
                    [Query(f"sum by (verb, resource) (rate({REQUESTS}))", "{{verb}} {{resource}}")],
                    "reqps",
                ),
                graph(
                    "Readings of reporters",
                    "By what came of them.",
                    [Query(_rate("gpujob_reporter_reads_total", "result"), "{{result}}")],
                    "ops",
                ),
            ],
        ),
    ],
)
