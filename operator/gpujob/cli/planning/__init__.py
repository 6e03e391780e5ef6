"""Plans jobs against a fleet, one or several at once.

Reading order: `planner` (decisions for the jobs of a manifest) with `competing_jobs`, `object_quota` and `holders`
(with `beside_gpus`, `claim_users`), `explainer` (one job of a cluster).
"""
