"""The status of a GPUJob: conditions, patch, events, log line, telemetry."""
