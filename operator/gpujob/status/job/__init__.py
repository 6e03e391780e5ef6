"""The status of a GPUJob: conditions, patch, events and log, telemetry.

Reading order: `job_status` (the whole status), `conditions`, `telemetry`, `status_patch` (what is written), `events`
(and the lines of the log).
"""
