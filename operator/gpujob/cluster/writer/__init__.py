"""Writes to the API server: children, statuses, pools, events.

Reading order: `writes`, `child_errors` (what a refusal means, and whose an object of a child's name is), `outdated_crds`.
"""
