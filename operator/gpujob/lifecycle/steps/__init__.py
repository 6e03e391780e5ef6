"""The steps of `next_action`, each a function of one evaluation: it returns an action, or None if the next step decides.

Reading order: `evaluation` (input and results), `without_child`, `with_child`, `ended_job`; for an attempt `failing` (it must end),
`stalling` (it makes no step), `outliving` (its program ended), `waiting` (bounded waits), `probing`, `reporting` (its status) and
`ends` (the end of an attempt or of the job); `lasting` measures the durations that end a job.
"""
