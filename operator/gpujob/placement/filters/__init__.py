"""Filters that reject a pool for a job, each with one reason, and which of them an admin can fix.

Reading order: `pool_filters` (one function for each reason) with `access`, `memory`, `volumes` and `limit_range`; `quota`,
`job_validation` (problems of the job itself); `maintenance` (announced work on nodes that a job
does not meet); `selection` (which filters run), `fixable` and `closed_pools` (whether a fix
helps).
"""
