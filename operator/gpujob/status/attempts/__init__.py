"""Owner, waits, cost and progress of a child.

Reading order: `ownership` (which Jobs are ours), `waits` (what time changes for a waiting job), `exclusions`, `progress`,
`standstill` (which rank is behind), `probe_runs`; `cost`, `spending`, `believed_clock` and `monthly_budget` (dollars).
"""
