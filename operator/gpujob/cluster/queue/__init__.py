"""The work queue with its backoff, per-job state, and the throttle of progress writes.

Reading order: `work_queue` (what is due, backoff, state of each job) with `due_times`;
`prepared_jobs` (what a decision reads), `step_slots` (which steps write), `hanging` (where they hang), `creations` (of children),
`open_creations` (whose outcome is not known yet), `turns` (of the loop, of progress writes).
"""
