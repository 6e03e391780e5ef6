"""Owner, waits, cost and progress of a child.

Reading order: `ownership` (which Jobs are ours), `waits` (what time changes for a waiting job), `progress`, `probe_runs`;
`cost`, `spending` and `monthly_budget` (dollars).
"""
