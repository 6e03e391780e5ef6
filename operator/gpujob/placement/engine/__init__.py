"""The search for the best candidate: gang sizes, evaluation, decision, exploration.

Reading order: `sizing_scope`, `gang_groups` and `gang_sizing` (GPUs that a model needs), `evaluate` (the candidates of a pool) with
`job_warnings` and `known_results`, `decide` (all of them, in `pieces` with turns for others), `choose` with `best_first` and
`shared_by_gangs` (the choice alone), `exploration` (pools to measure).
"""
