"""What came of a job: its child and pods become status, conditions and events.

Reading order: `records` (slim records of GPUJobs, child Jobs and pods), `observe` (what a child's pods show),
`attempts` (ownership, waits, cost, progress), `job` (the whole status, the patch that makes it so, conditions, events);
`pools` and `profile` (statuses of GPUPools and GPUJobProfiles).
"""
