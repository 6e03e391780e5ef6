"""Why an attempt failed and whose fault that is.

Reading order: `failure` (the result), `causes` (the table), `device_faults`, `start_failures`.
"""
