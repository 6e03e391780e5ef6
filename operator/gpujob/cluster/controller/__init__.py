"""The reconcile loop: one job's round, the scheduling round, pools, profiles, runner ConfigMaps.

Reading order: `controller` (the loop), `job_reconciler` (one job), `scheduling` (all waiting jobs), `actions` (writes of one
job); beside them `pools`, `profiles`, `namespace_budgets`, `runner_configmaps`, `orphaned_children`.
"""
