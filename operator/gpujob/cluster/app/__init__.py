"""The program: settings, kopf's shell, the HTTP server, and the snapshot behind /metrics.

Reading order: `kopf_shell` (start and stop), `settings`, `app` (one process put together), `http_server` with `readiness`,
`metrics_snapshot` and `job_conditions`, `served_crds`, `short_pauses` (garbage collection and first use).
"""
