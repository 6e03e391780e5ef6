"""From a job's child and pods to its status, conditions and events.

Reading order: `records` (records of GPUJobs, child Jobs and pods), `observe` (the state of a child's pods), `attempts` (ownership,
waits, cost, progress), `job` (the whole status, its patch, conditions, events); `pools` and `profile` (statuses of GPUPools and
GPUJobProfiles).
"""
