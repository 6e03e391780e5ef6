"""The work queue with its backoff, per-job state, and the throttle of progress writes.

Reading order: `work_queue` (what is due, backoff, state of each job) with `due_times`;
`prepared_jobs` (what a decision reads), `turns` (of steps, of the loop, of progress writes).
"""
