"""The program: settings, kopf's shell, the HTTP server, and the snapshot behind /metrics.

Reading order: `kopf_shell` (start and stop), `settings`, `app` (one process put together), `http_server` (with the readiness),
`metrics_snapshot`, `job_conditions` and `metrics_access`, `served_crds`, `short_pauses` (garbage collection and first use), `installed`
(what `helm test` runs).
"""
