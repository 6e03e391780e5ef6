"""A job's life as a pure function: what to do next about one job, from what the cluster shows and the time.

Reading order: `view` (the input), `timings` and `sightings` (time), `attempts` and `endings` (how an attempt ends), `failures`
(whose fault that is), `limits` (of a whole job), `stalls` (a job that makes no step), `children` (which child counts),
`actions` (the output), `next_action` (the state machine), `steps` (its steps). No I/O: `gpujob.cluster` performs the actions;
tests drive the same functions in virtual time.
"""
