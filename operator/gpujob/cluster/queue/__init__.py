"""The work queue with its backoff, per-job state, and the throttle of progress writes."""
