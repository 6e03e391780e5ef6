"""The status of a GPUJob: conditions, patch, events, log line, telemetry.

Reading order: `job_status` (the whole status), `conditions`, `telemetry`, `status_patch` (what is written), `events`,
`log_line`.
"""
