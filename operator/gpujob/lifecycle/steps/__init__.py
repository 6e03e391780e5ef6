"""The steps of `next_action`, each a function of one evaluation: it returns an action, or None where the next step decides.

Reading order: `evaluation` (input and results), `without_child`, `with_child`, `ended_job`; for an attempt `failing` (it must
end), `stalling` (it makes no step), `outliving` (its program ended), `waiting` (bounded waits), `probing`, `reporting` (its
status) and `ends` (how an attempt or the job ends); `lasting` says how long something has lasted that ends a job for good.
"""
