"""The reconcile loop: one job's round, the scheduling round, pools, profiles, runner ConfigMaps."""
