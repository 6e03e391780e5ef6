"""The input of Prometheus and Grafana as Python: recording rules, alerts and dashboards.

`make generate` writes the chart's files from it, `make verify` fails when they differ. One module for each dashboard; one
for the rules of devices, one for those of jobs, one for the alerts. Every name of a metric is in docs/metrics.md or
docs/telemetry.md, every name of a recording rule in docs/monitoring.md.
"""
