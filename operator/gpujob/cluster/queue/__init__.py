"""The work queue with its backoff, per-job state, and the throttle of progress writes.

Reading order: `work_queue` (what is due, backoff, state of each job) with `due_times`, `pending_jobs` and `step_slots`;
`prepared_jobs` (what a decision reads), `progress_throttle`, `time_slice`.
"""
