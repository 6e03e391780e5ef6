"""Why an attempt failed and whose fault that is: `causes` (the table), `device_faults`, `start_failures`; `failure` is the result."""
