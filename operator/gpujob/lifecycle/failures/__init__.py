"""Why an attempt failed and whose fault that is.

Reading order: `failure` (the result), `causes` (the table), `order` (what came first), `interruptions` (exit code 0 on request),
`suspensions` (pods of before one), `device_faults`, `start_failures`.
"""
